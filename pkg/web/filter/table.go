package filter

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"unsafe"
)

// seed keeps others from choosing names that meet in one place of a table. Answers do
// not depend on it.
var seed = maphash.Bytes(maphash.MakeSeed(), nil)

func mix(h, w uint64) uint64 {
	hi, lo := bits.Mul64(h^w, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// label mixes in the label that ends at s[end], eight bytes at a time from its end, and returns
// the place of the dot before it, -1 if there is none.
func label(h uint64, s string, end int) (hash uint64, dot int) {
	for {
		var w uint64 // the last eight bytes, or zeros and as many as there are
		if end >= 8 {
			t := s[end-8 : end]
			w = uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
				uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		} else {
			for i := range end {
				w |= uint64(s[i]) << (8 * (8 - end + i))
			}
		}
		const low = 0x7f7f7f7f7f7f7f7f
		x := w ^ 0x2e2e2e2e2e2e2e2e
		dots := ^((x&low + low) | x | low) // the top bit of each byte that is a dot
		if dots != 0 {
			n := bits.LeadingZeros64(dots) / 8 // bytes behind the last
			return mix(h, w>>(64-8*n)|uint64(n+1)<<56), end - n - 1
		}
		if end < 8 {
			return mix(h, w>>(64-8*end)|uint64(end+1)<<56), -1
		}
		h = mix(h, w)
		end -= 8
	}
}

// sum is a hash by labels from the right, so that all domains that a name lies in are
// hashed by the way.
func sum(s string) uint64 {
	h := seed
	for end := len(s); end >= 0; {
		h, end = label(h, s, end)
	}
	return h
}

// sieve tells at a glance, for most keys that are not in a set, that they are not: a Bloom
// filter of one word a key, and how many labels there are.
type sieve struct {
	words  []uint64
	labels uint64 // bit n: there is a key of n labels, or n of 63 or more
}

// newSieve makes a sieve of so many bits, or a few more.
func newSieve(bits int64) sieve { return sieve{words: make([]uint64, bits/64+1)} }

func (s *sieve) at(hash uint64) (word *uint64, bitsOf uint64) {
	i, _ := bits.Mul64(hash, uint64(len(s.words)))
	h := hash * 0xd6e8feb86659fd93
	return &s.words[i], 1<<(h>>58) | 1<<(h>>52&63) | 1<<(h>>46&63) | 1<<(h>>40&63)
}

func (s *sieve) add(hash uint64, key string) {
	w, b := s.at(hash)
	*w |= b
	s.labels |= labelBit(strings.Count(key, ".") + 1)
}

func (s *sieve) mayHave(hash uint64) bool {
	w, b := s.at(hash)
	return *w&b == b
}

func labelBit(n int) uint64 { return 1 << min(n, 63) }

// table is an exact set of lines, or of what some of them begin with, in memory. A place
// has a byte of the hash beside it, so that hardly any line is looked at in vain.
type table struct {
	sieve
	text  []byte // sorted lines, each with its newline
	tags  []uint8
	lines []uint32 // where in text the line of a place begins
}

// newTable makes a table of text for n keys.
func newTable(text []byte, n int) *table {
	places := n + n/3 + 1
	return &table{newSieve(sieveBits * int64(n)), text, make([]uint8, places), make([]uint32, places)}
}

// sieveBits is the size of a sieve in bits for each key: one in 200 absent keys passes.
const sieveBits = 16

// tableCost bounds the memory of a table of a list, in bytes.
func tableCost(text, lines int64) int64 { return text + (lines+lines/3+1)*5 + lines*sieveBits/8 }

func (t *table) place(hash uint64) (int, uint8) {
	hi, _ := bits.Mul64(hash, uint64(len(t.tags)))
	return int(hi), max(1, uint8(hash))
}

// add puts in the line at a place of text, under a key.
func (t *table) add(hash uint64, key string, line int) {
	t.sieve.add(hash, key)
	i, tag := t.place(hash)
	for t.tags[i] != 0 {
		if i++; i == len(t.tags) {
			i = 0
		}
	}
	t.tags[i], t.lines[i] = tag, uint32(line)
}

// find returns where the line begins that has key in front and end behind it, -1 if there is none.
func (t *table) find(hash uint64, key string, end byte) int {
	if !t.mayHave(hash) {
		return -1
	}
	i, tag := t.place(hash)
	for t.tags[i] != 0 {
		if t.tags[i] == tag {
			at := int(t.lines[i])
			line := t.text[at:]
			if len(line) > len(key) && line[len(key)] == end && string(line[:len(key)]) == key {
				return at
			}
		}
		if i++; i == len(t.tags) {
			i = 0
		}
	}
	return -1
}

// lineTable is a table of whole lines.
func lineTable(text []byte, n int) *table {
	t := newTable(text, n)
	eachLine(text, func(at int, line string) { t.add(sum(line), line, at) })
	return t
}

// asString is b without a copy. The string is valid as long as b does not change.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func eachLine(text []byte, do func(at int, line string)) {
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n')
		do(at, asString(text[at:at+n]))
		at += n + 1
	}
}

