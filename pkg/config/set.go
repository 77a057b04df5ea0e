package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
)

// Set returns crawl.toml's text with one setting changed: see SetAll.
func Set(text []byte, key, value string) ([]byte, error) {
	return SetAll(text, []Pair{{key, value}})
}

// Pair is a setting and its value, as text.
type Pair struct{ Key, Value string }

// ParsePairs reads "KEY=VALUE" arguments. Values of a list that are given one by one are one list; another setting is given once.
func ParsePairs(args []string) (pairs []Pair, err error) {
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found {
			return nil, &fault.Error{Class: fault.Usage, Found: strconv.Quote(arg), Want: "KEY=VALUE, such as fetch.timeout=20s"}
		}
		p := Pair{strings.TrimSpace(key), strings.TrimSpace(value)}
		i := slices.IndexFunc(pairs, func(given Pair) bool { return given.Key == p.Key })
		if i < 0 {
			pairs = append(pairs, p)
			continue
		}
		k, err := KeyOf(p.Key)
		if err != nil {
			return nil, err
		}
		given := pairs[i].Value
		if k.typ.Kind() != reflect.Slice || given == "" || p.Value == "" {
			return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s twice: %q and %q", k.Name, given, p.Value), Want: "one value"}
		}
		pairs[i].Value = k.ListText(append(texts(k.parsed(given)), texts(k.parsed(p.Value))...))
	}
	return pairs, nil
}

// SetAll returns crawl.toml's text with settings changed, all of them or none. Comments and order
// stay. The line of a setting that has none yet is that in which a comment shows it, as in Preset, or a new one at
// the end of its table. An empty value takes a setting back: its line is a comment again. The last
// line ends with a newline. A byte order mark stays.
//
// A value of a list is TOML, or its members with commas between. A text may stand in quotes. What
// Load or the commands would refuse is fault.Usage, as far as the file alone tells; whether files
// exist is for CheckPaths.
func SetAll(text []byte, pairs []Pair) ([]byte, error) {
	before, err := parse(Name, text)
	if err != nil {
		return nil, err
	}
	text, marked := bytes.CutPrefix(text, bom)
	for _, p := range pairs {
		k, err := KeyOf(p.Key)
		if err != nil {
			return nil, err
		}
		value := ""
		if p.Value != "" {
			if value, err = k.literal(p.Value); err != nil {
				return nil, err
			}
		}
		if text, err = k.editText(text, value); err != nil {
			return nil, err
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(bytes.Clone(text), '\n')
	}
	if len(text) > maxFile {
		return nil, &fault.Error{Class: fault.Usage, File: Name, Found: fmt.Sprintf("%d bytes", len(text)), Want: fmt.Sprintf("at most %d", maxFile)}
	}
	c, err := parse(Name, text)
	if err != nil {
		return nil, err
	}
	if before.checkTogether() == nil { // else it is not these settings that exclude each other
		err = c.checkTogether()
	}
	if marked {
		text = slices.Concat(bom, text)
	}
	return text, err
}

// KeyOf finds a setting by its name. An unknown one is fault.Usage, with the nearest.
func KeyOf(name string) (Key, error) {
	k, found := keyAt(name)
	if !found {
		return Key{}, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("unknown key %q", name), Hint: meant(name)}
	}
	return k, nil
}

// Preset is a crawl.toml that says what could be set, and how.
func Preset() []byte {
	var b strings.Builder
	b.WriteString("# Configuration of this crawl: take the # away from what you set. The flags of a\n# command win over this file. File names are relative to its folder.\n\n")
	last := ""
	for _, k := range allKeys() {
		table, name := k.split()
		if table != last {
			fmt.Fprintf(&b, "\n[%s]\n", table)
			last = table
		}
		fmt.Fprintf(&b, "# %s\n#%s = %s\n", k.Doc, name, k.Like)
	}
	return []byte(b.String())
}

// Parse reads a text of crawl.toml that is, or is going to be, the file path.
func Parse(path string, text []byte) (*Config, error) { return parse(path, text) }

// Text is the value of a setting as Set reads it; "" where the file does not set it.
func (c *Config) Text(k Key) string {
	v, _ := c.valueAt(k.Name)
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		var list []string
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
		return k.ListText(list)
	case string:
		if v == "" || strings.ContainsAny(v[:1], "\"' ") || strings.HasSuffix(v, " ") {
			return quote(v)
		}
		return v
	}
	return fmt.Sprint(v)
}

// ListText is a list as Set reads it: with commas between, or TOML.
func (k Key) ListText(list []string) string {
	if text := strings.Join(list, ","); slices.Equal(k.ListMembers(text), list) && !strings.HasPrefix(text, "[") {
		return text
	}
	return tomlList(list)
}

