package resolve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
)

// The dns store holds files of role "cache". Each is a record stream of kind
// "module", one row a name, ascending by FP64 of the name and then by name, so
// that any reader of records reads it:
//
//	url_key = FP64(name), module = "dns", key = name,
//	value   = {"addr","expires","error","cname","server","family","zone","absent","failed"} (type entry)
//
// Of a name in several files the newest row counts, as long as it is valid. A batch reads
// each file once. When it commits, its answers become a new file, together with those files
// that are not mergeRatio times as large: so each file is more than that times as large as
// all newer ones, there are few, and an answer is written again a few times in all, not once
// a batch. What has expired is left out then.
const (
	StoreKind    = "dns"
	StoreVersion = "1.0"
	roleCache    = "cache"
	moduleName   = "dns"
)

// Bounds of what a commit merges.
const (
	mergeRatio = 3
	mergeFloor = 64 << 10 // bytes: answers of fewer count as so many
)

// CreateStore makes an empty dns store.
func CreateStore(dir string, opt store.Options) error {
	return store.Create(dir, StoreKind, StoreVersion, nil, opt)
}

// entry is the value of a cached name.
type entry struct {
	Addr    string    `json:"addr,omitempty"`
	Expires time.Time `json:"expires"`
	Error   string    `json:"error,omitempty"`
	CNAME   string    `json:"cname,omitempty"`
	Server  string    `json:"server,omitempty"`
	Family  string    `json:"family,omitempty"` // "4" or "6" where only those addresses were asked for
	Zone    string    `json:"zone,omitempty"`   // that has no such name, or none of its addresses of one family; with its last dot
	Absent  string    `json:"absent,omitempty"` // when Addr has addresses of one family: until when there are none of the other (RFC 3339)
	Failed  string    `json:"failed,omitempty"` // and why nobody knows whether there are, until then; "": there are none
}

// appendTo appends the value of a row. Texts in which JSON escapes nothing, which is
// nearly all, need no stack for encoding/json: that was half the memory of goroutines.
func (e *entry) appendTo(b []byte) ([]byte, error) {
	texts := [...]string{e.Addr, "", e.Error, e.CNAME, e.Server, e.Family, e.Zone, e.Absent, e.Failed}
	for _, text := range texts {
		if !plain(text) {
			value, err := json.Marshal(e)
			return append(b, value...), err
		}
	}
	sep := byte('{')
	for i, text := range texts {
		isTime := i == 1
		if text == "" && !isTime {
			continue
		}
		b = append(append(b, sep), entryFields[i]...)
		if isTime {
			b = e.Expires.AppendFormat(b, time.RFC3339Nano)
		}
		b = append(append(b, text...), '"')
		sep = ','
	}
	return append(b, '}'), nil
}

// plain says that JSON writes a text as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// parseEntry reads the value of a row. Those that appendTo made have one shape, which
// is read here ten times as fast as by encoding/json: a warm cache is read at each round.
func parseEntry(value string) (e entry, err error) {
	rest, ok := strings.CutPrefix(value, "{")
	if !ok || strings.IndexByte(value, '\\') >= 0 {
		return parseAnyEntry(value)
	}
	var expires string
	for i, to := range [...]*string{&e.Addr, &expires, &e.Error, &e.CNAME, &e.Server, &e.Family, &e.Zone, &e.Absent, &e.Failed} {
		text, found := strings.CutPrefix(rest, entryFields[i])
		if !found {
			continue
		}
		end := strings.IndexByte(text, '"')
		if end < 0 {
			break
		}
		*to, rest = text[:end], strings.TrimPrefix(text[end+1:], ",")
	}
	if rest != "}" || expires == "" {
		return parseAnyEntry(value)
	}
	e.Expires, err = parseTime(expires)
	return e, err
}

// entryFields are the names of an entry's fields, in their order, as JSON writes them before a text.
var entryFields = [...]string{`"addr":"`, `"expires":"`, `"error":"`, `"cname":"`, `"server":"`, `"family":"`, `"zone":"`, `"absent":"`, `"failed":"`}

