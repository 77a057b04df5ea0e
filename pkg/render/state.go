package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/merge"
)

// The render store has sorted runs (formats/run) of two kinds, with JSON as payloads.
//
// Runs of role and kind "parts" say what became of each URL that was fetched (Part), by its key. Of a URL in several files the row of the
// newest generation counts. New rows are merged with the files before them that are no more than mergeRatio times as large.
//
// The one of role and kind "pages" has the pages that wait for parts, by their keys, and what is known of hosts, by the FP64 of their
// names (Waiting).
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

// Part is the outcome of a URL, as a row of these files.
type Part struct {
	Generation uint64 `json:"generation"` // of the store
	Status     uint16 `json:"status"`     // 0: it was not fetched
	File       string `json:"warc_filename,omitempty"`
	Offset     int64  `json:"warc_record_offset,omitempty"`
	Length     int64  `json:"warc_record_length,omitempty"`
	BodyLength int64  `json:"body_length,omitempty"`
	MIME       string `json:"mime,omitempty"`
	Charset    string `json:"charset,omitempty"`
}

func partOf(row *record.Fetch) (p Part) {
	if row.Outcome == record.OutcomeFetched {
		p = Part{Status: row.Status, File: row.WARCFilename, Offset: row.WARCOffset, Length: row.WARCLength, BodyLength: row.BodyLength, MIME: row.MIME, Charset: row.Charset}
	}
	return p
}

// row is the part as a row of its URL, for who reads its document.
func (p *Part) row(url string, key uint64) record.Fetch {
	return record.Fetch{URL: url, Key: key, Outcome: record.OutcomeFetched, Status: p.Status, WARCFilename: p.File, WARCOffset: p.Offset, WARCLength: p.Length,
		BodyLength: p.BodyLength, MIME: p.MIME, Charset: p.Charset}
}

// Parse reads a row.
func (p *Part) Parse(_ uint64, b []byte) error {
	*p = Part{}
	return parse(b, p, "what became of a URL", func() bool { return p.Status <= 999 && min(p.Offset, p.Length, p.BodyLength) >= 0 })
}

