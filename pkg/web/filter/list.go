package filter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// list is a file of sorted lines, in memory or on disk.
type list struct {
	name   string
	memory *table

	// On disk. The first lines of blocks tell the block in which a line would be; the sieve
	// tells mostly that it is in none.
	file   *os.File
	disk   sieve
	starts []int64  // where blocks begin, and the end of the last
	firsts []string // their first lines
}

// Bounds of a list on disk: its memory is the first lines of blocks, some 4 MiB with lines of
// usual length, and the sieve's.
const (
	listBlock   = 2 << 10  // bytes of a block, at the least
	listBlocks  = 1 << 15  // blocks, at most
	listLineMax = 8 << 10  // bytes of a line
	sievesMax   = 16 << 20 // bytes of all sieves; each takes half of what is left at most
)

// entryKind is the kind of a list's lines.
type entryKind int

const (
	entryHost   entryKind = iota // with a port or without
	entryDomain                  // without a port
	entryURL                     // a canonical URL
	entryPrefix                  // what a URL begins with, up to the slash behind the host at the least
)

// check returns what is wrong with a line, or with an argument, which would match nothing:
// what is wanted, "" if nothing.
func (k entryKind) check(line string, schemes *canon.Schemes) (want string) {
	switch k {
	case entryHost, entryDomain:
		if plainName(line) {
			return ""
		}
		if strings.Contains(line, "*") {
			return `a name without "*": "domain example.org" holds for all hosts below it, and regex for any pattern`
		}
		h, err := canonicalHost(line)
		if err != nil {
			return "a host in canonical form: " + err.Error()
		}
		if h != line {
			return fmt.Sprintf("%q, its canonical form", h)
		}
		if name, port := canon.SplitPort(h); port != "" && k == entryDomain {
			return fmt.Sprintf("%q: a domain is meant on any port", name)
		}
	case entryURL:
		return notCanonical(line, schemes)
	case entryPrefix:
		if o := origin(line); o == "" || strings.ContainsAny(line, " \t\r") {
			return "a canonical URL, at least up to the slash behind its host"
		} else if want := notCanonical(line[:len(o)+1], schemes); want != "" {
			return want + ", as its beginning"
		}
	}
	return ""
}

// notCanonical describes what is wanted in place of a URL: its canonical form, or why it has none; "" if it is canonical.
func notCanonical(s string, schemes *canon.Schemes) (want string) {
	u, _, err := canon.Options{Schemes: schemes, MaxURL: MaxLine}.URL(s)
	if err != nil {
		return "a canonical URL: " + err.Error()
	}
	if u != s {
		return fmt.Sprintf("%q, its canonical form", u)
	}
	return ""
}

// plainName reports whether a name is canonical at a glance. One that ends with a digit may be an address.
func plainName(s string) bool {
	before := byte('.')
	for i := range len(s) {
		c := s[i]
		if c == '.' && before == '.' || !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
		before = c
	}
	return 'a' <= before && before <= 'z'
}

// key is the name that a line is found by, and hash what it is found under.
func (k entryKind) key(line string) (key string, hash uint64) {
	if k != entryPrefix {
		return line, sum(line)
	}
	scheme, host, _ := strings.Cut(origin(line), "://")
	return host, originHash(sum(host), scheme)
}

