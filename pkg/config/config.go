// Package config reads crawl.toml, one crawl's whole configuration (Mercator's
// configuration file), and gives each command its part of it.
//
// A setting is a field of a struct (settings.go), which commands embed in their grammars: it is the default of one flag of them; a flag
// on the command line wins. Settings that no command embeds are read by pipelines ("mckpt show --setting").
//
// Settings are defaults of flags and nothing else, so that whatever a crawl does can be tried with a
// flag first. File names are relative to the file, so that a crawl folder can be moved.
//
// # Invariants
//
//   - An unknown key is an error that names it, its line, and the nearest known key.
//   - A key of another type is an error with its line.
//   - The settings of a crawl folder that another user owns are refused: some name programs. SafeVariable allows a folder.
//   - A value with a control character, or with one that changes the direction of text, is an error.
//   - A value that the flag would refuse is an error with its line.
//   - Config is read-only after Load.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Key describes one setting.
type Key struct {
	Name  string // "politeness.min_delay"
	Flag  string // "min-delay"; "": commands have no flag
	Doc   string
	Like  string // the default or an example, in TOML
	Path  bool   // the value is the name of a file, or a list of names
	Word  string // a value that is no file's name although Path is set; "" if there is none
	Alone bool   // the setting is of one crawl: a crawl that is made like another has one of its own
	Fixed bool   // the setting counts when the crawl is made, and not later
	Sheet string // a host sheet may set it for a "host", a "url" or hosts that it names ("own"); "": for the whole crawl only
	Crawl string // Lookup's default in a crawl folder; "": none

	typ   reflect.Type
	index []int // index of the field in File
	own   bool  // the field is File's own: no command can embed it
	tag   reflect.StructTag
}

// Keys lists all settings, in the order of crawl.toml.
func Keys() []Key { return slices.Clone(allKeys()) }

// allKeys reads the tags once: Lookup is asked for every flag of a command.
var allKeys = sync.OnceValue(func() []Key {
	keys := keysOf(reflect.TypeFor[File](), Key{})
	slices.SortStableFunc(keys, func(a, b Key) int { return cmp.Compare(a.tableIndex(), b.tableIndex()) })
	return keys
})

func (k Key) tableIndex() int { return slices.Index(tables, k.table()) }

// keyAt finds a setting by its name.
func keyAt(name string) (k Key, found bool) {
	i, found := byName()[name]
	if !found {
		return Key{}, false
	}
	return allKeys()[i], true
}

var byName = sync.OnceValue(func() map[string]int {
	at := map[string]int{}
	for i, k := range allKeys() {
		at[k.Name] = i
	}
	return at
})

// keysOf lists the settings of a struct. of has what they have in common.
func keysOf(t reflect.Type, of Key) (keys []Key) {
	for f := range t.Fields() {
		tag := f.Tag.Get
		k := Key{Name: tag("key"), Flag: cmp.Or(tag("name"), dashed(f.Name)), Path: tag("path") != "", Word: tag("word"), Alone: tag("alone") != "", Fixed: of.Fixed || tag("fixed") != "", Crawl: tag("crawl"), Sheet: tag("sheet"),
			typ: f.Type, index: append(slices.Clone(of.index), f.Index...), tag: f.Tag, own: t.Name() == "File" || t.Name() == ""}
		if f.Type.Kind() == reflect.Struct {
			k.Doc = of.Doc
			if group := tag("group"); group != "" {
				k.Doc = lowerFirst(group) + " "
			}
			keys = append(keys, keysOf(f.Type, k)...)
			continue
		}
		k.Doc = of.Doc + strings.TrimSuffix(lowerFirst(tag("help")), ".")
		if note := tag("note"); note != "" {
			k.Doc += "; " + note
		}
		k.Like = k.example(cmp.Or(tag("like"), tag("default"), tag("placeholder")))
		keys = append(keys, k)
	}
	return keys
}

