package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"

	"github.com/zeebo/xxh3"

	"mercator/pkg/base/fault"
)

// A file of role "names" is a first line, and for each transaction
// "verb TAB name TAB generation TAB checkpoint".
const namesMagic = "mercator-store-names 1"

// nameLine is a line of it; checkpoint is 0 where none closed the round.
func nameLine(d *Done, checkpoint uint64) string {
	return fmt.Sprintf("%s\t%s\t%d\t%d\n", d.Verb, d.Txn, d.Generation, checkpoint)
}

// FindName looks for a transaction's name among the names of closed rounds.
func (s *Store) FindName(m *Manifest, txn string) (checkpoint uint64, found bool, err error) {
	for _, e := range m.Files {
		if e.Role != RoleNames {
			continue
		}
		err := s.readNames(e, func(line []byte) error {
			if !bytes.Contains(line, []byte(txn)) {
				return nil
			}
			name, n, err := parseName(line)
			if name == txn {
				checkpoint, found = n, true
			}
			return err
		})
		if found || err != nil {
			return checkpoint, found, err
		}
	}
	return 0, false, nil
}

// Names lists the transactions' names that a generation knows, oldest first, each once: of
// closed rounds, and of the open one. closedBy has the checkpoints of those that a names file knows.
func (s *Store) Names(m *Manifest) (names []string, closedBy map[string]uint64, err error) {
	closedBy = map[string]uint64{}
	add := func(txn string) {
		if len(names) == 0 || names[len(names)-1] != txn {
			names = append(names, txn)
		}
	}
	files := m.WithRole(RoleNames)
	sort.Slice(files, func(i, j int) bool { return files[i].Born < files[j].Born })
	for _, e := range files {
		err := s.readNames(e, func(line []byte) error {
			txn, checkpoint, err := parseName(line)
			add(txn)
			closedBy[txn] = checkpoint
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, d := range m.Done {
		add(d.Txn)
	}
	return names, closedBy, nil
}

// readNames calls each with every line of a names file, and then checks its sum.
func (s *Store) readNames(e Entry, each func(line []byte) error) error {
	f, err := s.OpenFile(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	return decodeNames(s.Path(e.Path), f, e.Sum, each)
}

const maxNameLine = 256 // bytes

func decodeNames(file string, in io.Reader, sum string, each func(line []byte) error) error {
	corrupt := func(place string, err error) error {
		return &fault.Error{Class: fault.Corrupt, File: file, Place: place, Err: err}
	}
	hash := xxh3.New()
	scan := bufio.NewScanner(io.TeeReader(in, hash))
	scan.Buffer(make([]byte, 4<<10), 0)
	for n := 1; ; n++ {
		more, line := scan.Scan(), scan.Bytes()
		var err error
		switch {
		case len(line) >= maxNameLine, errors.Is(scan.Err(), bufio.ErrTooLong):
			err = fmt.Errorf("no end of line within %d bytes", maxNameLine)
		case scan.Err() != nil:
			return scan.Err()
		case !more:
		case n > 1:
			err = each(line)
		case string(line) != namesMagic:
			err = fmt.Errorf("%q, want %q", clip(string(line)), namesMagic)
		}
		if err != nil {
			return corrupt(fmt.Sprintf("line %d", n), err)
		}
		if !more {
			break
		}
	}
	if have := HexSum(hash); have != sum {
		return corrupt("whole file", fmt.Errorf("checksum %s, want %s", have, sum))
	}
	return nil
}

// parseName reads a line of a names file.
func parseName(line []byte) (txn string, checkpoint uint64, err error) {
	field := bytes.Split(line, []byte("\t"))
	if len(field) != 4 {
		return "", 0, fmt.Errorf("%d fields, want 4", len(field))
	}
	checkpoint, err = strconv.ParseUint(string(field[3]), 10, 64)
	return string(field[1]), checkpoint, err
}
