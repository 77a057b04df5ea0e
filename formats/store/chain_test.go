package store

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeebo/xxh3"
)

// chainOf computes the sum as SPEC.md says it, from the whole file.
func chainOf(data []byte) (link, sum string) {
	l := make([]byte, 16)
	for len(data) >= 1<<20 {
		h := xxh3.Hash128(append(bytes.Clone(l), data[:1<<20]...)).Bytes()
		l, data = h[:], data[1<<20:]
	}
	h := xxh3.Hash128(append(bytes.Clone(l), data...)).Bytes()
	return hex.EncodeToString(l), hex.EncodeToString(h[:])
}

// TestChainGoesOn: however a file grew, its sum is the sum of its bytes.
func TestChainGoesOn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 3*chainBlock+12345)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	for _, ends := range [][]int{
		{len(data)},
		{0, 1, chainBlock - 1, chainBlock, chainBlock + 1, 2 * chainBlock, len(data)},
		{chainBlock, 3 * chainBlock, 3 * chainBlock, len(data)},
	} {
		t.Run(fmt.Sprint(len(ends), " ends"), func(t *testing.T) {
			c := NewChain()
			from := 0
			for _, end := range ends {
				_, _ = c.Write(data[from:end])
				from = end
				link, sum := chainOf(data[:end])
				if c.Link() != link || c.Sum() != sum || c.Length() != int64(end) {
					t.Fatalf("%v: after %d bytes link %s, sum %s; want %s, %s", ends, end, c.Link(), c.Sum(), link, sum)
				}
				again, err := ResumeChain(Entry{Length: int64(end), Link: c.Link()})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = again.Write(data[again.Length():end])
				if again.Sum() != sum {
					t.Fatalf("%v: taken up again at %d the sum is %s, want %s", ends, end, again.Sum(), sum)
				}
				c = again
			}
		})
	}
	if _, err := ResumeChain(Entry{Link: "0"}); err == nil {
		t.Error("a link of one digit is taken")
	}
}
