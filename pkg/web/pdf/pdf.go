// Package pdf reads what a crawler wants of a PDF file (ISO 32000): its text, the
// targets of its links, and its title. It draws nothing.
//
// # Invariants
//
//   - The file is read by its objects as they stand, not by its cross-reference
//     table, so that a damaged file gives what is left of it.
//   - Each Document has one allowance of work, which every byte that is searched,
//     parsed or inflated is taken from. When it is used up, every method ends
//     at once (Document.Cut). No file makes a loop.
//   - Memory is the index of objects (MaxObjects), fonts, the values of one object or
//     operator, and inflated streams: those of one page's content and those that
//     are kept, at most MaxStream bytes each.
//
// Encrypted files are read if the empty password opens them, as it does in viewers.
// Others are refused (ErrEncrypted).
//
// A Document serves one goroutine.
package pdf

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
)

// Bounds of what is read of one file.
const (
	MaxObjects  = 1 << 17  // objects that are found; those behind are not looked at
	MaxStream   = 2 << 20  // bytes of one stream, inflated
	MaxWork     = 96 << 20 // bytes looked at, inflated ones included, and what costs as much
	workPerByte = 40       // of a file for which MaxWork is less: a book of 5 MB takes 200 MB; at most five times MaxWork
	MaxPages    = 1 << 14
	maxDepth    = 32   // of arrays and dictionaries in each other, and of the page tree
	maxNodes    = 1e5  // values of one object, or before one operator
	dictNodes   = 8    // as many of them a dictionary counts for
	maxTitle    = 4096 // bytes
	valueCost   = 8    // of one value, in work
	entryCost   = 24   // of one entry in a map
	objectCost  = 64   // of looking one object up
)

// Errors of Open.
var (
	ErrNotPDF    = errors.New("not a PDF file")
	ErrEncrypted = errors.New("an encrypted PDF file, which asks for a password")
)

// place says where an object stands: at an offset of the file, or in an object
// stream.
type place struct {
	offset     int // in the file, or in the inflated stream
	stream     int // number of the object stream; 0: none
	generation int // of an object of the file itself
}

// Document is an opened file.
type Document struct {
	body    []byte
	objects map[int]place
	trailer dict // Root, Info, Encrypt, ID of all trailers, the last ones
	work    int  // work left, see spend
	entries int  // entries of fonts so far
	cut     bool
	streams []inflated // kept, MaxStream bytes of them; the last one used is last

	security *security // nil: the file is not encrypted
}

type inflated struct {
	number int
	data   []byte
}

// Open finds the objects of a file. The body must not change while the document is
// in use.
func Open(body []byte) (*Document, error) {
	head := body[:min(len(body), 1024)]
	if !bytes.Contains(head, []byte("%PDF-")) {
		return nil, ErrNotPDF
	}
	d := &Document{body: body, objects: make(map[int]place), trailer: dict{}, work: min(max(MaxWork, workPerByte*len(body)), 5*MaxWork)}
	packed := d.index()
	if !d.unlock() {
		return nil, ErrEncrypted
	}
	for _, number := range packed {
		d.indexStream(number)
	}
	return d, nil
}

// Cut says that a bound was met, so that something may be missing.
func (d *Document) Cut() bool { return d.cut }

// spend takes n from the work that is left.
func (d *Document) spend(n int) bool {
	if d.work -= n; d.work < 0 {
		d.cut = true
		return false
	}
	return true
}

