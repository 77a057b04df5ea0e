package pdf

import (
	"bytes"
	"math"
	"strings"
)

// Bounds of text.
const (
	maxOperands = 256
	maxForms    = 8       // forms within each other
	maxSaved    = 64      // graphics states within each other
	wordGap     = 0.15    // of the font size: a wider gap parts words
	spacedWord  = 4       // glyphs: character spacing parts the glyphs of shorter strings
	lineGap     = 0.35    // a move up or down by more begins a line
	maxFonts    = 1 << 8  // kept decoded
	formCost    = 1 << 10 // of running one, in work
)

// Text is the text of all pages in the order in which they draw it, at most max
// bytes of UTF-8: a line a line, an empty line between pages. cut says that there
// was more, or may have been (Cut). Glyphs that the file gives no character for are
// left out.
func (d *Document) Text(max int) (s string, cut bool) {
	w := &writer{d: d, max: max, fonts: make(map[ref]*font)}
	for p := range d.pages() {
		if w.full || d.work < 0 {
			break
		}
		w.run(w.content(p.dict["Contents"]), p.resources, 0)
		w.appearances(p)
		w.line()
		w.line()
	}
	return strings.TrimSpace(w.out.String()), w.full || d.cut
}

// Flags of annotations that are not shown (ISO 32000-1, table 165).
const annotInvisible, annotHidden, annotNoView = 1, 2, 32

// appearances writes the text of a page's annotations: notes, and what form fields hold.
func (w *writer) appearances(p page) {
	for _, v := range w.d.array(p.dict["Annots"]) {
		a := w.d.dict(v)
		if w.full || w.d.work < 0 {
			return
		}
		if w.d.int(a["F"])&(annotInvisible|annotHidden|annotNoView) != 0 || w.d.resolve(a["Subtype"]) == name("Popup") {
			continue
		}
		// Of several appearances the state names the one that is shown.
		normal := w.d.resolve(w.d.dict(a["AP"])["N"])
		if states, ok := normal.(dict); ok {
			state, _ := w.d.resolve(a["AS"]).(name)
			normal = w.d.resolve(states[state])
		}
		if s, ok := normal.(stream); ok && w.d.spend(formCost) {
			if w.wrote {
				w.line()
			}
			w.run(w.d.inflate(0, s), w.d.dict(s.dict["Resources"]), 0)
		}
	}
}

// content joins the streams of a page: they may be cut anywhere between two words.
func (w *writer) content(v any) []byte {
	v = w.d.resolve(v)
	if s, ok := v.(stream); ok {
		return w.d.inflate(0, s)
	}
	a, _ := v.([]any)
	var all []byte
	for _, part := range a {
		if s, ok := w.d.resolve(part).(stream); ok && len(all) < MaxStream {
			all = append(append(all, w.d.inflate(0, s)...), '\n')
		}
	}
	if len(all) > MaxStream {
		all, w.d.cut = all[:MaxStream], true
	}
	return all
}

// writer runs content streams (ISO 32000-1, 9.4) and writes the text that they show.
type writer struct {
	d     *Document
	out   strings.Builder
	max   int
	full  bool
	fonts map[ref]*font

	state
	saved      []state
	line0, pen matrix // start of the line, and of the next glyph
	endX, endY float64
	wrote      bool // something is on this line
}

// state is the part of the graphics state that text needs; the operators q and Q save and restore it.
type state struct {
	font                          *font
	size, leading, charGap, wordG float64
	scale                         float64 // Tz, 1 for 100 %
	page                          matrix  // from where text is placed to where it stands on the page
}

type matrix struct{ a, b, c, d, e, f float64 }

var unit = matrix{1, 0, 0, 1, 0, 0}

func (m matrix) moved(x, y float64) matrix {
	m.e, m.f = m.e+x*m.a+y*m.c, m.f+x*m.b+y*m.d
	return m
}

// times is m followed by n.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m.a*n.a + m.b*n.c, m.a*n.b + m.b*n.d, m.c*n.a + m.d*n.c, m.c*n.b + m.d*n.d,
		m.e*n.a + m.f*n.c + n.e, m.e*n.b + m.f*n.d + n.f,
	}
}

// matrixOf reads the last six operands, or the six values of an array.
func matrixOf(args []any) (m matrix, ok bool) {
	if len(args) < 6 {
		return matrix{}, false
	}
	a := args[len(args)-6:]
	return matrix{number(a, 0), number(a, 1), number(a, 2), number(a, 3), number(a, 4), number(a, 5)}, true
}

func (w *writer) line() {
	w.put("\n")
	w.wrote = false
}

func (w *writer) put(s string) {
	if w.out.Len()+len(s) > w.max {
		w.full = true
		return
	}
	w.out.WriteString(s)
}

func (w *writer) run(content []byte, resources dict, depth int) {
	if depth == 0 {
		w.state, w.saved = state{scale: 1, page: unit}, nil
		w.line0, w.pen = unit, unit
	}
	p := w.d.parser(content)
	var args []any
	for !w.full {
		switch v := p.value(0).(type) {
		case end:
			return
		case closing:
			args, p.nodes = args[:0], 0
		case operator:
			if v == "BI" {
				skipImage(p)
			} else {
				w.do(v, args, resources, depth)
			}
			clear(args)
			args, p.nodes = args[:0], 0 // arguments of one operator are bounded, and their total by the work
		default:
			if len(args) < maxOperands {
				args = append(args, v)
			}
		}
	}
}

