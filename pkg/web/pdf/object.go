package pdf

import (
	"bytes"
	"strconv"
)

// Values are nil, bool, float64, text, name, []any, dict, ref and stream; in
// content streams operator, too.
type (
	text     string
	name     string
	operator string
	ref      int
	dict     map[name]any
	stream   struct {
		dict   dict
		raw    []byte
		sealed sealed
	}
)

// parser reads values one after the other.
type parser struct {
	d     *Document
	b     []byte
	at    int
	nodes int // values so far

	sealed sealed // the object being read, needed to decrypt its strings and stream
}

func (d *Document) parser(b []byte) *parser { return &parser{d: d, b: b} }

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

func (p *parser) space() {
	for p.at < len(p.b) {
		switch c := p.b[p.at]; {
		case isSpace(c):
			p.at++
		case c == '%':
			for p.at < len(p.b) && p.b[p.at] != '\n' && p.b[p.at] != '\r' {
				p.at++
			}
		default:
			return
		}
	}
}

// end marks the place of a missing value.
type end struct{}

// closing is "]" or ">>".
type closing byte

// object reads the value of an object, with its stream.
func (p *parser) object() any {
	v := p.value(0)
	d, ok := v.(dict)
	if !ok {
		return v
	}
	p.space()
	if !bytes.HasPrefix(p.b[p.at:], []byte("stream")) {
		return v
	}
	p.at += len("stream")
	if p.at < len(p.b) && p.b[p.at] == '\r' {
		p.at++
	}
	if p.at < len(p.b) && p.b[p.at] == '\n' {
		p.at++
	}
	rest := p.b[p.at:]
	// The length may be wrong, or an object that is not to be had: it counts where
	// the stream does end.
	n, direct := d["Length"].(float64)
	if direct && n >= 0 && n <= float64(len(rest)) {
		tail := rest[int(n):min(len(rest), int(n)+16)]
		if bytes.HasPrefix(bytes.TrimLeft(tail, "\r\n \t"), []byte("endstream")) {
			return stream{d, rest[:int(n)], p.sealed}
		}
	}
	e := bytes.Index(rest, []byte("endstream"))
	if e < 0 {
		e = len(rest)
	}
	p.d.spend(e)
	return stream{d, rest[:e], p.sealed}
}

// value reads one value, or end{} where there is none.
func (p *parser) value(depth int) any {
	start := p.at
	v := p.next(depth)
	if p.nodes++; p.nodes > maxNodes || !p.d.spend(p.at-start+valueCost) {
		p.d.cut = true
		p.at = len(p.b)
		return end{}
	}
	return v
}

func (p *parser) next(depth int) any {
	p.space()
	if p.at >= len(p.b) || depth > maxDepth {
		p.at = len(p.b)
		return end{}
	}
	c := p.b[p.at]
	switch {
	case c == '/':
		return p.name()
	case c == '(':
		return p.literal()
	case c == '<' && p.at+1 < len(p.b) && p.b[p.at+1] == '<':
		p.at += 2
		return p.dict(depth)
	case c == '<':
		return p.hex()
	case c == '[':
		p.at++
		a := []any{}
		for {
			v := p.value(depth + 1)
			switch v.(type) {
			case end, closing:
				return a
			}
			a = append(a, v)
		}
	case c == ']', c == '{', c == '}', c == ')':
		p.at++
		return closing(c)
	case c == '>':
		p.at += min(2, len(p.b)-p.at)
		return closing(c)
	}
	return p.word()
}

func (p *parser) dict(depth int) any {
	d := dict{}
	p.nodes += dictNodes
	for {
		key := p.value(depth + 1)
		switch key := key.(type) {
		case end, closing:
			return d
		case name:
			v := p.value(depth + 1)
			switch v.(type) {
			case end, closing:
				return d
			}
			d[key] = v
		}
	}
}

