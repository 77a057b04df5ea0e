package render

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// The render store has sorted runs (formats/run) of two kinds.
//
// Those of role and kind "parts" say what became of each URL that was fetched. A row's key is that of the URL, its payload five numbers
// as varints (status, 0 for what was not fetched; offset and length of the record; length of the body; 1 if the body is not whole) and
// four texts, each behind its length as a varint: the WARC file, the media type, the charset, the target of a redirect. Of a URL in several
// files that of the newest generation counts. New rows become a file with those before it that are no more than mergeRatio times as large.
//
// The one of role and kind "pages" has the pages that wait for parts, by their keys, and what is known of hosts, by the FP64 of their
// names; payloads are JSON (Waiting).
//
// A file of role "warc" has what the pages of a round gave.
const (
	Kind      = "render"
	Version   = 1
	Verb      = "render"
	KindParts = "parts"
	KindPages = "pages"
	roleWARC  = "warc"

	mergeRatio = 3
	partsBlock = 4 << 10 // bytes that are read to find a part
)

// Bounds of what is kept. Beyond them a page is taken as it stands, and a host stays unknown.
const (
	maxWaiting = 100_000
	maxHosts   = 100_000
	maxMissing = 1_000 // parts that a page waits for
)

// CreateStore makes an empty store.
func CreateStore(dir string, opt store.Options) error {
	return store.Create(dir, Kind, Version, nil, opt)
}

// Part is what became of a URL, as a row of these files.
type Part struct {
	Status      uint16 `json:"status"`
	File        string `json:"warc_filename"`
	Offset      int64  `json:"warc_record_offset"`
	Length      int64  `json:"warc_record_length"`
	BodyLength  int64  `json:"body_length"`
	Cut         bool   `json:"cut,omitempty"`
	MIME        string `json:"mime"`
	Charset     string `json:"charset,omitempty"`
	RedirectURL string `json:"redirect_url,omitempty"`
}

func partOf(row *record.Fetch) (p Part) {
	if row.Outcome == record.OutcomeFetched {
		p = Part{row.Status, row.WARCFilename, row.WARCOffset, row.WARCLength, row.BodyLength, row.Truncated != "", row.MIME, row.Charset, row.RedirectURL}
	}
	return p
}

// row is the part as a row of its URL, for who reads its document.
func (p *Part) row(url string, key uint64) record.Fetch {
	return record.Fetch{URL: url, Key: key, Outcome: record.OutcomeFetched, Status: p.Status, WARCFilename: p.File, WARCOffset: p.Offset, WARCLength: p.Length,
		BodyLength: p.BodyLength, MIME: p.MIME, Charset: p.Charset}
}

func (p *Part) numbers() [5]uint64 {
	n := [5]uint64{uint64(p.Status), uint64(p.Offset), uint64(p.Length), uint64(p.BodyLength)}
	if p.Cut {
		n[4] = 1
	}
	return n
}

func (p *Part) texts() [4]*string { return [...]*string{&p.File, &p.MIME, &p.Charset, &p.RedirectURL} }

func (p *Part) append(b []byte) []byte {
	for _, n := range p.numbers() {
		b = binary.AppendUvarint(b, n)
	}
	for _, s := range p.texts() {
		b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
	}
	return b
}

// Parse reads a row.
func (p *Part) Parse(_ uint64, b []byte) error {
	ok := true
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if ok = ok && size > 0 && n <= math.MaxInt64; !ok {
			return 0
		}
		b = b[size:]
		return n
	}
	var n [5]uint64
	for i := range n {
		n[i] = number()
	}
	*p = Part{Status: uint16(n[0]), Offset: int64(n[1]), Length: int64(n[2]), BodyLength: int64(n[3]), Cut: n[4] == 1}
	for _, s := range p.texts() {
		size := number()
		if ok = ok && size <= uint64(len(b)); !ok {
			break
		}
		*s, b = string(b[:size]), b[size:]
	}
	if !ok || len(b) > 0 || n[0] > 999 || n[4] > 1 {
		return &fault.Error{Class: fault.Corrupt, Found: "a part that does not decode"}
	}
	return nil
}