// parseTime is time.Parse of RFC 3339, quick for times in UTC.
func parseTime(s string) (time.Time, error) {
	const shape = "0000-00-00T00:00:00Z"
	var n [6]int // year, month, day, hour, minute, second
	at, last := 0, len(s)-1
	quick := last >= len(shape)-1 && s[last] == 'Z'
	for i := 0; quick && i < len(shape)-1; i++ {
		if shape[i] != '0' {
			quick = s[i] == shape[i]
			at++
			continue
		}
		quick = '0' <= s[i] && s[i] <= '9'
		n[at] = 10*n[at] + int(s[i]-'0')
	}
	var nanos int
	if quick && last > len(shape)-1 {
		fraction := s[len(shape)-1 : last]
		quick = fraction[0] == '.' && 2 <= len(fraction) && len(fraction) <= 10
		for i := 1; quick && i < 10; i++ {
			nanos *= 10
			if i < len(fraction) {
				quick = '0' <= fraction[i] && fraction[i] <= '9'
				nanos += int(fraction[i] - '0')
			}
		}
	}
	if !quick || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 28 || n[3] > 23 || n[4] > 59 || n[5] > 59 {
		return time.Parse(time.RFC3339Nano, s)
	}
	return time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], nanos, time.UTC), nil
}

// parseAnyEntry reads a value of any shape. It stands alone since what json is given is
// on the heap.
func parseAnyEntry(value string) (e entry, err error) {
	err = json.Unmarshal([]byte(value), &e)
	return e, err
}

// entryOf is an answer as the cache and rows tell it, with the order of addresses that was
// given.
func (r *Resolver) entryOf(a *Answer) entry {
	e := entry{Addr: FormatAddrs(a.Addrs), Error: a.Status, CNAME: a.CNAME, Server: a.Server, Zone: a.Zone, Failed: a.Failed, Expires: a.Expires.UTC().Truncate(time.Microsecond)}
	if !a.Absent.IsZero() {
		e.Absent = a.Absent.UTC().Format(time.RFC3339)
	}
	if r.cfg.Family != "any" {
		e.Family = r.cfg.Family
	}
	return e
}

// absent is until when a name with addresses of one family has none of the other (RFC 2308,
// section 5: that is kept for a time of its own).
func (e *entry) absent() (time.Time, error) {
	if e.Absent == "" {
		return e.Expires, nil
	}
	return time.Parse(time.RFC3339, e.Absent)
}

// usable makes of an entry of the store one for those who want addresses of r's family. It
// says false if those were not asked for.
func (r *Resolver) usable(e *entry) (ok bool, err error) {
	if e.Family == r.cfg.Family || e.Family == "" && r.cfg.Family == "any" {
		return true, nil
	}
	if e.Family != "" {
		return false, nil
	}
	addrs, err := parseAddrs(e.Addr)
	if err != nil {
		return false, err
	}
	a := r.wanted(Answer{Addrs: addrs, Status: e.Error, CNAME: e.CNAME, Expires: e.Expires, Server: e.Server, Zone: e.Zone})
	if a.Status == StatusNoAddress && e.Error == StatusOK {
		a.Status = cmp.Or(e.Failed, StatusNoAddress)
		if a.Expires, err = e.absent(); err != nil {
			return false, err
		}
	}
	*e = r.entryOf(&a)
	return true, nil
}

