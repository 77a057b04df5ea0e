// Package history tells from the record files of a crawl's rounds what became of each URL: which were refused and not
// followed, which are to be fetched again, where redirects end, and which links lead to a failure.
//
// # Invariants
//
//   - What happened last to a URL decides; files are given in the order of the rounds.
//   - Each URL or link comes out once, in the order of what decided about it.
//   - Memory is what the caller grants: rows are sorted in temporary files.
package history

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// What is the kind of the rows in a file.
type What byte

// The kinds of files.
const (
	Queued  What = iota + 1 // url records of URLs that went into the queue: new, again
	Dropped                 // url records of URLs that left it because a rule refused them: dropped
	Fetched                 // fetch records of what became of URLs: marked, fetched
	Refused                 // link records that were refused: refused
	Found                   // link records that were followed: links
	listed                  // of a query
	waits                   // URL records of the frontier
)

// File is one record file of a round.
type File struct {
	Path string
	What What
}

// RefusedColumn is the further column of rows of Dropped and Refused: the ledger's reason, such as filter:docs of rule docs.
const RefusedColumn = "refused"

// refusedBy reports whether a reason, or one of several that it may be, is this or that of a filter rule of this name. rule may name several, too.
func refusedBy(reason, rule string) bool {
	of := strings.Split(reason, ReasonOr)
	return slices.ContainsFunc(strings.Split(rule, ReasonOr), func(name string) bool { return reason == "filter:"+name || slices.Contains(of, name) })
}

// sorting are events of URLs that are being sorted.
type sorting struct {
	mem    int64
	events *merge.Sorter // by a hash of the URL, in order of arrival: number, kind, URL, further bytes
	number uint64
	buf    []byte
}

func newSorting(mem int64) *sorting { return &sorting{mem: mem, events: merge.NewSorter(mem/2, "")} }

func (s *sorting) addEvent(kind What, url string, further func([]byte) []byte) error {
	s.number++
	s.buf = append(binary.AppendUvarint(s.buf[:0], s.number), byte(kind))
	s.buf = record.AppendText(s.buf, url)
	if further != nil {
		s.buf = further(s.buf)
	}
	h := sha256.Sum256([]byte(url))
	return s.events.Add(binary.BigEndian.Uint64(h[:]), s.buf)
}

// event is one of them.
type event struct {
	number  uint64
	kind    What
	url     string
	further string
}

// fold folds the events of each URL into a state, in their order, and gives end each state, in the order of the numbers
// that it returns with rows: 0 leaves a URL out. States are small.
func fold[S any](s *sorting, step func(*S, *event), end func(url string, of *S) (number uint64, row []byte), out func(row []byte) error) (err error) {
	defer func() { err = errors.Join(err, s.events.Close()) }()
	it, err := s.events.Sort()
	if err != nil {
		return err
	}
	rows := merge.NewSorter(s.mem/2, "")
	defer func() { err = errors.Join(err, rows.Close()) }()
	type one struct {
		url   string
		state *S
	}
	var urls []one // of one hash
	var key uint64
	finish := func() error {
		for _, u := range urls {
			if number, row := end(u.url, u.state); number > 0 {
				if err := rows.Add(number, row); err != nil {
					return err
				}
			}
		}
		urls = urls[:0]
		return nil
	}
	if err := it.Each(func(k uint64, payload []byte) error {
		if k != key {
			if err := finish(); err != nil {
				return err
			}
			key = k
		}
		number, n := binary.Uvarint(payload)
		e := event{number: number, kind: What(payload[n])}
		e.url, e.further = record.CutText(string(payload[n+1:]))
		i := slices.IndexFunc(urls, func(u one) bool { return u.url == e.url })
		if i < 0 {
			i, urls = len(urls), append(urls, one{e.url, new(S)})
		}
		step(urls[i].state, &e)
		return nil
	}); err != nil {
		return err
	}
	if err := finish(); err != nil {
		return err
	}
	sorted, err := rows.Sort()
	if err != nil {
		return err
	}
	return sorted.Each(func(_ uint64, row []byte) error { return out(row) })
}

// Read calls each for the rows of a file.
func Read[T record.Row](path string, each func(*T) error) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	rows, err := record.NewReader[T](in, record.ReaderOptions{Name: path})
	if err != nil {
		return err
	}
	return record.Each(rows, each)
}
