package fpset

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
)

// AddStats counts what Add did.
type AddStats struct {
	Distinct uint64 // distinct keys of the input
	Fresh    uint64 // keys that the set did not have
	Set      Usage
}

// Add makes one change to the set in st: it adds the keys of all inputs, which are
// one at least. A txn that has committed before is accepted if the distinct keys are
// the same; then none is new. ahead of the lock everything that has to be waited
// for has been read: inputs are files.
func Add(ctx context.Context, st *store.Store, txn string, in []*Input, opt Options) (stats AddStats, err error) {
	hash, err := HashOf(st)
	if err != nil {
		return stats, err
	}
	for _, i := range in {
		if err := i.CheckKind(st.Kind()); err != nil {
			return stats, err
		}
		if err := i.CheckHash(hash); err != nil {
			return stats, err
		}
	}
	tx, done, err := st.Begin(ctx, "add", txn)
	if err != nil {
		return stats, err
	}
	if done == nil {
		defer tx.Abort()
	}
	sources, err := Sources(in)
	if err != nil {
		return stats, err
	}
	keys := &summed{src: merge.UnionOf(sources...)}
	if done != nil {
		for err == nil {
			_, err = keys.Block()
		}
		if err != io.EOF {
			return stats, err
		}
		stats.Distinct = keys.n
		return stats, same(st, done, keys)
	}
	set, err := Load(st, tx.Base(), opt)
	if err != nil {
		return stats, err
	}
	defer set.Close()
	var n uint64
	for _, i := range in {
		if i.Polynomial != set.Polynomial() {
			return stats, OtherPolynomial(i.Name, i.Polynomial, set.Polynomial())
		}
		n += i.Count
	}
	if stats.Fresh, err = extend(ctx, set, tx, keys, n); err != nil {
		return stats, err
	}
	stats.Distinct, stats.Set = keys.n, UsageOf(set)
	_, err = tx.Commit(keys.n, keys.sum(), record.Ledger{})
	return stats, err
}

// extend adds the keys of src that the set lacks to tx, and returns their number. The
// set is the base of tx. n is how many keys src has, about.
func extend(ctx context.Context, set Set, tx *store.Tx, src merge.Source, n uint64) (fresh uint64, err error) {
	f := merge.NewKeyFile("", set.Polynomial())
	defer func() { err = errors.Join(err, f.Close()) }()
	sweep := set.Sweep(n)
	var seen []bool
	var unseen []uint64
	for {
		keys, err := src.Block()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return 0, err
		}
		seen = slices.Grow(seen[:0], len(keys))[:len(keys)]
		clear(seen)
		if err := sweep.Mark(keys, seen); err != nil {
			return 0, err
		}
		unseen = appendUnseen(unseen[:0], keys, seen)
		if err := f.AddKeys(unseen); err != nil {
			return 0, err
		}
	}
	r, err := f.Finish()
	if err != nil || r.Count() == 0 {
		return 0, err
	}
	return r.Count(), set.Extend(tx, r)
}

// appendUnseen appends to dst the keys that are not seen.
func appendUnseen(dst, keys []uint64, seen []bool) []uint64 {
	n := len(dst)
	dst = slices.Grow(dst, len(keys))[:n+len(keys)]
	for i, k := range keys {
		dst[n] = k // overwritten by the next if this one was seen
		if !seen[i] {
			n++
		}
	}
	return dst[:n]
}

// summed is a Source that sums up what it gives, for the record of a transaction's
// input: the count, and the xxh3-128 of the keys in 8 little-endian bytes each.
type summed struct {
	src  merge.Source
	n    uint64
	hash xxh3.Hasher
	buf  []byte
}

func (s *summed) Block() ([]uint64, error) {
	keys, err := s.src.Block()
	if err != nil {
		return nil, err
	}
	s.n += uint64(len(keys))
	s.buf = slices.Grow(s.buf[:0], 8*len(keys))[:8*len(keys)]
	for i, k := range keys {
		binary.LittleEndian.PutUint64(s.buf[8*i:], k)
	}
	_, err = s.hash.Write(s.buf)
	return keys, err
}

func (s *summed) sum() string {
	b := s.hash.Sum128().Bytes()
	return hex.EncodeToString(b[:])
}

// same accepts the input of a transaction that has committed, if it is the same.
func same(st *store.Store, done *store.Done, keys *summed) error {
	if done.InRows == keys.n && done.InHash == keys.sum() {
		return nil
	}
	return &fault.Error{Class: fault.Conflict, File: st.Dir(), Found: fmt.Sprintf("transaction %q has committed with other input (%d keys)", done.Txn, done.InRows),
		Want: "the same keys", Hint: "choose another --txn"}
}
