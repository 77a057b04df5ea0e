package crawl

import (
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/exchange"
)

func exampleCheckpoint() *Checkpoint {
	return &Checkpoint{Number: 2, Parent: 1, Epoch: 1, Txn: "r2", Made: "2026-11-21T10:00:00Z",
		Stores: []CheckpointStore{{Name: "frontier", Kind: "frontier", Generation: 4, Sum: store.Sum([]byte("a"))}, {Name: "urls", Kind: "urls", Generation: 3, Sum: store.Sum([]byte("b"))}},
		Ledger: ledger("r2"), Totals: Totals{}.with(ledger("r1")).with(ledger("r2")), Files: []RoundFile{{"epoch.1", 0, store.Sum(nil)}, {"links.arrows.zst", 3, store.Sum([]byte("abc"))}}}
}

// shardedCheckpoint is one of two shards.
func shardedCheckpoint() *Checkpoint {
	k := exampleCheckpoint()
	k.Map, k.Ledger, k.Files = 1, record.Ledger{}, nil
	k.Stores[0].Name, k.Stores[1].Name = "shard/000/frontier", "shard/001/frontier"
	k.Exchanges = []exchange.Bound{{Name: "addr", Manifests: []string{store.Sum([]byte("a")), store.Sum([]byte("b"))}}, {Name: "links", Manifests: []string{store.Sum([]byte("c")), store.Sum([]byte("d"))}}}
	k.Shards = []ShardRound{{Shard: 0, Ledger: ledger("r2"), Files: []RoundFile{{"epoch.1", 0, store.Sum(nil)}}}, {Shard: 1, Ledger: ledger("r2")}}
	return k
}

func vectors() []spectest.Vector {
	encode := func(k *Checkpoint) []byte {
		b, err := store.Seal(magic, k)
		if err != nil {
			panic(err)
		}
		return b
	}
	checkpoint := func(edit func(*Checkpoint)) []byte {
		k := exampleCheckpoint()
		edit(k)
		return encode(k)
	}
	bad := func(name string, data []byte, class fault.Class, says string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: data, Class: class, Says: says}
	}
	sharded := func(edit func(*Checkpoint)) []byte {
		k := shardedCheckpoint()
		edit(k)
		return encode(k)
	}
	shards := sharded(func(*Checkpoint) {})
	two := encode(exampleCheckpoint())
	return []spectest.Vector{
		{Name: "good/two.checkpoint", Bytes: two, Gives: string(two)},
		{Name: "good/shards.checkpoint", Bytes: shards, Gives: string(shards)},
		bad("R7-number.checkpoint", sharded(func(k *Checkpoint) { k.Shards[1].Shard = 2 }), fault.Corrupt, "shards: shard 2, want shard 1"),
		bad("R7-no-map.checkpoint", sharded(func(k *Checkpoint) { k.Map = 0 }), fault.Corrupt, "shards: 2, with version 0 of the bucket map"),
		bad("R7-no-shards.checkpoint", sharded(func(k *Checkpoint) { k.Shards = nil }), fault.Corrupt, "shards: 0, with version 1 of the bucket map"),
		bad("R7-ledger-beside.checkpoint", sharded(func(k *Checkpoint) { k.Ledger = ledger("r2") }), fault.Corrupt, "shards: 2, with version 1 of the bucket map"),
		bad("R8-order.checkpoint", sharded(func(k *Checkpoint) { k.Exchanges[1].Name = "addr" }), fault.Corrupt, "exchange 1: name \"addr\""),
		bad("R8-name.checkpoint", sharded(func(k *Checkpoint) { k.Exchanges[0].Name = "../a" }), fault.Corrupt, "exchange 0: name \"../a\""),
		bad("R8-bills.checkpoint", sharded(func(k *Checkpoint) { k.Exchanges[1].Manifests = k.Exchanges[1].Manifests[1:] }), fault.Corrupt, "exchange 1: 1 manifests"),
		bad("R8-sum.checkpoint", sharded(func(k *Checkpoint) { k.Exchanges[1].Manifests[0] = "0" }), fault.Corrupt, "exchange 1: 2 manifests, want the checksums of 2"),
		bad("R7-exchanges-beside.checkpoint", checkpoint(func(k *Checkpoint) { k.Exchanges = shardedCheckpoint().Exchanges }), fault.Corrupt, "shards: 0, with version 0 of the bucket map"),
		bad("R5-of-a-shard.checkpoint", sharded(func(k *Checkpoint) { k.Shards[0].Files[0].Length = -1 }), fault.Corrupt, "shard/000: file 0: length -1"),
		bad("R3-name.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Name = ".." }), fault.Corrupt, "want a folder inside the crawl"),
		bad("R3-twice.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[1].Name = "frontier" }), fault.Corrupt, "a name after"),
		bad("R3-sum.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Sum = "0" }), fault.Corrupt, `sum "0", want 32 hex`),
		bad("R2-txn.checkpoint", checkpoint(func(k *Checkpoint) { k.Txn = "" }), fault.Corrupt, `txn: ""`),
		bad("R1-parent-of-itself.checkpoint", checkpoint(func(k *Checkpoint) { k.Parent = 2 }), fault.Corrupt, "number above its parent's"),
		bad("R3-generation-0.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Generation = 0 }), fault.Corrupt, "store 0: generation 0"),
		bad("R4-made.checkpoint", checkpoint(func(k *Checkpoint) { k.Made = "2026-11-21T10:00:00+01:00" }), fault.Corrupt, `made: "2026`),
		bad("R6-twice.checkpoint", checkpoint(func(k *Checkpoint) { k.Totals.Stages[1].Name = k.Totals.Stages[0].Name }), fault.Corrupt, "stages out of order"),
		bad("R5-name.checkpoint", checkpoint(func(k *Checkpoint) { k.Files[0].Name = "../a" }), fault.Corrupt, "want a name in the round's folder"),
		bad("R5-order.checkpoint", checkpoint(func(k *Checkpoint) { k.Files[1].Name = "a" }), fault.Corrupt, "want one that follows"),
		bad("R5-sum.checkpoint", checkpoint(func(k *Checkpoint) { k.Files[1].Sum = "" }), fault.Corrupt, "0 or more, and a checksum"),
	}
}

// example is the page's checkpoint.
func example() string {
	var b strings.Builder
	for line := range strings.Lines(string(vectors()[0].Bytes)) {
		b.WriteString("    " + line)
	}
	return b.String()
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: vectors(),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			k, err := decodeCheckpoint(name, file)
			if err != nil {
				return "", err
			}
			again, err := store.Seal(magic, k)
			return string(again), err
		},
		Regions: map[string]string{"example": example()},
	})
}
