package extract

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/traditionalchinese"
	textunicode "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"mercator/pkg/web/markup"
)

var utf8Mark = []byte("\xef\xbb\xbf")

// decode gives a document's text as UTF-8, and the encoding of queries, nil for
// UTF-8; a document in UTF-16 sends UTF-8, too (WHATWG Encoding, section 4.3).
func decode(doc *Document, as docSort) (io.Reader, encoding.Encoding) {
	enc, name := documentEncoding(doc, as)
	body := doc.Body
	if name == "utf-8" {
		return bytes.NewReader(bytes.TrimPrefix(body, utf8Mark)), nil
	}
	if enc == charmap.Windows1252 && firstHigh(body) < 0 {
		return bytes.NewReader(body), enc
	}
	text := transform.NewReader(bytes.NewReader(body), enc.NewDecoder())
	if strings.HasPrefix(name, "utf-16") {
		enc = nil
	}
	return text, enc
}

// documentEncoding says how HTML, CSS or text is written, with the WHATWG name: by
// byte order mark, by the header, by the document itself (a meta element of HTML, the
// first rule of CSS), in this order, as browsers do (HTML section 13.2.3.2). One that
// says nothing is UTF-8 if it is valid and not all ASCII, or else what it looks like.
// A style sheet that says nothing is UTF-8.
func documentEncoding(doc *Document, as docSort) (encoding.Encoding, string) {
	body := doc.Body
	if enc, name := markEncoding(body); enc != nil {
		return enc, name
	}
	if enc, name := lookup(doc.Charset); enc != nil {
		return enc, name
	}
	switch as {
	case sortCSS:
		if enc, name := declared(cssCharset(body)); enc != nil {
			return enc, name
		}
		return lookup("utf-8")
	case sortHTML:
		if enc, name := metaEncoding(body); enc != nil {
			return enc, name
		}
	}
	return detect(body)
}

// lookup finds an encoding by label, and its name; nil if no browser knows it.
func lookup(label string) (encoding.Encoding, string) {
	enc, err := htmlindex.Get(label)
	if err != nil {
		return nil, ""
	}
	name, err := htmlindex.Name(enc)
	if err != nil {
		return nil, ""
	}
	return enc, name
}

// ModuleCharset returns the encoding that modules get: of HTML and text the encoding in which
// links were read, so that they need not find it out, of others the header's.
func ModuleCharset(doc *Document) string {
	as := classify(doc)
	if as != sortHTML && as != sortText {
		return doc.Charset
	}
	_, name := documentEncoding(doc, as)
	return name
}

// markEncoding returns the encoding of a byte order mark, or nil.
func markEncoding(b []byte) (encoding.Encoding, string) {
	switch {
	case bytes.HasPrefix(b, utf8Mark):
		return lookup("utf-8")
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return lookup("utf-16le")
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return lookup("utf-16be")
	}
	return nil, ""
}

// cssCharset is the label in a style sheet's first rule, or "".
func cssCharset(b []byte) string {
	rest, ok := bytes.CutPrefix(b[:min(len(b), 1024)], []byte(`@charset "`))
	label, _, closed := bytes.Cut(rest, []byte(`";`))
	if !ok || !closed {
		return ""
	}
	return string(label)
}

// xmlEncoding returns the encoding that an XML declaration names, or nil.
func xmlEncoding(b []byte) (encoding.Encoding, string) {
	b = b[:min(len(b), 1024)]
	switch {
	case bytes.HasPrefix(b, []byte("<\x00?\x00x\x00")):
		return lookup("utf-16le")
	case bytes.HasPrefix(b, []byte("\x00<\x00?\x00x")):
		return lookup("utf-16be")
	case !bytes.HasPrefix(b, []byte("<?xml")):
		return nil, ""
	}
	declaration, _, ok := bytes.Cut(b, []byte(">"))
	_, value, named := bytes.Cut(declaration, []byte("encoding"))
	value, equals := bytes.CutPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("="))
	value = bytes.TrimLeft(value, " \t\r\n")
	if !ok || !named || !equals || len(value) == 0 || value[0] != '"' && value[0] != '\'' {
		return nil, ""
	}
	label, _, ok := bytes.Cut(value[1:], value[:1])
	if !ok {
		return nil, ""
	}
	return declared(string(label))
}

