package extract

import (
	"hash/maphash"
	"math/bits"
	"slices"

	"mercator/pkg/web/markup"
)

// linkSet holds the links of a document, each (kind, reference, nofollow) once, and once more for
// a further text. Its memory serves document after document.
type linkSet struct {
	all   []foundLink
	again int      // of all, links that stand above with another text
	kinds []string // of the links, each once
	text  []byte   // their references and texts
	room  int      // how long text may become
	slots []uint64 // hash table: upper half of a hash, and the index in all plus one; 0 is free
}

// foundLink has no pointers, since a page may have very many.
type foundLink struct {
	ref      span
	anchor   span  // the link's text
	kind     uint8 // index in linkSet.kinds
	nofollow bool
}

// span is a part of linkSet.text, or of a chunk's: 32 bits, since a page may have very many.
type span struct{ start, end uint32 }

func spanOf(start, end int) span { return span{uint32(start), uint32(end)} }

// linkSeed is random so that nobody can write pages with links that collide. The links
// found do not depend on it.
var linkSeed = maphash.MakeSeed()

// linkSecret is a random odd number.
var linkSecret = maphash.Bytes(linkSeed, nil) | 1

// idleSlots and idleText bound what is kept from one document for the next.
const (
	idleSlots = 1 << 12
	idleText  = 1 << 18
)

func (s *linkSet) reset() {
	if len(s.slots) > idleSlots || cap(s.all) > idleSlots || cap(s.text) > idleText {
		*s = linkSet{}
	}
	if s.slots == nil {
		s.slots = make([]uint64, 256)
	}
	if len(s.all) > 0 {
		clear(s.slots)
	}
	s.all, s.again, s.kinds, s.text = s.all[:0], 0, s.kinds[:0], s.text[:0]
}

// kind returns the number of a kind of links. There are far less than 256.
func (s *linkSet) kind(kind string) uint8 {
	i := slices.Index(s.kinds, kind)
	if i < 0 {
		i = len(s.kinds)
		s.kinds = append(s.kinds, kind)
	}
	return uint8(i)
}

// find returns the index of a link, or -1 and what put needs to know.
func (s *linkSet) find(kind, ref string, nofollow bool) (index int, hash uint64, slot int) {
	hash = maphash.String(linkSeed, ref) >> 32
	number := s.kind(kind)
	mask := len(s.slots) - 1
	for slot = int(hash) & mask; s.slots[slot] != 0; slot = (slot + 1) & mask {
		if s.slots[slot]>>32 != hash {
			continue
		}
		index = int(uint32(s.slots[slot]) - 1)
		if l := &s.all[index]; l.kind == number && l.nofollow == nofollow && string(s.text[l.ref.start:l.ref.end]) == ref {
			return index, hash, slot
		}
	}
	return -1, hash, slot
}

// put adds a link that find has not found, and returns its index.
func (s *linkSet) put(kind, ref string, nofollow bool, hash uint64, slot int) int {
	s.all = append(s.all, foundLink{kind: s.kind(kind), ref: s.keep(ref), nofollow: nofollow})
	s.slots[slot] = hash<<32 | uint64(len(s.all))
	if 2*len(s.all) > len(s.slots) {
		s.grow()
	}
	return len(s.all) - 1
}

func (s *linkSet) grow() {
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	mask := len(s.slots) - 1
	for _, v := range old {
		if v == 0 {
			continue
		}
		slot := int(v>>32) & mask
		for s.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		s.slots[slot] = v
	}
}

// putAgain adds a link once more, for a further text.
func (s *linkSet) putAgain(index int, text []byte) {
	l := s.all[index]
	l.anchor = s.keep(markup.View(text))
	s.all = append(s.all, l)
	s.again++
}

// different is how many links there are, whatever texts they have.
func (s *linkSet) different() int { return len(s.all) - s.again }

// setText gives a link its text, if there is room for it.
func (s *linkSet) setText(index int, text []byte) {
	if s.fits(len(text)) {
		s.all[index].anchor = s.keep(markup.View(text))
	}
}

// hasText reports whether a link has the text.
func (s *linkSet) hasText(index int, text []byte) bool {
	l := &s.all[index]
	return string(s.text[l.anchor.start:l.anchor.end]) == string(text)
}

// fits reports whether there is room for a reference or text.
func (s *linkSet) fits(n int) bool { return len(s.text)+n <= s.room }

// keep copies a reference or text. Long texts grow in few steps, since the old memory
// and the new are there at once.
func (s *linkSet) keep(text string) span {
	start := len(s.text)
	if end := start + len(text); end > cap(s.text) && end > idleText {
		size := max(end, s.room)
		if end < s.room/8 {
			size = s.room / 4
		}
		s.text = append(make([]byte, 0, size), s.text...)
	}
	s.text = append(s.text, text...)
	return spanOf(start, len(s.text))
}

// links copies the links out, in two pieces of memory.
func (s *linkSet) links() []Link {
	if len(s.all) == 0 {
		return nil
	}
	text := string(s.text)
	links := make([]Link, len(s.all))
	for i := range s.all {
		l := &s.all[i]
		links[i] = Link{Kind: s.kinds[l.kind], Ref: text[l.ref.start:l.ref.end], Nofollow: l.nofollow, Text: text[l.anchor.start:l.anchor.end]}
	}
	return links
}

// keySet is a set of 64-bit keys. Its memory is reused for the next set.
type keySet struct {
	slots []uint64 // hash table; 0 is free
	n     int
	zero  bool // 0 is in the set
}

func (s *keySet) reset() {
	if s.slots == nil || len(s.slots) > idleSlots {
		s.slots = make([]uint64, 256)
	}
	if s.n > 0 {
		clear(s.slots)
	}
	s.n, s.zero = 0, false
}

// add reports whether the key is new.
func (s *keySet) add(key uint64) bool {
	if key == 0 {
		was := s.zero
		s.zero = true
		return !was
	}
	slot := s.slot(key)
	if s.slots[slot] == key {
		return false
	}
	s.slots[slot] = key
	if s.n++; 2*s.n > len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, 2*len(old))
		for _, k := range old {
			if k != 0 {
				s.slots[s.slot(k)] = k
			}
		}
	}
	return true
}

// slot returns where a key is or belongs. Keys are mixed with a secret, so that
// nobody can choose URLs that meet here.
func (s *keySet) slot(key uint64) int {
	mask := len(s.slots) - 1
	high, low := bits.Mul64(key, linkSecret)
	i := int(high^low) & mask
	for s.slots[i] != 0 && s.slots[i] != key {
		i = (i + 1) & mask
	}
	return i
}
