package record

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestURLRows holds the quick ways to read and write rows of kind url against the list of
// fields that all others use.
func TestURLRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, random.IntN(3)*random.IntN(100))
		for i := range b {
			b[i] = 'a' + byte(random.IntN(26))
		}
		if len(b) > 150 {
			b[7] = 0xff // no UTF-8
		}
		return string(b)
	}
	number := func() uint64 { return random.Uint64() >> (random.UintN(2) * 63) }
	var rows []URL
	for range 3000 {
		rows = append(rows, URL{URL: text(), Key: number(), Host: text(), Priority: uint8(number()), Score: random.Float32(), Depth: uint16(number()), Attempt: uint8(number()),
			Via: text(), Discovered: Time(number()), Due: Time(number()), Addr: text(), AddrExpires: Time(number()), AddrError: text(), ETag: text(), LastModified: text(), LastContentFP: number()})
	}

	var b bytes.Buffer
	w, err := NewWriter[URL](&b, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quick, plain := rowCodec{mode: writing}, rowCodec{mode: writing}
	for _, c := range urlColumns {
		quick.out, plain.out = append(quick.out, outColumn{column: c}), append(plain.out, outColumn{column: c})
	}
	for i := range rows {
		quick.row, plain.row, plain.next = i, i, 0
		quick.writeURL(&rows[i])
		plain.visitURL(&rows[i])
		if quick.bytes != plain.bytes || !bytes.Equal(quick.canon, plain.canon) {
			t.Fatalf("row %d: %d bytes of values and %d of canonical encoding, want %d and %d", i, quick.bytes, len(quick.canon), plain.bytes, len(plain.canon))
		}
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range quick.out {
		if !reflect.DeepEqual(quick.out[i], plain.out[i]) {
			t.Errorf("column %q differs", quick.out[i].name)
		}
	}
	if _, err := w.Commit(Ledger{}); err != nil {
		t.Fatal(err)
	}

	r, err := NewReader[URL](&b, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		var got, want URL
		if err := r.Read(&got); err != nil {
			t.Fatal(err)
		}
		plain := rowCodec{mode: reading, in: r.codec.in, row: r.row - 1}
		plain.visitURL(&want)
		hashed := len(r.codec.canon) == 0 // with those before it
		if got != want || !hashed && !bytes.HasSuffix(r.codec.canon, append(plain.canon, 0)) {
			t.Fatalf("row %d: %+v, want %+v, or its canonical encoding differs", i, got, want)
		}
	}
}