// declared is the encoding of a label inside a document, which was readable as
// ASCII: UTF-16 is then UTF-8, and x-user-defined windows-1252.
func declared(label string) (encoding.Encoding, string) {
	enc, name := lookup(label)
	switch {
	case strings.HasPrefix(name, "utf-16"):
		return lookup("utf-8")
	case name == "x-user-defined":
		return lookup("windows-1252")
	}
	return enc, name
}

// metaLimit is how far a meta element that tells the encoding is looked for, in
// bytes; in a head that is longer, to its end.
const metaLimit = 1024

// headTags may stand in a head.
var headTags = []string{"html", "head", "base", "link", "meta", "noscript", "object", "script", "style", "template", "title"}

// metaEncoding returns the encoding of the first meta element that has one, or of the
// XML declaration, or nil ("prescan a byte stream", HTML section 13.2.3.2). It does not
// skip scripts: text in a script that looks like an element counts.
func metaEncoding(b []byte) (encoding.Encoding, string) {
	inHead := true
	for i := 0; i < len(b) && (inHead || i < metaLimit); {
		at := bytes.IndexByte(b[i:], '<')
		if at < 0 {
			break
		}
		i += at
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, []byte("<!--")):
			end := bytes.Index(rest[2:], []byte("-->")) // <!--> is a whole one
			if end < 0 {
				return xmlEncoding(b)
			}
			i += 2 + end + 3
		case len(rest) > 1 && markup.IsLetter(rest[1]), len(rest) > 2 && rest[1] == '/' && markup.IsLetter(rest[2]):
			s := attrScanner{b: rest, i: 1}
			if s.b[1] == '/' {
				s.i = 2
			}
			name := s.tagName()
			if rest[1] == '/' {
				inHead = inHead && name != "head"
			} else {
				inHead = inHead && slices.Contains(headTags, name)
			}
			if name == "meta" && rest[1] != '/' {
				if enc, label := s.meta(); enc != nil {
					return enc, label
				}
			} else {
				for ok := true; ok; {
					_, _, ok = s.next()
				}
			}
			i += s.i
		case len(rest) > 1 && strings.IndexByte("!/?", rest[1]) >= 0:
			end := bytes.IndexByte(rest, '>')
			if end < 0 {
				return xmlEncoding(b)
			}
			i += end + 1
		default:
			i++
		}
	}
	return xmlEncoding(b)
}

// attrScanner reads one tag of bytes in an encoding that is not known yet.
type attrScanner struct {
	b []byte
	i int
}

const htmlSpace = "\t\n\f\r "

// tagName reads up to white space, a slash or the end of the tag, in lower case.
func (s *attrScanner) tagName() string {
	start := s.i
	for s.i < len(s.b) && strings.IndexByte(htmlSpace+"/>", s.b[s.i]) < 0 {
		s.i++
	}
	if s.i-start > 16 {
		return ""
	}
	return strings.ToLower(string(s.b[start:s.i]))
}

// next reads an attribute ("get an attribute"); false at the end of the tag, which
// it passes.
func (s *attrScanner) next() (name, value []byte, ok bool) {
	b := s.b
	for s.i < len(b) && strings.IndexByte(htmlSpace+"/", b[s.i]) >= 0 {
		s.i++
	}
	if s.i >= len(b) {
		return nil, nil, false
	}
	if b[s.i] == '>' {
		s.i++
		return nil, nil, false
	}
	start := s.i
	for s.i++; s.i < len(b) && strings.IndexByte(htmlSpace+"/>=", b[s.i]) < 0; s.i++ {
	}
	name = b[start:s.i]
	for s.i < len(b) && strings.IndexByte(htmlSpace, b[s.i]) >= 0 {
		s.i++
	}
	if s.i >= len(b) || b[s.i] != '=' {
		return name, nil, true
	}
	for s.i++; s.i < len(b) && strings.IndexByte(htmlSpace, b[s.i]) >= 0; s.i++ {
	}
	if s.i >= len(b) {
		return nil, nil, false
	}
	if q := b[s.i]; q == '"' || q == '\'' {
		end := bytes.IndexByte(b[s.i+1:], q)
		if end < 0 {
			s.i = len(b)
			return nil, nil, false
		}
		value = b[s.i+1 : s.i+1+end]
		s.i += end + 2
		return name, value, true
	}
	start = s.i
	for s.i < len(b) && strings.IndexByte(htmlSpace+">", b[s.i]) < 0 {
		s.i++
	}
	return name, b[start:s.i], true
}

