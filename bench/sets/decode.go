package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"mercator/bench/sets/keys"
	"mercator/formats/fpfile"
	"mercator/pkg/base/fingerprint"
)

// encode makes a fingerprint file in memory.
func encode(list []uint64) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(6 * len(list))
	w := fpfile.NewWriter(&out, fingerprint.Polynomial)
	if err := w.AddKeys(list); err != nil {
		return nil, err
	}
	err := w.Finish()
	return out.Bytes(), err
}

// decode reads all keys of a set in memory, in order.
func decode(b *bench) error {
	raw := fill(b.n, keys.Uniform(b.seed, b.n))
	data, err := encode(raw)
	if err != nil {
		return err
	}
	deltas := make([]byte, 0, 10*len(raw))
	var last, sum uint64
	for _, key := range raw {
		deltas = binary.AppendUvarint(deltas, key-last)
		last = key
		sum += key
	}
	raw = nil
	n := b.n
	block := make([]uint64, 4096)
	took, err := b.turns(
		contender{"blocks", nil, func() error {
			r, err := fpfile.Open(bytes.NewReader(data), int64(len(data)), "memory")
			if err != nil {
				return err
			}
			it := r.All()
			count, last := uint64(0), uint64(0)
			for {
				list, err := it.Block()
				if err == io.EOF {
					break
				}
				if err != nil {
					return err
				}
				count += uint64(len(list))
				last = list[len(list)-1]
			}
			if count != n {
				return fmt.Errorf("%d keys, the last %016x, want %d", count, last, n)
			}
			return nil
		}},
		contender{"uvarint", nil, func() error {
			var last uint64
			at, i := 0, 0
			for at < len(deltas) {
				d, k := binary.Uvarint(deltas[at:])
				at += k
				last += d
				block[i&4095] = last
				i++
			}
			if uint64(i) != n {
				return fmt.Errorf("%d keys, want %d", i, n)
			}
			return nil
		}},
	)
	if err != nil {
		return err
	}
	head()
	b.row(fmt.Sprintf("fpfile, checksums verified, %.3f bytes a key", float64(len(data))/float64(n)), took[0], float64(n), "keys",
		fmt.Sprintf("binary.Uvarint of differences, nothing verified, %.3f bytes a key", float64(len(deltas))/float64(n)), took[1], "≥ 5; ≥ 3 with the densest width", 3)
	return nil
}
