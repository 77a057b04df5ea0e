package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// The dns store's files of role "cache" are sorted runs (formats/run) of kind "addrs". A row's key is
// the FP64 of a name, and its payload the byte form of a url row: host is the name; addr,
// addr_expires and addr_error are as in the stream; via is the canonical name where that is another;
// priority is 4 or 6 where only addresses of that family were asked for. Rows of one key ascend by name.
//
// Of a name in several files the newest row counts, as long as it is valid. When a batch commits, its
// answers become a new file, together with the newest files that are not mergeRatio times as
// large: so there are few files, and an answer is written again a few times in all. What has
// expired is left out then.
const (
	StoreKind    = "dns"
	StoreVersion = 1
	roleCache    = "cache"
	KindAnswers  = "addrs" // of these runs
)

// Bounds of what a commit merges.
const (
	mergeRatio = 3
	mergeFloor = 1000 // answers: fewer count as so many
)

// CreateStore makes an empty dns store.
func CreateStore(dir string, opt store.Options) error {
	return store.Create(dir, StoreKind, StoreVersion, nil, opt)
}

// appendAnswer appends a row's payload.
func appendAnswer(b []byte, key uint64, name string, a *answer, family uint8) []byte {
	return record.AppendRow(b, &record.URL{Key: key, Host: name, Via: a.cname, Priority: family,
		Addr: a.addr, AddrExpires: a.expires, AddrError: a.status})
}

// checkAnswer refuses what no answer says.
func checkAnswer(key uint64, row *record.URL) error {
	if row.Host == "" || key != fingerprint.OfString(row.Host) {
		return fmt.Errorf("key %016x, want the FP64 of a name", key)
	}
	if f := row.Priority; f != 0 && f != 4 && f != 6 {
		return fmt.Errorf("family %d, want 4 or 6, or 0 for both", f)
	}
	if (row.Addr == "") == (row.AddrError == "") || row.AddrExpires == 0 {
		return fmt.Errorf("addresses %q, error %q and expiry %d, want a time, and one of the others", row.Addr, row.AddrError, row.AddrExpires)
	}
	return eachAddr(row.Addr, func(a netip.Addr) error {
		if row.Priority == 4 && !a.Is4() || row.Priority == 6 && a.Is4() {
			return fmt.Errorf("address %s in an answer of family %d", a, row.Priority)
		}
		return nil
	})
}

// parseAddrs reads column addr.
func parseAddrs(list string) (addrs []netip.Addr, err error) {
	err = eachAddr(list, func(a netip.Addr) error {
		addrs = append(addrs, a)
		return nil
	})
	return addrs, err
}

// eachAddr calls take for each address of column addr, up to its first error.
func eachAddr(list string, take func(netip.Addr) error) error {
	for rest, more := list, list != ""; more; {
		var s string
		s, rest, more = strings.Cut(rest, ",")
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf("addresses %q, want IP addresses with commas between them", list)
		}
		if err := take(a); err != nil {
			return err
		}
	}
	return nil
}

// usable makes of a row one for those who want addresses of r's family. It says false if those
// were not asked for, or there were none: whether that still holds is not known.
func (r *Resolver) usable(row *record.URL) bool {
	if row.Priority != 0 || r.family() == 0 || row.AddrError != StatusOK {
		return row.Priority == r.family() || row.Priority == 0
	}
	addrs, _ := parseAddrs(row.Addr)
	row.Addr = FormatAddrs(r.ofFamily(addrs))
	return row.Addr != ""
}

// cacheFiles are sorted runs of answers, oldest first.
type cacheFiles []cacheFile

type cacheFile struct {
	path string // in the store
	born uint64
	name string // for messages
	file io.Closer
	run  *run.Reader
	own  bool // written by this process: its rows are not checked; those of a Replay are whatever was saved
}

// openFile opens a file of so many bytes.
func openFile(f interface {
	io.ReaderAt
	io.Closer
}, length int64, name string) (cacheFile, error) {
	r, err := run.Open(f, length, name, KindAnswers)
	return cacheFile{name: name, file: f, run: r}, err
}

// openCache opens the cache of a generation of a store.
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
		c, err := openFile(f, e.Length, st.Path(e.Path))
		if err != nil {
			f.Close()
			files.Close()
			return nil, err
		}
		c.path, c.born = e.Path, e.Born
		files = append(files, c)
	}
	slices.SortFunc(files, func(a, b cacheFile) int { return cmp.Compare(a.born, b.born) })
	return files, nil
}

func (files cacheFiles) Close() {
	for _, f := range files {
		f.file.Close()
	}
}

// cursor walks the rows of a file, forward.
type cursor struct {
	name    string
	own     bool // as of cacheFile
	age     int  // larger is newer
	scan    *run.Scanner
	key     uint64
	payload []byte
	row     record.URL
	parsed  bool // row is the payload's
	end     bool
}

func newCursor(f *cacheFile) *cursor {
	return &cursor{name: f.name, own: f.own, scan: f.run.Scan(run.Start)}
}

// next goes to the next row.
func (c *cursor) next() error { return c.at(c.scan.Next()) }

// seek goes to the next row whose key is at least key.
func (c *cursor) seek(key uint64) error { return c.at(c.scan.Seek(key)) }

