package shard

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

// MoveVerb is the verb of the transactions in which stores give buckets away and take others in.
const MoveVerb = store.MoveVerb

// Move is a change of the bucket map, as a store of one shard sees it.
//
// Each store makes its own change, and reads what comes from other shards in the generations that the checkpoint binds. So
// stores may be changed in any order, and again after a kill.
type Move struct {
	Old, New *Map
	Shard    int
	Txn      string
	// Base is the store of the same name in another shard, and its generation at the checkpoint.
	Base func(shard int) (*store.Store, *store.Manifest, error)

	tx *store.Tx // begun by Begin
}

// Leaves is the shard that the hosts of a key's bucket go to; false if they stay.
func (m *Move) Leaves(key uint64) (to int, ok bool) {
	to = m.New.Of(key)
	return to, to != m.Shard && m.Old.Of(key) == m.Shard
}

// Comes reports whether the hosts of a key's bucket come from a shard.
func (m *Move) Comes(key uint64, from int) bool {
	return m.New.Of(key) == m.Shard && m.Old.Of(key) == from
}

// Loses reports whether buckets leave the shard.
func (m *Move) Loses() bool {
	for b, was := range m.Old.Owners {
		if was == m.Shard && m.New.Owners[b] != was {
			return true
		}
	}
	return false
}

// Senders are the shards from which buckets come, in order.
func (m *Move) Senders() (list []int) {
	sends := make([]bool, m.Old.Shards)
	for b, was := range m.Old.Owners {
		if m.New.Owners[b] == m.Shard && was != m.Shard {
			sends[was] = true
		}
	}
	for n, is := range sends {
		if is {
			list = append(list, n)
		}
	}
	return list
}

