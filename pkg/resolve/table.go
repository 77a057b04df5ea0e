package resolve

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"io"
	"net/netip"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/pkg/base/durable"
)

// answer is a known answer for a name: addresses, or why there are none.
type answer struct {
	addr    string // as in column addr
	status  string // StatusOK, or why there is no address
	cname   string // canonical name, where it differs
	expires record.Time
}

func newAnswer(addrs []netip.Addr, status, cname string, expires time.Time) *answer {
	return &answer{FormatAddrs(addrs), status, cname, record.TimeOf(expires.Truncate(time.Second))}
}

func (a *answer) public() Answer {
	addrs, _ := parseAddrs(a.addr)
	return Answer{addrs, a.cname, a.status, a.expires.Go()}
}

// table is the one map of names in memory, with what is known of them. Names have numbers, from 0.
//
// It has few pointers that a garbage collector would have to follow: at 10^5 names these would
// be most of its work. One goroutine.
type table struct {
	index  map[uint64]uint32 // numbers, by a hash of the name, or by the next hash that no other name has
	places []place           // by number
	pieces []*strings.Builder
}

// place is where a name and its answer stand: piece × pieceSize + offset. answer is 0 while it is to come.
type place struct{ name, answer uint32 }

const (
	pieceSize = 64 << 10
	nameCost  = 8 + 24 // bytes that a name takes beside its texts, in places and index
)

var seed = maphash.MakeSeed()

func newTable() *table { return &table{index: map[uint64]uint32{}} }

// size is the memory that the table takes, about.
func (t *table) size() int64 {
	return int64(len(t.pieces))*pieceSize + int64(len(t.places))*nameCost
}

// within empties the table if it is larger than size bytes.
func (t *table) within(size int64) *table {
	if t.size() > size {
		clear(t.index)
		t.places, t.pieces = t.places[:0], nil
	}
	return t
}

// find gives a name's number. isNew says that the name was not there, and is now.
func (t *table) find(name string) (n uint32, isNew bool) {
	h := maphash.String(seed, name)
	for ; ; h++ {
		n, is := t.index[h]
		if !is {
			break
		}
		if t.name(n) == name {
			return n, false
		}
	}
	n = uint32(len(t.places))
	t.index[h] = n
	var room [260]byte
	t.places = append(t.places, place{name: t.keep(record.AppendText(room[:0], name))})
	return n, true
}

// name gives a name by its number.
func (t *table) name(n uint32) string {
	name, _ := record.CutText(t.at(t.places[n].name))
	return name
}

// set takes in what is known of a name.
func (t *table) set(n uint32, a *answer) {
	var room [120]byte
	b := binary.LittleEndian.AppendUint64(room[:0], uint64(a.expires))
	b = record.AppendText(record.AppendText(record.AppendText(b, a.addr), a.status), a.cname)
	t.places[n].answer = t.keep(b)
}

// known reports whether anything is known of a name.
func (t *table) known(n uint32) bool { return t.places[n].answer != 0 }

// answer gives what is known of a name. Its texts are the table's memory, which does not change.
func (t *table) answer(n uint32) (a answer) {
	s := t.at(t.places[n].answer)
	a.expires = record.Time(binary.LittleEndian.Uint64([]byte(s[:8])))
	a.addr, s = record.CutText(s[8:])
	a.status, s = record.CutText(s)
	a.cname, _ = record.CutText(s)
	return a
}

// at gives the texts that begin at a place.
func (t *table) at(place uint32) string {
	return t.pieces[place/pieceSize].String()[place%pieceSize:]
}

// keep copies bytes into a piece.
func (t *table) keep(b []byte) (place uint32) {
	last := len(t.pieces) - 1
	if last < 0 || t.pieces[last].Len()+len(b) > pieceSize {
		t.pieces = append(t.pieces, new(strings.Builder))
		last++
		t.pieces[last].Grow(max(pieceSize, len(b)))
	}
	p := t.pieces[last]
	place = uint32(last*pieceSize + p.Len())
	p.Write(b)
	return place
}

// learnt is answers as they come, any number of them: in a table, and before those in sorted runs in
// temporary files, each of what the table held.
type learnt struct {
	*table
	family uint8    // 4 or 6: only these addresses are asked for
	asked  string   // the servers, as in Resolver
	fresh  []uint32 // of the table, those to be written
	runs   cacheFiles
}

// never is before all times, also before the time of a saved answer that does not tell when it expires.
const never = -1

// newLearnt makes one for answers of r, which may be nil.
func newLearnt(r *Resolver) *learnt {
	l := &learnt{table: newTable()}
	if r != nil {
		l.family, l.asked = r.family(), r.asked
	}
	return l
}

// learn takes in what is new of a name.
func (l *learnt) learn(n uint32, a *answer) {
	l.set(n, a)
	l.fresh = append(l.fresh, n)
}

// first takes in what is said of a name for the first time since the last flush; it holds so many bytes in memory.
func (l *learnt) first(name string, a *answer, mem int64) error {
	if l.size() > mem {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if n, isNew := l.find(name); isNew {
		l.learn(n, a)
	}
	return nil
}

// flush empties the table; its fresh answers become a run.
func (l *learnt) flush() error {
	if len(l.fresh) > 0 {
		err := l.write(func(w *run.Writer) (err error) {
			var payload []byte
			for _, s := range l.sorted(l.fresh) {
				a := l.answer(s.number)
				payload = appendAnswer(payload[:0], s.key, l.name(s.number), &a, l.family, l.asked)
				if err = w.Add(s.key, payload); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	l.table, l.fresh = newTable(), nil
	last := len(l.runs) - 1
	if last < 1 {
		return nil
	}
	kept := l.runs[:last].large(l.runs[last].run.Rows(), 1)
	if kept == last {
		return nil
	}
	old := l.runs[kept:]
	l.runs = l.runs[:kept:kept]
	defer old.Close()
	return l.write(func(w *run.Writer) error { return old.merge(w, never) })
}

// write adds a run in a temporary file without a name.
func (l *learnt) write(rows func(w *run.Writer) error) (err error) {
	f, err := durable.TempFile("")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	w := run.NewWriter(f, KindAnswers)
	w.Plain()
	if err := cmp.Or(rows(w), w.Close()); err != nil {
		return err
	}
	length, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	c, err := openFile(f, length, "temporary file")
	if err != nil {
		return err
	}
	c.own = true
	l.runs = append(l.runs, c)
	return nil
}

// Close gives back the disk.
func (l *learnt) Close() { l.runs.Close() }