// joinLines sorts lines, each once, and joins them.
func joinLines(lines []string) (text []byte, n int) {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	lines = slices.Compact(lines)
	return []byte(strings.Join(lines, "\n") + "\n"), len(lines)
}

// notAbove returns the last line of text that is not above key, nil if there is none. Text is
// sorted lines, each with its newline.
func notAbove(text []byte, key string) (found []byte) {
	lo, hi := 0, len(text)
	for lo < hi {
		mid := lo + (hi-lo)/2
		start := lo + bytes.LastIndexByte(text[lo:mid], '\n') + 1
		end := start + bytes.IndexByte(text[start:], '\n')
		if string(text[start:end]) <= key {
			found = text[start:end]
			lo = end + 1
		} else {
			hi = start
		}
	}
	return found
}

// few is up to how many names are compared one by one.
const few = 8

// set is the set of a test's arguments: names or URLs.
type set struct {
	id    int // of its answer in view.memo
	few   []string
	table *table // of all arguments, where they are more than few; else nil
	lists []*list
}

func newSet(id int, args []string, lists []*list) *set {
	s := &set{id: id, lists: lists}
	if len(args) <= few {
		s.few = args
		return s
	}
	s.table = lineTable(joinLines(args))
	return s
}

// small reports whether no hash is needed.
func (s *set) small() bool { return s.table == nil && len(s.lists) == 0 }

func (s *set) has(v *view, key string) bool {
	return slices.Contains(s.few, key) || !s.small() && s.hashed(v, key, sum(key))
}

// hashed looks beyond the few.
func (s *set) hashed(v *view, key string, hash uint64) bool {
	if s.table != nil && s.table.find(hash, key, '\n') >= 0 {
		return true
	}
	for _, l := range s.lists {
		if l.has(v, key, hash) {
			return true
		}
	}
	return false
}

// labels are the bits of all lengths of names that there are beyond the few.
func (s *set) labels() uint64 {
	var all uint64
	if s.table != nil {
		all = s.table.labels
	}
	for _, l := range s.lists {
		all |= l.sieve().labels
	}
	return all
}

// hasHost is for host: with its port, or without it on any.
func (s *set) hasHost(v *view) bool {
	if slices.Contains(s.few, v.name) || v.port != "" && slices.Contains(s.few, v.host) {
		return true
	}
	if s.small() {
		return false
	}
	all := v.domains()
	return s.hashed(v, v.name, all[len(all)-1].hash) || v.port != "" && s.hashed(v, v.host, sum(v.host))
}

// hasDomain is for domain: the name's own and those above it.
func (s *set) hasDomain(v *view) bool {
	for _, d := range s.few {
		if n := len(v.name) - len(d); n >= 0 && v.name[n:] == d && (n == 0 || v.name[n-1] == '.') {
			return true
		}
	}
	if s.small() {
		return false
	}
	labels := s.labels()
	for i, d := range v.domains() {
		if labels&labelBit(i+1) != 0 && s.hashed(v, v.name[d.at:], d.hash) {
			return true
		}
	}
	return false
}

// prefixes are the lines that prefix looks in. Lines that reach to the slash behind the host are found by
// their beginning, up to the host.
type prefixes struct {
	id    int // of what view.memo has for the table
	few   []string
	loose []byte // sorted lines that end before the slash behind the host
	table *table // of the other lines: where the lines of each host begin
	lists []*list
}