// openList reads a list once from end to end. It stays in memory if it takes not more
// than memory bytes, and is then cost bytes there; else it stays open, and its sieve takes cost
// of the bytes that are left for sieves.
func openList(name string, kind entryKind, memory, sieves int64, schemes *canon.Schemes) (l *list, cost int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, &fault.Error{Class: fault.Usage, File: name, Found: pathError(err), Want: "a sorted list, one entry a line", Err: err}
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, &fault.Error{Class: fault.Usage, File: name, Found: "not a regular file", Want: "a sorted list, one entry a line"}
	}
	if err != nil {
		return nil, 0, err
	}
	l = &list{name: name, file: f}
	l.disk = newSieve(min(info.Size(), 8*sieves/2)) // a bit a byte: lines are 14 to 20 long
	block := max(listBlock, info.Size()/listBlocks)
	var size, lines int64
	err = scanLines(f, name, func(n, at int64, line string) error {
		if want := kind.check(line, schemes); want != "" {
			return &fault.Error{Class: fault.Usage, File: name, Place: fmt.Sprintf("line %d", n), Found: fmt.Sprintf("%q", line), Want: want}
		}
		if len(l.starts) == 0 || at >= l.starts[len(l.starts)-1]+block {
			l.starts, l.firsts = append(l.starts, at), append(l.firsts, strings.Clone(line))
		}
		key, hash := kind.key(line)
		l.disk.add(hash, key)
		size = at + int64(len(line)) + 1
		lines++
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if cost = tableCost(size, lines); cost > memory || size > math.MaxUint32 {
		l.starts = append(l.starts, size)
		keep = true
		return l, 8 * int64(len(l.disk.words)), nil
	}
	var text []byte
	if lines > 0 {
		text = make([]byte, size-l.starts[0])
		if n, err := f.ReadAt(text, l.starts[0]); n < len(text)-1 { // the last newline may be missing
			return nil, 0, l.changed(err)
		}
		text[len(text)-1] = '\n'
	}
	l.file, l.disk, l.starts, l.firsts = nil, sieve{}, nil, nil
	if kind == entryPrefix {
		l.memory = originTable(text, int(lines))
	} else {
		l.memory = lineTable(text, int(lines))
	}
	return l, cost, nil
}

func pathError(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// scanLines calls do for each line with its number and place, and holds it to the order.
// The line is only valid in the call.
func scanLines(f io.Reader, name string, do func(n, at int64, line string) error) error {
	in := bufio.NewReaderSize(f, 256<<10)
	bad := func(n int64, found, want, hint string) error {
		return &fault.Error{Class: fault.Usage, File: name, Place: fmt.Sprintf("line %d", n), Found: found, Want: want, Hint: hint}
	}
	var before []byte
	var at int64
	for n := int64(1); ; n++ {
		line, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(line) > listLineMax {
			return bad(n, fmt.Sprintf("%d bytes or more", len(line)), fmt.Sprintf("at most %d", listLineMax), "")
		}
		if len(line) == 0 {
			return nil
		}
		start := at
		at += int64(len(line))
		if line[len(line)-1] == '\n' {
			line = line[:len(line)-1]
		}
		if before == nil && (len(line) == 0 || line[0] == '#') {
			continue
		}
		if string(line) <= string(before) {
			found := fmt.Sprintf("%q behind %q", line, before)
			return bad(n, found, "lines in the order of bytes, each once", "LC_ALL=C sort -u -o FILE FILE")
		}
		before = append(before[:0], line...)
		if err := do(n, start, asString(line)); err != nil {
			return err
		}
	}
}

// sieve is the one of its lines, or of their origins.
func (l *list) sieve() *sieve {
	if l.memory != nil {
		return &l.memory.sieve
	}
	return &l.disk
}

// hasOrigin reports whether a line may begin like the URL up to the host.
func (l *list) hasOrigin(v *view, hash uint64) bool {
	if l.memory != nil {
		return l.memory.find(hash, v.origin, '/') >= 0
	}
	return l.disk.mayHave(hash)
}

// has reports whether key is a line.
func (l *list) has(v *view, key string, hash uint64) bool {
	if l.memory != nil {
		return l.memory.find(hash, key, '\n') >= 0
	}
	if !l.disk.mayHave(hash) {
		return false
	}
	if v.known == nil {
		v.known = make([]known, knownNames)
	}
	k := &v.known[hash%knownNames]
	if k.list == l && string(k.name[:k.len]) == key {
		return k.has
	}
	text := l.block(v, key)
	if v.err != nil {
		return false
	}
	found := string(notAbove(text, key)) == key
	if len(key) <= len(k.name) {
		k.list, k.has, k.len = l, found, uint8(copy(k.name[:], key))
	}
	return found
}

// known is an answer of a list on disk that is kept: hosts come again.
type known struct {
	list *list
	has  bool
	len  uint8
	name [62]byte
}

const knownNames = 2048

// beginsURL reports whether a line is a prefix of the URL.
func (l *list) beginsURL(v *view, hash uint64) bool {
	if l.memory != nil {
		return l.memory.beginsURL(v, hash)
	}
	return l.disk.mayHave(hash) && begins(func(key string) []byte { return notAbove(l.block(v, key), key) }, v)
}

// block reads the block in which key would be. An error is left with the view.
func (l *list) block(v *view, key string) []byte {
	i := sort.Search(len(l.firsts), func(i int) bool { return l.firsts[i] > key }) - 1
	if i < 0 {
		return nil
	}
	n := int(l.starts[i+1] - l.starts[i])
	if cap(v.read) < n {
		v.read = make([]byte, n)
	}
	b := v.read[:n]
	got, err := l.file.ReadAt(b, l.starts[i])
	last := i+2 == len(l.starts)
	if got < n-1 || got < n && !last {
		v.err = l.changed(err)
		return nil
	}
	if last { // the last line may lack its newline
		b[n-1] = '\n'
	}
	first := l.firsts[i]
	if b[n-1] != '\n' || len(b) <= len(first) || string(b[:len(first)]) != first || b[len(first)] != '\n' {
		v.err = l.changed(nil)
		return nil
	}
	return b
}

func (l *list) changed(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return &fault.Error{Class: fault.Corrupt, File: l.name, Found: "other text than when it was opened", Want: "a list that does not change while it is used",
		Hint: "put a new list in its place by rename (mv), and run the command again"}
}