// meta reads the attributes of a meta element for the encoding that it tells.
func (s *attrScanner) meta() (enc encoding.Encoding, label string) {
	var seen [3]bool
	pragma, needPragma := false, false
	for {
		name, value, ok := s.next()
		if !ok {
			break
		}
		which := slices.IndexFunc([]string{"http-equiv", "content", "charset"}, func(n string) bool {
			return strings.EqualFold(n, string(name[:min(len(name), 16)]))
		})
		if which < 0 || seen[which] {
			continue
		}
		seen[which] = true
		switch which {
		case 0:
			pragma = strings.EqualFold(string(value), "content-type")
		case 1:
			if e, n := declared(contentCharset(string(value))); e != nil && enc == nil {
				enc, label, needPragma = e, n, true
			}
		case 2:
			enc, label = declared(string(value))
			needPragma = false
		}
	}
	if s.i >= len(s.b) && (len(s.b) == 0 || s.b[len(s.b)-1] != '>') || needPragma && !pragma {
		return nil, ""
	}
	return enc, label
}

// contentCharset is the label in a meta element's content attribute, or "" (HTML,
// "extracting a character encoding from a meta element").
func contentCharset(s string) string {
	lower := strings.ToLower(s)
	for i := 0; ; {
		at := strings.Index(lower[i:], "charset")
		if at < 0 {
			return ""
		}
		i += at + len("charset")
		rest := strings.TrimLeft(s[i:], htmlSpace)
		if !strings.HasPrefix(rest, "=") {
			continue
		}
		rest = strings.TrimLeft(rest[1:], htmlSpace)
		if rest == "" {
			return ""
		}
		if q := rest[:1]; q == `"` || q == "'" {
			label, _, ok := strings.Cut(rest[1:], q)
			if !ok {
				return ""
			}
			return label
		}
		if end := strings.IndexAny(rest, htmlSpace+";"); end >= 0 {
			rest = rest[:end]
		}
		return rest
	}
}

// detectWindow is how many bytes of a document's words its encoding is guessed from.
const detectWindow = 4 << 10

// detectLeast is how many bytes beyond ASCII a guess needs.
const detectLeast = 8

// preferred settles guesses of equal confidence, the first before the others.
var preferred = []string{"windows-1252", "shift_jis", "gbk", "gb18030", "big5", "euc-kr", "euc-jp", "windows-1251", "koi8-r"}

// Encodings by what they do with words that have a byte beyond ASCII: in Latin script most other bytes of such words are ASCII
// letters, in Cyrillic, Greek, Hebrew or Arabic hardly one.
var (
	latinEncodings = []string{"windows-1252", "windows-1250", "windows-1254", "iso-8859-2", "iso-8859-9"}
	multibyte      = []string{"shift_jis", "gbk", "gb18030", "big5", "euc-kr", "euc-jp", "iso-2022-jp"}
)

