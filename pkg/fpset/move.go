package fpset

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"mercator/formats/fpfile"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/folder/shard"
	"mercator/pkg/merge"
)

// MovedKeys is the name of the rows in ledgers of a move.
const MovedKeys = "keys"

// CheckMove refuses a set if its keys do not tell their bucket.
func CheckMove(st *store.Store) error {
	m, err := st.Current()
	if err != nil {
		return err
	}
	poly, err := polynomialOf(st, m)
	switch {
	case err != nil:
		return err
	case m.Params[paramImpl] != "" && m.Params[paramImpl] != Sorted:
		return &fault.Error{Class: fault.Usage, File: st.Dir(), Found: "a set of kind " + m.Params[paramImpl] + ", which cannot list its keys", Want: "one of sorted runs, to move buckets"}
	case poly != fingerprint.Polynomial:
		return &fault.Error{Class: fault.Usage, File: st.Dir(), Found: "a set with polynomial " + fingerprint.Format(poly) + ", whose keys are in other buckets than their hosts", Want: fingerprint.Format(fingerprint.Polynomial) + ", to move buckets"}
	}
	return nil
}

// Move gives the keys of buckets to other shards, and takes in those that come. A set that gives keys away becomes one run.
// What it holds in memory does not depend on the number of keys.
func Move(ctx context.Context, st *store.Store, m *shard.Move, opt Options) (err error) {
	if err := CheckMove(st); err != nil {
		return err
	}
	tx, err := m.Begin(ctx, st)
	if tx == nil {
		return err
	}
	defer tx.Abort()
	own, err := openRuns(st, tx.Base(), fingerprint.Polynomial, opt)
	if err != nil {
		return err
	}
	mv := moving{ctx: ctx, m: m, opt: opt, own: own, shard: -1, lots: m.NewLots()}
	defer func() { err = errors.Join(err, mv.close()) }()
	if m.Loses() {
		err = mv.rewrite(tx)
	} else {
		err = mv.extend(tx)
	}
	if err != nil {
		return err
	}
	return m.Commit(st, tx, mv.lots)
}

// moving is a move under way.
type moving struct {
	ctx   context.Context
	m     *shard.Move
	opt   Options
	own   *runs
	other *runs // of shard; one at a time is open
	shard int
	lots  *shard.Lots
}

func (mv *moving) close() error {
	err := mv.own.Close()
	if mv.other != nil {
		err = errors.Join(err, mv.other.Close())
	}
	return err
}

// of is the set of a shard, as it was before the move.
func (mv *moving) of(n int) (*runs, error) {
	if n == mv.m.Shard {
		return mv.own, nil
	}
	if n == mv.shard {
		return mv.other, nil
	}
	if mv.other != nil {
		if err := mv.other.Close(); err != nil {
			return nil, err
		}
		mv.other, mv.shard = nil, -1
	}
	st, base, err := mv.m.Base(n)
	if err != nil {
		return nil, err
	}
	if mv.other, err = openRuns(st, base, fingerprint.Polynomial, mv.opt); err != nil {
		mv.other = nil // not a nil *runs in an interface
		return nil, err
	}
	mv.shard = n
	return mv.other, nil
}

// within gives dst the keys of a set from first to last, and counts them in lot unless that is nil.
func (mv *moving) within(s *runs, first, last uint64, dst merge.Dest, lot *shard.Lot) error {
	var sources []merge.Source
	for _, r := range s.list {
		it, err := r.Reader.Range(first, last)
		if err != nil {
			return err
		}
		sources = append(sources, it)
	}
	keys := merge.UnionOf(sources...)
	var buf []byte
	for {
		block, err := keys.Block()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = context.Cause(mv.ctx)
		}
		if err != nil {
			return err
		}
		if lot != nil {
			buf = slices.Grow(buf[:0], 8*len(block))
			for _, k := range block {
				buf = binary.LittleEndian.AppendUint64(buf, k)
			}
			lot.Add(MovedKeys, len(block), buf)
		}
		if dst != nil {
			if err := dst.AddKeys(block); err != nil {
				return err
			}
		}
	}
}

// give gives dst what the shard has after the move, of all that stays if stays is set, and of what comes.
func (mv *moving) give(dst merge.Dest, stays bool) error {
	self := mv.m.Shard
	return mv.m.Spans(func(first, last uint64, was, is int) error {
		switch {
		case is != self:
			return mv.within(mv.own, first, last, nil, mv.lots.To(is))
		case was == self && !stays:
			return nil
		case was == self:
			return mv.within(mv.own, first, last, dst, nil)
		}
		s, err := mv.of(was)
		if err != nil {
			return err
		}
		return mv.within(s, first, last, dst, mv.lots.From(was))
	})
}

// rewrite puts a run into tx in place of all runs.
func (mv *moving) rewrite(tx *store.Tx) error {
	for _, r := range mv.own.list {
		tx.Drop(r.entry.Path)
	}
	// Nothing is made for a set without keys: a run has some.
	run := &lateRun{tx: tx, workers: mv.opt.Workers}
	if err := mv.give(run, true); err != nil || run.w == nil {
		return err
	}
	if err := run.w.Finish(); err != nil {
		return err
	}
	return run.file.Close()
}

// lateRun makes the file of a run with its first key.
type lateRun struct {
	tx      *store.Tx
	workers int
	file    *store.NewFile
	w       *fpfile.Writer
}

func (r *lateRun) AddKeys(keys []uint64) (err error) {
	if r.w == nil {
		if r.file, err = r.tx.Create("runs/", ".fps", roleRun); err != nil {
			return err
		}
		r.w = fpfile.NewWriter(r.file, fingerprint.Polynomial)
		r.w.SetWorkers(r.workers)
	}
	return r.w.AddKeys(keys)
}

// extend adds what comes, as a batch.
func (mv *moving) extend(tx *store.Tx) (err error) {
	f := merge.NewKeyFile("", fingerprint.Polynomial)
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := mv.give(f, false); err != nil {
		return err
	}
	r, err := f.Finish()
	if err != nil || r.Count() == 0 {
		return err
	}
	return mv.own.Extend(tx, r)
}