// dashed is the flag of a field: "MaxTTL" is max-ttl.
func dashed(name string) string {
	var b strings.Builder
	for i, r := range name {
		up := func(i int) bool { return i < len(name) && unicode.IsUpper(rune(name[i])) }
		if i > 0 && up(i) && (!up(i-1) || i+1 < len(name) && !up(i+1)) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// example is a value as TOML.
func (k Key) example(text string) string {
	switch {
	case k.typ.Kind() == reflect.Slice && strings.HasPrefix(text, "["):
		return text
	case k.typ.Kind() == reflect.Slice:
		return tomlList(k.ListMembers(text))
	case k.isText():
		return quote(text)
	case k.typ.Kind() == reflect.Float64 && !strings.Contains(text, "."):
		return text + ".0"
	}
	return text
}

// isText reports whether TOML has the value as a text.
func (k Key) isText() bool {
	return k.typ.Kind() == reflect.String || k.typ == reflect.TypeFor[time.Duration]() || k.typ == reflect.TypeFor[Size]()
}

// Choices lists the values of a setting that takes one of a few words; nil: any other.
func (k Key) Choices() []string {
	if k.IsSwitch() {
		return []string{"true", "false"}
	}
	return slices.DeleteFunc(strings.Split(k.tag.Get("enum"), ","), func(w string) bool { return w == "" })
}

// hasFlag reports whether commands can have a flag for the setting.
func (k Key) hasFlag() bool { return !k.own || k.tag.Get("name") != "" }

// IsSwitch reports whether the setting is true or false.
func (k Key) IsSwitch() bool { return k.typ.Kind() == reflect.Bool }

// IsList reports whether a setting holds several values.
func (k Key) IsList() bool { return k.typ.Kind() == reflect.Slice }

// lowerFirst makes the first letter small, for a text within a sentence.
func lowerFirst(text string) string {
	if len(text) > 1 && text[1] >= 'a' {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// Config is a crawl.toml that was read.
type Config struct {
	Path string
	File File
	set  map[string]any // by key, those that the file sets
	bad  error          // the first value that is refused
}

// maxFile bounds crawl.toml, in bytes.
const maxFile = 1 << 20

// Load reads and checks path. Errors are fault.Usage with file and line.
func Load(path string) (*Config, error) {
	open := os.Open
	if filepath.Base(path) == Name { // a crawl folder's; one that is named otherwise may come down a pipe
		open = durable.Open
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no such file", Want: "a configuration, such as the crawl.toml that mckpt init makes", Err: err, Hint: hintLost(path)}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if (&Config{Path: path}).ofCrawl() {
		if err := checkOwner(path); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a longer file", Want: fmt.Sprintf("at most %d bytes", maxFile)}
	}
	if last := lastRead.Load(); last != nil && last.conf.Path == path && bytes.Equal(last.text, b) {
		return last.conf, nil
	}
	c, err := parse(path, b)
	if err == nil && c.bad != nil {
		return nil, c.bad
	}
	if err == nil {
		lastRead.Store(&read{b, c})
	}
	return c, err
}

// read is a file that was read, with its text: each command of a round asks for the same.
type read struct {
	text []byte
	conf *Config
}

var lastRead atomic.Pointer[read]

// bom begins a text that some editors wrote.
var bom = []byte("\ufeff")

// parse reads a text. A value that is refused is no error yet: others may be changed, and it may be corrected.
func parse(path string, b []byte) (*Config, error) {
	b = bytes.TrimPrefix(b, bom)
	c := &Config{Path: path}
	if err := toml.Unmarshal(b, &c.set); err != nil {
		return nil, decodeError(path, err)
	}
	lines, err := layoutOf(path, b)
	if err != nil {
		return nil, err
	}
	for _, k := range allKeys() {
		to := reflect.ValueOf(&c.File).Elem().FieldByIndex(k.index)
		v, set := c.valueAt(k.Name)
		if !set {
			k.setDefault(to)
			continue
		}
		if at := strings.IndexFunc(fmt.Sprint(v), isInvisible); at >= 0 {
			return nil, &fault.Error{Class: fault.Usage, File: path, Place: k.Name, Found: fmt.Sprintf("the character %+q", []rune(fmt.Sprint(v)[at:])[0]), Want: "text that shows as it is"}
		}
		if err := k.decodeValue(v, to); err != nil {
			k.setDefault(to)
			if e, ok := errors.AsType[*fault.Error](err); ok && c.bad == nil {
				e.File, e.Place = path, fmt.Sprintf("line %d", lines[k.Name])
				if c.ofCrawl() && e.Hint == "" {
					e.Hint = "take it back: " + fault.Quote("mcrawl", "set", filepath.Dir(path), k.Name+"=")
				}
				c.bad = e
			}
		}
	}
	return c, nil
}

// setDefault sets a field of File to the setting's default.
func (k Key) setDefault(to reflect.Value) {
	to.SetZero()
	text, found := k.tag.Lookup("default")
	if !found || text == "" {
		return
	}
	if err := k.decodeValue(k.parsed(text), to); err != nil {
		panic(fmt.Sprintf("default of %s: %v", k.Name, err))
	}
}

// isInvisible reports whether a character changes how a printed setting looks.
func isInvisible(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' || Turns(r) }

// Turns reports whether a character changes the direction or the line of the text after it: line and paragraph separators, and the directional embeddings, overrides
// and isolates of Unicode (UAX 9).
func Turns(r rune) bool {
	return r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func decodeError(path string, err error) error {
	if de, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := de.Position()
		place := fmt.Sprintf("line %d", line)
		if strings.Contains(de.Error(), " already ") {
			return &fault.Error{Class: fault.Usage, File: path, Place: place, Found: fmt.Sprintf("%q a second time", strings.Join(de.Key(), ".")), Want: "each table and each key once"}
		}
		return &fault.Error{Class: fault.Usage, File: path, Place: place, Found: strings.TrimPrefix(de.Error(), "toml: "), Hint: tomlHint(de.Error())}
	}
	return &fault.Error{Class: fault.Usage, File: path, Err: err}
}

// tomlHint says how to write what the TOML decoder stopped at.
func tomlHint(err string) string {
	const quotes = "put text in quotes, as in min_delay = \"1s\""
	for _, f := range []struct{ says, hint string }{
		{"keyword", quotes}, {"quoted", quotes}, {"start of value", quotes},
		{"table name", "a table stands in brackets, as in [politeness]"},
		{"array", "a list stands in brackets, its texts in quotes, as in seeds = [\"seeds.txt\"]"},
		{" strings", "text ends in its line, with the quote that it begins with, as in min_delay = \"1s\""},
	} {
		if strings.Contains(err, f.says) {
			return f.hint
		}
	}
	return "a setting is a key, = and a value, as in batch = 500"
}

// layoutOf are the lines of the settings of a text that decodes. A name that is no setting's and no table's is refused, also by its
// capitals, and so is a value of another type.
func layoutOf(path string, b []byte) (lines map[string]int, err error) {
	var p unstable.Parser
	p.Reset(b)
	lines = map[string]int{}
	var read func(e *unstable.Node, table string) (name string, err error)
	read = func(e *unstable.Node, table string) (name string, err error) {
		name = table
		line := 0
		for key := e.Key(); key.Next(); {
			name = strings.TrimPrefix(name+"."+string(key.Node().Data), ".")
			line = p.Shape(key.Node().Raw).Start.Line // counts from the start of the file
			if wanted(name) == "" {
				return "", &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", line),
					Found: fmt.Sprintf("unknown key %q", name), Hint: meant(name)}
			}
		}
		lines[name] = line
		k, setting := keyAt(name)
		var found unstable.Kind
		if e.Kind == unstable.KeyValue {
			found = e.Value().Kind
		}
		switch {
		case setting && k.hasType(e):
		case !setting && e.Kind == unstable.Table:
		case !setting && found == unstable.InlineTable:
			for in := e.Value().Children(); in.Next(); {
				if in.Node().Kind == unstable.KeyValue {
					if _, err := read(in.Node(), name); err != nil {
						return "", err
					}
				}
			}
		default:
			return "", &fault.Error{Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", line), Found: fmt.Sprintf("another type of value for %q", name), Want: wanted(name)}
		}
		return name, nil
	}
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.KeyValue:
			_, err = read(e, table)
		case unstable.Table, unstable.ArrayTable:
			table, err = read(e, "")
		}
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// hasType reports whether the value of an expression has the setting's type.
func (k Key) hasType(e *unstable.Node) bool {
	if e.Kind != unstable.KeyValue {
		return false
	}
	v := e.Value()
	switch {
	case k.typ.Kind() == reflect.Slice:
		if v.Kind != unstable.Array {
			return false
		}
		for in := v.Children(); in.Next(); {
			if kind := in.Node().Kind; kind != unstable.String && kind != unstable.Comment {
				return false
			}
		}
		return true
	case k.isText():
		return v.Kind == unstable.String
	case k.IsSwitch():
		return v.Kind == unstable.Bool
	case k.isNumber():
		return v.Kind == unstable.Float || v.Kind == unstable.Integer
	}
	return v.Kind == unstable.Integer
}

func (k Key) isNumber() bool {
	return k.typ.Kind() == reflect.Float64 || k.typ.Kind() == reflect.Pointer
}

// wanted says in words what kind of value a key takes; "" if there is no such key.
func wanted(name string) string {
	if k, found := keyAt(name); found {
		return k.wanted()
	}
	if slices.Contains(tables, name) && name != "" {
		return "a table, [" + name + "]"
	}
	return ""
}

func (k Key) wanted() string {
	switch {
	case k.typ.Kind() == reflect.Slice:
		return `a list of texts, such as ["a", "b"]`
	case k.IsSwitch():
		return "true or false"
	case k.isText():
		return `text in quotes, such as "1s"`
	case k.isNumber():
		return "a number"
	}
	return "a whole number"
}

// nearest is the known key with the least edit distance; before others comes one
// that has the same name in a table, or in another one.
func nearest(name string) string {
	if small := strings.ToLower(name); small != name && wanted(small) != "" {
		return small
	}
	keys := Keys()
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, k := range keys {
		if k.Name != name && k.Name[strings.LastIndexByte(k.Name, '.')+1:] == last {
			return k.Name
		}
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return fault.Nearest(name, names)
}

// meant is the hint for a name that is no key. A table in common makes no names near.
func meant(name string) string {
	near := nearest(name)
	last := func(name string) string { return strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]) }
	if of := last(name); of == "" || fault.Distance(of, last(near)) > 1+len(of)/4 && !strings.HasPrefix(last(near), of) && !strings.HasPrefix(near, strings.ToLower(name)) {
		return Name + " explains all settings"
	}
	return fmt.Sprintf("did you mean %q?", near)
}

// Lookup returns the value that the file sets for a key, as the default of flags, or that a crawl
// folder has without; found is false where there is none. Values are strings, int64, float64, bool or []any.
// File names are relative to the folder of crawl.toml.
func (c *Config) Lookup(key string) (value any, found bool) {
	k, found := keyAt(key)
	if !found {
		return nil, false
	}
	if value, found = c.value(k); !found && k.Crawl != "" && c.ofCrawl() {
		return k.Crawl, true
	}
	return value, found
}

// ofCrawl reports whether the file is a crawl folder's.
func (c *Config) ofCrawl() bool {
	return filepath.Base(c.Path) == Name && isFile(filepath.Join(filepath.Dir(c.Path), "CURRENT"))
}

// value is a setting as the file has it, names of files made relative to the
// working directory.
func (c *Config) value(k Key) (v any, found bool) {
	v, found = c.valueAt(k.Name)
	if !k.Path {
		return v, found
	}
	switch names := v.(type) {
	case string:
		if names == k.Word {
			return v, found
		}
		return c.pathOf(names), found
	case []any:
		var joined []any
		for _, name := range names {
			joined = append(joined, c.pathOf(name.(string))) // parse has seen that it is text
		}
		return joined, found
	}
	return v, found
}

func (c *Config) pathOf(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.Path), name)
}

// Setting returns the values of a key, as text; none where the file does not set
// it. An unknown key is fault.Usage.
func (c *Config) Setting(name string) ([]string, error) {
	k, err := KeyOf(name)
	if err != nil {
		return nil, err
	}
	switch v, _ := c.value(k); v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		var list []string
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
		return list, nil
	default:
		return []string{fmt.Sprint(v)}, nil
	}
}

// WithoutAlone returns the text of the file for a crawl in folder that is to be made like it. If the file is another crawl's, settings that are of
// one crawl alone are left out, and warn gets their names.
func (c *Config) WithoutAlone(folder string, text []byte, warn func(format string, args ...any)) ([]byte, error) {
	within, err := Within(folder, c.Path)
	if err != nil || within || !c.ofCrawl() {
		return text, err
	}
	var left []string
	var pairs []Pair
	for _, k := range allKeys() {
		if _, set := c.valueAt(k.Name); set && k.Alone {
			left, pairs = append(left, k.Name), append(pairs, Pair{Key: k.Name})
		}
	}
	if left != nil {
		warn("note: %s is of another crawl; not taken over: %s", c.Path, strings.Join(left, ", "))
	}
	return SetAll(text, pairs)
}

// CheckPaths refuses (fault.Usage) a relative name of a file that folder does not
// have, where crawl.toml is or is going to be copied to. It looks at the settings of these names, or at all.
func (c *Config) CheckPaths(folder string, only ...string) error {
	moved := &Config{Path: filepath.Join(folder, Name), set: c.set}
	for _, k := range allKeys() {
		if !k.Path || len(only) > 0 && !slices.Contains(only, k.Name) {
			continue
		}
		names, err := moved.Setting(k.Name)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name != "" && name != k.Word && !isFile(name) {
				if given, _ := c.valueAt(k.Name); filepath.IsAbs(name) && strings.Contains(fmt.Sprint(given), name) {
					return &fault.Error{Class: fault.Usage, File: c.Path, Place: k.Name, Found: "no file " + name, Want: "one that is there", Hint: "write that file first, or correct its name"}
				}
				return &fault.Error{Class: fault.Usage, File: c.Path, Place: k.Name, Found: "no file " + name, Want: "a name relative to the crawl folder, or an absolute one",
					Hint: "crawl.toml is copied into the crawl folder, and counts there"}
			}
		}
	}
	return nil
}

