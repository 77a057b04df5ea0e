package fpset

import (
	"context"
	"errors"
	"fmt"
	"io"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// Add makes one change to the set in st: it adds the keys of all inputs. It returns
// how many distinct keys there were, and how many of them were new. A txn that has
// committed before is accepted if the distinct keys are the same; then none is new.
func Add(ctx context.Context, st *store.Store, txn string, in []*Input) (distinct, fresh uint64, err error) {
	sources, err := Sources(in)
	if err != nil {
		return 0, 0, err
	}
	f, err := merge.NewKeyFile("", in[0].Polynomial)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if err := merge.Union(f, sources...); err != nil {
		return 0, 0, err
	}
	keys, err := f.Finish()
	if err != nil {
		return 0, 0, err
	}
	hash, err := hashOf(keys)
	if err != nil {
		return 0, 0, err
	}
	tx, done, err := st.Begin(ctx, "add", txn)
	if err != nil {
		return 0, 0, err
	}
	if done != nil {
		return keys.Count(), 0, same(st, done, keys.Count(), hash)
	}
	defer tx.Abort()
	fresh, err = AddSorted(st, tx, keys)
	if err != nil {
		return 0, 0, err
	}
	_, err = tx.Commit(keys.Count(), hash, record.Ledger{})
	return keys.Count(), fresh, err
}

// hashOf is the record of a transaction's input: the count of the keys, and the
// fingerprint of their text.
func hashOf(r *fpfile.Reader) (string, error) {
	h := fingerprint.New()
	var b []byte
	it := r.All()
	for {
		keys, err := it.Block()
		if err == io.EOF {
			return fingerprint.Format(r.Count()) + fingerprint.Format(h.Sum64()), nil
		}
		if err != nil {
			return "", err
		}
		b = b[:0]
		for _, k := range keys {
			b = fingerprint.Append(b, k)
		}
		h.Write(b)
	}
}

func same(st *store.Store, done *store.Done, n uint64, hash string) error {
	if done.InRows == n && done.InHash == hash {
		return nil
	}
	return &fault.Error{Class: fault.Conflict, File: st.Dir(), Found: fmt.Sprintf("transaction %q has committed with other input (%d keys)", done.Txn, done.InRows),
		Want: "the same keys", Hint: "choose another --txn"}
}

// AddSorted adds to tx, a change of st, the keys of r that are not yet in the
// set, and returns how many those are.
func AddSorted(st *store.Store, tx *store.Tx, r *fpfile.Reader) (fresh uint64, err error) {
	set, err := Load(st, tx.Base())
	if err != nil {
		return 0, err
	}
	defer set.Close()
	if err := set.refuse(r); err != nil {
		return 0, err
	}
	f, err := merge.NewKeyFile("", set.poly)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sweep := set.Sweep()
	it := r.All()
	for {
		key, err := it.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		seen, err := sweep.Seen(key)
		if err == nil && !seen {
			err = f.Add(key)
		}
		if err != nil {
			return 0, err
		}
	}
	keys, err := f.Finish()
	if err != nil {
		return 0, err
	}
	return f.Count(), set.Extend(tx, keys)
}