// Waiting is a page that waits for parts, or what is known of a host.
type Waiting struct {
	URL      string      `json:"url,omitempty"`
	Host     string      `json:"host"`
	Part     *Part       `json:"document,omitempty"`
	Depth    uint16      `json:"depth,omitempty"`
	Hops     uint8       `json:"hops,omitempty"`
	Score    float32     `json:"score,omitempty"`
	Fetched  record.Time `json:"fetch_time,omitempty"`
	Why      string      `json:"why,omitempty"`      // it is rendered: a reason
	Attempts int         `json:"attempts,omitempty"` // so far
	Gained   bool        `json:"gained,omitempty"`   // by one of them
	Missing  []string    `json:"missing,omitempty"`  // keys of parts, as 16 hex digits
	Shells   Tally       `json:"shells,omitzero"`    // of a host: pages with hardly any text or links
	Rest     Tally       `json:"rest,omitzero"`      // and those that were rendered beside them
	key      uint64
	missing  []uint64
}

// Tally counts the pages of a host.
type Tally struct {
	Rendered uint32 `json:"rendered"`
	Gained   uint32 `json:"gained"` // that had more links or text afterwards
}

// Parse reads a row.
func (w *Waiting) Parse(key uint64, payload []byte) error {
	*w = Waiting{key: key}
	err := json.Unmarshal(payload, w)
	for _, text := range w.Missing {
		m, err := fingerprint.Parse(text)
		if err != nil {
			return &fault.Error{Class: fault.Corrupt, Found: strconv.Quote(text), Want: "the key of a URL"}
		}
		w.missing = append(w.missing, m)
	}
	if err == nil && (w.Host == "" || (w.URL == "") != (w.Part == nil)) {
		err = fmt.Errorf("%.80q, want a page or a host", payload)
	}
	if err != nil {
		return &fault.Error{Class: fault.Corrupt, Err: err}
	}
	return nil
}

func (w *Waiting) row() record.Fetch {
	r := w.Part.row(w.URL, w.key)
	r.Host, r.Depth, r.Hops, r.Score, r.FetchTime, r.Role = w.Host, w.Depth, w.Hops, w.Score, w.Fetched, record.RolePage
	return r
}

// state is what a change of the store works with.
type state struct {
	st    *store.Store
	tx    *store.Tx
	pages map[uint64]*Waiting
	hosts map[string]*Waiting

	mu    sync.Mutex // of parts, which one goroutine searches at a time
	parts []*file    // oldest first
	fresh *file      // of this round: the last of them
}

type file struct {
	*run.Reader
	io.Closer
	path string // in the store
	born uint64
}