func (c *cursor) at(key uint64, payload []byte, err error) error {
	last, name := c.key, ""
	if c.parsed {
		name = c.row.Host
	}
	c.key, c.payload, c.parsed = key, payload, false
	if err == io.EOF {
		c.end = true
		return nil
	}
	if err == nil && name != "" && key == last { // names of one FP64 can be made on purpose
		if err = c.parse(); err == nil && c.row.Host <= name {
			err = c.corrupt(errors.New("out of order"))
		}
	}
	return err
}

// parse reads the row's payload.
func (c *cursor) parse() error {
	if c.parsed {
		return nil
	}
	n, err := record.ViewRow(c.payload, &c.row, nil) // the scanner does not use its memory again
	if err == nil && n != len(c.payload) {
		err = fmt.Errorf("%d bytes behind a row", len(c.payload)-n)
	}
	if err == nil && !c.own {
		err = checkAnswer(c.key, &c.row)
	}
	if err != nil {
		return c.corrupt(err)
	}
	c.parsed = true
	return nil
}

func (c *cursor) corrupt(err error) error {
	return &fault.Error{Class: fault.Corrupt, File: c.name, Place: fmt.Sprintf("key %016x", c.key), Err: err}
}

// sought is a name of a table, with the FP64 of it. It has no pointers: many are sorted.
type sought struct {
	key    uint64
	number uint32
}

// sorted are names in the order of a file.
func (t *table) sorted(numbers []uint32) []sought {
	all := make([]sought, len(numbers))
	for i, n := range numbers {
		all[i] = sought{fingerprint.OfString(t.name(n)), n}
	}
	slices.SortFunc(all, func(a, b sought) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return strings.Compare(t.name(a.number), t.name(b.number))
	})
	return all
}

// search gives take what the file knows of names of t, which are sorted, and returns those of which
// it knows nothing that take accepts.
func (f *cacheFile) search(t *table, names []sought, take func(n uint32, row *record.URL) bool) (left []sought, err error) {
	c := newCursor(f)
	left = names[:0]
	if len(names) > 0 {
		err = c.seek(names[0].key)
	}
	for i := 0; i < len(names) && err == nil; {
		s := names[i]
		found := -1 // the row against the name
		if c.end || c.key > s.key {
			found = 1
		} else if c.key == s.key {
			if err = c.parse(); err != nil {
				break
			}
			found = strings.Compare(c.row.Host, t.name(s.number))
		}
		switch {
		case found < 0 && c.key < s.key:
			err = c.seek(s.key)
		case found < 0:
			err = c.next()
		default:
			if found > 0 || !take(s.number, &c.row) {
				left = append(left, s)
			}
			i++
		}
	}
	return left, err
}

// merge writes the rows that are valid after now into one run. Of a name the newest counts.
func (files cacheFiles) merge(w *run.Writer, now record.Time) error {
	heads := merge.NewHeap(func(a, b **cursor) bool { return (*a).before(*b) })
	for i := range files {
		c := newCursor(&files[i])
		c.age = i
		if err := c.step(); err != nil {
			return err
		}
		if !c.end {
			heads.Push(c)
		}
	}
	for key, name := uint64(0), ""; heads.Len() > 0; {
		c := *heads.First()
		if (c.key != key || c.row.Host != name) && c.row.AddrExpires > now {
			if err := w.Add(c.key, c.payload); err != nil {
				return err
			}
		}
		key, name = c.key, c.row.Host
		if err := c.step(); err != nil {
			return err
		}
		if c.end {
			heads.Pop()
		} else {
			heads.Fix()
		}
	}
	return nil
}

// step goes to the next row, and parses it.
func (c *cursor) step() error {
	if err := c.next(); err != nil || c.end {
		return err
	}
	return c.parse()
}

// before says which row comes first: of a name, the newest.
func (c *cursor) before(d *cursor) bool {
	return cmp.Or(cmp.Compare(c.key, d.key), strings.Compare(c.row.Host, d.row.Host), d.age-c.age) < 0
}

// large is how many of the files, the oldest, are more than ratio times as large as all behind them, and so many
// rows, together. Where the others are merged, and rows keep coming, a row is merged again a few times in all.
func (files cacheFiles) large(rows, ratio uint64) int {
	n := len(files)
	for n > 0 && files[n-1].run.Rows() <= ratio*rows {
		n--
		rows += files[n].run.Rows()
	}
	return n
}

// commit puts what was learnt into a new cache file, with those files of the store that it is
// time to merge.
func commit(tx *store.Tx, st *store.Store, l *learnt, now record.Time) error {
	files, err := openCache(st, tx.Base())
	if err != nil {
		return err
	}
	defer files.Close()
	rows := uint64(0)
	for _, f := range l.runs {
		rows += f.run.Rows()
	}
	kept := files.large(max(rows, mergeFloor), mergeRatio)
	for _, f := range files[kept:] {
		tx.Drop(f.path)
	}
	f, err := tx.Create("cache/", ".run", roleCache)
	if err != nil {
		return err
	}
	w := run.NewWriter(f, KindAnswers)
	w.Plain() // twice as large, but to unpack it took a quarter of a warm batch's processor time
	if err := slices.Concat(files[kept:], l.runs).merge(w, now); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
