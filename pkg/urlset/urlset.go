// Package urlset is the URL-seen test: a set of URL checksums, and the batch
// that finds the URLs of a round that were never seen.
//
// It stands on package fpset, whose sets it shares; only the keys and the batch
// differ. A batch is buffered whole, as in the duplicate URL eliminator of
// SRC-RR-173: the rows wait in a temporary file, the keys alone are sorted, one
// sequential pass asks the set for all of them, and the unseen rows go on in
// order of arrival.
//
// # Invariants
//
//   - Of the rows of one URL, in a batch and in all batches before, exactly the
//     first goes on.
//   - Rows go on in order of arrival.
//   - Memory is bounded by what the caller grants, whatever the batch and the set.
//   - Answers do not depend on memory, batch size, or the number of runs.
//
// # False answers
//
// Two URLs of one checksum are one URL to the set. With n URLs on a host whose
// 16 high bits no other large host shares, n²/2⁴⁹ answers are expected to be
// falsely "seen": 0.2 for 10⁷ URLs of one host. Over a whole crawl, the sum of n²
// over the 2¹⁶ values of the high bits, divided by 2⁴⁹.
package urlset

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fingerprint"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
	"mercator/pkg/stage"
)

// The store of URL checksums.
const (
	Kind    = "urls"
	Version = fpset.Version
)

// ReasonSeen is the reason under which the books count URLs that were seen before.
const ReasonSeen = "seen"

// Create makes an empty set of URL checksums in a new store.
func Create(dir string, opt store.Options) error { return fpset.CreateKind(dir, Kind, opt) }

// Stats counts what New did.
type Stats struct {
	CacheLookups uint64 `json:"cache_lookups"` // of the cache of popular URLs
	CacheHits    uint64 `json:"cache_hits"`
	Keys         uint64 `json:"keys"`  // distinct URL checksums of the batch, those that fell out of the cache again included
	Fresh        uint64 `json:"fresh"` // of those, never seen before
}

// FromLink makes the url row of a link.
func FromLink(l *record.Link, u *record.URL) {
	*u = record.URL{URL: l.URL, Key: l.Key, Host: l.Host, Depth: l.Depth, Via: l.SrcURL,
		Discovered: l.Discovered, Score: l.Score}
}

// FromURL takes a url row as it is.
func FromURL(in, u *record.URL) { *u = *in }

// KeyOf returns the row's URL checksum, which is made if the row has none.
func KeyOf(u *record.URL) uint64 {
	if u.Key == 0 {
		return fingerprint.URLKey(u.Host, u.URL)
	}
	return u.Key
}

// Options of New.
type Options[In record.Row] struct {
	Convert  func(*In, *record.URL) // makes a url row of an input row: FromLink, FromURL
	Like     *record.Schema         // of an input of url rows, whose unknown columns are passed on; else nil
	Quiet    bool                   // fresh rows are consumed instead of passed on
	Memory   int64                  // bytes, about
	Progress func(n int64)          // is told of rows read
}

// New is the body of the stages "murlset new" and "murlset add", which must have
// LateLock: it passes on the rows whose URL is not in the set of st, makes those
// URLs part of the set, and drops the others. Rows wait in temporary files.
func New[In record.Row](ctx context.Context, st *store.Store, b *stage.Batch[In, record.URL], opt Options[In]) (stats Stats, err error) {
	mem := opt.Memory
	s, err := newSpool(opt.Like)
	if err != nil {
		return stats, err
	}
	defer s.close()
	// The two sorters hold memory one after the other.
	keys := merge.NewSorter(mem/2, "")
	defer keys.Close()
	popular := newCache(cacheSize)
	var in In
	var row record.URL
	var arrival [8]byte
	for n := uint64(0); ; {
		if err := b.Read(&in); err == io.EOF {
			break
		} else if err != nil {
			return stats, err
		}
		opt.Convert(&in, &row)
		row.Key = KeyOf(&row)
		opt.Progress(1)
		stats.CacheLookups++
		if popular.seen(row.Key) {
			b.Drop(ReasonSeen) // the first of them is in this batch
			continue
		}
		if err := s.write(&row); err != nil {
			return stats, err
		}
		binary.LittleEndian.PutUint64(arrival[:], n)
		if err := keys.Add(row.Key, arrival[:]); err != nil {
			return stats, err
		}
		n++
		if n%8192 == 0 && ctx.Err() != nil {
			return stats, ctx.Err()
		}
	}
	stats.CacheHits = popular.Hits
	popular = nil
	tx, err := b.Begin(ctx)
	if err != nil {
		return stats, err
	}
	first := merge.NewSorter(mem/2, "")
	defer first.Close()
	if err := extend(st, tx, keys, first, &stats); err != nil {
		return stats, err
	}
	if err := keys.Close(); err != nil {
		return stats, err
	}
	fresh, err := first.Sort()
	if err != nil {
		return stats, err
	}
	return stats, s.replay(fresh, func(row *record.URL, isFresh bool) error {
		switch {
		case !isFresh:
			b.Drop(ReasonSeen)
		case opt.Quiet:
			b.Consume()
		default:
			return b.Pass(row)
		}
		return nil
	})
}