// skipImage goes past an image that stands in the content itself: its bytes are not
// values.
func skipImage(p *parser) {
	i := bytes.Index(p.b[p.at:], []byte("ID"))
	if i < 0 {
		p.at = len(p.b)
		return
	}
	p.at += i + 2
	for p.at < len(p.b) {
		e := bytes.Index(p.b[p.at:], []byte("EI"))
		if e < 0 {
			p.at = len(p.b)
			return
		}
		before, after := p.at+e-1, p.at+e+2
		p.at = after
		if isSpace(p.b[before]) && (after == len(p.b) || isSpace(p.b[after])) {
			return
		}
	}
}

func number(args []any, i int) float64 {
	if i < 0 || i >= len(args) {
		return 0
	}
	f, _ := args[i].(float64)
	return f
}

func (w *writer) do(op operator, args []any, resources dict, depth int) {
	last := len(args) - 1
	switch op {
	case "q":
		if len(w.saved) < maxSaved {
			w.saved = append(w.saved, w.state)
		}
	case "Q":
		if n := len(w.saved); n > 0 {
			w.state, w.saved = w.saved[n-1], w.saved[:n-1]
		}
	case "BT":
		w.line0, w.pen = unit, unit
	case "cm":
		if m, ok := matrixOf(args); ok {
			w.page = m.times(w.page)
		}
	case "Tf":
		if last >= 1 {
			n, _ := args[last-1].(name)
			w.font, w.size = w.fontOf(resources, n), number(args, last)
		}
	case "Tc":
		w.charGap = number(args, last)
	case "Tw":
		w.wordG = number(args, last)
	case "Tz":
		w.scale = number(args, last) / 100
	case "TL":
		w.leading = number(args, last)
	case "Td", "TD":
		if op == "TD" {
			w.leading = -number(args, last)
		}
		w.newLine(number(args, last-1), number(args, last))
	case "T*":
		w.newLine(0, -w.leading)
	case "Tm":
		if m, ok := matrixOf(args); ok {
			w.line0, w.pen = m, m
		}
	case "Tj", "'", "\"":
		if op == "\"" {
			w.wordG, w.charGap = number(args, last-2), number(args, last-1)
		}
		if op != "Tj" {
			w.newLine(0, -w.leading)
		}
		if last >= 0 {
			s, _ := args[last].(text)
			w.show(s)
		}
	case "TJ":
		if last < 0 {
			return
		}
		a, _ := args[last].([]any)
		for _, v := range a {
			switch v := v.(type) {
			case text:
				w.show(v)
			case float64:
				w.pen = w.pen.moved(-v/1000*w.size*w.scale, 0)
			}
		}
	case "Do":
		if last < 0 || depth >= maxForms || !w.d.spend(formCost) {
			return
		}
		n, _ := args[last].(name)
		form, ok := w.d.resolve(w.d.dict(resources["XObject"])[n]).(stream)
		if !ok || form.dict["Subtype"] != name("Form") {
			return
		}
		own := resources
		if r, ok := form.dict["Resources"]; ok {
			own = w.d.dict(r)
		}
		before, saved := w.state, w.saved
		w.saved = nil
		if m, ok := matrixOf(w.d.array(form.dict["Matrix"])); ok {
			w.page = m.times(w.page)
		}
		w.run(w.d.inflate(0, form), own, depth+1)
		w.state, w.saved = before, saved
	}
}

func (w *writer) newLine(x, y float64) {
	w.line0 = w.line0.moved(x, y)
	w.pen = w.line0
}

// show writes a string, and parts it from what was shown before where the pen has
// moved since: by a line end, or by a space.
func (w *writer) show(s text) {
	if w.font == nil || s == "" {
		return
	}
	at := w.pen.times(w.page)
	up := w.size * math.Hypot(at.c, at.d)
	along := w.size * math.Hypot(at.a, at.b)
	if w.wrote {
		dx, dy := at.e-w.endX, at.f-w.endY
		// Along and across the direction of writing, which may be any.
		if n := math.Hypot(at.a, at.b); n > 0 {
			cos, sin := at.a/n, at.b/n
			dx, dy = dx*cos+dy*sin, dy*cos-dx*sin
		}
		switch {
		case math.Abs(dy) > lineGap*math.Abs(up) || dx < -2*math.Abs(along):
			w.line()
		case dx > wordGap*math.Abs(along), dx < -math.Abs(along)/2:
			w.space()
		}
	}
	// Ghostscript writes the gap between two words as the character spacing of a string of
	// their last and first glyphs. In longer strings it is a title's letter-spacing.
	glyphs := len(s)
	if w.font.cmap != nil {
		glyphs /= 2
	}
	apart := glyphs < spacedWord && w.charGap > wordGap*math.Abs(w.size)
	for c := range w.font.codes(s) {
		if !w.d.spend(4) || w.full {
			return
		}
		u := w.font.char(c)
		if strings.TrimSpace(u) == "" { // a space, or a glyph that nobody knows: it parts words, too
			w.space()
		} else {
			w.put(u)
			w.wrote = true
		}
		gap := w.charGap
		if c == (code{' ', 1}) {
			gap += w.wordG
		}
		w.pen = w.pen.moved((w.font.width(c)*w.size+gap)*w.scale, 0)
		if glyphs--; apart && glyphs > 0 {
			w.space()
		}
	}
	end := w.pen
	if apart {
		end = end.moved(-w.charGap*w.scale, 0)
	}
	end = end.times(w.page)
	w.endX, w.endY = end.e, end.f
}

func (w *writer) space() {
	if w.wrote && !strings.HasSuffix(w.tail(), " ") {
		w.put(" ")
	}
}

// tail is the last byte that was written.
func (w *writer) tail() string {
	s := w.out.String()
	return s[max(len(s)-1, 0):]
}
