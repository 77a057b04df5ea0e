package pdf

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/costtest"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// file makes a PDF of objects 1, 2, …; 1 is the catalog and 2 the root of the pages.
func file(objects ...string) []byte {
	var b strings.Builder
	b.WriteString("%PDF-1.7\n")
	for i, o := range objects {
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	b.WriteString("trailer << /Root 1 0 R /Info << /Title (A \\(good\\) title) >> >>\n%%EOF\n")
	return []byte(b.String())
}

func streamOf(dict, data string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", dict, len(data), data)
}

func flate(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

const (
	catalog = "<< /Type /Catalog /Pages 2 0 R >>"
	pages   = "<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 5 0 R >> >> >>"
	onePage = "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Annots [6 0 R] >>"
	simple  = "<< /Type /Font /Subtype /Type1 /BaseFont /Times /Encoding << /Differences [65 /eacute /fi /uni0416] >> >>"
	annot   = "<< /Subtype /Link /A << /S /URI /URI (http://e.org/\\141?x=\\(1\\)) >> >>"
)

func textOf(t *testing.T, body []byte) string {
	t.Helper()
	d, err := Open(body)
	must.OK(t, err)
	s, _ := d.Text(1 << 20)
	return s
}

func TestPage(t *testing.T) {
	for name, c := range map[string]struct{ content, font, want string }{
		"lines":          {"BT /F1 10 Tf 72 700 Td (one) Tj 0 -12 Td (two) Tj T* (2) ' ET", simple, "one\ntwo 2"},
		"leading":        {"BT /F1 10 Tf 12 TL (a) Tj T* (b) Tj (c) ' ET", simple, "a\nb\nc"},
		"kerning":        {"BT /F1 10 Tf [(wo) 20 (rd) -400 (next) 3 ( one)] TJ ET", simple, "word next one"},
		"a tight line":   {"BT /F1 10 Tf [(Each) -177 (file) -156 (is) -177 (one)] TJ ET", simple, "Each file is one"},
		"kerned":         {"BT /F1 10 Tf [(A) 120 (W) 80 (A) -90 (Y) -120 (s)] TJ ET", simple, "éWéYs"},
		"one wide gap":   {"BT /F1 10 Tf [(left) -9000 (ri) -30 (ght) -250 (end)] TJ ET", simple, "left right end"},
		"drawn apart":    {"BT /F1 10 Tf 4 Tc (TITLE) Tj 0 Tc 75 0 Td (end) Tj ET", simple, "TITLE end"},
		"gap as Tc":      {"BT /F1 10 Tf (is) Tj 3 Tc 10 0 Td (.N) Tj 0 Tc 13 0 Td (ote) Tj ET", simple, "is. Note"},
		"wide gap as Tc": {"BT /F1 10 Tf (a) Tj 8 Tc 5 0 Td (sbo) Tj 0 Tc 31 0 Td (r) Tj ET", simple, "as b or"},
		"placed words":   {"BT /F1 10 Tf 1 0 0 1 10 10 Tm (ab) Tj 1 0 0 1 40 10 Tm (cd) Tj ET", simple, "ab cd"},
		"names":          {"BT /F1 10 Tf (ABC\\344) Tj ET", simple, "éfiЖä"},
		"widths":         {"BT /F1 10 Tf (ii) Tj 6 0 Td (ii) Tj ET", "<< /Subtype /TrueType /FirstChar 105 /Widths [300] >>", "iiii"},
		"inline image":   {"BI /W 1 ID \x00(]>EI( EI BT /F1 10 Tf (after) Tj ET", simple, "after"},
		"saved state":    {"BT /F1 10 Tf q /F2 9 Tf Q (kept) Tj ET", simple, "kept"},
		"no font":        {"BT (lost) Tj ET", simple, ""},
		"broken syntax":  {"BT /F1 10 Tf ] >> } (a) Tj [ (b) TJ ET", simple, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			body := file(catalog, pages, onePage, streamOf("", c.content), c.font, annot)
			if got := textOf(t, body); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			packed := file(catalog, pages, onePage, streamOf("/Filter /FlateDecode", flate(c.content)), c.font, annot)
			if got := textOf(t, packed); got != c.want {
				t.Errorf("%s, deflated: %q, want %q", name, got, c.want)
			}
		})
	}
}

// Text stands where cm and the matrices of forms put it, too.
func TestPlacedText(t *testing.T) {
	form := streamOf("/Subtype /Form /Matrix [1 0 0 1 0 -50]", "BT /F1 10 Tf (form) Tj ET")
	for name, c := range map[string]struct{ content, want string }{
		"apart":              {"q 1 0 0 1 10 10 cm BT /F1 10 Tf (ab) Tj ET Q q 1 0 0 1 90 10 cm BT /F1 10 Tf (cd) Tj ET Q", "ab cd"},
		"joined":             {"q 1 0 0 1 10 10 cm BT /F1 10 Tf (ab) Tj ET Q q 1 0 0 1 20 10 cm BT /F1 10 Tf (cd) Tj ET Q", "abcd"},
		"below":              {"BT /F1 10 Tf (ab) Tj ET 1 0 0 1 0 -40 cm BT (cd) Tj ET", "ab\ncd"},
		"scaled":             {"2 0 0 2 0 0 cm BT /F1 10 Tf (ab) Tj 10 0 Td (cd) Tj ET", "abcd"},
		"a form":             {"BT /F1 10 Tf (ab) Tj ET /X Do BT /F1 10 Tf (cd) Tj ET", "ab\nform\ncd"},
		"a little back":      {"BT /F1 10 Tf (ab) Tj 4 0 Td (cd) Tj ET", "ab cd"},
		"a glyph of no name": {"BT /F1 10 Tf (one\002two) Tj ET", "one two"},
	} {
		t.Run(name, func(t *testing.T) {
			resources := strings.Replace(pages, "/F1 5 0 R >>", "/F1 5 0 R >> /XObject << /X 7 0 R >>", 1)
			font := "<< /Subtype /Type1 /BaseFont /Times /Encoding << /Differences [2 /g3] >> >>"
			if got := textOf(t, file(catalog, resources, onePage, streamOf("", c.content), font, annot, form)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Notes, and what form fields show, belong to the text of a page; hidden ones do not.
func TestAppearances(t *testing.T) {
	shown := streamOf("/Subtype /Form /Resources << /Font << /F1 5 0 R >> >>", "BT /F1 9 Tf (a note) Tj ET")
	for name, c := range map[string]struct{ annotation, want string }{
		"note":         {"<< /Subtype /FreeText /AP << /N 7 0 R >> >>", "page\na note"},
		"state":        {"<< /Subtype /Widget /AS /On /AP << /N << /On 7 0 R /Off 4 0 R >> >> >>", "page\na note"},
		"other state":  {"<< /Subtype /Widget /AS /None /AP << /N << /On 7 0 R >> >> >>", "page"},
		"hidden":       {"<< /Subtype /FreeText /F 2 /AP << /N 7 0 R >> >>", "page"},
		"not on view":  {"<< /Subtype /FreeText /F 32 /AP << /N 7 0 R >> >>", "page"},
		"popup":        {"<< /Subtype /Popup /AP << /N 7 0 R >> >>", "page"},
		"no resources": {"<< /Subtype /FreeText /AP << /N 4 0 R >> >>", "page"},
	} {
		t.Run(name, func(t *testing.T) {
			body := file(catalog, pages, onePage, streamOf("", "BT /F1 10 Tf (page) Tj ET"), simple, c.annotation, shown)
			if got := textOf(t, body); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Files that qpdf and pypdf encrypted: each method with an empty user password, some with an
// empty owner's alone, and one that asks for a password.
func TestEncrypted(t *testing.T) {
	names, err := filepath.Glob("testdata/*.pdf")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			body, err := os.ReadFile(name)
			must.OK(t, err)
			d, err := Open(body)
			if filepath.Base(name) == "password.pdf" {
				if !errors.Is(err, ErrEncrypted) {
					t.Errorf("%v, want ErrEncrypted", err)
				}
				return
			}
			must.OK(t, err)
			if s, _ := d.Text(1000); s != "Sealed text" {
				t.Errorf("text %q", s)
			}
			if s := d.Title(); s != "Sealed title" {
				t.Errorf("title %q", s)
			}
			if links := slices.Collect(d.Links()); !slices.Equal(links, []string{"http://sealed.example/a"}) {
				t.Errorf("links %q", links)
			}
		})
	}
}

func TestCMaps(t *testing.T) {
	embedded := func(body string) string { return streamOf("/Type /CMap", body) }
	for name, c := range map[string]struct{ encoding, toUnicode, codes, want string }{
		"Identity":              {"/Identity-H", "<0041> <0061> endbfchar", "00410042", "a"},
		"wide range":            {"/Identity-H", "<0000> <FFFF> <0000> endbfrange", "004104160800", "AЖࠀ"},
		"one byte":              {"8 0 R", "<41> <0061> <42> <0062> endbfchar", "4142", "ab"},
		"one and two bytes":     {"9 0 R", "<41> <0061> <8142> <0062> endbfchar", "41814241", "aba"},
		"UCS-2":                 {"/UniGB-UCS2-H", "", "4E2D65870041", "中文A"},
		"UTF-8":                 {"/UniKS-UTF8-H", "", "41D696ED959CF09F9880", "A֖한😀"},
		"UTF-32":                {"/UniJIS2004-UTF32-H", "", "00000041000065E50001F600", "A日😀"},
		"UTF-16 with pairs":     {"/UniJIS-UTF16-H", "", "D83DDE000041", "😀A"},
		"GBK":                   {"/GBK-EUC-H", "", "D6D041", "中A"},
		"GB 2312":               {"/GB-EUC-V", "", "D6D0CEC4", "中文"},
		"GB 18030, four bytes":  {"/GBK2K-H", "", "8130843441D6D0", "¢A中"},
		"Shift JIS":             {"/90ms-RKSJ-H", "", "93FA41B1", "日Aｱ"},
		"EUC-JP":                {"/EUC-H", "", "C6FC8EB141", "日ｱA"},
		"JIS X 0208":            {"/H", "", "467C", "日"},
		"Big5":                  {"/ETen-B5-H", "", "A4A441", "中A"},
		"KS X 1001":             {"/KSCms-UHC-H", "", "C7D141", "한A"},
		"ASCII of a collection": {"/Identity-H", "", "00220043", "Ab"},
		"unknown":               {"/CNS-EUC-H", "", "0041", ""},
		"half a code":           {"/Identity-H", "<0041> <0061> endbfchar", "004100", "a"},
		"usecmap":               {"10 0 R", "", "4E2D", "中"},
	} {
		t.Run(name, func(t *testing.T) {
			unicode := ""
			if c.toUnicode != "" {
				unicode = "/ToUnicode 7 0 R"
			}
			order := ""
			if strings.HasPrefix(name, "ASCII") {
				order = "/CIDSystemInfo << /Ordering (Japan1) >>"
			}
			font := fmt.Sprintf("<< /Subtype /Type0 /Encoding %s %s /DescendantFonts [<< /DW 1000 %s >>] >>", c.encoding, unicode, order)
			body := file(catalog, pages, onePage, streamOf("", "BT /F1 10 Tf <"+c.codes+"> Tj ET"), font, annot, streamOf("", c.toUnicode),
				embedded("1 begincodespacerange <00> <FF> endcodespacerange 1 begincidrange <00> <FF> 0 endcidrange"),
				embedded("2 begincodespacerange <00> <7F> <8140> <9FFC> endcodespacerange"),
				streamOf("/Type /CMap /UseCMap /UniGB-UCS2-H", "begincmap"))
			if got := strings.ReplaceAll(textOf(t, body), " ", ""); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Widths of a Type0 font go by glyph numbers, which an embedded CMap gives its codes.
func TestGlyphWidths(t *testing.T) {
	cmap := "begincodespacerange <00> <FF> endcodespacerange <41> 7 endcidchar"
	body := file(catalog, pages, onePage, streamOf("", "BT /F1 10 Tf <41> Tj 3 0 Td <41> Tj ET"),
		"<< /Subtype /Type0 /Encoding 8 0 R /ToUnicode 7 0 R /DescendantFonts [<< /DW 100 /W [7 [300]] >>] >>", annot,
		streamOf("", "<41> <0061> endbfchar"), streamOf("", cmap))
	if got := textOf(t, body); got != "aa" {
		t.Errorf("%q", got)
	}
}

func TestGlyph(t *testing.T) {
	for name, want := range map[string]string{
		"A": "A", "eacute": "é", "a.sc": "a", "f_i": "fi", "f_f_i.alt": "ffi", "f_nosuch": "", "uni0416": "Ж", "uni04160417": "ЖЗ", "u1F600": "😀",
		"afii10017": "А", "afii10023": "Ё", "afii10049": "Я", "afii10065": "а", "afii10097": "я", "afii10110": "ў", "afii10193": "џ", "afii61352": "№",
		"afii57409": "ء", "afii57434": "غ", "afii57450": "ي", "afii57664": "א", "afii57690": "ת", "afii1": "", "afiix": "",
		"Alpha": "Α", "Omega": "Ω", "alpha": "α", "sigma1": "ς", "sigma": "σ", "omega": "ω", "alphatonos": "ά", "iotadieresis": "ϊ", "iotadieresistonos": "ΐ",
		"scaron": "š", "scommaaccent": "ș", "kcommaaccent": "ķ", "g3": "", "ogonek": "", "uniD800": "", "uni": "", "": "",
	} {
		t.Run(name, func(t *testing.T) {
			if got := glyph(name); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// What a simple font means without an Encoding: the letters of Symbol, the encoding of an
// embedded Type 1 program, and codes as names in TeX's Type 3 fonts.
func TestBuiltInEncodings(t *testing.T) {
	program := streamOf("", "%!PS-AdobeFont\n/Encoding 256 array 0 1 255 {1 index exch /.notdef put} for dup 65 /Zcaron put dup 66 /alpha put readonly def currentfile eexec \x80\x81")
	for name, c := range map[string]struct{ font, want string }{
		"Symbol":    {"<< /Subtype /Type1 /BaseFont /Symbol >>", "ΑΒ"},
		"Type 1":    {"<< /Subtype /Type1 /BaseFont /X /FontDescriptor << /FontFile 7 0 R >> >>", "Žα"},
		"overruled": {"<< /Subtype /Type1 /BaseFont /X /FontDescriptor << /FontFile 7 0 R >> /Encoding /WinAnsiEncoding >>", "AB"},
		"Type 3":    {"<< /Subtype /Type3 /Encoding << /Differences [65 /a65 /a66] >> >>", "AB"},
		"no code":   {"<< /Subtype /Type3 /Encoding << /Differences [65 /a1 /a2] >> >>", ""},
		"gaps":      {"<< /Subtype /Type3 /Encoding << /Differences [40 /BB 65 /BC /BD 103 /CV] >> >>", "AB"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := textOf(t, file(catalog, pages, onePage, streamOf("", "BT /F1 10 Tf (AB) Tj ET"), c.font, annot, program)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A long file may cost more: books of some thousand pages lost their second half.
func TestWorkOfLongFiles(t *testing.T) {
	long := append(file(catalog), bytes.Repeat([]byte("% none\n"), 1<<20)...)
	d, err := Open(long)
	if err != nil || d.work < 20*len(long) {
		t.Errorf("%v, work left for %d bytes: %d", err, len(long), d.work)
	}
}

// A byte order mark is no text, and a ligature is its letters.
func TestClean(t *testing.T) {
	for s, want := range map[string]string{"\uFEFFa\uFEFF": "a", "ﬁn": "fin", "ﻻ": "لا", "a\x00b": "a b"} {
		t.Run(s, func(t *testing.T) {
			if got := clean(s); got != want {
				t.Errorf("%q: %q, want %q", s, got, want)
			}
		})
	}
}

func TestRunLengths(t *testing.T) {
	body := file(catalog, pages, onePage, streamOf("/Filter /RunLengthDecode", "\x11BT /F1 10 Tf (one)\x02 Tj\xFE \x01ET\x80junk"), simple, annot)
	if got := textOf(t, body); got != "one" {
		t.Errorf("%q", got)
	}
	if got := runLengths(bytes.Repeat([]byte("\x81a"), MaxStream)); len(got) > MaxStream+128 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestWideFont(t *testing.T) {
	cmap := "1 beginbfchar <0003> <0041> endbfchar 2 beginbfrange <0010> <0012> <0061> <0020> <0021> [<00660069> <D83DDE00>] endbfrange"
	body := file(catalog, pages, onePage, streamOf("", "BT /F1 10 Tf <000300100012002000210099> Tj ET"),
		"<< /Subtype /Type0 /Encoding /Identity-H /ToUnicode 7 0 R /DescendantFonts [<< /DW 500 /W [3 [400] 16 18 600] >>] >>", annot, streamOf("", cmap))
	if got := textOf(t, body); got != "Aacfi😀" {
		t.Errorf("%q", got)
	}
}

// Objects in an object stream, filters one on the other, text in a form.
func TestStreams(t *testing.T) {
	three := onePage[:len(onePage)-3] + " >>"
	inner := fmt.Sprintf("3 0 5 %d ", len(three)+1)
	first := len(inner)
	objstm := streamOf(fmt.Sprintf("/Type /ObjStm /N 2 /First %d /Filter [/ASCIIHexDecode /FlateDecode]", first), fmt.Sprintf("%x>", flate(inner+three+" "+simple)))
	form := streamOf("/Type /XObject /Subtype /Form /Resources << /Font << /F1 5 0 R >> >>", "BT /F1 9 Tf (in a form) Tj ET")
	body := []byte("%PDF-1.5\n1 0 obj " + catalog + " endobj 2 0 obj<< /Kids [3 0 R] /Resources << /XObject << /X 8 0 R >> >> >>endobj 4 0 obj " +
		streamOf("", "/X Do") + " endobj 6 0 obj " + annot + " endobj 7 0 obj " + objstm + " endobj 8 0 obj " + form +
		" endobj 9 0 obj " + streamOf("/Type /XRef /Root 1 0 R", "xx 12 0 obj xx") + " endobj")
	if got := textOf(t, body); got != "in a form" {
		t.Errorf("%q", got)
	}
}

func TestTitle(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"UTF-16":                      {"<FEFF04160021>", "Ж!"},
		"UTF-8":                       {"<EFBBBFD09621>", "Ж!"},
		"a byte order mark within":    {"<FEFF0041FEFF0042>", "AB"},
		"two byte order marks":        {"<FEFFFEFF0041>", "A"},
		"the mark of UTF-8 twice":     {"<EFBBBFEFBBBF41>", "A"},
		"a line end and a ligature":   {"<FEFF0041000AFB01>", "A fi"},
		"nothing but byte order mark": {"<FEFF>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Open(bytes.Replace(file(catalog, pages, onePage, streamOf("", ""), simple), []byte(`(A \(good\) title)`), []byte(c.raw), 1))
			must.OK(t, err)
			if got := d.Title(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLinksAndTitle(t *testing.T) {
	d, err := Open(file(catalog, pages, onePage, streamOf("", ""), simple, annot))
	must.OK(t, err)
	if got := slices.Collect(d.Links()); !slices.Equal(got, []string{"http://e.org/a?x=(1)"}) {
		t.Errorf("links %q", got)
	}
	if d.Base() != "" {
		t.Errorf("base %q", d.Base())
	}
	if d.Title() != "A (good) title" {
		t.Errorf("title %q", d.Title())
	}
	if got := decodeText("\xFE\xFF\x04\x16\x00!"); got != "Ж!" {
		t.Errorf("UTF-16 %q", got)
	}
}

// A file without trailer and page tree still gives its pages.
func TestDamaged(t *testing.T) {
	body := file(catalog, "garbage", onePage[:len(onePage)-3]+"/Resources << /Font << /F1 5 0 R >> >> >>", streamOf("", "BT /F1 10 Tf (still here) Tj ET"), simple, annot)
	body = body[:bytes.Index(body, []byte("trailer"))]
	if got := textOf(t, body); got != "still here" {
		t.Errorf("%q", got)
	}
}

func TestRefused(t *testing.T) {
	if _, err := Open([]byte("<html>")); !errors.Is(err, ErrNotPDF) {
		t.Error(err)
	}
	if _, err := Open([]byte("%PDF-1.4 1 0 obj<<>>endobj trailer << /Encrypt 1 0 R >>")); !errors.Is(err, ErrEncrypted) {
		t.Error(err)
	}
}

// What would run for ever, or fill the memory, ends soon.
func TestHostile(t *testing.T) {
	const n = 4 << 20
	bomb := flate(strings.Repeat("BT /F1 9 Tf (aaaaaaaa) Tj ET ", n/16))
	forms := func(k int) string { return strings.Repeat("/X Do ", k) }
	self := "<< /Font << /F1 5 0 R >> /XObject << /X 4 0 R >> >>"
	for name, body := range map[string][]byte{
		"bomb":             file(catalog, pages, onePage, streamOf("/Filter /FlateDecode", bomb), simple, annot),
		"the bomb often":   file(catalog, pages, strings.Replace(onePage, "4 0 R", "["+strings.Repeat("4 0 R ", 30000)+"]", 1), streamOf("/Filter /FlateDecode", bomb), simple, annot),
		"form in itself":   file(catalog, strings.Replace(pages, "<< /Font << /F1 5 0 R >> >>", self, 1), onePage, streamOf("/Subtype /Form", forms(1000)), simple, annot),
		"page in itself":   file(catalog, "<< /Kids [2 0 R 2 0 R 2 0 R] >>"),
		"reference loop":   file("1 0 R", "3 0 R", "2 0 R"),
		"pages as tree":    file(catalog, "<< /Kids ["+strings.Repeat("<< /Kids ["+strings.Repeat("<< /Contents 4 0 R >> ", 100)+"] >> ", 300)+"] >>", "null", streamOf("", "BT ET")),
		"deep arrays":      file(catalog, strings.Repeat("[", n)),
		"deep dicts":       file(catalog, strings.Repeat("<</A", n/4)),
		"open string":      file(catalog, strings.Repeat("(", n)),
		"many objects":     file(slices.Repeat([]string{""}, 300000)...),
		"many trailers":    append(file(catalog), strings.Repeat("trailer <<", n/10)...),
		"trailer, strings": append(file(catalog), strings.Repeat("trailer (", n/10)...),
		"obj, no stream":   append(file(catalog), strings.Repeat("1 0 obj stream ", n/15)...),
		"wide range": file(catalog, pages, onePage, streamOf("", "BT /F1 1 Tf <0001> Tj ET"),
			"<< /Subtype /Type0 /ToUnicode 7 0 R /DescendantFonts [<< /W [0 1000000000 1 0 1000000000 1] >>] >>", annot,
			streamOf("", strings.Repeat("<00000000> <FFFFFFFF> <0041> endbfrange ", 1000))),
		"streams in turn": hostileStreams(),
		"wide CMap": file(catalog, pages, onePage, streamOf("", "BT /F1 1 Tf <00> Tj ET"), "<< /Subtype /Type0 /Encoding 7 0 R >>", annot,
			streamOf("", strings.Repeat("<00000000> <FFFFFFFF> endcodespacerange <00000000> <FFFFFFFF> 1 endcidrange ", 3000))),
		"UseCMap in itself": file(catalog, pages, onePage, streamOf("", "BT /F1 1 Tf <00> Tj ET"), "<< /Subtype /Type0 /Encoding 7 0 R >>", annot,
			streamOf("/UseCMap 7 0 R", "")),
		"notes often": file(catalog, pages, strings.Replace(onePage, "6 0 R", strings.Repeat("6 0 R ", 90000), 1), streamOf("", ""), simple,
			"<< /AP << /N 4 0 R >> >>"),
		"Type 1 bomb": file(catalog, pages, onePage, streamOf("", "BT /F1 1 Tf (a) Tj ET"), "<< /FontDescriptor << /FontFile 7 0 R >> >>", annot,
			streamOf("/Filter /FlateDecode", flate("/Encoding "+strings.Repeat("dup 1 /a put ", n/13)+" eexec"))),
		"encrypted, in itself": append(file(catalog, "<< /Filter 2 0 R /CF 2 0 R >>"), "trailer << /Encrypt 2 0 R >>"...),
	} {
		t.Run(name, func(t *testing.T) {
			took := costtest.Of(func() {
				d, err := Open(body)
				if errors.Is(err, ErrEncrypted) {
					return
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				d.Text(1 << 20)
				for range d.Links() {
				}
				d.Title()
			})
			if took > 30*time.Second {
				t.Errorf("%s: took %v of processor time, want at most 30s", name, took)
			}
		})
	}
}

// hostileStreams has annotations in more object streams than are kept, each large.
func hostileStreams() []byte {
	objects := []string{catalog, pages, "", streamOf("", ""), simple, annot}
	var annots strings.Builder
	big := flate("1 0 " + strings.Repeat(" ", MaxStream))
	for i := range 50 {
		head := fmt.Sprintf("%d 0 ", 1000+i)
		objects = append(objects, streamOf(fmt.Sprintf("/Type /ObjStm /N 1 /First %d /Filter /FlateDecode", len(head)), flate(head+annot+strings.Repeat(" ", MaxStream-1000))))
	}
	for range 100 {
		for i := range 50 {
			fmt.Fprintf(&annots, "%d 0 R ", 1000+i)
		}
	}
	objects[2] = strings.Replace(onePage, "6 0 R", annots.String(), 1)
	objects = append(objects, streamOf("/Type /ObjStm /N 1 /First 4 /Filter /FlateDecode", big))
	return file(objects...)
}

// Where poppler is installed its words are ours, of manuals that Debian ships, and of the files that MERCATOR_PDF names with spaces between.
func TestPoppler(t *testing.T) {
	tool, err := exec.LookPath("pdftotext")
	tried := 0
	all, allMissing, ours, theirs := 0, 0, time.Duration(0), time.Duration(0)
	list := []string{"/usr/share/doc/shared-mime-info/shared-mime-info-spec.pdf", "/usr/share/doc/libtasn1-doc/libtasn1.pdf", "/usr/share/R/doc/manual/refman.pdf"}
	for _, name := range append(list, strings.Fields(os.Getenv("MERCATOR_PDF"))...) {
		body, readErr := os.ReadFile(name)
		if err != nil || readErr != nil {
			continue
		}
		tried++
		cmd := exec.Command(tool, name, "-")
		out, err := cmd.Output()
		must.OK(t, err)
		theirs += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		words := func(s string) map[string]int {
			m := make(map[string]int)
			for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z' }) {
				m[w]++
			}
			return m
		}
		text := ""
		ours += costtest.Of(func() {
			d, err := Open(body)
			must.OK(t, err)
			text, _ = d.Text(8 << 20) // as much as a crawl's text has
		})
		want, got := words(string(out)), words(text)
		total, missing := 0, 0
		for w, n := range want {
			total += n
			missing += max(n-got[w], 0)
		}
		t.Logf("%s: %d words, %d missing", name, total, missing)
		all, allMissing = all+total, allMissing+missing
		if missing > total/50 && slices.Contains(list, name) {
			t.Errorf("%s: %d of %d words are missing", name, missing, total)
		}
	}
	t.Logf("%d files: %.1f %% of the words, in %v of processor; pdftotext took %v", tried, 100*float64(all-allMissing)/float64(max(all, 1)), ours, theirs)
	if tried == 0 {
		needs.Skip(t, "no pdftotext or no PDF files to compare with")
	}
}

func FuzzDocument(f *testing.F) {
	f.Add(file(catalog, pages, onePage, streamOf("", "BT /F1 10 Tf [(a) -300 (b)] TJ ET"), simple, annot))
	f.Add(file(catalog, pages, onePage, streamOf("/Filter /FlateDecode", flate("BT ET")), "<< /Subtype /Type0 /ToUnicode 4 0 R >>", annot))
	for _, name := range []string{"rc4-128", "aes-128", "aes-256"} {
		body, err := os.ReadFile("testdata/" + name + ".pdf")
		must.OK(f, err)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := Open(body)
		if err != nil {
			return
		}
		s, _ := d.Text(1000)
		if len(s) > 1000 || strings.ContainsRune(s, 0) {
			t.Errorf("%q", s)
		}
		for range d.Links() {
		}
		d.Title()
	})
}
