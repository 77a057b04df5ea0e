package fetch

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// Roles of the files that know payloads: two a run.
const (
	rolePayloadKeys = "payload-keys" // fpfile: the first 64 bits of the payloads' SHA-1
	rolePayloads    = "payloads"     // segment in their order: see payload.entry
)

// payloadsMax is how many payloads of a round are held in memory before they
// become a run.
const payloadsMax = 1 << 15

// payload is where a payload was archived first.
type payload struct {
	digest [16]byte // of its SHA-1: 128 bits
	url    string
	date   record.Time
	file   string // WARC file, relative to the store
	offset int64  // of the response in it
}

// payloadDigest is the part of a row's digest that payloads are known by.
func payloadDigest(row *record.Fetch) (d [16]byte, ok bool) {
	var sum [sha1.Size]byte
	n, err := base32.StdEncoding.Decode(sum[:], []byte(row.PayloadSHA1))
	return [16]byte(sum[:16]), err == nil && n == len(sum)
}

// identifiable says whether a row's payload is one that others may refer to: a
// whole one, of some bytes, of HTTP.
func identifiable(row *record.Fetch) bool {
	return row.Role == record.RolePage && row.Outcome == record.OutcomeFetched && row.Status != 0 && row.Truncated == "" && row.BodyLength > 0
}

func (p *payload) key() uint64  { return binary.BigEndian.Uint64(p.digest[:8]) }
func (p *payload) rest() uint64 { return binary.BigEndian.Uint64(p.digest[8:]) }

// entry is the payload as a row of a segment: its order is the first half of the
// digest, last_content_fp the second, discovered the date, via FILE#OFFSET.
func (p *payload) entry() segment.Entry {
	return segment.Entry{Key: p.key(), URL: record.URL{URL: p.url, Discovered: p.date, LastContentFP: p.rest(), Via: p.file + "#" + strconv.FormatInt(p.offset, 10)}}
}

func payloadOf(e *segment.Entry, name string) (p payload, err error) {
	binary.BigEndian.PutUint64(p.digest[:8], e.Key)
	binary.BigEndian.PutUint64(p.digest[8:], e.URL.LastContentFP)
	p.url, p.date = e.URL.URL, e.URL.Discovered
	file, offset, _ := strings.Cut(e.URL.Via, "#")
	p.file = file
	if p.offset, err = strconv.ParseInt(offset, 10, 64); err != nil || p.offset < 0 || path.IsAbs(file) {
		return p, &fault.Error{Class: fault.Corrupt, File: name, Place: clean(p.url), Found: clean(e.URL.Via), Want: "a WARC file, #, and an offset"}
	}
	return p, nil
}

// payloads is the store of payload digests: where each payload was archived first.
// It is a list of sorted runs, the newest last; a round adds one, merged with those
// before it that are not twice as large, so that there are few. Memory is a round's
// newest payloads, at most max, and a few blocks a run.
type payloads struct {
	st *store.Store
	tx *store.Tx

	mu    sync.Mutex // guards all below
	fresh map[[16]byte]payload
	runs  []*payloadRun
	max   int
}

// payloadRun is two files: what is known, and what is known of it.
type payloadRun struct {
	keys  *fpfile.Reader
	rows  *segment.Reader[segment.Entry]
	names [2]string // of keys and rows in the store; "": in temporary files
	files []io.Closer
}

// statePayloads lists the runs, oldest first: "KEYS ROWS", separated by commas.
const statePayloads = "payloads"

// openPayloads opens what earlier rounds knew.
func openPayloads(st *store.Store, tx *store.Tx) (*payloads, error) {
	p := &payloads{st: st, tx: tx, fresh: map[[16]byte]payload{}, max: payloadsMax}
	for _, pair := range strings.FieldsFunc(tx.Base().State[statePayloads], func(r rune) bool { return r == ',' }) {
		r := &payloadRun{}
		p.runs = append(p.runs, r)
		r.names[0], r.names[1], _ = strings.Cut(pair, " ")
		for i, name := range r.names {
			if err := r.open(st, i, name); err != nil {
				p.close()
				return nil, err
			}
		}
	}
	return p, nil
}

func (r *payloadRun) open(st *store.Store, i int, name string) error {
	f, err := st.OpenFile(name)
	if err != nil {
		return err
	}
	r.files = append(r.files, f)
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return r.read(i, f, fi.Size(), st.Path(name))
}

func (r *payloadRun) read(i int, f io.ReaderAt, size int64, name string) (err error) {
	if i == 0 {
		r.keys, err = fpfile.Open(f, size, name)
	} else {
		r.rows, err = segment.Open[segment.Entry](f, size, name)
	}
	return err
}

func (p *payloads) close() {
	for _, r := range p.runs {
		r.close()
	}
}

// close lets go of files that were only read.
func (r *payloadRun) close() {
	for _, f := range r.files {
		f.Close()
	}
}

// find returns the first payload with a digest.
func (p *payloads) find(digest [16]byte) (found payload, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok = p.fresh[digest]; ok {
		return found, true, nil
	}
	want := payload{digest: digest}
	for _, r := range p.runs {
		if found, ok, err = r.find(&want); ok || err != nil {
			return found, ok, err
		}
	}
	return found, false, nil
}

func (r *payloadRun) find(want *payload) (payload, bool, error) {
	if known, err := r.keys.Contains(want.key()); !known || err != nil {
		return payload{}, false, err
	}
	scan := r.rows.Scan(segment.Start)
	var e segment.Entry
	err := scan.Seek(want.key(), &e)
	for err == nil && e.Key == want.key() {
		if e.URL.LastContentFP == want.rest() {
			found, err := payloadOf(&e, r.names[1])
			return found, err == nil, err
		}
		err = scan.Next(&e)
	}
	if err == io.EOF {
		err = nil
	}
	return payload{}, false, err
}

