// Package urlset is the URL-seen test: a set of URL checksums, and the batch
// that finds the URLs of a round that were never seen.
//
// It uses the sets of package fpset; only the keys and the batch
// differ. There are two ways to the same answers. New is the duplicate URL eliminator
// of SRC-RR-173: a batch is buffered whole and sorted by key, one sequential pass asks the
// set for all keys, and the unseen rows are sorted by arrival and go on. Online is the URL-seen test of the 1999 paper: each
// URL is looked up as it comes, and goes on at once. A cache of popular URLs stands in
// front of both; it lives as long as the process.
//
// # Invariants
//
//   - Of the rows of one URL, in a batch and in all batches before, exactly the
//     first goes on. New gives it the highest score (0: none) of its batch's rows, and the page with that link (via).
//   - Rows go on in order of arrival.
//   - Memory is bounded by what the caller grants, whatever the batch and the set.
//   - Answers do not depend on memory, cache, batch size, the number of runs, or the way.
//   - The set changes by the stage's commit, whatever has gone on before.
//   - All URLs of a set are made by the same rules of canon.Options.
//
// # False answers
//
// Two URLs of one checksum are one URL to the set. With n URLs on each host, the
// sum of n²/2⁴⁹ answers are expected to be falsely "seen": 0.2 for 10⁷ URLs of
// one host. pkg/base/fingerprint/SPEC.md has the arithmetic. A set made with a polynomial
// of its own knows URLs by checksums of that polynomial, not by their url_key.
package urlset

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/trace"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
	"mercator/pkg/web/canon"
)

// The store of URL checksums.
const (
	Kind    = "urls"
	Version = fpset.Version
)

// ReasonSeen is the reason under which the ledger counts URLs that were seen before.
const ReasonSeen = "seen"

// Create makes an empty set of URL checksums in a new store.
func Create(dir string, with fpset.CreateOptions, opt store.Options) error {
	return fpset.CreateKind(dir, Kind, with, opt)
}

// Stats counts what New did.
type Stats struct {
	CacheLookups uint64  `json:"cache_lookups"` // of the cache of popular URLs
	CacheHits    uint64  `json:"cache_hits"`
	CacheMisses  uint64  `json:"cache_misses"`
	CacheHitRate float64 `json:"cache_hit_rate"` // hits of a lookup
	Keys         uint64  `json:"keys"`           // URL checksums that the set was asked for; distinct ones unless online
	Fresh        uint64  `json:"fresh"`          // keys that were never seen before

	Set         fpset.Usage `json:"set"`
	ReadsPerURL float64     `json:"reads_per_url"` // reads of the set's files for a URL that came, cache hits included
}

// used tells what the questions cost. The cache has been counted.
func (s *Stats) used(set fpset.Set) {
	s.Set = fpset.UsageOf(set)
	if s.CacheLookups > 0 {
		s.ReadsPerURL = float64(s.Set.Reads) / float64(s.CacheLookups)
	}
}

func (s *Stats) cache(c *cache, lookups uint64) {
	s.CacheLookups, s.CacheHits, s.CacheMisses = lookups, c.Hits, lookups-c.Hits
	if lookups > 0 {
		s.CacheHitRate = float64(c.Hits) / float64(lookups)
	}
}

// traceSeen traces a URL that is known.
func traceSeen(u *record.URL) {
	if trace.On(u.URL) {
		trace.Say("murlset new", u.URL, "dropped: seen")
	}
}

// FromLink makes the url row of a link.
func FromLink(l *record.Link, u *record.URL) { *u = l.ToURL() }

// FromURL takes a url row as it is.
func FromURL(in, u *record.URL) { *u = *in }

// KeyOf returns the checksum by which a set of the polynomial knows the row's URL.
// The row's own url_key is by Mercator's polynomial; it is made if it is missing. A
// set of another makes its own of what url_key was made of: what the crawl's key rules
// leave of the URL, or canon.Options.RedirectForm.
func KeyOf(poly *fingerprint.Poly, form canon.Options, u *record.URL) uint64 {
	if u.Key == 0 {
		u.Key = form.URLKey(u.Host, u.URL)
	}
	if poly.Polynomial() == fingerprint.Polynomial {
		return u.Key
	}
	if form.KeyRules != 0 {
		if host, url := form.RedirectForm(u.Host, u.URL); u.Key == fingerprint.URLKey(host, url) {
			return poly.URLKey(host, url)
		}
	}
	return poly.URLKey(form.KeyForm(u.Host, u.URL))
}

// Polynomial returns the polynomial of the set in st.
func Polynomial(st *store.Store) (*fingerprint.Poly, error) {
	p, err := fpset.PolynomialOf(st)
	if err != nil {
		return nil, err
	}
	return fingerprint.NewPoly(p)
}