// openState opens the store's current state.
func openState(st *store.Store, tx *store.Tx) (s *state, err error) {
	s = &state{st: st, tx: tx, pages: map[uint64]*Waiting{}, hosts: map[string]*Waiting{}}
	for _, e := range tx.Base().Files {
		if e.Role != KindParts && e.Role != KindPages {
			continue
		}
		var f *file
		if f, err = s.open(e); err != nil {
			break
		}
		if e.Role == KindParts {
			s.parts = append(s.parts, f)
		} else if err = s.readPages(f); err != nil {
			f.Close()
			break
		} else {
			tx.Drop(e.Path)
			f.Close()
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	slices.SortFunc(s.parts, func(a, b *file) int { return cmp.Compare(a.born, b.born) })
	return s, nil
}

func (s *state) open(e store.Entry) (*file, error) {
	f, err := s.st.OpenFile(e.Path)
	if err != nil {
		return nil, err
	}
	r, err := run.Open(f, e.Length, s.st.Path(e.Path), e.Role)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{r, f, e.Path, e.Born}, nil
}

func (s *state) close() {
	for _, f := range s.parts {
		f.Close()
	}
}

func (s *state) readPages(f *file) error {
	rows := f.Scan(run.Start)
	for {
		key, payload, err := rows.Next()
		if err == io.EOF {
			return nil
		}
		w := new(Waiting)
		if err == nil {
			err = w.Parse(key, payload)
		}
		if e, ok := err.(*fault.Error); ok && e.File == "" {
			e.File, e.Place = s.st.Path(f.path), fmt.Sprintf("key %016x", key)
		}
		if err != nil {
			return err
		}
		if w.Part == nil {
			s.hosts[w.Host] = w
		} else {
			s.pages[key] = w
		}
	}
}

// host is what is known of a host; it is new if nothing was, and nil if there is no room.
func (s *state) host(name string) *Waiting {
	h := s.hosts[name]
	if h == nil && len(s.hosts) < maxHosts {
		h = &Waiting{Host: name, key: fingerprint.OfString(name)}
		s.hosts[name] = h
	}
	return h
}

// find is what became of a URL, of this round alone, or at any time.
func (s *state) find(key uint64, now bool) (p Part, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.parts) - 1; i >= 0; i-- {
		f := s.parts[i]
		if now && f != s.fresh {
			break
		}
		at, payload, err := f.Scan(run.Start).Seek(key)
		if err == io.EOF || err == nil && at != key {
			continue
		}
		if err == nil {
			err = p.Parse(key, payload)
		}
		if e, ok := err.(*fault.Error); ok && e.File == "" {
			e.File, e.Place = s.st.Path(f.path), fmt.Sprintf("key %016x", key)
		}
		return p, err == nil, err
	}
	return p, false, nil
}

// addParts adds the rows of a round; of several of a URL the last counts.
func (s *state) addParts(sorter *merge.Sorter) error {
	sorted, err := sorter.Sort()
	if err != nil {
		return err
	}
	temp, err := merge.TempFile(s.st.Dir())
	if err != nil {
		return err
	}
	w := run.NewWriter(temp, KindParts)
	w.Blocks(partsBlock, math.MaxInt)
	w.Plain()
	last, waits, payload := uint64(0), false, []byte(nil)
	err = sorted.Each(func(key uint64, next []byte) error {
		if waits && key != last {
			if err := w.Add(last, payload); err != nil {
				return err
			}
		}
		last, waits, payload = key, true, append(payload[:0], next...)
		return nil
	})
	if err == nil && waits {
		err = w.Add(last, payload)
	}
	if err == nil {
		err = w.Close()
	}
	var r *run.Reader
	if err == nil {
		r, err = run.Open(temp, w.Size(), temp.Name(), KindParts)
	}
	if err != nil {
		temp.Close()
		return err
	}
	s.fresh = &file{r, temp, "", math.MaxUint64}
	s.parts = append(s.parts, s.fresh)
	return nil
}

// commit puts the state into the next generation.
func (s *state) commit() error {
	if s.fresh.Rows() > 0 {
		n, rows := len(s.parts)-1, s.fresh.Rows()
		for n > 0 && s.parts[n-1].Rows() <= mergeRatio*rows {
			n--
			rows += s.parts[n].Rows()
		}
		if err := s.mergeParts(s.parts[n:]); err != nil {
			return err
		}
	}
	all := make([]*Waiting, 0, len(s.pages)+len(s.hosts))
	for _, set := range []func(func(*Waiting) bool){valuesOf(s.pages), valuesOf(s.hosts)} {
		for w := range set {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Waiting) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.URL, b.URL), cmp.Compare(a.Host, b.Host))
	})
	f, err := s.tx.Create("pages/", ".run", KindPages)
	if err != nil {
		return err
	}
	out := run.NewWriter(f, KindPages)
	for _, w := range all {
		w.Missing = w.Missing[:0]
		for _, m := range w.missing {
			w.Missing = append(w.Missing, fmt.Sprintf("%016x", m))
		}
		payload, err := json.Marshal(w)
		if err == nil {
			err = out.Add(w.key, payload)
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(out.Close(), f.Close())
}

func valuesOf[K comparable](m map[K]*Waiting) func(func(*Waiting) bool) {
	return func(yield func(*Waiting) bool) {
		for _, w := range m {
			if !yield(w) {
				return
			}
		}
	}
}

// mergeParts writes files as one; of a URL the newest row counts.
func (s *state) mergeParts(files []*file) error {
	var scans []*run.Scanner
	for _, f := range slices.Backward(files) {
		scans = append(scans, f.Scan(run.Start))
		if f.path != "" {
			s.tx.Drop(f.path)
		}
	}
	rows, err := merge.Runs(scans, nil)
	if err != nil {
		return err
	}
	f, err := s.tx.Create("parts/", ".run", KindParts)
	if err != nil {
		return err
	}
	w := run.NewWriter(f, KindParts)
	w.Blocks(partsBlock, math.MaxInt)
	last, first := uint64(0), true
	err = rows.Each(func(key uint64, payload []byte) error {
		if !first && key == last {
			return nil
		}
		last, first = key, false
		return w.Add(key, payload)
	})
	return cmp.Or(err, w.Close(), f.Close())
}