// Outside lists the files that settings name outside folder, where crawl.toml is; and the files in it that they name by absolute
// path, which is wrong in a copy of the folder.
func (c *Config) Outside(folder string) (outside, absolute []string, err error) {
	for _, k := range allKeys() {
		if !k.Path {
			continue
		}
		names, err := c.Setting(k.Name)
		if err != nil {
			return nil, nil, err
		}
		written, _ := c.valueAt(k.Name)
		for _, name := range names {
			if name == "" || name == k.Word {
				continue
			}
			in, err := Within(folder, name)
			if err != nil {
				return nil, nil, err
			}
			if !in {
				outside = append(outside, name)
			} else if list, _ := written.([]any); filepath.IsAbs(name) && (written == name || slices.Contains(list, any(name))) {
				absolute = append(absolute, name)
			}
		}
	}
	return outside, absolute, nil
}

// Within reports whether the file of a name is in a folder.
func Within(folder, name string) (bool, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return false, err
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(root, full)
	return err == nil && filepath.IsLocal(rel), nil
}

func (c *Config) valueAt(name string) (any, bool) {
	var v any = c.set
	for _, part := range strings.Split(name, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[part]; !ok {
			return nil, false
		}
	}
	return v, true
}

// Name is the configuration's file name in a crawl folder.
const Name = "crawl.toml"

// Find returns the crawl.toml of the crawl folder that one of the paths lies
// in, as a store of it or of a shard of it, or is, or "". A crawl folder holds a file CURRENT beside its crawl.toml.
func Find(paths []string) string {
	for _, p := range paths {
		for _, dir := range []string{p, filepath.Dir(filepath.Clean(p)), filepath.Dir(filepath.Dir(filepath.Clean(p))), store.Folder(p, store.Options{}).CrawlDir()} {
			if dir != "" && isFile(filepath.Join(dir, "CURRENT")) && isFile(filepath.Join(dir, Name)) && isDir(p) {
				return filepath.Join(dir, Name)
			}
		}
	}
	return ""
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

func isDir(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode()&fs.ModeDir != 0
}