// detect guesses the encoding of a document that tells none: UTF-8 if it is valid
// and not all ASCII, or else the likeliest by the frequencies of bytes and of
// sequences of bytes in its words beyond ASCII, since English words beside them look like windows-1252; windows-1252 when in doubt.
func detect(b []byte) (encoding.Encoding, string) {
	first := firstHigh(b)
	if escape := bytes.Index(b, []byte("\x1b$")); escape >= 0 && (first < 0 || escape < first) { // ISO-2022-JP is ASCII to the eye
		from := max(escape-256, 0)
		name, _ := guess(b[from:min(from+detectWindow, len(b))], false)
		return lookup(name)
	}
	switch {
	case first < 0:
		return lookup("windows-1252")
	case utf8.Valid(b):
		return lookup("utf-8")
	}
	words, high, letters, runs := highWords(b)
	if high < detectLeast {
		return lookup("windows-1252")
	}
	latin := letters > high || 4*runs < high // else one byte or two in most words, as in £10, 20° and à
	name, confidence := guess(words, latin)
	switch {
	case latin || confidence >= 75: // as good as certain: a multibyte encoding without an error
	case isThai(words):
		name = "windows-874"
	case !slices.Contains(multibyte, name):
		// The guesser has no IBM866. Written as windows-1251, such a text is Russian.
		text, _ := charmap.CodePage866.NewDecoder().Bytes(words)
		text, _ = encoding.ReplaceUnsupported(charmap.Windows1251.NewEncoder()).Bytes(text)
		if as, c := guess(text, false); as == "windows-1251" && c*sense(charmap.CodePage866, words) > confidence {
			name = "ibm866"
		}
	}
	return lookup(name)
}

// highWords collects the words of a document that have bytes beyond ASCII, up to detectWindow, and counts those bytes, the
// ASCII letters in them, and, as runs, the bytes beyond ASCII of words with three or more. A second byte of Shift_JIS or Big5 is no end of a word, nor a digit of GB18030.
func highWords(b []byte) (words []byte, high, letters, runs int) {
	for len(b) > 0 && len(words) < detectWindow {
		end := slices.IndexFunc(b, func(c byte) bool { return c < '0' || c > '9' && c < '@' })
		if end < 0 {
			end = len(b)
		}
		word := b[:min(end, detectWindow)]
		b = b[min(end+1, len(b)):]
		if n := countHigh(word); n > 0 {
			words = append(append(words, word...), ' ')
			if high += n; n > 2 {
				runs += n
			}
			for _, c := range word {
				if markup.IsLetter(c) {
					letters++
				}
			}
		}
	}
	return words, high, letters, runs
}

// guess is the likeliest encoding of words, of those for Latin script or of the others, and a confidence from 2 to 100.
func guess(words []byte, latin bool) (best string, confidence float64) {
	best, confidence = "windows-1252", 2
	guesses, _ := chardet.NewTextDetector().DetectAll(words) // an error is no guess
	for _, g := range guesses {
		enc, name := lookup(g.Charset)
		if enc == nil || name == "replacement" || strings.HasPrefix(name, "utf-") {
			continue
		}
		if latin != slices.Contains(latinEncodings, name) && !(slices.Contains(multibyte, name) && (!latin || g.Confidence > 90)) {
			continue
		}
		if c := float64(g.Confidence) * sense(enc, words); c > confidence || c == confidence && rank(name) < rank(best) {
			best, confidence = name, c
		}
	}
	return best, confidence
}

// sense is 1 where an encoding makes text of words, and less where it makes errors, control characters and signs next to letters; 0
// where each fourth character beyond ASCII is one.
func sense(enc encoding.Encoding, words []byte) float64 {
	text, _ := enc.NewDecoder().Bytes(words)
	n, odd := 0, 0
	before := ' '
	for i, r := range string(text) {
		if r >= utf8.RuneSelf {
			n++
			after, _ := utf8.DecodeRune(text[i+utf8.RuneLen(r):])
			sign := !unicode.In(r, unicode.L, unicode.M) && r != '’' && unicode.IsLower(after) && (unicode.IsLetter(before) || !unicode.IsPunct(r))
			if sign || r == utf8.RuneError || unicode.IsControl(r) {
				odd++
			}
		}
		before = r
	}
	return max(0, 1-4*float64(odd)/float64(max(n, 1)))
}

