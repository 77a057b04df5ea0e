package exchange

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// vectorBill is the bill of the page's example.
func vectorBill() *Bill {
	h := func(n int) string { return fmt.Sprintf("%032x", n) }
	return &Bill{ID: ID{Exchange: "links", Round: "r12", Epoch: 2, Map: 1, Shards: 2, By: ByHost}, From: 1, Kind: record.KindLink,
		Parts: []Sent{{Rows: 1, Hash: h(10), Bytes: 2000}, {Rows: 2, Hash: h(11), Bytes: 2100}},
		Ledger: record.Ledger{Stages: []record.Stage{
			{Name: "mextract", Txn: "r12", Made: []record.Count{{Reason: "link", N: 3}}, Out: 3, OutHash: h(9)},
			{Name: "mmerge split", Txn: "r12", In: 3, InHash: h(9), Consumed: 3},
		}}}
}

func sealBill(t testing.TB, edit func(b *Bill)) []byte {
	b := vectorBill()
	edit(b)
	data, err := store.Seal(magic, b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectors(t testing.TB) []spectest.Vector {
	bad := func(name, says string, edit func(b *Bill)) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: sealBill(t, edit), Class: fault.Corrupt, Says: says}
	}
	good := sealBill(t, func(*Bill) {})
	return []spectest.Vector{
		{Name: "good/bill.json", Bytes: good, Gives: string(good)},
		bad("R1-no-shards.json", "shard 1 of 0", func(b *Bill) { b.Shards = 0 }),
		bad("R1-513-shards.json", "shard 1 of 513", func(b *Bill) { b.Shards = 513 }),
		bad("R1-sender.json", "shard -1 of 2", func(b *Bill) { b.From = -1 }),
		bad("R2-exchange.json", `exchange "a/b"`, func(b *Bill) { b.Exchange = "a/b" }),
		bad("R2-round.json", `round ""`, func(b *Bill) { b.Round = "" }),
		bad("R2-epoch.json", "epoch 9007199254740993", func(b *Bill) { b.Epoch = store.MaxGeneration + 1 }),
		bad("R2-map.json", "map 0", func(b *Bill) { b.Map = 0 }),
		bad("R3-key.json", `"address" of rows of kind "link"`, func(b *Bill) { b.By = ByAddress }),
		bad("R4-parts.json", "parts: 1, want 2", func(b *Bill) { b.Parts = b.Parts[1:] }),
		bad("R5-bytes.json", "part 1: 0 bytes", func(b *Bill) { b.Parts[1].Bytes = 0 }),
		bad("R5-hash.json", `hash "00"`, func(b *Bill) { b.Parts[1].Hash = "00" }),
		bad("R6-rows.json", "want 4 rows", func(b *Bill) { b.Parts[1].Rows++ }),
		bad("R6-no-ledger.json", "want 3 rows", func(b *Bill) { b.Ledger.Stages = nil }),
		{Name: "bad/R7-version-2.json", Bytes: bytes.Replace(good, []byte(magic+" 1"), []byte(magic+" 2"), 1), Class: fault.Version, Says: "mercator-bill version 2, want 1"},
		bad("R8-round.json", `round "r11", want "r12"`, func(b *Bill) { b.Round = "r11" }),
		bad("R8-sender.json", `sender "0", want "1"`, func(b *Bill) { b.From = 0 }),
	}
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	all := vectors(t)
	line, body, _ := strings.Cut(strings.TrimSpace(string(all[0].Bytes)), "\n")
	spectest.Check(t, spectest.Format{
		Vectors: all,
		Regions: map[string]string{"example": "    " + line + "\n    " + body + "\n"},
		File:    func(string) string { return "/001.json" },
		Read: func(t testing.TB, name string, file []byte) (string, error) {
			fsys := durable.NewCrashFS()
			if err := durable.WriteFile(fsys, BillPath("/", 1), file); err != nil {
				t.Fatal(err)
			}
			b, err := ReadBill(fsys, "/", vectorBill().ID, 1)
			if err != nil {
				return "", err
			}
			return string(sealBill(t, func(v *Bill) { *v = *b })), nil
		},
	})
}

// FuzzBill: what is accepted encodes again to the same.
func FuzzBill(f *testing.F) {
	_, body, _ := strings.Cut(string(sealBill(f, func(*Bill) {})), "\n")
	f.Add(body)
	f.Fuzz(func(t *testing.T, body string) {
		b, err := decodeBill("bill", fmt.Appendf(nil, "%s 1 %d %s\n%s", magic, len(body), store.Sum([]byte(body)), body))
		if err != nil {
			return
		}
		again, err := store.Seal(magic, b)
		if err != nil {
			t.Fatal(err)
		}
		if once, err := decodeBill("bill", again); err != nil || !reflect.DeepEqual(once, b) {
			t.Fatalf("%v, %v, want %v", once, err, b)
		}
	})
}
