package urlset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"mercator/pkg/merge"
)

// pair is a key and when it came. A pair that comes later has the larger arrival.
type pair struct{ key, arrival uint64 }

const (
	pairBytes = 16
	pairWays  = 11 // bits to a digit of the radix sort: 2,048 places, which the first-level cache holds
)

// pairs sorts pairs by key, those of one key by arrival, within bounded memory:
// what does not fit waits in a temporary file as sorted runs. The file has no
// name, so that nothing of it outlives the process.
type pairs struct {
	dir     string
	n       uint64 // pairs added
	most    int    // pairs in memory
	list    []pair
	scratch []pair
	file    *os.File
	runs    []section // in order of arrival
	end     int64     // of the file
}

// section is a run in the file, in bytes.
type section struct{ off, length int64 }

const (
	pairBuffer = 64 << 10 // of each run while runs are merged
	minPairs   = 1024
)

// newPairs takes about mem bytes, and spills to dir ("": the system's folder for
// temporary files).
func newPairs(mem int64, dir string) *pairs {
	return &pairs{dir: dir, most: int(max(minPairs, mem/(2*pairBytes)))}
}

func (p *pairs) add(key, arrival uint64) error {
	p.n++
	if len(p.list) == p.most {
		if err := p.spill(); err != nil {
			return err
		}
	}
	if len(p.list) == cap(p.list) {
		// Doubled up to the bound, and not beyond it.
		p.list = append(make([]pair, 0, min(p.most, max(minPairs, 2*len(p.list)))), p.list...)
	}
	p.list = append(p.list, pair{key, arrival})
	return nil
}

// order sorts the pairs in memory by key, least significant digit first, which
// keeps the order of arrival. Digits that all keys share cost nothing.
func (p *pairs) order() {
	if len(p.list) < 2 {
		return
	}
	if len(p.scratch) < len(p.list) {
		p.scratch = make([]pair, cap(p.list))
	}
	const digits = (64 + pairWays - 1) / pairWays
	var counts [digits][1 << pairWays]uint32
	for _, e := range p.list {
		for d := range counts {
			counts[d][e.key>>(d*pairWays)&(1<<pairWays-1)]++
		}
	}
	a, b := p.list, p.scratch[:len(p.list)]
	for d := range counts {
		shift := d * pairWays
		at := &counts[d]
		if int(at[a[0].key>>shift&(1<<pairWays-1)]) == len(a) {
			continue
		}
		sum := uint32(0)
		for v, n := range at {
			at[v] = sum
			sum += n
		}
		for _, e := range a {
			v := e.key >> shift & (1<<pairWays - 1)
			b[at[v]] = e
			at[v]++
		}
		a, b = b, a
	}
	p.list, p.scratch = a, b[:cap(b)]
}

// spill writes what is in memory as a run.
func (p *pairs) spill() error {
	p.order()
	if p.file == nil {
		f, err := merge.TempFile(p.dir)
		if err != nil {
			return err
		}
		p.file = f
	}
	err := p.writeRun(inMemory(p.list))
	p.list = p.list[:0]
	return err
}

// inMemory gives the pairs of a list.
func inMemory(list []pair) func() (pair, error) {
	return func() (pair, error) {
		if len(list) == 0 {
			return pair{}, io.EOF
		}
		e := list[0]
		list = list[1:]
		return e, nil
	}
}

// writeRun appends a run of what next gives until io.EOF.
func (p *pairs) writeRun(next func() (pair, error)) error {
	out := bufio.NewWriterSize(io.NewOffsetWriter(p.file, p.end), pairBuffer)
	from := p.end
	var b [pairBytes]byte
	for {
		e, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[:], e.key)
		binary.LittleEndian.PutUint64(b[8:], e.arrival)
		if _, err := out.Write(b[:]); err != nil {
			return named(err)
		}
		p.end += pairBytes
	}
	if err := out.Flush(); err != nil {
		return named(err)
	}
	p.runs = append(p.runs, section{from, p.end - from})
	return nil
}

// sort ends the input, and returns a function that gives the pairs in order, then
// io.EOF.
func (p *pairs) sort() (next func() (pair, error), err error) {
	if p.file == nil {
		p.order()
		p.scratch = nil
		return inMemory(p.list), nil
	}
	if len(p.list) > 0 {
		if err := p.spill(); err != nil {
			return nil, err
		}
	}
	p.list, p.scratch = nil, nil
	for fan := max(2, p.most*2*pairBytes/pairBuffer); len(p.runs) > fan; {
		// Neighbours become one, so that runs stay in order of arrival.
		runs := p.runs
		p.runs = nil
		for len(runs) > 0 {
			n := min(fan, len(runs))
			next, err := p.merge(runs[:n])
			if err != nil {
				return nil, err
			}
			if err := p.writeRun(next); err != nil {
				return nil, err
			}
			runs = runs[n:]
		}
	}
	return p.merge(p.runs)
}

// close gives back memory and disk.
func (p *pairs) close() error {
	p.list, p.scratch = nil, nil
	if p.file == nil {
		return nil
	}
	f := p.file
	p.file = nil
	return f.Close()
}

// source is a run that is being merged.
type source struct {
	pair
	in *bufio.Reader
}

// next reads the run's next pair; io.EOF after the last.
func (s *source) next() error {
	b, err := s.in.Peek(pairBytes)
	if err != nil {
		if err == io.EOF && len(b) == 0 {
			return io.EOF
		}
		return named(errors.Join(err, errShort))
	}
	s.key, s.arrival = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	_, err = s.in.Discard(pairBytes)
	return err
}

var errShort = errors.New("fewer bytes than were written")

// before compares by key, then by arrival, which no two pairs share.
func before(s, t **source) bool {
	return (*s).key < (*t).key || (*s).key == (*t).key && (*s).arrival < (*t).arrival
}

// merge returns a function that gives the pairs of the runs in order.
func (p *pairs) merge(runs []section) (func() (pair, error), error) {
	heap := merge.NewHeap(before)
	for _, r := range runs {
		s := &source{in: bufio.NewReaderSize(io.NewSectionReader(p.file, r.off, r.length), pairBuffer)}
		if err := s.next(); err != nil {
			return nil, err
		}
		heap.Push(s)
	}
	return func() (pair, error) {
		if heap.Len() == 0 {
			return pair{}, io.EOF
		}
		s := *heap.First()
		e := s.pair
		switch err := s.next(); {
		case err == io.EOF:
			heap.Pop()
		case err != nil:
			return pair{}, err
		default:
			heap.Fix()
		}
		return e, nil
	}, nil
}