// Options of New.
type Options[In record.Row] struct {
	Convert     func(*In, *record.URL) // makes a url row of an input row: FromLink, FromURL
	Like        *record.Schema         // schema of an input of url rows, to pass on its unknown columns; else nil
	Canon       canon.Options          // the crawl's, for keys
	Quiet       bool                   // fresh rows are consumed instead of passed on
	Memory      int64                  // bytes, about; 8 MiB of buffers and the cache come on top
	Cache       int                    // popular URLs to remember, at most 1<<26, which takes a gigabyte; 0: none
	LookupBatch int                    // Online: URLs that are looked up in one question where they are at hand, at least 1
	Set         fpset.Options          // with which the set is opened
	TempDir     string                 // "": the system's folder for temporary files
	Progress    func(n int64)          // gets the number of rows read
}

// emit passes a row on that is fresh.
func (o *Options[In]) emit(b *stage.Batch[In, record.URL], row *record.URL) error {
	if o.Quiet {
		b.Consume()
		return nil
	}
	return b.Pass(row)
}

// New is the body of the stages "murlset new", a Gate, and "murlset add", a Sink:
// it passes on rows with URLs that the set of st lacks, adds those URLs to the
// set, and drops the other rows. Rows wait in temporary files.
func New[In record.Row](ctx context.Context, st *store.Store, b *stage.Batch[In, record.URL], opt Options[In]) (stats Stats, err error) {
	rows := merge.NewSorter(opt.Memory/4, opt.TempDir) // by arrival, as they come
	defer func() { err = errors.Join(err, rows.Close()) }()
	keys := merge.NewSorter(opt.Memory/8, opt.TempDir) // the keys of rows, with their arrivals
	defer func() { err = errors.Join(err, keys.Close()) }()
	fresh := merge.NewSorter(opt.Memory/8, opt.TempDir) // arrivals of the unseen ones
	defer func() { err = errors.Join(err, fresh.Close()) }()
	poly, err := Polynomial(st) // fixed when the set was made
	if err != nil {
		return stats, err
	}
	if err := gather(ctx, b, &opt, poly, rows, keys, &stats); err != nil {
		return stats, err
	}
	tx, err := b.Begin(ctx)
	if err != nil {
		return stats, err
	}
	if err := CheckRules(st, tx.Base(), opt.Canon); err != nil {
		return stats, err
	}
	if err := extend(st, tx, opt.Set, keys, fresh, opt.TempDir, &stats); err != nil {
		return stats, err
	}
	if stats.Fresh > 0 {
		NoteRules(tx, opt.Canon)
	}
	if err := keys.Close(); err != nil {
		return stats, err
	}
	return stats, deliver(ctx, b, &opt, rows, fresh, &stats)
}

// gather reads all input into rows, and their keys into keys.
func gather[In record.Row](ctx context.Context, b *stage.Batch[In, record.URL], opt *Options[In], poly *fingerprint.Poly, rows, keys *merge.Sorter, stats *Stats) error {
	popular := newCache(opt.Cache)
	var in In
	var row record.URL
	var payload, arrival []byte
	var lookups uint64
	for {
		if err := b.Read(&in); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		key, score := uint64(0), float32(0) // most links have the set's key, and most are popular: a row is made of no more than the others
		if l, ok := any(&in).(*record.Link); ok && poly.Polynomial() == fingerprint.Polynomial {
			key, score = l.Key, l.Score
		}
		made := key == 0
		if made {
			opt.Convert(&in, &row)
			key, score = KeyOf(poly, opt.Canon, &row), row.Score
		}
		opt.Progress(1)
		if lookups++; lookups%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if popular.seen(key, score) { // the first of them is in this batch
			if trace.Started() {
				opt.Convert(&in, &row)
				traceSeen(&row)
			}
			continue
		}
		if !made {
			opt.Convert(&in, &row)
		}
		payload, arrival = record.AppendRow(payload[:0], &row), binary.AppendUvarint(arrival[:0], lookups)
		if score != 0 {
			arrival = append(binary.BigEndian.AppendUint32(arrival, math.Float32bits(score)), row.Via...)
		}
		if err := errors.Join(rows.Add(lookups, payload), keys.Add(key, arrival)); err != nil {
			return err
		}
	}
	stats.cache(popular, lookups)
	b.DropAll(ReasonSeen, popular.Hits)
	return nil
}

// split cuts a payload of gather's keys after the arrival. Behind it are the score and the via of a row that has a score.
func split(payload []byte) (arrival, promise []byte) {
	_, n := binary.Uvarint(payload)
	return payload[:n], payload[n:]
}

// scoreOf is the score of a promise.
func scoreOf(promise []byte) float32 {
	if len(promise) == 0 {
		return 0
	}
	return math.Float32frombits(binary.BigEndian.Uint32(promise))
}

