package fetch

import (
	"encoding/binary"
	"os"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// savedRows are the contacts that an earlier run of the transaction had archived. They
// stand on disk: memory holds the names of files.
type savedRows struct {
	dir   string
	files []string // relative to the store
	n     int64    // contacts, in order

	mu    sync.Mutex // guards what follows
	rows  *os.File   // savedRow by number; nil: there are none
	byURL table      // one more than the numbers of the first and the last that nobody took
}

// savedRow is where a group of records begins.
type savedRow struct {
	file int64 // index in files
	off  int64
	in   int64 // of a page, the input's row in the spool; none: it was not asked for
	next int64 // the number of the next with its role and URL; none: this is the last
}

const savedBytes = 4 * 8

func newSavedRows(dir string) *savedRows { return &savedRows{dir: dir, byURL: table{dir: dir}} }

func (s *savedRows) close() {
	if s.rows != nil {
		s.rows.Close()
	}
	s.byURL.close()
}

func savedID(role, url string) id { return idOf(role + " " + url) }

// add notes a contact, behind all others.
func (s *savedRows) add(role, url string, file int, off int64) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		if s.rows, err = merge.TempFile(s.dir); err != nil {
			return err
		}
	}
	n := s.n
	s.n++
	row := savedRow{file: int64(file), off: off, next: none}
	if role == record.RolePage {
		row.in = none
	}
	if err := s.put(n, row); err != nil {
		return err
	}
	i := savedID(role, url)
	ends, err := s.byURL.get(i)
	if err != nil {
		return err
	}
	if ends == (nums{}) {
		return s.byURL.put(i, nums{n + 1, n + 1})
	}
	last, err := s.row(ends[1] - 1)
	if err != nil {
		return err
	}
	last.next = n
	if err := s.put(ends[1]-1, last); err != nil {
		return err
	}
	return s.byURL.put(i, nums{ends[0], n + 1})
}

// take hands out the first contact of a role with a URL, once. in is noted of it.
func (s *savedRows) take(role, url string, in int64) (row savedRow, ok bool, err error) {
	if s.n == 0 {
		return row, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := savedID(role, url)
	ends, err := s.byURL.get(i)
	if err != nil || ends[0] == 0 {
		return row, false, err
	}
	n := ends[0] - 1
	if row, err = s.row(n); err != nil {
		return row, false, err
	}
	row.in = in
	if err := s.put(n, row); err != nil {
		return row, false, err
	}
	return row, true, s.byURL.put(i, nums{row.next + 1, ends[1]})
}

// at returns contact n.
func (s *savedRows) at(n int64) (savedRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row(n)
}

func (s *savedRows) row(n int64) (r savedRow, err error) {
	var b [savedBytes]byte
	_, err = s.rows.ReadAt(b[:], n*savedBytes)
	for k, x := range [...]*int64{&r.file, &r.off, &r.in, &r.next} {
		*x = int64(binary.LittleEndian.Uint64(b[8*k:]))
	}
	return r, err
}

func (s *savedRows) put(n int64, r savedRow) error {
	var b [savedBytes]byte
	for k, x := range [...]int64{r.file, r.off, r.in, r.next} {
		binary.LittleEndian.PutUint64(b[8*k:], uint64(x))
	}
	_, err := s.rows.WriteAt(b[:], n*savedBytes)
	return err
}