// isThai reports whether words are Thai in windows-874, which the guesser lacks: a vowel sign or a tone mark follows a consonant or
// another mark, and a consonant follows each vowel that is written before it.
func isThai(words []byte) bool {
	mark := func(c byte) bool { return c == 0xD1 || c >= 0xD4 && c <= 0xDA || c >= 0xE7 && c <= 0xEE }
	consonant := func(c byte) bool { return c >= 0xA1 && c <= 0xCE }
	n, marks, odd := 0, 0, 0
	before := byte(' ')
	for _, c := range words {
		if c >= utf8.RuneSelf {
			n++
			switch {
			case mark(c):
				marks++
				if !consonant(before) && !mark(before) {
					odd++
				}
			case before >= 0xE0 && before <= 0xE4 && !consonant(c), c < 0xA0 && c != 0x85 && (c < 0x91 || c > 0x97), c > 0xDA && c < 0xDF, c > 0xFB:
				odd++
			}
		}
		before = c
	}
	return n >= 2*detectLeast && odd*50 <= n && marks*10 >= n && marks*2 < n
}

// firstHigh is the index of the first byte beyond ASCII, or -1.
func firstHigh(b []byte) int {
	i := 0
	for i+8 <= len(b) && binary.LittleEndian.Uint64(b[i:])&0x8080808080808080 == 0 {
		i += 8
	}
	for ; i < len(b); i++ {
		if b[i] >= utf8.RuneSelf {
			return i
		}
	}
	return -1
}

func countHigh(b []byte) int {
	n := 0
	for _, c := range b {
		if c >= utf8.RuneSelf {
			n++
		}
	}
	return n
}

func rank(name string) int {
	if i := slices.Index(preferred, name); i >= 0 {
		return i
	}
	return len(preferred)
}

// encodeQuery writes the query of a reference in the document's encoding, as
// browsers do: what the encoding lacks becomes a decimal character reference
// (WHATWG Encoding, section 4.2; URL, "percent-encode after encoding").
func (f *finder) encodeQuery(ref string) string {
	if f.encoding == nil {
		return ref
	}
	i := strings.IndexByte(ref, '?')
	if i < 0 || isASCII(ref[i:]) {
		return ref
	}
	ref, _, _ = strings.Cut(ref, "#")
	if i >= len(ref) {
		return ref
	}
	var b strings.Builder
	b.WriteString(ref[:i])
	query := ref[i:]
	run := 0 // where what can be encoded as a whole begins
	flush := func(end int) {
		out, err := f.encoding.NewEncoder().String(query[run:end])
		if err != nil {
			out = query[run:end] // cannot be: each character was tried
		}
		for j := 0; j < len(out); j++ {
			// What is ASCII is left to the parser of URLs, but for what the encoder made.
			if c := out[j]; c >= 0x7F || c == 0x1B || c == '#' {
				b.WriteByte('%')
				b.WriteByte("0123456789ABCDEF"[c>>4])
				b.WriteByte("0123456789ABCDEF"[c&15])
			} else {
				b.WriteByte(c)
			}
		}
	}
	for at, r := range query {
		if r < utf8.RuneSelf || encodes(f.encoding, r) {
			continue
		}
		flush(at)
		fmt.Fprintf(&b, "%%26%%23%d%%3B", r)
		run = at + utf8.RuneLen(r)
	}
	flush(len(query))
	return b.String()
}

// encodes reports whether WHATWG's encoder of an encoding has a character: for EUC-JP
// and Big5 the encoder has fewer characters than the decoder.
func encodes(enc encoding.Encoding, r rune) bool {
	out, err := enc.NewEncoder().String(string(r))
	switch {
	case err != nil || out == "":
		return false
	case enc == japanese.EUCJP:
		return out[0] != 0x8F // JIS X 0212
	case enc == traditionalchinese.Big5:
		return out[0] >= 0xA1 // below are the Hong Kong supplement's
	}
	return true
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// validText replaces what is not UTF-8, as a browser's decoder does.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out, _, err := transform.String(textunicode.UTF8.NewDecoder(), s)
	if err != nil {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return out
}
