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
	"mercator/pkg/fingerprint"
)

// The dns store holds files of role "cache" (SPEC.md): record streams of kind "module", one row
// a name, ascending by FP64 of the name and then by name, whose value is an entry. Of a name in
// several files the newest row counts, as long as it is valid. A batch reads
// each file once. When it commits, its answers become a new file, together with those files
// that are not mergeRatio times as large: so each file is more than that times as large as
// all newer ones, there are few, and an answer is written again a few times in all, not once
// a batch. What has expired is left out then.
const (
	StoreKind    = "dns"
	StoreVersion = 1
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
}

// appendTo appends the value of a row. Texts in which JSON escapes nothing, which is
// nearly all, need no stack for encoding/json: that was half the memory of goroutines.
func (e *entry) appendTo(b []byte) ([]byte, error) {
	texts := [...]string{e.Addr, "", e.Error, e.CNAME, e.Server, e.Family}
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
		if !asItIs[s[i]] {
			return false
		}
	}
	return true
}

// asItIs has the bytes that JSON writes as they are.
var asItIs = func() (is [256]bool) {
	for c := ' '; c <= '~'; c++ {
		is[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return is
}()

// parseEntry reads the value of a row, and refuses what SPEC.md says. Those that appendTo made
// have one shape, which is read here ten times as fast as by encoding/json: a warm cache is read
// at each round.
func parseEntry(value string) (entry, error) {
	if e, ok := quickEntry(value); ok {
		return e, nil
	}
	return parseAnyEntry(value)
}

// quickEntry says false of values that have another shape, or that break a rule.
func quickEntry(value string) (e entry, ok bool) {
	var expires string
	rest, sep := value, byte('{')
	for i, to := range [...]*string{&e.Addr, &expires, &e.Error, &e.CNAME, &e.Server, &e.Family} {
		if rest == "" || rest[0] != sep {
			break
		}
		text, found := strings.CutPrefix(rest[1:], entryFields[i])
		if !found {
			continue
		}
		end := strings.IndexByte(text, '"')
		if end < 0 {
			break
		}
		*to, rest, sep = text[:end], text[end+1:], ','
	}
	// Of the other texts check takes none that JSON would write in another way.
	if rest != "}" || !plain(e.CNAME) || !plain(e.Server) {
		return e, false
	}
	return e, e.check(expires) == nil
}

// parseAnyEntry reads a value of any shape. It stands alone since what json is given is
// on the heap.
func parseAnyEntry(value string) (e entry, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &members); err != nil {
		return e, err
	}
	var expires string
	for i, to := range [...]*string{&e.Addr, &expires, &e.Error, &e.CNAME, &e.Server, &e.Family} {
		name := entryFields[i][1 : len(entryFields[i])-len(`":"`)]
		text, found := members[name]
		if !found {
			continue
		}
		if text[0] != '"' {
			return e, fmt.Errorf("%s is %s, want a text", name, text)
		}
		if err := json.Unmarshal(text, to); err != nil {
			return e, err
		}
	}
	return e, e.check(expires)
}

// check takes expires in, and refuses what no answer says.
func (e *entry) check(expires string) (err error) {
	if e.Expires, err = parseTime(expires); err != nil {
		return fmt.Errorf("expires %q, want a time of RFC 3339 in UTC", expires)
	}
	for list, more := e.Addr, e.Addr != ""; more; {
		var text string
		text, list, more = strings.Cut(list, ",")
		addr, err := netip.ParseAddr(text)
		switch {
		case err != nil || addr.Zone() != "":
			return fmt.Errorf("addresses %q, want IP addresses with commas between them", e.Addr)
		case e.Family == "4" && !addr.Is4(), e.Family == "6" && addr.Is4():
			return fmt.Errorf("address %s in an answer of family %s", text, e.Family)
		}
	}
	switch {
	case e.Family != "" && e.Family != "4" && e.Family != "6":
		return fmt.Errorf("family %q, want 4 or 6", e.Family)
	case (e.Addr == "") == (e.Error == ""):
		return fmt.Errorf("addresses %q and error %q, want one of them", e.Addr, e.Error)
	case !isStatus(e.Error):
		return fmt.Errorf("error %q, want at most 32 lower-case letters and hyphens", e.Error)
	}
	return nil
}

// isStatus says whether a text can be the status of an answer, of a later version too.
func isStatus(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return len(s) <= 32
}

// entryFields are the names of an entry's fields, in their order, as JSON writes them before a text.
var entryFields = [...]string{`"addr":"`, `"expires":"`, `"error":"`, `"cname":"`, `"server":"`, `"family":"`}

// parseTime reads a time of RFC 3339 in UTC. The standard library's parser is slower, and takes
// hours of one digit and commas too.
func parseTime(s string) (t time.Time, err error) {
	const shape = "0000-00-00T00:00:00"
	last := len(s) - 1
	if last < len(shape) || s[last] != 'Z' {
		return t, errNoTime
	}
	var (
		year         = 100*twoDigits(s, 0) + twoDigits(s, 2)
		month, day   = twoDigits(s, 5), twoDigits(s, 8)
		hour, minute = twoDigits(s, 11), twoDigits(s, 14)
		second, nano = twoDigits(s, 17), 0
	)
	ok := s[4] == '-' && s[7] == '-' && s[10] == 'T' && s[13] == ':' && s[16] == ':' &&
		year >= 0 && 1 <= month && month <= 12 && 1 <= day && day <= 31 &&
		0 <= hour && hour <= 23 && 0 <= minute && minute <= 59 && 0 <= second && second <= 59
	if fraction := s[len(shape):last]; ok && fraction != "" {
		ok = fraction[0] == '.' && 2 <= len(fraction) && len(fraction) <= 10
		for i := 1; ok && i < 10; i++ {
			nano *= 10
			if i < len(fraction) {
				ok = '0' <= fraction[i] && fraction[i] <= '9'
				nano += int(fraction[i] - '0')
			}
		}
	}
	if !ok {
		return t, errNoTime
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nano, time.UTC)
	if day > 28 && t.Day() != day {
		return t, errNoTime
	}
	return t, nil
}

var errNoTime = errors.New("no time of RFC 3339 in UTC")

// twoDigits is a number of two digits. It is far below 0 if they are none.
func twoDigits(s string, at int) int {
	tens, ones := s[at]-'0', s[at+1]-'0'
	if tens > 9 || ones > 9 {
		return -1 << 20
	}
	return 10*int(tens) + int(ones)
}

// entryOf is an answer as the cache and rows tell it, with the order of addresses that was
// given.
func (r *Resolver) entryOf(a *Answer) entry {
	e := entry{Addr: FormatAddrs(a.Addrs), Error: a.Status, CNAME: a.CNAME, Server: a.Server, Expires: a.Expires.UTC().Truncate(time.Second)}
	if r.cfg.Family != "any" {
		e.Family = r.cfg.Family
	}
	return e
}

// usable makes of an entry of the store one for those who want addresses of r's family. It
// says false if those were not asked for, or there were none: whether that still holds is not known.
func (r *Resolver) usable(e *entry) (ok bool, err error) {
	if e.Family == r.cfg.Family || e.Family == "" && (r.cfg.Family == "any" || e.Error != StatusOK) {
		return true, nil
	}
	if e.Family != "" {
		return false, nil
	}
	addrs, err := parseAddrs(e.Addr)
	addrs = r.family(addrs)
	e.Addr = FormatAddrs(addrs)
	return len(addrs) > 0, err
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
		if err := c.load(r, now, only, put); err != nil {
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
			return nil, err
		}
		m.files = append(m.files, c)
	}
	m.choose()
	return m, nil
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

// cacheReader walks a cache file once, forward. Its record reader unpacks what comes next meanwhile.
type cacheReader struct {
	name string // for messages
	rows *record.Reader[record.Module]
	row  *record.Module   // until the next advance
	both [2]record.Module // that, and the one before it
	end  bool
}

func newCacheReader(in io.Reader, name string) (*cacheReader, error) {
	rows, err := record.NewReader[record.Module](in, record.ReaderOptions{Name: name, Kept: 2, Ahead: true})
	if err != nil {
		return nil, err
	}
	c := &cacheReader{name: name, rows: rows}
	return c, c.advance()
}

// advance goes to the next row.
func (c *cacheReader) advance() error {
	before, row := c.row, &c.both[0]
	if before == row {
		row = &c.both[1]
	}
	if err := c.rows.Read(row); err == io.EOF {
		c.end = true
		return nil
	} else if err != nil {
		return err
	}
	if before != nil && compareRows(before, row) >= 0 {
		return c.corrupt(row, errors.New("out of order"))
	}
	c.row = row
	return c.checkRow(row)
}

// checkRow refuses a row that is none of a cache, but for its value.
func (c *cacheReader) checkRow(row *record.Module) error {
	switch {
	case row.Module != moduleName:
		return c.corrupt(row, fmt.Errorf("a row of module %q, want %q", row.Module, moduleName))
	case row.Name == "" || row.Key != fingerprint.OfString(row.Name):
		return c.corrupt(row, fmt.Errorf("url_key %016x, want the FP64 of a name", row.Key))
	}
	return nil
}

func (c *cacheReader) corrupt(row *record.Module, err error) error {
	return &fault.Error{Class: fault.Corrupt, File: c.name, Place: fmt.Sprintf("name %q", row.Name), Err: err}
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
