package history

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// maxHops bounds the redirects in a row that are followed. A crawl stops there, too.
const maxHops = 20

// Why a link is broken, beside statuses and outcomes.
const (
	FailureLoop  = "redirect-loop"  // a redirect leads back to a URL of its chain
	FailureLimit = "redirect-limit" // there are more than 20 redirects in a row
	FailureURL   = "redirect-url"   // a redirect names no target, or one that is no URL
)

// redirects follow chains of redirects to their ends, in passes over what is known of URLs: one for each redirect in a row.
type redirects struct {
	mem   int64
	known *merge.Sorter // by key: entries, of redirects and of failures; other URLs end a chain well
	heads *merge.Sorter // by key of the last URL: chains
	buf   []byte
	any   bool // there are heads
}

func newRedirects(mem int64) *redirects {
	return &redirects{mem: mem, known: merge.NewSorter(mem/4, ""), heads: merge.NewSorter(mem/4, "")}
}

// close frees what is sorted. It may be called again.
func (s *redirects) close() error { return errors.Join(s.known.Close(), s.heads.Close()) }

// hop is a URL of a chain.
type hop struct {
	key uint64
	url string
}

// chain is a URL that is redirected, by a number of the caller's, and all that it leads to.
type chain struct {
	id   uint64
	seed bool
	hops []hop
}

func (c *chain) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.id)
	if b = append(b, 0); c.seed {
		b[len(b)-1] = 1
	}
	for _, h := range c.hops {
		b = record.AppendText(binary.LittleEndian.AppendUint64(b, h.key), h.url)
	}
	return b
}

func chainOf(payload []byte) (c chain) {
	c.id, c.seed = binary.LittleEndian.Uint64(payload), payload[8] == 1
	for rest := string(payload[9:]); rest != ""; {
		h := hop{key: binary.LittleEndian.Uint64([]byte(rest[:8]))}
		h.url, rest = record.CutText(rest[8:])
		c.hops = append(c.hops, h)
	}
	return c
}

// redirect says that a URL leads to another, and failure that it failed, with a row of the caller's.
func (s *redirects) redirect(key uint64, to hop) error {
	s.buf = binary.LittleEndian.AppendUint64(append(s.buf[:0], 0), to.key)
	return s.known.Add(key, record.AppendText(s.buf, to.url))
}

func (s *redirects) failure(key uint64, row []byte) error {
	s.buf = append(append(s.buf[:0], 1), row...)
	return s.known.Add(key, s.buf)
}

// follow asks where a chain leads to behind its last hop.
func (s *redirects) follow(c *chain) error {
	s.any = true
	s.buf = c.append(s.buf[:0])
	return s.heads.Add(c.hops[len(c.hops)-1].key, s.buf)
}

// ends gives each chain to end, which gets the row of the failure at its end, or a name of one above, or neither; the first hop
// is the URL itself. It gives single the URLs that fail themselves.
func (s *redirects) ends(single func(key uint64, row []byte) error, end func(c *chain, row []byte, failure string) error) (err error) {
	defer func() { err = errors.Join(err, s.close()) }()
	for pass := 0; s.any || pass == 0; pass++ {
		known, err := s.known.Sort()
		if err != nil {
			return err
		}
		heads, err := s.heads.Sort()
		if err != nil {
			return err
		}
		next := newRedirects(s.mem)
		err = join(known.Next, heads.Next, func(key uint64, entry []byte) error {
			if pass == 0 && single != nil && entry[0] == 1 {
				if err := single(key, entry[1:]); err != nil {
					return err
				}
			}
			return next.known.Add(key, entry)
		}, func(entry, head []byte) error {
			c := chainOf(head)
			last := len(c.hops) - 1
			switch {
			case slices.ContainsFunc(c.hops[:last], func(h hop) bool { return h.key == c.hops[last].key }):
				return end(&c, nil, FailureLoop)
			case last > maxHops:
				return end(&c, nil, FailureLimit)
			case entry == nil:
				return end(&c, nil, "")
			case entry[0] == 1:
				return end(&c, entry[1:], "")
			}
			to := hop{key: binary.LittleEndian.Uint64(entry[1:])}
			to.url, _ = record.CutText(string(entry[9:]))
			c.hops = append(c.hops, to)
			return next.follow(&c)
		})
		if err = errors.Join(err, s.close()); err != nil {
			return errors.Join(err, next.close())
		}
		*s = *next
	}
	return nil
}

// Finals follows the redirects of rows of pages, and calls use with what it found: by the number of the row among those of pages, from 0 in the order
// of the files, where the chain ends by what became last of each URL. Chains without an end are left out. redirect is as in Links; nil: the files may be
// of several crawls, and URLs are told apart as they stand.
func Finals(files []string, mem int64, redirect Target, use func(*merge.Iter) error) (err error) {
	s := newRedirects(mem / 2)
	defer func() { err = errors.Join(err, s.close()) }()
	finals := merge.NewSorter(mem/4, "")
	defer func() { err = errors.Join(err, finals.Close()) }()
	key := func(r *record.Fetch) uint64 { return r.Key }
	if redirect == nil {
		key = func(r *record.Fetch) uint64 { return xxh3.HashString(r.URL) }
	}
	target := func(r *record.Fetch) hop {
		if redirect != nil {
			if url, key, ok := redirect(r); ok {
				return hop{key, url}
			}
		}
		return hop{xxh3.HashString(r.RedirectURL), r.RedirectURL}
	}
	if err := eachLast(files, mem/4, key, func(r *record.Fetch) error {
		if r.Outcome != record.OutcomeFetched || r.RedirectURL == "" {
			return nil
		}
		return s.redirect(key(r), target(r))
	}); err != nil {
		return err
	}
	number := uint64(0)
	for _, file := range files {
		if err := Read(file, func(r *record.Fetch) error {
			if !r.OfPage() {
				return nil
			}
			if number++; r.RedirectURL == "" {
				return nil
			}
			return s.follow(&chain{id: number - 1, hops: []hop{{key: key(r)}, target(r)}})
		}); err != nil {
			return err
		}
	}
	err = s.ends(nil, func(c *chain, _ []byte, failure string) error {
		if failure != "" {
			return nil
		}
		return finals.Add(c.id, []byte(c.hops[len(c.hops)-1].url))
	})
	if err != nil {
		return err
	}
	it, err := finals.Sort()
	if err != nil {
		return err
	}
	return use(it)
}

// join merges two sorted lists; the first has each key once. one gets each row of the first, both gets each row of the second with the
// row of the same key in the first, or nil.
func join(a, b func() (uint64, []byte, error), one func(key uint64, row []byte) error, both func(of, row []byte) error) error {
	keyA, rowA, errA := a()
	keyB, rowB, errB := b()
	for errA == nil || errB == nil {
		var err error
		switch {
		case errB == nil && (errA != nil || keyB < keyA):
			err = both(nil, rowB)
			if err == nil {
				keyB, rowB, errB = b()
			}
		default:
			key, of := keyA, slices.Clone(rowA)
			err = one(key, of)
			for err == nil && errB == nil && keyB == key {
				if err = both(of, rowB); err == nil {
					keyB, rowB, errB = b()
				}
			}
			if err == nil {
				keyA, rowA, errA = a()
			}
		}
		if err != nil {
			return err
		}
		if errA != nil && errA != io.EOF {
			return errA
		}
		if errB != nil && errB != io.EOF {
			return errB
		}
	}
	return errors.Join(only(errA), only(errB))
}

// only is an error that is not the end.
func only(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
