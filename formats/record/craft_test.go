package record

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"

	"mercator/pkg/base/must"
)

// messages takes a stored stream apart: the content of each frame, and the trailer.
func messages(t testing.TB, b []byte) (msgs [][]byte, tr Trailer) {
	t.Helper()
	for len(b) > 0 {
		if binary.LittleEndian.Uint32(b) == trailerFrame {
			tr, _, err := decodeTrailer(b)
			must.OK(t, err)
			return msgs, tr
		}
		var msg []byte
		for at, last := 9, false; ; {
			if last {
				b = b[at+4:]
				break
			}
			head := uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16
			n := int(head >> 3)
			last = head&1 != 0
			msg = append(msg, b[at+3:at+3+n]...)
			at += 3 + n
		}
		msgs = append(msgs, msg)
	}
	return msgs, tr
}

// seal makes a stream of messages, with right checksums and hashes all over.
func seal(t testing.TB, msgs [][]byte, tr Trailer) []byte {
	t.Helper()
	var b []byte
	for _, m := range msgs {
		b = appendStored(b, m)
	}
	return append(b, trailerFor(t, b, tr)...)
}

func trailerFor(t testing.TB, wire []byte, tr Trailer) []byte {
	t.Helper()
	end, err := encodeTrailer(tr, xxh3.Hash128(wire).Bytes())
	must.OK(t, err)
	return end
}

// resum gives a trailer that was changed its right checksum.
func resum(tr []byte) []byte {
	n := len(tr) - trailerSum
	return binary.LittleEndian.AppendUint64(tr[:n:n], xxhash.Sum64(tr[:n]))
}

// header finds a message's header table, to change it in place.
func header(t testing.TB, msg []byte) (meta []byte, h table) {
	t.Helper()
	m, err := parseMessage(msg)
	must.OK(t, err)
	return m.table.f.b, m.table
}

func put64(b []byte, at int, v int64) { binary.LittleEndian.PutUint64(b[at:], uint64(v)) }

// bufferAt finds the i-th buffer of a batch in its metadata.
func bufferAt(h table, i int) int { at, _ := h.vector(2, 16); return at + 16*i }

func nodeAt(h table, i int) int { at, _ := h.vector(1, 16); return at + 16*i }

// withExtra gives rows unknown columns: note (utf8), n (int64), flag (bool); every third row lacks them.
func withExtra(rows []URL) *Schema {
	s := &Schema{Kind: KindURL, extra: []column{
		{name: "flag", typ: typeBool}, {name: "n", typ: typeInt64}, {name: "note", typ: typeUTF8}}}
	for i := range rows {
		if i%3 == 2 {
			continue
		}
		rows[i].Extra = Extra{batch: &extraBatch{schema: s, columns: []inColumn{
			oneValue(typeBool, string(rune(i&1))),
			oneValue(typeInt64, string(binary.LittleEndian.AppendUint64(nil, uint64(i)))),
			oneValue(typeUTF8, "note é"),
		}}}
	}
	return s
}

// arrowStream writes bare Arrow with Arrow's own writer: one batch of empty
// arrays of the fields, under the metadata.
func arrowStream(t testing.TB, md map[string]string, fields []arrow.Field, opts ...ipc.Option) []byte {
	t.Helper()
	m := arrow.MetadataFrom(md)
	schema := arrow.NewSchema(fields, &m)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(opts, ipc.WithSchema(schema))...)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rec := b.NewRecord()
	must.OK(t, w.Write(rec), w.Close())
	return out.Bytes()
}

// bareMessages cuts bare Arrow into its messages.
func bareMessages(t testing.TB, b []byte) (msgs [][]byte) {
	t.Helper()
	for len(b) > 0 {
		n := 8 + int(binary.LittleEndian.Uint32(b[4:]))
		if n > 8 {
			f := &flat{b: b[8:n]}
			n += int(f.root().i64(3))
			if f.err != nil {
				t.Fatal(f.err)
			}
		}
		msgs = append(msgs, b[:n:n])
		b = b[n:]
	}
	return msgs
}