// checkEvery is the number of rows after which an interruption is looked for.
const checkEvery = 8192

// extend asks the set for the keys of all rows, in one pass, adds the unseen keys to it, and the first arrival of each to
// fresh, with the best promise.
func extend(st *store.Store, tx *store.Tx, opt fpset.Options, keys, fresh *merge.Sorter, dir string, stats *Stats) (err error) {
	set, err := fpset.Load(st, tx.Base(), opt)
	if err != nil {
		return err
	}
	defer set.Close()
	f := merge.NewKeyFile(dir, set.Polynomial())
	defer func() { err = errors.Join(err, f.Close()) }()
	stats.Keys, err = unseen(set, stats.CacheMisses, keys, func(key uint64, payload []byte) error {
		arrival, n := binary.Uvarint(payload)
		return errors.Join(f.Add(key), fresh.Add(arrival, payload[n:]))
	})
	if err != nil {
		return err
	}
	stats.Fresh = f.Count()
	stats.used(set)
	r, err := f.Finish()
	if err != nil {
		return err
	}
	if r.Count() == 0 {
		return nil
	}
	return set.Extend(tx, r)
}

// Limits of what the set is asked for together.
const (
	askKeys  = 8192
	askBytes = 1 << 20 // of payloads
)

// unseen calls fn with each key of rows that is not in the set, in order, and the payload of its first row, with the promise
// of the row that has the highest score. It returns the number of distinct keys; rows has so many of any.
func unseen(set fpset.Set, n uint64, rows *merge.Sorter, fn func(key uint64, payload []byte) error) (distinct uint64, err error) {
	sorted, err := rows.Sort()
	if err != nil {
		return 0, err
	}
	sweep := set.Sweep(n)
	var keys []uint64
	var payloads []byte
	var ends []int // of each in payloads
	seen := make([]bool, askKeys)
	ask := func() error {
		clear(seen[:len(keys)])
		if err := sweep.Mark(keys, seen[:len(keys)]); err != nil {
			return err
		}
		at := 0
		for i, key := range keys {
			if !seen[i] {
				if err := fn(key, payloads[at:ends[i]]); err != nil {
					return err
				}
			}
			at = ends[i]
		}
		keys, payloads, ends = keys[:0], payloads[:0], ends[:0]
		return nil
	}
	begin := 0 // of the last payload
	for last := uint64(0); ; {
		key, payload, err := sorted.Next()
		if err == io.EOF {
			return distinct, ask()
		}
		if err != nil {
			return distinct, err
		}
		if distinct > 0 && key == last { // a later row of the same URL
			if _, later := split(payload); len(later) > 0 {
				if arrival, first := split(payloads[begin:]); scoreOf(later) > scoreOf(first) {
					payloads = append(payloads[:begin+len(arrival)], later...)
					ends[len(ends)-1] = len(payloads)
				}
			}
			continue
		}
		if len(keys) == askKeys || len(payloads) >= askBytes {
			if err := ask(); err != nil {
				return distinct, err
			}
		}
		last, begin = key, len(payloads)
		distinct++
		keys, payloads = append(keys, key), append(payloads, payload...)
		ends = append(ends, len(payloads))
	}
}

// deliver passes the fresh rows on, and counts the others.
func deliver[In record.Row](ctx context.Context, b *stage.Batch[In, record.URL], opt *Options[In], rows, fresh *merge.Sorter, stats *Stats) error {
	b.DropAll(ReasonSeen, stats.CacheMisses-stats.Fresh)
	wanted, err := fresh.Sort()
	if err != nil {
		return err
	}
	all, err := rows.Sort()
	if err != nil {
		return err
	}
	var row record.URL
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		number, promise, err := wanted.Next()
		done := err == io.EOF
		if done && trace.Started() {
			number = math.MaxUint64 // what is left was seen
		} else if done {
			return nil
		} else if err != nil {
			return err
		}
		for {
			arrival, payload, err := all.Next()
			if done && err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if arrival < number && !trace.Started() {
				continue
			}
			if _, err := record.ViewRow(payload, &row, opt.Like); err != nil {
				return err
			}
			if arrival >= number {
				break
			}
			traceSeen(&row)
		}
		if len(promise) > 0 {
			if row.Score = scoreOf(promise); row.Via != string(promise[4:]) {
				row.Via = string(promise[4:])
			}
		}
		if err := opt.emit(b, &row); err != nil {
			return err
		}
	}
}

// ParseLine makes a url row of a line of text.
func ParseLine(line string, form canon.Options, row *record.URL) error {
	url, host, err := form.URL(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	*row = record.URL{URL: url, Host: host, Key: form.URLKey(host, url)}
	return nil
}