func tomlList(list []string) string {
	quoted := make([]string, len(list))
	for i, t := range list {
		quoted[i] = quote(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// split is the table of a setting, "" if it stands in none, and its name there.
func (k Key) split() (table, name string) {
	if table, name, found := strings.Cut(k.Name, "."); found {
		return table, name
	}
	return "", k.Name
}

func (k Key) table() string {
	table, _ := k.split()
	return table
}

// literal is a value as TOML.
func (k Key) literal(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", setting.Wrong(k.Name, text, "UTF-8")
	}
	value := k.parsed(text)
	if value == nil {
		want := k.wanted()
		if of := setting.Want(k.tag); of != "" {
			want += " of " + of
		}
		return "", setting.Wrong(k.Name, text, want)
	}
	if err := k.decodeValue(value, reflect.New(k.typ).Elem()); err != nil {
		return "", err
	}
	switch v := value.(type) {
	case []any:
		return tomlList(texts(v)), nil
	case string:
		return quote(v), nil
	case float64:
		literal := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(literal, ".e") {
			literal += ".0"
		}
		return literal, nil
	}
	return fmt.Sprint(value), nil
}

// ListMembers splits a list at its commas.
func (k Key) ListMembers(value string) (list []string) {
	if k.tag.Get("sep") == "none" && strings.ContainsAny(value, "=:") {
		return []string{value}
	}
	for m := range strings.SplitSeq(value, ",") {
		if m = strings.TrimSpace(m); m != "" {
			list = append(list, m)
		}
	}
	return list
}

// listOf reads a list of texts in TOML.
func listOf(value string) (list []string, found bool) {
	var got struct{ V []string }
	if !strings.HasPrefix(value, "[") || toml.Unmarshal([]byte("V = "+value), &got) != nil || got.V == nil {
		return nil, false
	}
	return got.V, true
}

// quote is a text as TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// spot is a setting's expression in a text, KEY = VALUE, by offsets.
type spot struct{ start, value, end int }

// layout is where a setting stands in a text, or could.
type layout struct {
	set     *spot // the setting
	shown   *spot // the setting in a comment; start is where the comment begins
	inline  bool  // its table is a value, { … }
	dotted  int   // the end of the last line that has another setting of the table as table.name at the top; 0: none
	section int   // the end of the last line of the setting's table that is no comment; -1: no such table
}

// layoutIn finds a setting in a valid text.
func (k Key) layoutIn(text []byte) (l layout) {
	own, _ := k.split()
	l.section = -1
	if own == "" {
		l.section = 0
	}
	var p unstable.Parser
	p.KeepComments = true
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Comment:
			start := int(e.Raw.Offset)
			if s := k.inComment(text[start:start+int(e.Raw.Length)], table); s != nil && l.shown == nil {
				l.shown = &spot{start, start + s.value, start + s.end}
			}
		case unstable.Table:
			name, end := nameOf(e, "")
			if table = name; table == own {
				l.section = lineEnd(text, end)
			}
		case unstable.KeyValue:
			name, end := nameOf(e, table)
			s := &spot{int(e.Raw.Offset), valueAt(text, end), int(e.Raw.Offset + e.Raw.Length)}
			switch {
			case name == k.Name:
				l.set = s
			case name == own:
				l.inline = true
			case table == "" && own != "" && strings.HasPrefix(name, own+"."):
				l.dotted = lineEnd(text, s.end)
			}
			if table == own {
				l.section = lineEnd(text, s.end)
			}
		}
	}
	return l
}

// inComment finds the setting in a comment "#name = value" of a table, by offsets in it.
func (k Key) inComment(comment []byte, table string) *spot {
	rest := bytes.TrimLeft(comment, "# \t")
	before := len(comment) - len(rest)
	var p unstable.Parser
	p.Reset(rest)
	if !p.NextExpression() || p.Expression().Kind != unstable.KeyValue {
		return nil
	}
	name, end := nameOf(p.Expression(), table)
	if name != k.Name {
		return nil
	}
	raw := p.Expression().Raw
	s := &spot{before, before + valueAt(rest, end), before + int(raw.Offset+raw.Length)}
	if _, err := parse(Name, append([]byte(header(table)), rest...)); err != nil {
		return nil // prose, or a value that would not do
	}
	return s
}

func header(table string) string {
	if table == "" {
		return ""
	}
	return "[" + table + "]\n"
}

// nameOf is the whole name of a table or a setting, and where its key ends.
func nameOf(e *unstable.Node, table string) (name string, end int) {
	name = table
	for key := e.Key(); key.Next(); {
		name = strings.TrimPrefix(name+"."+string(key.Node().Data), ".")
		end = int(key.Node().Raw.Offset + key.Node().Raw.Length)
	}
	return name, end
}

// valueAt is where a setting's value begins; its key ends at end.
func valueAt(text []byte, end int) int {
	for end < len(text) && strings.IndexByte(" \t=", text[end]) >= 0 {
		end++
	}
	return end
}

func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// editText sets the setting to a value, in TOML; "" removes it.
func (k Key) editText(text []byte, value string) ([]byte, error) {
	l := k.layoutIn(text)
	table, name := k.split()
	splice := func(from, to int, with string) []byte {
		return bytes.Join([][]byte{text[:from], text[to:]}, []byte(with))
	}
	if l.inline {
		return nil, &fault.Error{Class: fault.Usage, File: Name, Place: table, Found: "a table in braces", Want: "[" + table + "], and its settings on lines of their own",
			Hint: "write it so in crawl.toml"}
	}
	if value == "" {
		if l.set == nil {
			return text, nil
		}
		return splice(l.set.start, l.set.end, "#"+string(text[l.set.start:l.set.value])+k.Like), nil
	}
	switch {
	case l.set != nil:
		return splice(l.set.value, l.set.end, value), nil
	case l.shown != nil:
		key := bytes.TrimLeft(text[l.shown.start:l.shown.value], "# \t")
		return splice(l.shown.start, l.shown.end, string(key)+value), nil
	}
	eol := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		eol = "\r\n"
	}
	at, line := l.section, name+" = "+value+eol
	switch {
	case l.dotted > 0:
		at, line = l.dotted, table+"."+line
	case at < 0:
		at, line = len(text), eol+"["+table+"]"+eol+line
	}
	if at > 0 && text[at-1] != '\n' {
		line = eol + line
	}
	return splice(at, at, line), nil
}
