package record

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestRowForm: a row comes back from its byte form to the bit, shorter forms are none, and nothing is copied.
func TestRowForm(t *testing.T) {
	t.Run("url", testRowForm[URL])
	t.Run("fetch", testRowForm[Fetch])
	t.Run("link", testRowForm[Link])
	t.Run("module", testRowForm[Module])
	for _, bits := range []uint32{1 << 31, 1, 0x7FC00001} { // minus zero, the least number, no number
		var back URL
		if _, err := ParseRow(string(AppendRow(nil, &URL{Score: math.Float32frombits(bits)})), &back, nil); err != nil || math.Float32bits(back.Score) != bits {
			t.Errorf("score %08x is %08x, %v", bits, math.Float32bits(back.Score), err)
		}
	}
	form := string(AppendRow(nil, &vectorURLs()[1]))
	var row URL
	if n := testing.AllocsPerRun(10, func() { ParseRow(form, &row, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func testRowForm[T Row](t *testing.T) {
	rows := append(randomRows[T](200, 3), *new(T))
	for _, row := range rows {
		form := string(AppendRow([]byte("front"), &row))[5:]
		var back T
		if n, err := ParseRow(form+"more", &back, nil); n != len(form) || err != nil || !reflect.DeepEqual(back, row) {
			t.Fatalf("%d of %d bytes, %v: %+v, want %+v", n, len(form), err, back, row)
		}
		for n := range len(form) {
			if _, err := ParseRow(form[:n], &back, nil); err == nil {
				t.Fatalf("%d of %d bytes are taken for a row", n, len(form))
			}
		}
	}
}

// What AppendRow would not have written is refused.
func TestRowFormsRefused(t *testing.T) {
	const empty = "\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00" // a link's: url, url_key, host
	good := "\x00\x00" + empty
	if n, err := ParseRow(good, new(Link), nil); n != len(good) || err != nil {
		t.Fatal(n, err)
	}
	for what, form := range map[string]string{
		"an unknown flag":               "\x00\x04" + empty,
		"a flag, and empty text":        "\x01\x00" + "\x00" + empty,
		"a flag, and a zero":            "\x20\x00" + empty + "\x00\x00",
		"a long varint":                 "\x00\x00" + "\x81\x00a" + empty[1:],
		"text longer than what is left": "\x00\x00" + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + empty[1:],
		"a varint of 11 bytes":          "\x00\x00" + strings.Repeat("\xff", 10) + "\x01" + empty[1:],
		"no unknown column":             "\x00\x02" + empty + "\x00",
		"unknown columns in disorder":   "\x00\x02" + empty + "\x01b\x06\x01" + "\x01a\x06\x01" + "\x00",
		"an unknown column twice":       "\x00\x02" + empty + "\x01a\x06\x01" + "\x01a\x06\x01" + "\x00",
		"an unknown type":               "\x00\x02" + empty + "\x01a\x12\x01" + "\x00",
		"type 0":                        "\x00\x02" + empty + "\x01a\x00\x01" + "\x00",
		"a bool of 2":                   "\x00\x02" + empty + "\x01a\x01\x02" + "\x00",
		"unknown columns without end":   "\x00\x02" + empty + "\x01a\x06\x01",
	} {
		if n, err := ParseRow(form, new(Link), nil); err == nil {
			t.Errorf("%s: %d bytes were taken", what, n)
		}
	}
	for what, form := range map[string]string{
		"a late column of 0":        "\x00\x02" + empty + "\x07sitemap\x06\x00" + "\x00",
		"a late column, twice":      "\x00\x02" + empty + "\x07sitemap\x06\x01" + "\x07sitemap\x06\x01" + "\x00",
		"a late column, behind":     "\x00\x02" + empty + "\x01a\x06\x01" + "\x07sitemap\x06\x01" + "\x00",
		"late columns, not by name": "\x00\x02" + empty + "\x07sitemap\x06\x01" + "\x09requisite\x06\x01" + "\x00",
		"a late column, no end":     "\x00\x02" + empty + "\x07sitemap\x06\x01",
		"a late column, no flag":    "\x00\x00" + empty + "\x07sitemap\x06\x01" + "\x00",
	} {
		if n, err := ParseRow(form, new(Link), nil); err == nil && n == len(form) {
			t.Errorf("%s: %d bytes were taken", what, n)
		}
	}
	if n, err := ParseRow("\x00\x02"+empty+"\x01a\x06\x01"+"\x01b\x06\x01"+"\x00", new(Link), nil); n == 0 || err != nil {
		t.Error(n, err)
	}
}

// Whether a text is ASCII is seen in one pass of several bytes at a time: a byte that is not is found wherever it stands.
func TestASCII(t *testing.T) {
	for n := range 80 {
		b := bytes.Repeat([]byte{'x'}, n)
		if !ascii(string(b)) {
			t.Errorf("%d characters are not ASCII", n)
		}
		for i := range b {
			b[i] = 0x80
			if ascii(string(b)) {
				t.Errorf("byte %d of %d is not seen", i, n)
			}
			b[i] = 'x'
		}
	}
}
