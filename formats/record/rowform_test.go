package record

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
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

// wide is a row of a release that is to come. It has columns of all types, and more than a row could have flags for.
type wide struct {
	Key                                                                            uint64 `col:"url_key,required"`
	Depth                                                                          uint16 `col:"depth"`
	C00, C01, C02, C03, C04, C05, C06, C07, C08, C09, C10, C11, C12, C13, C14, C15 uint8  // tags are given in wideType
	C16, C17, C18, C19, C20, C21, C22, C23                                         string
	C24, C25, C26, C27                                                             Time
	C28, C29, C30, C31                                                             int64
	C32, C33                                                                       float32
	C34, C35                                                                       uint64
	C36, C37                                                                       uint16
	C38, C39                                                                       bool
	Extra                                                                          Extra
}

// wideType gives each column of wide that has no tag a late one.
func wideType() reflect.Type {
	var fields []reflect.StructField
	for i := range reflect.TypeFor[wide]().NumField() {
		f := reflect.TypeFor[wide]().Field(i)
		if strings.HasPrefix(f.Name, "C") {
			f.Tag = reflect.StructTag(fmt.Sprintf(`col:"%s,late"`, strings.ToLower(f.Name)))
		}
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

// There is no end to how many columns a later version may add, of whatever type: they are late, and change the form of no row without them.
func TestLateColumns(t *testing.T) {
	table := newRowType(KindURL, wideType())
	form := func(p unsafe.Pointer) string {
		b := table.append(nil, p)
		to := len(b)
		return string(table.endRow(table.appendLate(b, p), 0, to))
	}
	narrow := wide{Key: 7, Depth: 1}
	before := newRowType(KindURL, reflect.TypeFor[struct {
		Key   uint64 `col:"url_key,required"`
		Depth uint16 `col:"depth"`
	}]())
	if got, want := form(unsafe.Pointer(&narrow)), string(before.append(nil, unsafe.Pointer(&narrow))); got != want {
		t.Errorf("a row without late columns is %q, want %q as before there were any", got, want)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		row := wide{Key: 1}
		v := reflect.ValueOf(&row).Elem()
		for i := 1; i < v.NumField()-1; i++ {
			switch f := v.Field(i); {
			case rng.IntN(3) > 0:
			case f.Kind() == reflect.String:
				f.SetString(strings.Repeat("x", rng.IntN(300)))
			case f.Kind() == reflect.Bool:
				f.SetBool(true)
			case f.CanFloat():
				f.SetFloat(-1 / float64(1+rng.IntN(9)))
			case f.CanInt():
				f.SetInt(rng.Int64() - rng.Int64())
			default:
				f.SetUint(rng.Uint64() >> (64 - f.Type().Bits()))
			}
		}
		s := form(unsafe.Pointer(&row))
		var back wide
		p := &parser{left: s}
		if table.parse(p, unsafe.Pointer(&back)) {
			p.extra(nil, table.parseLate(p, unsafe.Pointer(&back)), table.columns[len(table.formed):])
		}
		if p.bad || p.left != "" || !reflect.DeepEqual(back, row) {
			t.Fatalf("%+v is %q, which is %+v (bad: %v)", row, s, back, p.bad)
		}
	}
}

// The columns of version 3 that have a flag: one more would change the form of all rows that there are. A new column is late (rows.go),
// and late columns stand in the order of their names.
func TestFlagsOfVersion3(t *testing.T) {
	for _, c := range []struct {
		table *rowType
		flags int
	}{{urlType, 16}, {fetchType, 31}, {linkType, 10}, {moduleType, 2}} {
		t.Run(string(c.table.kind), func(t *testing.T) {
			if c.table.flags != c.flags {
				t.Errorf("%d flags, want %d: mark a new column late", c.table.flags, c.flags)
			}
			late := c.table.columns[len(c.table.formed):]
			if !slices.IsSortedFunc(late, func(a, b column) int { return strings.Compare(a.name, b.name) }) {
				t.Errorf("late columns %v, want them by name", late)
			}
			for i, f := range c.table.fields[:len(c.table.formed)] {
				if f.flag == 0 != c.table.columns[i].required {
					t.Errorf("%s has flag %b", c.table.columns[i].name, f.flag)
				}
			}
		})
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
		t.Run(what, func(t *testing.T) {
			if n, err := ParseRow(form, new(Link), nil); err == nil {
				t.Errorf("%s: %d bytes were taken", what, n)
			}
		})
	}
	for what, form := range map[string]string{
		"a late column of 0":        "\x00\x02" + empty + "\x07sitemap\x06\x00" + "\x00",
		"a late column, twice":      "\x00\x02" + empty + "\x07sitemap\x06\x01" + "\x07sitemap\x06\x01" + "\x00",
		"a late column, behind":     "\x00\x02" + empty + "\x01a\x06\x01" + "\x07sitemap\x06\x01" + "\x00",
		"late columns, not by name": "\x00\x02" + empty + "\x07sitemap\x06\x01" + "\x09requisite\x06\x01" + "\x00",
		"a late column, no end":     "\x00\x02" + empty + "\x07sitemap\x06\x01",
		"a late column, no flag":    "\x00\x00" + empty + "\x07sitemap\x06\x01" + "\x00",
	} {
		t.Run(what, func(t *testing.T) {
			if n, err := ParseRow(form, new(Link), nil); err == nil && n == len(form) {
				t.Errorf("%s: %d bytes were taken", what, n)
			}
		})
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