func parseAddrs(list string) (addrs []netip.Addr, err error) {
	for s := range strings.SplitSeq(list, ",") {
		if s == "" {
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// load is cacheFiles.load of one file.
func (c *cacheReader) load(r *Resolver, now time.Time, only []uint64, put func(key uint64, name string, e *entry) error) (err error) {
	var e entry // one for all: put's is on the heap
	all := only == nil
	for ; !c.end && err == nil; err = c.advance() {
		for len(only) > 0 && only[0] < c.row.Key {
			only = only[1:]
		}
		if !all && (len(only) == 0 || only[0] != c.row.Key) {
			continue
		}
		e, err = parseEntry(c.row.Value)
		ok := err == nil && e.Expires.After(now)
		if ok {
			ok, err = r.usable(&e)
			ok = ok && e.Expires.After(now)
		}
		if err != nil {
			return c.corrupt(c.row, err)
		}
		if !ok {
			continue
		}
		if err := put(c.row.Key, c.row.Name, &e); err != nil {
			return err
		}
	}
	return err
}

// commit puts fresh answers into a new cache file, with those of base that it is time to
// merge.
func commit(tx *store.Tx, fresh *entries, open func() (cacheFiles, error), now time.Time) error {
	if fresh.empty() {
		return nil // nothing new: the files stay
	}
	files, err := open()
	if err != nil {
		return err
	}
	defer files.Close()
	kept, size := len(files), max(fresh.size(), mergeFloor)
	for kept > 0 && files[kept-1].length <= mergeRatio*size {
		kept--
		size += files[kept].length
	}
	old, err := files[kept:].merge()
	if err != nil {
		return err
	}
	defer old.Close()
	f, err := tx.Create("cache/", ".arrows.zst", roleCache)
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.Module](f, record.WriterOptions{Name: f.Path(), Level: record.Fast})
	if err != nil {
		return err
	}
	keep := func(c *cacheReader) error {
		e, err := parseEntry(c.row.Value)
		if err != nil {
			return c.corrupt(c.row, err)
		}
		if !e.Expires.After(now) {
			return nil
		}
		return w.Write(c.row)
	}
	var value []byte
	err = fresh.each(func(it item) (err error) {
		e := it.entry()
		if value, err = e.appendTo(value[:0]); err != nil {
			return err
		}
		row := record.Module{Key: it.key(), Module: moduleName, Name: string(it.name()), Value: string(value)}
		if err := old.upTo(&row, keep); err != nil || !e.Expires.After(now) {
			return err
		}
		return w.Write(&row)
	})
	if err == nil {
		err = old.upTo(nil, keep)
	}
	if err != nil {
		return err
	}
	if _, err := w.Commit(record.Ledger{}); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for i := range files[kept:] {
		tx.Drop(files[kept+i].path)
	}
	return nil
}

// cacheFiles are the cache of one generation of a store, oldest file first.
type cacheFiles []cacheFile

type cacheFile struct {
	path   string // in the store
	name   string // for messages
	length int64
	born   uint64
	in     io.ReadCloser
}

func openCache(st *store.Store, m *store.Manifest) (files cacheFiles, err error) {
	for _, e := range m.Files {
		if e.Role != roleCache {
			continue
		}
		f, err := st.OpenFile(e.Path)
		if err != nil {
			files.Close()
			return nil, err
		}
		files = append(files, cacheFile{e.Path, st.Dir() + "/" + e.Path, e.Length, e.Born, f})
	}
	slices.SortFunc(files, func(a, b cacheFile) int { return cmp.Compare(a.born, b.born) })
	return files, nil
}

// length of all files, in bytes.
func (files cacheFiles) length() (n int64) {
	for i := range files {
		n += files[i].length
	}
	return n
}

func (files cacheFiles) Close() {
	for i := range files {
		files[i].in.Close()
	}
}

// load puts the entries that r can use, and that are valid now, into some place, one file
// after another. If only is not nil, it has the names' keys, sorted, and others are passed
// over, at a third of the cost.
func (files cacheFiles) load(r *Resolver, now time.Time, only []uint64, put func(key uint64, name string, e *entry) error) error {
	for i := range files {
		c, err := newCacheReader(files[i].in, files[i].name)
		if err != nil {
			return err
		}
		err = c.load(r, now, only, put)
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// cacheMerge walks cache files together, once, forward.
type cacheMerge struct {
	files []*cacheReader // oldest first
	next  *cacheReader   // that has the next row; nil at the end
}

func (files cacheFiles) merge() (*cacheMerge, error) {
	m := &cacheMerge{}
	for i := range files {
		c, err := newCacheReader(files[i].in, files[i].name)
		if err != nil {
			m.Close()
			return nil, err
		}
		m.files = append(m.files, c)
	}
	m.choose()
	return m, nil
}

func (m *cacheMerge) Close() {
	for _, c := range m.files {
		c.Close()
	}
}

// choose finds the least row, and of equal ones the newest.
func (m *cacheMerge) choose() {
	m.next = nil
	for _, c := range m.files {
		if !c.end && (m.next == nil || compareRows(c.row, m.next.row) <= 0) {
			m.next = c
		}
	}
}

// advance goes to the next name.
func (m *cacheMerge) advance() error {
	row := *m.next.row
	for _, c := range m.files {
		if c.end || compareRows(c.row, &row) != 0 {
			continue
		}
		if err := c.advance(); err != nil {
			return err
		}
	}
	m.choose()
	return nil
}

// upTo gives the file of each row before limit to keep, and skips a row equal to it. A nil
// limit is the end.
func (m *cacheMerge) upTo(limit *record.Module, keep func(*cacheReader) error) error {
	for m.next != nil {
		if limit != nil {
			switch d := compareRows(m.next.row, limit); {
			case d > 0:
				return nil
			case d == 0:
				return m.advance()
			}
		}
		if err := keep(m.next); err != nil {
			return err
		}
		if err := m.advance(); err != nil {
			return err
		}
	}
	return nil
}

// cacheReader walks a cache file once, forward. Another goroutine unpacks and checks the
// rows that come next: that is half of the work.
type cacheReader struct {
	name string         // for messages
	row  *record.Module // until the next advance
	end  bool

	page  page
	at    int                  // of row in the page
	ahead chan page            // has room for all pages
	idle  chan []record.Module // to be filled; closed: no more are wanted
}

// page is some rows of a cache file, and what was found behind them.
type page struct {
	rows []record.Module
	err  error // io.EOF at the end of the file
}

const (
	pageRows = 512
	maxPages = 3 // in memory, with the batches of records whose text they share
)

func newCacheReader(in io.Reader, name string) (*cacheReader, error) {
	rows, err := record.NewReader[record.Module](in, record.ReaderOptions{Name: name})
	if err != nil {
		return nil, err
	}
	c := &cacheReader{name: name, ahead: make(chan page, maxPages), idle: make(chan []record.Module, maxPages)}
	for range maxPages {
		c.idle <- make([]record.Module, 0, pageRows)
	}
	go c.read(rows)
	if err := c.turn(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close returns when nobody reads the file.
func (c *cacheReader) Close() {
	close(c.idle)
	for range c.ahead {
	}
}

// read fills pages, and checks that the file ascends.
func (c *cacheReader) read(rows *record.Reader[record.Module]) {
	defer close(c.ahead)
	var last record.Module
	before := &last
	for buf := range c.idle {
		p := page{rows: buf[:0]}
		for len(p.rows) < pageRows {
			row := &buf[:pageRows][len(p.rows)]
			if p.err = rows.Read(row); p.err != nil {
				break
			}
			if before.Name != "" && compareRows(before, row) >= 0 {
				p.err = c.corrupt(row, errors.New("out of order"))
				break
			}
			p.rows = buf[:len(p.rows)+1]
			before = row
		}
		last = *before // the page is another's from now on
		before = &last
		if c.ahead <- p; p.err != nil {
			return
		}
	}
}

func (c *cacheReader) corrupt(row *record.Module, err error) error {
	return &fault.Error{Class: fault.Corrupt, File: c.name, Place: fmt.Sprintf("name %q", row.Name), Err: err}
}

// advance goes to the next row.
func (c *cacheReader) advance() error {
	if c.at++; c.at < len(c.page.rows) {
		c.row = &c.page.rows[c.at]
		return nil
	}
	return c.turn()
}

// turn goes to the next page's first row.
func (c *cacheReader) turn() error {
	if c.page.err == nil {
		if c.page.rows != nil {
			c.idle <- c.page.rows
		}
		c.page, c.at = <-c.ahead, 0
	}
	switch {
	case c.at < len(c.page.rows):
		c.row = &c.page.rows[c.at]
	case c.page.err == io.EOF:
		c.end = true
	default:
		return c.page.err
	}
	return nil
}

func compareRows(a, b *record.Module) int {
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}