// index walks through the file: "N G obj" begins an object, "trailer" a trailer. Of
// streams only the dictionaries are looked at. It returns the numbers of the object
// streams.
func (d *Document) index() (packed []int) {
	b := d.body
	d.spend(2 * len(b))
	for at := 0; d.work >= 0; {
		i := bytes.Index(b[at:], []byte("trailer"))
		if i < 0 {
			break
		}
		at += i + len("trailer")
		if t, ok := d.parser(b[at:]).value(0).(dict); ok {
			d.addTrailer(t)
		}
	}
	for at := 0; at < len(b) && d.work >= 0; {
		i := bytes.Index(b[at:], []byte("obj"))
		if i < 0 {
			break
		}
		end := at + i + len("obj")
		number, generation, ok := objectNumber(b[max(at, at+i-24) : at+i])
		at = end
		if !ok {
			continue
		}
		if len(d.objects) >= MaxObjects {
			d.cut = true
			break
		}
		d.objects[number] = place{offset: end, generation: generation}
		// A stream is skipped, so that its bytes are not taken for objects.
		next := bytes.Index(b[at:], []byte("obj"))
		if next < 0 {
			next = len(b) - at
		}
		s := streamStart(b[at : at+next])
		if s < 0 {
			continue
		}
		head := b[at : at+s]
		if bytes.Contains(head, []byte("/ObjStm")) {
			packed = append(packed, number)
		}
		if bytes.Contains(head, []byte("/XRef")) {
			if t, ok := d.parser(head).value(0).(dict); ok {
				d.addTrailer(t)
			}
		}
		at += s + len("stream")
		e := bytes.Index(b[at:], []byte("endstream"))
		if e < 0 {
			break // the last one, cut short
		}
		at += e + len("endstream")
	}
	return packed
}

// streamStart finds the word that begins a stream, behind a dictionary; -1: there is none.
func streamStart(b []byte) int {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte("stream"))
		if i < 0 {
			return -1
		}
		if at += i; bytes.HasSuffix(bytes.TrimRight(b[max(0, at-16):at], "\r\n \t"), []byte(">>")) {
			return at
		}
		at += len("stream")
	}
}

func (d *Document) addTrailer(t dict) {
	for _, key := range []name{"Root", "Info", "Encrypt", "ID"} {
		if v, ok := t[key]; ok {
			d.trailer[key] = v
		}
	}
}

// objectNumber reads "N G " from the end of b.
func objectNumber(b []byte) (number, generation int, ok bool) {
	f := bytes.Fields(b)
	if len(f) < 2 || len(b) == 0 || !isSpace(b[len(b)-1]) {
		return 0, 0, false
	}
	digits := f[len(f)-2]
	// What stands before may touch it: "endobj12 0 obj".
	i := len(digits)
	for i > 0 && digits[i-1] >= '0' && digits[i-1] <= '9' {
		i--
	}
	number, err := strconv.Atoi(string(digits[i:]))
	generation, errGeneration := strconv.Atoi(string(f[len(f)-1]))
	return number, generation, err == nil && errGeneration == nil && number > 0
}

// indexStream adds the objects of an object stream (ISO 32000-1, 7.5.7).
func (d *Document) indexStream(number int) {
	s, ok := d.object(number).(stream)
	if !ok {
		return
	}
	data := d.inflate(number, s)
	first, count := d.int(s.dict["First"]), d.int(s.dict["N"])
	p := d.parser(data)
	for range min(count, MaxObjects) {
		n, ok1 := p.value(0).(float64)
		offset, ok2 := p.value(0).(float64)
		if !ok1 || !ok2 {
			return
		}
		if len(d.objects) >= MaxObjects {
			d.cut = true
			return
		}
		// An object that stands in the file itself may be older or newer: that of
		// the stream counts only where there is none.
		if at, ok := d.objects[int(n)]; !ok || at.stream != 0 {
			d.objects[int(n)] = place{offset: first + int(offset), stream: number}
		}
	}
}

// object parses an object by its number; nil if there is none.
func (d *Document) object(number int) any {
	at, ok := d.objects[number]
	if !ok || !d.spend(objectCost) {
		return nil
	}
	if at.stream == 0 {
		return d.stored(number, at)
	}
	holder, ok := d.objects[at.stream]
	if !ok || holder.stream != 0 {
		return nil // a stream within a stream is none
	}
	s, ok := d.stored(at.stream, holder).(stream)
	if !ok {
		return nil
	}
	data := d.inflate(at.stream, s)
	if at.offset < 0 || at.offset >= len(data) {
		return nil
	}
	return d.parser(data[at.offset:]).value(0)
}