// origin is a URL's beginning up to the host, and with the slash behind it; "" if p ends before it.
func origin(p string) string {
	at := strings.Index(p, "://")
	if at < 0 {
		return ""
	}
	slash := strings.IndexByte(p[at+3:], '/')
	if slash < 0 {
		return ""
	}
	return p[:at+3+slash]
}

// originHash is the hash of a URL's origin.
func originHash(hash uint64, scheme string) uint64 {
	hash, _ = label(hash, scheme, len(scheme))
	return hash
}

func newPrefixes(id int, args []string, lists []*list) *prefixes {
	p := &prefixes{id: id, lists: lists}
	if len(args) <= few {
		p.few = args
		return p
	}
	args = slices.Clone(args)
	slices.Sort(args)
	var loose, fixed []string
	last := args[0] // last one kept: words that begin with it add nothing
	for i, a := range args {
		if i > 0 && strings.HasPrefix(a, last) {
			continue
		}
		last = a
		if origin(a) == "" {
			loose = append(loose, a)
		} else {
			fixed = append(fixed, a)
		}
	}
	if len(loose) > 0 {
		p.loose, _ = joinLines(loose)
	}
	if len(fixed) > 0 {
		p.table = originTable(joinLines(fixed))
	}
	return p
}

// originTable is a table of the origins of lines, each where its first line is.
func originTable(text []byte, n int) *table {
	t := newTable(text, n)
	before := ""
	eachLine(text, func(at int, line string) {
		o := origin(line)
		if o == before {
			return
		}
		before = o // text does not change
		scheme, host, _ := strings.Cut(o, "://")
		t.add(originHash(sum(host), scheme), host, at)
	})
	return t
}

func (p *prefixes) match(v *view) bool {
	for _, a := range p.few {
		if strings.HasPrefix(v.URL, a) {
			return true
		}
	}
	if p.loose != nil {
		if l := notAbove(p.loose, v.URL); l != nil && strings.HasPrefix(v.URL, string(l)) {
			return true
		}
	}
	if p.table == nil && len(p.lists) == 0 || v.memo[p.id] == memoNo {
		return false
	}
	if v.memo[p.id] == memoUnknown {
		v.memo[p.id] = memoNo
		hash := originHash(v.hostHash(), v.scheme)
		if p.table != nil && p.table.find(hash, v.origin, '/') >= 0 {
			v.memo[p.id] = memoYes
		}
		for _, l := range p.lists {
			if l.hasOrigin(v, hash) {
				v.memo[p.id] = memoYes
			}
		}
		if v.memo[p.id] == memoNo {
			return false
		}
	}
	hash := originHash(v.hostHash(), v.scheme)
	if p.table != nil && p.table.beginsURL(v, hash) {
		return true
	}
	for _, l := range p.lists {
		if l.beginsURL(v, hash) {
			return true
		}
	}
	return false
}

// beginsURL reports whether one of the lines is a prefix of the URL. The table has origins.
func (t *table) beginsURL(v *view, hash uint64) bool {
	at := t.find(hash, v.origin, '/')
	if at < 0 {
		return false
	}
	// The lines of the origin end where one is above the URL.
	lo, hi := at, len(t.text)
	for step := 64; lo+step < hi; step *= 2 {
		start := lo + bytes.LastIndexByte(t.text[lo:lo+step], '\n') + 1
		if start == lo {
			continue
		}
		end := start + bytes.IndexByte(t.text[start:], '\n')
		if string(t.text[start:end]) > v.URL {
			hi = start
			break
		}
		lo = start
	}
	return begins(func(key string) []byte { return notAbove(t.text[at:hi], key) }, v)
}

// begins reports whether a line is a prefix of the URL, longer than its origin. Where the greatest
// line that is not above the URL is no prefix, one must be a prefix of what both begin with.
func begins(notAbove func(key string) []byte, v *view) bool {
	for key := v.URL; len(key) > len(v.origin); {
		line := notAbove(key)
		if line == nil {
			return false
		}
		n := common(line, key)
		if n == len(line) {
			return true
		}
		key = key[:n]
	}
	return false
}

func common(a []byte, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
