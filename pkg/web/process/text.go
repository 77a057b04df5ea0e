package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mercator/pkg/web/markup"
	"mercator/pkg/web/pdf"
)

// Media types with text.
const (
	typePDF   = "application/pdf"
	typePlain = "text/plain"
	typeSVG   = "image/svg+xml"
)

var textTypes = append(append(slices.Clone(htmlTypes), typeSVG, typePlain, typePDF), OfficeTypes()...)

// DefaultMaxText bounds a document's text, in bytes.
const DefaultMaxText = 8 << 20

// ErrNoText is returned by Text for media types that it finds no text in.
var ErrNoText = errors.New("a media type without text")

// Text is a document's text as a reader sees it, as UTF-8 of at most max bytes (0:
// DefaultMaxText): a line a block, words parted by single spaces, no empty lines at
// the ends. Of HTML the title comes first, as in Common Crawl's WET files; scripts,
// styles and what comments hold are left out, and noscript is not, since nobody runs
// scripts here. Damage that leaves nothing to be read is an error.
func Text(doc *Document, max int) (string, error) {
	if max <= 0 {
		max = DefaultMaxText
	}
	w := &lines{max: max}
	switch {
	case doc.MIME == typeSVG, slices.Contains(htmlTypes, doc.MIME):
		if err := visible(w, doc); err != nil {
			return "", err
		}
	case doc.MIME == typePlain:
		r, err := decoded(doc, typePlain)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(io.LimitReader(r, int64(max)))
		if err != nil {
			return "", err
		}
		w.pre++
		w.text(b)
	case doc.MIME == typePDF:
		d, err := pdf.Open(doc.Body)
		if err != nil {
			return "", err
		}
		s, _ := d.Text(max)
		return s, nil
	default:
		o := officeOf(doc.MIME)
		if o == nil {
			return "", fmt.Errorf("%w: %q", ErrNoText, doc.MIME)
		}
		if err := o.text(w, doc.Body); err != nil && len(w.b) == 0 {
			return "", err
		}
	}
	return w.String(), nil
}

// lines collects text as lines. White space between words becomes one space.
type lines struct {
	b     []byte
	max   int
	pre   int  // above 0: line ends stay
	gap   bool // a space is due before the next word
	empty int  // line ends since the last word
	plain bool // titles of HTML pages are left out
}

// text adds words.
func (w *lines) text(s []byte) {
	for len(s) > 0 {
		r, n := rune(s[0]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(s)
		} else if r > ' ' && r < 0x7F {
			for n < len(s) && s[n] > ' ' && s[n] < 0x7F { // the rest of a word
				n++
			}
		}
		c := s[:n]
		s = s[n:]
		switch {
		case r == '\n' && w.pre > 0:
			w.line()
		case unicode.IsSpace(r), r < ' ', r == 0x7F:
			w.gap = true
		case r == '\uFEFF': // a byte order mark
		default:
			if r == utf8.RuneError && n == 1 {
				c = []byte("\uFFFD")
			}
			if w.gap && len(w.b) > 0 && w.b[len(w.b)-1] != '\n' {
				w.addByte(' ')
			}
			w.gap, w.empty = false, 0
			if free := w.max - len(w.b); len(c) > free {
				if r < utf8.RuneSelf {
					w.b = append(w.b, c[:free]...)
				}
				w.max = len(w.b) // no half words of what follows
				return
			}
			w.b = append(w.b, c...)
		}
	}
}

func (w *lines) addByte(c byte) {
	if len(w.b) < w.max {
		w.b = append(w.b, c)
	}
}

// line ends a line. No more than one empty line follows another.
func (w *lines) line() {
	if w.gap = false; len(w.b) == 0 || w.pre == 0 && w.empty > 0 || w.empty > 1 {
		return
	}
	w.empty++
	w.addByte('\n')
}

func (w *lines) full() bool     { return len(w.b) >= w.max }
func (w *lines) String() string { return strings.TrimRightFunc(string(w.b), unicode.IsSpace) }

