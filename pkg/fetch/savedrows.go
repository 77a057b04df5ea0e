package fetch

import (
	"encoding/binary"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// savedRows are the contacts that an earlier run of the transaction had archived. They
// stand on disk, found by role and URL: memory holds the names of files, and a bit of each.
type savedRows struct {
	files []string // relative to the store
	n     int64    // contacts, in order
	rows  unsorted // until all are there

	mu    sync.Mutex // guards what follows
	byURL levels
	taken []uint64
}

// savedRow is where a contact's group of records begins.
type savedRow struct {
	n    int64 // number of the contact
	file int64 // index in files
	off  int64
	page bool
}

func newSavedRows(dir string) *savedRows { return &savedRows{byURL: levels{dir: dir, kind: "saved"}} }

func (s *savedRows) close() {
	if s.rows.Sorter != nil {
		s.rows.Close()
	}
	s.byURL.close()
}

func savedID(role, url string) id { return idOf(role + " " + url) }

func (r *savedRow) append(b []byte) []byte {
	for _, x := range [...]int64{r.n, r.file, r.off} {
		b = binary.BigEndian.AppendUint64(b, uint64(x))
	}
	if r.page {
		return append(b, 1)
	}
	return append(b, 0)
}

// parseSavedRow also returns what stands behind it.
func parseSavedRow(b []byte) (r savedRow, rest []byte) {
	for _, x := range [...]*int64{&r.n, &r.file, &r.off} {
		*x, b = int64(binary.BigEndian.Uint64(b)), b[8:]
	}
	r.page = b[0] == 1
	return r, b[1:]
}

// addContact notes a contact, behind all others.
func (s *savedRows) addContact(role, url string, file int, off int64) error {
	if s.rows.Sorter == nil {
		s.rows.Sorter = merge.NewSorter(sortMemory, s.byURL.dir)
	}
	row := savedRow{s.n, int64(file), off, role == record.RolePage}
	s.n++
	return s.rows.addRow(savedID(role, url), row.append)
}

// sortContacts is called when all are there.
func (s *savedRows) sortContacts() error {
	if s.n == 0 {
		return nil
	}
	defer s.rows.Close()
	s.taken = make([]uint64, s.n/64+1)
	return s.rows.addRunTo(&s.byURL)
}

// takeContact hands out the first contact of a role with a URL, once.
func (s *savedRows) takeContact(role, url string) (row savedRow, ok bool, err error) {
	if s.n == 0 {
		return row, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.byURL.find(savedID(role, url), func(value []byte) bool {
		row, _ = parseSavedRow(value)
		ok = s.taken[row.n/64]>>(row.n%64)&1 == 0
		return ok
	})
	if ok {
		s.taken[row.n/64] |= 1 << (row.n % 64)
	}
	return row, ok && err == nil, err
}

// robots calls f with the contacts that were for no page.
func (s *savedRows) robots(f func(row savedRow) error) error {
	return s.byURL.each(func(value []byte) error {
		if row, _ := parseSavedRow(value); !row.page {
			return f(row)
		}
		return nil
	})
}