// add notes where the payload of a row was archived, unless it is known.
func (p *payloads) add(row *record.Fetch) error {
	fresh := payload{url: row.URL, date: row.FetchTime, file: row.WARCFilename, offset: row.WARCOffset}
	var ok bool
	if fresh.digest, ok = payloadDigest(row); !ok {
		return nil
	}
	if _, known, err := p.find(fresh.digest); known || err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh[fresh.digest] = fresh
	if len(p.fresh) < p.max {
		return nil
	}
	return p.merge(p.small(len(p.runs), true), p.spill)
}

// small is how many of the first n runs stay when the fresh payloads become a run:
// not those at the end that are no more than twice as large as what is merged
// already. spills: only those of this round go.
func (p *payloads) small(n int, spills bool) int {
	size := uint64(len(p.fresh))
	for _, r := range p.runs[n:] {
		size += r.rows.Rows()
	}
	for n > 0 && p.runs[n-1].rows.Rows() <= 2*size && !(spills && p.runs[n-1].committed()) {
		n--
		size += p.runs[n].rows.Rows()
	}
	return n
}

func (r *payloadRun) committed() bool { return r.names[0] != "" }

// commit makes the round's payloads a part of the next generation.
func (p *payloads) commit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := len(p.runs)
	for old > 0 && !p.runs[old-1].committed() {
		old--
	}
	if old < len(p.runs) || len(p.fresh) > 0 {
		if err := p.merge(p.small(old, false), p.keep); err != nil {
			return err
		}
	}
	p.state()
	return nil
}

func (p *payloads) state() {
	var list []string
	for _, r := range p.runs {
		list = append(list, r.names[0]+" "+r.names[1])
	}
	p.tx.SetState(statePayloads, strings.Join(list, ","))
}

// merge makes one run, by way of into, of the fresh payloads and of the runs from
// keep on.
func (p *payloads) merge(keep int, into func(sources []payloadSource) (*payloadRun, error)) error {
	list := slices.SortedFunc(maps.Values(p.fresh), func(a, b payload) int { return bytes.Compare(a.digest[:], b.digest[:]) })
	at := 0
	sources := []payloadSource{{next: func(e *segment.Entry) error {
		if at == len(list) {
			return io.EOF
		}
		*e = list[at].entry()
		at++
		return nil
	}}}
	for _, r := range p.runs[keep:] {
		sources = append(sources, payloadSource{next: r.rows.Scan(segment.Start).Next})
	}
	made, err := into(sources)
	if err != nil {
		return err
	}
	for _, r := range p.runs[keep:] {
		if r.committed() {
			p.tx.Drop(r.names[0])
			p.tx.Drop(r.names[1])
		}
		r.close()
	}
	p.runs = append(p.runs[:keep], made)
	clear(p.fresh)
	return nil
}

// keep writes a run of the next generation.
func (p *payloads) keep(sources []payloadSource) (*payloadRun, error) {
	keys, err := p.tx.Create("payloads/", ".fps", rolePayloadKeys)
	if err != nil {
		return nil, err
	}
	rows, err := p.tx.Create("payloads/", ".seg", rolePayloads)
	if err != nil {
		return nil, err
	}
	r := &payloadRun{names: [2]string{keys.Path(), rows.Path()}}
	if err := mergePayloads(keys, rows, sources); err != nil {
		return nil, err
	}
	for i, f := range [...]*store.NewFile{keys, rows} {
		in, size, err := f.Open()
		if err == nil {
			err = r.read(i, in, size, f.Path())
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// spill writes a run that lasts as long as the process.
func (p *payloads) spill(sources []payloadSource) (*payloadRun, error) {
	r := &payloadRun{}
	var out [2]*bufio.Writer
	var files [2]*os.File
	for i := range files {
		f, err := merge.TempFile(p.st.Dir())
		if err != nil {
			r.close()
			return nil, err
		}
		r.files = append(r.files, f)
		files[i], out[i] = f, bufio.NewWriter(f)
	}
	err := mergePayloads(out[0], out[1], sources)
	for i, f := range files {
		if err == nil {
			err = out[i].Flush()
		}
		var fi os.FileInfo
		if err == nil {
			fi, err = f.Stat()
		}
		if err == nil {
			err = r.read(i, f, fi.Size(), f.Name())
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// payloadSource is one of the streams of a merge.
type payloadSource struct {
	next func(*segment.Entry) error
	head segment.Entry
	done bool
}

func (s *payloadSource) step() error {
	err := s.next(&s.head)
	if err == io.EOF {
		s.done, err = true, nil
	}
	return err
}

// mergePayloads writes the entries of sorted sources, of which no two have one
// digest, and their keys.
func mergePayloads(keysOut, rowsOut io.Writer, sources []payloadSource) error {
	keys, rows := fpfile.NewWriter(keysOut, fingerprint.Polynomial), segment.NewWriter[segment.Entry](rowsOut, "payloads", 0)
	for i := range sources {
		if err := sources[i].step(); err != nil {
			return err
		}
	}
	last := uint64(0)
	for n := 0; ; n++ {
		var least *payloadSource
		for i := range sources {
			if s := &sources[i]; !s.done && (least == nil || s.head.Key < least.head.Key) {
				least = s
			}
		}
		if least == nil {
			break
		}
		if n == 0 || last != least.head.Key {
			if err := keys.Add(least.head.Key); err != nil {
				return err
			}
		}
		last = least.head.Key
		if err := rows.Add(&least.head); err != nil {
			return err
		}
		if err := least.step(); err != nil {
			return err
		}
	}
	if err := keys.Finish(); err != nil {
		return err
	}
	_, err := rows.Finish()
	return err
}