// breaks reports whether a tag of HTML begins and ends a line.
func breaks(e *markup.Element) bool {
	switch e.Tag {
	case markup.TagBody, markup.TagButton, markup.TagFrameset, markup.TagHead, markup.TagHTML, markup.TagSelect, markup.TagTextarea, markup.TagTitle:
		return true
	case markup.TagTd:
		return false
	}
	return e.Traits&markup.IsBlock != 0
}

// visible writes the text of an HTML page. Of SVG that is what its text elements have, and HTML in it; of MathML all but annotations.
// A document that is SVG has its titles and descriptions, too.
func visible(w *lines, doc *Document) error {
	r, err := readHTML(doc, noAttributes)
	if err != nil {
		return err
	}
	defer readers.Put(r)
	defer r.Close()
	r.Texts = true
	named := 0                     // titles and descriptions around, in a document that is SVG
	outside := doc.MIME == typeSVG // before its svg element
	listed := false                // in a datalist: its options show only while a user types
	for !w.full() {
		tok := r.Next()
		e := &r.Element
		switch tok {
		case markup.TokenEnd:
			return nil
		case markup.TokenText:
			if named > 0 || !listed && !outside && r.Shown() {
				w.text(r.Decoded())
			}
		case markup.TokenRaw:
			switch e.Tag {
			case markup.TagTitle, markup.TagTextarea, markup.TagPlaintext, markup.TagXmp:
				if !listed && r.Shown() && !(w.plain && e.Tag == markup.TagTitle) {
					w.text(r.Decoded())
					w.line()
				}
			}
		case markup.TokenStart, markup.TokenClose:
			if e.Space != markup.SpaceHTML {
				outside = false
				if e.Space == markup.SpaceSVG && e.Tag == markup.TagText {
					w.line()
				}
				if doc.MIME == typeSVG && (e.Tag == markup.TagTitle || e.Tag == markup.TagDesc) {
					w.line()
					if tok == markup.TokenClose {
						named = max(named-1, 0)
					} else if !e.SelfClosing {
						named++
					}
				}
				continue
			}
			if r.Inert() {
				continue
			}
			if listed && (e.Traits&(markup.ClosesP|markup.IsCell) != 0 || e.Tag == markup.TagTable || e.Tag == markup.TagSelect && tok == markup.TokenClose || e.Tag == markup.TagBody || e.Tag == markup.TagHTML) {
				listed = false // which nobody closed
			}
			switch {
			case e.Tag == markup.TagDatalist:
				listed = tok == markup.TokenStart && !(r.XML && e.SelfClosing)
			case listed:
			case breaks(e):
				w.line()
				if e.Name == "pre" {
					w.pre = 0
					if tok == markup.TokenStart {
						w.pre = 1
					}
				}
			case e.Tag == markup.TagTd:
				w.gap = true
			}
		}
	}
	return nil
}

// textModule reports the text of a document in Pieces.
type textModule struct{}

func (textModule) Name() string    { return "text" }
func (textModule) Types() []string { return textTypes }
func (textModule) New() Instance   { return textModule{} }

// Process reports the pieces in order, all with the key "text".
func (textModule) Process(_ context.Context, doc *Document, report func(key, value string)) error {
	s, err := Text(doc, MaxFindings*MaxValue)
	if err != nil {
		return err
	}
	Pieces(s, func(piece string) { report("text", piece) })
	return nil
}

// Pieces cuts a text into findings: pieces of at most MaxValue bytes, at line ends where there are any.
func Pieces(s string, report func(piece string)) {
	for s != "" {
		n := len(s)
		if n > MaxValue {
			n = strings.LastIndexByte(s[:MaxValue], '\n') + 1
			if n == 0 {
				n = len(cut(s, MaxValue))
			}
		}
		report(strings.TrimSuffix(s[:n], "\n"))
		s = s[n:]
	}
}
