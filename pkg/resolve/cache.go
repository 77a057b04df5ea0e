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
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/merge"
)

// The dns store's files of role "cache" are sorted runs (formats/run) of kind "addrs". A row's key is
// the FP64 of a name, and its payload the byte form of a url row: host is the name; addr,
// addr_expires and addr_error are as in the stream; via is the canonical name where that is another, and of a failure
// the servers that were asked (Resolver.asked), since other servers may know better;
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
	KindAnswers  = "addrs" // kind of the cache's runs
)

// Bounds of what a commit merges.
const (
	mergeRatio = 3
	mergeFloor = 1000 // answers: fewer count as this many
)

// CreateStore makes an empty dns store.
func CreateStore(dir string, opt store.Options) error {
	return store.Create(dir, StoreKind, StoreVersion, nil, opt)
}

// appendAnswer appends a row's payload.
func appendAnswer(b []byte, key uint64, name string, a *answer, family uint8, asked string) []byte {
	via := a.cname
	if a.status != StatusOK {
		via = asked
	}
	return record.AppendRow(b, &record.URL{Key: key, Host: name, Via: via, Priority: family,
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
	addrs, err := parseAddrs(row.Addr)
	for _, a := range addrs {
		if row.Priority == 4 && !a.Is4() || row.Priority == 6 && a.Is4() {
			return fmt.Errorf("address %s in an answer of family %d", a, row.Priority)
		}
	}
	return err
}

// parseAddrs reads column addr.
func parseAddrs(list string) (addrs []netip.Addr, err error) {
	for rest, more := list, list != ""; more; {
		var s string
		s, rest, more = strings.Cut(rest, ",")
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("addresses %q, want IP addresses with commas between them", list)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// usable makes of a row one for those who want addresses of r's family. It says false if those
// were not asked for, or there were none: whether that still holds is not known. Nor is a failure of other servers.
func (r *Resolver) usable(row *record.URL) bool {
	if row.AddrError != StatusOK && row.Via != r.asked {
		return false
	}
	if row.Priority != 0 || r.family() == 0 || row.AddrError != StatusOK {
		return row.Priority == r.family() || row.Priority == 0
	}
	addrs, _ := parseAddrs(row.Addr)
	row.Addr = FormatAddrs(r.wanted(addrs))
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
	own  bool // written by this process: its rows are not checked; rows of a Replay are whatever was saved
}

// openFile opens a file of size bytes.
func openFile(f interface {
	io.ReaderAt
	io.Closer
}, length int64, name string) (cacheFile, error) {
	r, err := run.Open(f, length, name, KindAnswers)
	return cacheFile{name: name, file: f, run: r}, err
}

// openCache opens the cache of a generation of a store.
func openCache(st *store.Store, m *store.Manifest) (files cacheFiles, err error) {
	defer func() {
		if err != nil {
			files.Close()
		}
	}()
	for _, e := range m.Files {
		if e.Role != roleCache {
			continue
		}
		f, err := st.OpenFile(e.Path)
		if err != nil {
			return files, err
		}
		c, err := openFile(f, e.Length, st.Path(e.Path))
		if err != nil {
			f.Close()
			return files, err
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

// parse reads the row of a payload. row shares the payload's memory.
func (f *cacheFile) parse(key uint64, payload []byte, row *record.URL) error {
	n, err := record.ViewRow(payload, row, nil)
	if err == nil && n != len(payload) {
		err = fmt.Errorf("%d bytes behind a row", len(payload)-n)
	}
	if err == nil && !f.own {
		err = checkAnswer(key, row)
	}
	if err != nil {
		return f.corrupt(key, err)
	}
	return nil
}

func (f *cacheFile) corrupt(key uint64, err error) error {
	return &fault.Error{Class: fault.Corrupt, File: f.name, Place: fmt.Sprintf("key %016x", key), Err: err}
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

// search gives take the file's rows of the names of t, which are sorted, and returns the names for which
// it has no row that take accepts.
func (f *cacheFile) search(t *table, names []sought, take func(n uint32, row *record.URL) bool) (left []sought, err error) {
	rows := f.run.Scan(run.Start)
	var row record.URL // the row that was read last
	var key uint64     // key of row
	read, end := false, false
	left = names[:0]
	for _, s := range names {
		name := t.name(s.number)
		for !end && (!read || key < s.key || key == s.key && row.Host < name) {
			var payload []byte
			if key, payload, err = rows.Seek(s.key); err == io.EOF {
				end = true
				break
			}
			if err == nil {
				err = f.parse(key, payload, &row) // the scanner does not use its memory again
			}
			if err != nil {
				return nil, err
			}
			read = true
		}
		if end || key != s.key || row.Host != name || !take(s.number, &row) {
			left = append(left, s)
		}
	}
	return left, nil
}

// byName orders payloads of one key.
func byName(a, b []byte) int {
	var first, second record.URL
	_, err1 := record.ViewRow(a, &first, nil)
	_, err2 := record.ViewRow(b, &second, nil)
	if err1 != nil || err2 != nil {
		return 0 // merge tells
	}
	return strings.Compare(first.Host, second.Host)
}

// merge writes the rows that are valid after now into one run. Of a name the newest counts.
func (files cacheFiles) merge(w *run.Writer, now record.Time) error {
	var newest []*run.Scanner
	for i := range files {
		newest = append(newest, files[len(files)-1-i].run.Scan(run.Start))
	}
	rows, err := merge.Runs(newest, byName)
	if err != nil {
		return err
	}
	var row record.URL
	last := struct {
		key  uint64
		name []byte
		from int
	}{from: -1}
	return rows.Each(func(key uint64, payload []byte) error {
		f := &files[len(files)-1-rows.From()]
		if err := f.parse(key, payload, &row); err != nil {
			return err
		}
		again := key == last.key && row.Host == string(last.name)
		if again && rows.From() == last.from || key == last.key && row.Host < string(last.name) {
			return f.corrupt(key, errors.New("out of order"))
		}
		last.key, last.name, last.from = key, append(last.name[:0], row.Host...), rows.From()
		if again || row.AddrExpires <= now {
			return nil
		}
		return w.Add(key, payload)
	})
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
	return cmp.Or(slices.Concat(files[kept:], l.runs).merge(w, now), w.Close(), f.Close())
}