// Spans calls each, in order, for the key ranges that have one owner before and one after the move, if m.Shard is either. last is in the range.
func (m *Move) Spans(each func(first, last uint64, was, is int) error) error {
	for from := 0; from < Buckets; {
		was, is := m.Old.Owners[from], m.New.Owners[from]
		to := from
		for to < Buckets && m.Old.Owners[to] == was && m.New.Owners[to] == is {
			to++
		}
		if was == m.Shard || is == m.Shard {
			if err := each(uint64(from)<<(64-bucketBits), uint64(to)<<(64-bucketBits)-1, was, is); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// Sum is the checksum of the new map, which stands for what is asked: it is the input of each transaction.
func (m *Move) Sum() (string, error) {
	data, err := m.New.Encode()
	return store.Sum(data), err
}

// Begin begins the change of a store; nil if it was made before.
func (m *Move) Begin(ctx context.Context, st *store.Store) (*store.Tx, error) {
	tx, done, err := st.Begin(ctx, MoveVerb, m.Txn)
	if err != nil || done == nil {
		m.tx = tx
		return tx, err
	}
	if sum, err := m.Sum(); err != nil || sum == done.InHash {
		return nil, err
	}
	return nil, &fault.Error{Class: fault.Conflict, File: st.Dir(), Found: fmt.Sprintf("%q has moved other buckets", m.Txn), Want: "the same",
		Hint: "finish that move: " + fault.Quote("mcrawl", "run", st.Root()) + "; or give it up: " + fault.Quote("mckpt", "abandon", st.Root())}
}

// Commit publishes the change, and notes what went from and to each other shard.
func (m *Move) Commit(st *store.Store, tx *store.Tx, lots *Lots) error {
	sum, err := m.Sum()
	if err == nil {
		_, err = tx.Commit(0, sum, lots.ledger(st.NameInCrawl(), m.Txn))
	}
	return err
}

// Because is err, an error of the change, or says that another process has taken the change over.
func (m *Move) Because(err error) error {
	if m.tx == nil {
		return err
	}
	return m.tx.Because(err)
}

// Lots count what a store gives to each other shard, and takes from it.
type Lots struct {
	self    int
	out, in map[int]*Lot
}

// Lot counts the rows that go from one shard to another. Both shards count, each for itself.
type Lot struct {
	Count map[string]uint64 // rows, by what they are
	hash  xxh3.Hasher
	n     uint64
}

// Add counts n rows, which both sides give in the same order and form.
func (l *Lot) Add(what string, n int, rows []byte) {
	l.Count[what] += uint64(n)
	l.n += uint64(n)
	_, _ = l.hash.Write(rows) // never fails
}

// NewLots are empty.
func (m *Move) NewLots() *Lots {
	return &Lots{self: m.Shard, out: map[int]*Lot{}, in: map[int]*Lot{}}
}

// To returns the lot that goes to a shard.
func (l *Lots) To(shard int) *Lot { return lotOf(l.out, shard) }

// From returns the lot that comes from a shard.
func (l *Lots) From(shard int) *Lot { return lotOf(l.in, shard) }

func lotOf(lots map[int]*Lot, shard int) *Lot {
	if lots[shard] == nil {
		lots[shard] = &Lot{Count: map[string]uint64{}}
	}
	return lots[shard]
}

const stagePrefix = MoveVerb + " "

// stageOf names what goes from a shard to another, in ledgers.
func stageOf(from, to int) string { return fmt.Sprintf("%s%03d-%03d", stagePrefix, from, to) }

// ledger has a part for each lot that has rows, in order of name.
func (l *Lots) ledger(name, txn string) record.Ledger {
	var all record.Ledger
	for from := range Max {
		for to := range Max {
			var lot *Lot
			switch l.self {
			case from:
				lot = l.out[to]
			case to:
				lot = l.in[from]
			}
			if lot == nil || lot.n == 0 {
				continue
			}
			b := lot.hash.Sum128().Bytes()
			stage := record.Stage{Name: stageOf(from, to), Store: name, Txn: txn, Out: lot.n, OutHash: hex.EncodeToString(b[:])}
			for _, what := range slices.Sorted(maps.Keys(lot.Count)) {
				stage.Made = append(stage.Made, record.Count{Reason: what, N: lot.Count[what]})
			}
			all.Joined = append(all.Joined, record.Ledger{Stages: []record.Stage{stage}})
		}
	}
	return all
}

// LotOf says which shards a stage of a ledger of a move is about. gave: it stands in a store of the first.
func LotOf(s record.Stage) (from, to int, gave, ok bool) {
	pair, is := strings.CutPrefix(s.Name, stagePrefix)
	n, err := fmt.Sscanf(pair, "%d-%d", &from, &to)
	ok = is && err == nil && n == 2 && s.Name == stageOf(from, to)
	return from, to, ok && strings.HasPrefix(s.Store, Name(from)+"/"), ok
}

// CheckMoved is an error unless all that left a store came to the store of the same name in another shard: each lot stands in
// two of the ledgers, and is the same in both.
func CheckMoved(ledgers []record.Ledger) error {
	type lot struct{ stage, store string }
	sides := map[lot][]record.Stage{}
	var walk func(l record.Ledger)
	walk = func(l record.Ledger) {
		for _, j := range l.Joined {
			walk(j)
		}
		for _, s := range l.Stages {
			if _, _, _, ok := LotOf(s); ok {
				_, of, _ := strings.Cut(strings.TrimPrefix(s.Store, store.ShardsDir+"/"), "/")
				sides[lot{s.Name, of}] = append(sides[lot{s.Name, of}], s)
			}
		}
	}
	for _, l := range ledgers {
		walk(l)
	}
	keys := slices.SortedFunc(maps.Keys(sides), func(a, b lot) int {
		return cmp.Or(strings.Compare(a.stage, b.stage), strings.Compare(a.store, b.store))
	})
	for _, key := range keys {
		both := sides[key]
		from, to, _, _ := LotOf(both[0])
		gave, took := Name(from)+"/"+key.store, Name(to)+"/"+key.store
		bad := func(found, want string) error {
			return &fault.Error{Class: fault.No, Place: "ledger", Found: found, Want: want}
		}
		at := func(name string) *record.Stage {
			for i := range both {
				if both[i].Store == name {
					return &both[i]
				}
			}
			return nil
		}
		out, in := at(gave), at(took)
		switch {
		case out == nil:
			return bad(fmt.Sprintf("%d rows that came to %s", in.Out, took), "them to leave "+gave)
		case in == nil:
			return bad(fmt.Sprintf("%d rows that left %s", out.Out, gave), "them to come to "+took)
		case len(both) > 2:
			return bad(fmt.Sprintf("%d entries of %s in %s", len(both), key.stage, key.store), "2")
		case out.Out != in.Out || out.OutHash != in.OutHash:
			return bad(fmt.Sprintf("%d rows (%s) that came to %s", in.Out, in.OutHash, took), fmt.Sprintf("%d (%s) that left %s", out.Out, out.OutHash, gave))
		}
	}
	return nil
}