func parse(b []byte, row any, want string, valid func() bool) error {
	err := json.Unmarshal(b, row)
	if err == nil && !valid() {
		err = fmt.Errorf("%.80q, want %s", b, want)
	}
	if err != nil {
		return &fault.Error{Class: fault.Corrupt, Err: err}
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
	Missing  []partKey   `json:"missing,omitempty"`
	Shells   Tally       `json:"shells,omitzero"` // of a host: pages with hardly any text or links
	Rest     Tally       `json:"rest,omitzero"`   // pages rendered beside them
	key      uint64
}

// partKey is the key of a part, 16 hex digits as text.
type partKey uint64

func (k partKey) MarshalText() ([]byte, error) { return fingerprint.Append(nil, uint64(k)), nil }

func (k *partKey) UnmarshalText(b []byte) error {
	v, err := fingerprint.Parse(string(b))
	*k = partKey(v)
	return err
}

// Tally counts the pages of a host.
type Tally struct {
	Rendered uint32 `json:"rendered"`
	Gained   uint32 `json:"gained"` // pages that had more links or text afterwards
}

// Parse reads a row.
func (w *Waiting) Parse(key uint64, payload []byte) error {
	*w = Waiting{key: key}
	return parse(payload, w, "a page or a host", func() bool { return w.Host != "" && (w.URL == "") == (w.Part == nil) })
}

func (w *Waiting) row() record.Fetch {
	r := w.Part.row(w.URL, w.key)
	r.Host, r.Depth, r.Hops, r.Score, r.FetchTime, r.Role = w.Host, w.Depth, w.Hops, w.Score, w.Fetched, record.RolePage
	return r
}

// state is the store's state during a change.
type state struct {
	st    *store.Store
	tx    *store.Tx
	pages map[uint64]*Waiting
	hosts map[string]*Waiting

	mu    sync.Mutex // of parts, which one goroutine searches at a time
	parts []*file    // oldest first
}

type file struct {
	*run.Reader
	io.Closer
	path string
	born uint64
}

// openState opens the store's current state.
func openState(st *store.Store, tx *store.Tx) (s *state, err error) {
	s = &state{st: st, tx: tx, pages: map[uint64]*Waiting{}, hosts: map[string]*Waiting{}}
	for _, e := range tx.Base().Files {
		if e.Role != KindParts && e.Role != KindPages {
			continue
		}
		f, err := st.OpenFile(e.Path)
		if err != nil {
			s.close()
			return nil, err
		}
		r, err := run.Open(f, e.Length, st.Path(e.Path), e.Role)
		if s.parts = append(s.parts, &file{r, f, e.Path, e.Born}); err == nil && e.Role == KindPages {
			err = s.readPages()
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	slices.SortFunc(s.parts, func(a, b *file) int { return cmp.Compare(a.born, b.born) })
	return s, nil
}

func (s *state) close() {
	for _, f := range s.parts {
		f.Close()
	}
}

// drop takes the files from the n-th on out of the store, and calls take with their rows.
func (s *state) drop(n int, take func(key uint64, payload []byte) error) error {
	var scans []*run.Scanner
	for _, f := range s.parts[n:] {
		scans = append(scans, f.Scan(run.Start))
		defer f.Close()
		s.tx.Drop(f.path)
	}
	s.parts = s.parts[:n]
	rows, err := merge.Runs(scans, nil)
	if err == nil {
		err = rows.Each(take)
	}
	return err
}

// readPages reads the last file.
func (s *state) readPages() error {
	f := s.parts[len(s.parts)-1]
	return s.drop(len(s.parts)-1, func(key uint64, payload []byte) error {
		w := new(Waiting)
		if err := w.Parse(key, payload); err != nil {
			return s.at(f, key, err)
		}
		if w.Part == nil {
			s.hosts[w.Host] = w
		} else {
			s.pages[key] = w
		}
		return nil
	})
}

// at says where an error is.
func (s *state) at(f *file, key uint64, err error) error {
	if e, ok := err.(*fault.Error); ok && e.File == "" {
		e.File, e.Place = s.st.Path(f.path), fmt.Sprintf("key %016x", key)
	}
	return err
}

// host returns the entry of a host; it adds one if there is none, and returns nil if there is no room.
func (s *state) host(name string) *Waiting {
	h := s.hosts[name]
	if h == nil && len(s.hosts) < maxHosts {
		h = &Waiting{Host: name, key: fingerprint.OfString(name)}
		s.hosts[name] = h
	}
	return h
}

// find returns the outcome of a URL.
func (s *state) find(key uint64) (p Part, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range slices.Backward(s.parts) {
		at, payload, err := f.Scan(run.Start).Seek(key)
		if err == io.EOF || err == nil && at != key {
			continue
		}
		if err == nil {
			err = p.Parse(key, payload)
		}
		return p, err == nil, s.at(f, key, err)
	}
	return p, false, nil
}

// addParts adds the rows of a round, and makes one file of them and of smaller ones. Of rows of one URL the last of the newest generation counts.
func (s *state) addParts(sorter *merge.Sorter, rows uint64) error {
	if rows == 0 {
		return nil
	}
	n := len(s.parts)
	for ; n > 0 && s.parts[n-1].Rows() <= mergeRatio*rows; n-- {
		rows += s.parts[n-1].Rows()
	}
	if err := s.drop(n, sorter.Add); err != nil {
		return err
	}
	sorted, err := sorter.Sort()
	if err != nil {
		return err
	}
	f, err := s.tx.Create("parts/", ".run", KindParts)
	if err != nil {
		return err
	}
	w := run.NewWriter(f, KindParts)
	w.Blocks(partsBlock, math.MaxInt)
	var last uint64
	var payload []byte // of the row of last; nil: none
	var old, new Part
	if err := sorted.Each(func(key uint64, next []byte) error {
		if payload != nil && key == last {
			if err := cmp.Or(old.Parse(key, payload), new.Parse(key, next)); err != nil || new.Generation < old.Generation {
				return err
			}
		} else if payload != nil {
			if err := w.Add(last, payload); err != nil {
				return err
			}
		}
		last, payload = key, append(payload[:0], next...)
		return nil
	}); err != nil {
		return err
	}
	if err := cmp.Or(w.Add(last, payload), w.Close(), f.Close()); err != nil {
		return err
	}
	in, size, err := f.Open()
	if err != nil {
		return err
	}
	r, err := run.Open(in, size, s.st.Path(f.Path()), KindParts)
	if err != nil {
		return err
	}
	s.parts = append(s.parts, &file{r, io.NopCloser(nil), f.Path(), s.tx.Generation()})
	return nil
}

// commit puts the pages and hosts into the next generation.
func (s *state) commit() error {
	all := slices.AppendSeq(slices.Collect(maps.Values(s.pages)), maps.Values(s.hosts))
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
