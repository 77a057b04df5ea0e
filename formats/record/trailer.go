package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"

	"mercator/pkg/base/fault"
)

// Hash is the hash of a stream's rows in their byte form, whatever the batches and their compression. Text form:
// 32 hex digits.
type Hash [16]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func sum128(h *xxh3.Hasher) Hash { return h.Sum128().Bytes() }

// RowHasher computes the Hash of rows that do not come from a record stream
// (text). The zero value is ready.
type RowHasher[T Row] struct {
	forms []byte // of rows, not hashed yet
	hash  xxh3.Hasher
	rows  uint64
}

// Add hashes one more row.
func (h *RowHasher[T]) Add(row *T) {
	h.forms = AppendRow(h.forms, row)
	h.rows++
	if len(h.forms) >= hashBlock {
		h.flush()
	}
}

func (h *RowHasher[T]) flush() {
	h.hash.Write(h.forms)
	h.forms = h.forms[:0]
}

// Sum returns the number of rows so far and their hash.
func (h *RowHasher[T]) Sum() (uint64, Hash) {
	h.flush()
	return h.rows, sum128(&h.hash)
}

// hashBlock is how many bytes of rows are hashed at a time.
const hashBlock = 16 << 10

// Trailer follows Arrow's end of stream, on success only.
type Trailer struct {
	Verified bool // false for bare Arrow
	Rows     uint64
	Hash     Hash
	Txn      string
	Epoch    string // from the schema's metadata; of several streams, see JoinEpochs
	Ledger   Ledger
}

// JoinEpochs is the epoch of rows of both: "0 and 1" where they differ, which is
// none that a crawl has. Where one is unknown, the other counts.
func JoinEpochs(a, b string) string {
	switch {
	case a == b || b == "" || strings.Contains(a, " and "):
		return a
	case a == "":
		return b
	}
	return a + " and " + b
}

// The trailer's frame; SPEC.md has the layout.
const (
	trailerFrame = 0x184D2A5D // a zstd skippable frame
	trailerMagic = "mrecords"
	trailerFixed = 64 // bytes before the JSON, skippable header included
	trailerSum   = 8  // bytes behind it
)

type trailerJSON struct {
	Txn    string `json:"txn,omitempty"`
	Ledger Ledger `json:"ledger"`
}

// encodeTrailer returns the whole frame. wire is the hash of the stream's bytes before it.
func encodeTrailer(t Trailer, wire Hash) ([]byte, error) {
	doc, err := json.Marshal(trailerJSON{Txn: t.Txn, Ledger: t.Ledger})
	if err != nil {
		return nil, err
	}
	if err := checkLedgerSize(doc); err != nil {
		return nil, err
	}
	b := make([]byte, 0, trailerFixed+len(doc)+trailerSum)
	b = binary.LittleEndian.AppendUint32(b, trailerFrame)
	b = binary.LittleEndian.AppendUint32(b, uint32(trailerFixed-8+len(doc)+trailerSum))
	b = append(b, trailerMagic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(doc)))
	b = binary.LittleEndian.AppendUint64(b, t.Rows)
	b = append(b, t.Hash[:]...)
	b = append(b, wire[:]...)
	b = append(b, doc...)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b)), nil
}

// checkLedgerSize bounds what a trailer's JSON can cost to decode: its length,
// and its objects: a few bytes of JSON make hundreds in memory.
func checkLedgerSize(doc []byte) error {
	if len(doc) > MaxLedger {
		return fmt.Errorf("a ledger of %d bytes, want at most %d", len(doc), MaxLedger)
	}
	if n := bytes.Count(doc, []byte("{")); n > MaxObjects {
		return fmt.Errorf("a ledger of %d objects, want at most %d", n, MaxObjects)
	}
	return nil
}

// decodeTrailer checks and reads the frame b.
func decodeTrailer(b []byte) (t Trailer, wire Hash, err error) {
	if len(b) < trailerFixed+trailerSum || string(b[8:16]) != trailerMagic {
		return t, wire, errors.New("a skippable frame that is no trailer")
	}
	body, sum := b[:len(b)-trailerSum], binary.LittleEndian.Uint64(b[len(b)-trailerSum:])
	if got := xxhash.Sum64(body); got != sum {
		return t, wire, &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("trailer checksum %016x", got), Want: fmt.Sprintf("%016x", sum)}
	}
	if v := binary.LittleEndian.Uint32(b[16:]); v != Version {
		return t, wire, otherVersion(fmt.Sprintf("version %d of the trailer", v), uint64(v))
	}
	doc := body[trailerFixed:]
	if n := binary.LittleEndian.Uint32(b[20:]); int64(n) != int64(len(doc)) {
		return t, wire, fmt.Errorf("a trailer with %d bytes of JSON, and it says %d", len(doc), n)
	}
	t.Verified = true
	t.Rows = binary.LittleEndian.Uint64(b[24:])
	copy(t.Hash[:], b[32:48])
	copy(wire[:], b[48:64])
	if err := checkLedgerSize(doc); err != nil {
		return t, wire, err
	}
	var j trailerJSON
	if err := json.Unmarshal(doc, &j); err != nil {
		return t, wire, fmt.Errorf("the trailer's JSON: %w", err)
	}
	t.Txn, t.Ledger = j.Txn, j.Ledger
	return t, wire, nil
}