// name reads "/Name" with #xx escapes.
func (p *parser) name() any {
	p.at++
	var n []byte
	for p.at < len(p.b) && !isSpace(p.b[p.at]) && !isDelimiter(p.b[p.at]) {
		c := p.b[p.at]
		if c == '#' && p.at+2 < len(p.b) {
			if v, err := strconv.ParseUint(string(p.b[p.at+1:p.at+3]), 16, 8); err == nil {
				c = byte(v)
				p.at += 2
			}
		}
		n = append(n, c)
		p.at++
	}
	return name(n)
}

// text is a string as the file means it.
func (p *parser) text(b []byte) text {
	if s := p.d.security; s != nil {
		b = s.decrypt(s.strings, p.sealed, b)
	}
	return text(b)
}

// literal reads "(text)" with escapes and balanced parentheses.
func (p *parser) literal() any {
	p.at++
	var s []byte
	for open := 1; p.at < len(p.b); {
		c := p.b[p.at]
		p.at++
		switch c {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return p.text(s)
			}
		case '\\':
			s = p.escape(s)
			continue
		}
		s = append(s, c)
	}
	return p.text(s)
}

// escape reads what follows a backslash.
func (p *parser) escape(s []byte) []byte {
	if p.at >= len(p.b) {
		return s
	}
	c := p.b[p.at]
	p.at++
	switch c {
	case 'n':
		return append(s, '\n')
	case 'r':
		return append(s, '\r')
	case 't':
		return append(s, '\t')
	case 'b':
		return append(s, '\b')
	case 'f':
		return append(s, '\f')
	case '\r': // a line that goes on
		if p.at < len(p.b) && p.b[p.at] == '\n' {
			p.at++
		}
		return s
	case '\n':
		return s
	}
	if c < '0' || c > '7' {
		return append(s, c)
	}
	v := c - '0'
	for range 2 {
		if p.at >= len(p.b) || p.b[p.at] < '0' || p.b[p.at] > '7' {
			break
		}
		v = v<<3 | (p.b[p.at] - '0')
		p.at++
	}
	return append(s, v)
}

// hex reads "<48656C>".
func (p *parser) hex() any {
	p.at++
	e := bytes.IndexByte(p.b[p.at:], '>')
	if e < 0 {
		e = len(p.b) - p.at
	}
	s := unhex(p.b[p.at : p.at+e])
	p.at = min(p.at+e+1, len(p.b))
	return p.text(s)
}

// unhex decodes hexadecimal digits and skips all else; an odd last digit counts as
// if a 0 followed.
func unhex(b []byte) []byte {
	var s []byte
	var v byte
	half := false
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			continue
		}
		if half {
			s = append(s, v<<4|c)
		}
		v, half = c, !half
	}
	if half {
		s = append(s, v<<4)
	}
	return s
}

// word reads a number, a reference "N G R", a constant or an operator.
func (p *parser) word() any {
	start := p.at
	for p.at < len(p.b) && !isSpace(p.b[p.at]) && !isDelimiter(p.b[p.at]) {
		p.at++
	}
	w := string(p.b[start:min(p.at, start+64)])
	switch w {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if c := w[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return operator(w)
	}
	f, err := strconv.ParseFloat(w, 64)
	if err != nil {
		return float64(0) // "--5", "1.2.3": readers differ, and none refuses
	}
	if n := int(f); float64(n) == f && n > 0 && n <= 1<<30 {
		if length, ok := reference(p.b[p.at:]); ok {
			p.at += length
			return ref(n)
		}
	}
	return f
}

// reference reports whether " G R" follows a number.
func reference(b []byte) (length int, ok bool) {
	i := 0
	for i < len(b) && i < 4 && isSpace(b[i]) {
		i++
	}
	digits := i
	for i < len(b) && i < 12 && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	spaces := i
	for i < len(b) && i < 16 && isSpace(b[i]) {
		i++
	}
	if digits == 0 || spaces == digits || i == spaces || i >= len(b) || b[i] != 'R' {
		return 0, false
	}
	return i + 1, i+1 == len(b) || isSpace(b[i+1]) || isDelimiter(b[i+1])
}