// stored parses an object of the file itself.
func (d *Document) stored(number int, at place) any {
	p := d.parser(d.body[at.offset:])
	p.sealed = sealed{number, at.generation}
	return p.object()
}

// resolve follows references.
func (d *Document) resolve(v any) any {
	for range maxDepth {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		v = d.object(int(r))
	}
	return nil
}

func (d *Document) dict(v any) dict {
	switch v := d.resolve(v).(type) {
	case dict:
		return v
	case stream:
		return v.dict
	}
	return nil
}

func (d *Document) array(v any) []any {
	a, _ := d.resolve(v).([]any)
	return a
}

func (d *Document) int(v any) int {
	f, _ := d.resolve(v).(float64)
	if f < -1e9 || f > 1e9 {
		return 0
	}
	return int(f)
}

// Title is the title that the file's Info dictionary gives, or "".
func (d *Document) Title() string {
	s, _ := d.resolve(d.dict(d.trailer["Info"])["Title"]).(text)
	return strings.TrimSpace(clean(decodeText(string(s[:min(len(s), maxTitle)]))))
}

// decodeText reads a text string (ISO 32000-2, 7.9.2.2): UTF-16BE or UTF-8 with a
// mark, or PDFDocEncoding, taken for Windows-1252, which it mostly is.
func decodeText(s string) string {
	switch {
	case strings.HasPrefix(s, "\xFE\xFF"):
		return utf16BE(s[2:])
	case strings.HasPrefix(s, "\xEF\xBB\xBF"):
		return strings.ToValidUTF8(s[3:], "\uFFFD")
	}
	u, _ := charmap.Windows1252.NewDecoder().String(s) // every byte has a meaning
	return u
}

func utf16BE(s string) string {
	units := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

// page is one page: its dictionary, with the resources that it inherits.
type page struct {
	dict      dict
	resources dict
}

// pages walks the page tree in order. If the file has lost its tree, pages come in the
// order of their object numbers.
func (d *Document) pages() iter.Seq[page] {
	return func(yield func(page) bool) {
		seen := make(map[int]bool)
		found := 0
		var walk func(v any, inherited any, depth int) bool
		walk = func(v, inherited any, depth int) bool {
			if r, ok := v.(ref); ok {
				if seen[int(r)] {
					return true
				}
				seen[int(r)] = true
			}
			node := d.dict(v)
			if node == nil || depth > maxDepth {
				return true
			}
			if r, ok := node["Resources"]; ok {
				inherited = r
			}
			if kids, ok := node["Kids"]; ok {
				for _, kid := range d.array(kids) {
					if !walk(kid, inherited, depth+1) {
						return false
					}
				}
				return true
			}
			if found++; found > MaxPages || !d.spend(64) {
				d.cut = true
				return false
			}
			return yield(page{node, d.dict(inherited)})
		}
		if !walk(d.dict(d.trailer["Root"])["Pages"], nil, 0) || found > 0 {
			return
		}
		var numbers []int
		for n := range d.objects {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			if d.work < 0 {
				return
			}
			if v := d.dict(ref(n)); v["Type"] == name("Page") && !walk(ref(n), nil, 0) {
				return
			}
		}
	}
}

// Base is the URL that the document's URI actions are relative to, as it stands in the file; "" is that of the file.
func (d *Document) Base() string {
	base, _ := d.resolve(d.dict(d.dict(d.trailer["Root"])["URI"])["Base"]).(text)
	return string(base)
}

// Links gives the targets of URI actions, page by page, as they stand in the file:
// they may be relative, and may come twice.
func (d *Document) Links() iter.Seq[string] {
	return func(yield func(string) bool) {
		for p := range d.pages() {
			for _, v := range d.array(p.dict["Annots"]) {
				a := d.dict(v)
				action := d.dict(a["A"])
				if u, ok := d.resolve(action["URI"]).(text); ok && !yield(string(u)) {
					return
				}
				if d.work < 0 {
					return
				}
			}
		}
	}
}