// extend asks the set for each of the sorted keys, adds the fresh ones to it, and
// their first arrivals to first.
func extend(st *store.Store, tx *store.Tx, keys, first *merge.Sorter, stats *Stats) (err error) {
	set, err := fpset.Load(st, tx.Base())
	if err != nil {
		return err
	}
	defer set.Close()
	f, err := merge.NewKeyFile("", set.Polynomial())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	it, err := keys.Sort()
	if err != nil {
		return err
	}
	sweep := set.Sweep()
	var last uint64
	for {
		key, arrival, err := it.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if stats.Keys > 0 && key == last {
			continue // a later arrival of the same URL
		}
		last = key
		stats.Keys++
		seen, err := sweep.Seen(key)
		if err != nil {
			return err
		}
		if seen {
			continue
		}
		if err := f.Add(key); err != nil {
			return err
		}
		if err := first.Add(binary.LittleEndian.Uint64(arrival), nil); err != nil {
			return err
		}
	}
	stats.Fresh = f.Count()
	var r *fpfile.Reader
	if r, err = f.Finish(); err != nil {
		return err
	}
	return set.Extend(tx, r)
}

// spool keeps rows in a temporary file without a name.
type spool struct {
	file *os.File
	w    *record.Writer[record.URL]
}

func newSpool(like *record.Schema) (*spool, error) {
	f, err := merge.TempFile("")
	if err != nil {
		return nil, err
	}
	w, err := record.NewWriter[record.URL](f, record.WriterOptions{Name: "temporary file", Level: record.Stored, Like: like})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{f, w}, nil
}

func (s *spool) write(row *record.URL) error { return s.w.Write(row) }

func (s *spool) close() error { return s.file.Close() }

// replay reads the rows again, in order of arrival. fresh holds the arrivals of
// those to be called fresh, ascending.
func (s *spool) replay(fresh *merge.Iter, each func(row *record.URL, fresh bool) error) error {
	if _, _, err := s.w.Finish(); err != nil {
		return err
	}
	if _, err := s.w.Commit(record.Ledger{}); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := record.NewReader[record.URL](s.file, record.ReaderOptions{Name: "temporary file"})
	if err != nil {
		return err
	}
	next, _, err := fresh.Next()
	var row record.URL
	for n := uint64(0); ; n++ {
		if err != nil && err != io.EOF {
			return err
		}
		if rerr := r.Read(&row); rerr == io.EOF {
			return nil
		} else if rerr != nil {
			return rerr
		}
		isFresh := err == nil && next == n
		if eerr := each(&row, isFresh); eerr != nil {
			return eerr
		}
		if isFresh {
			next, _, err = fresh.Next()
		}
	}
}

// ParseLine makes a url row of a line of text by canon, which returns the canonical
// form and the host (canon.URL).
func ParseLine(line string, canon func(string) (url, host string, err error), row *record.URL) error {
	url, host, err := canon(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	*row = record.URL{URL: url, Host: host, Key: fingerprint.URLKey(host, url)}
	return nil
}
