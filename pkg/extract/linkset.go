package extract

import "hash/maphash"

// linkSet holds the links of a document, each (kind, reference, nofollow) once. Its
// memory serves document after document.
type linkSet struct {
	all   []foundLink
	text  []byte   // their references and texts
	slots []uint32 // hash table of indices in all, plus one; 0 is free
}

type foundLink struct {
	kind     string
	hash     uint64
	ref      span
	anchor   span // its text
	nofollow bool
}

// span is a part of linkSet.text.
type span struct{ start, end int }

// The seed is random so that nobody can write pages whose links collide. What is
// found does not depend on it.
var linkSeed = maphash.MakeSeed()

// idleSlots and idleText bound what is kept from one document for the next.
const (
	idleSlots = 1 << 14
	idleText  = 1 << 20
)

func (s *linkSet) reset() {
	if len(s.slots) > idleSlots || cap(s.text) > idleText {
		*s = linkSet{}
	}
	if s.slots == nil {
		s.slots = make([]uint32, 256)
	}
	clear(s.slots)
	s.all, s.text = s.all[:0], s.text[:0]
}

// find returns the index of a link, or -1, and where it belongs in the table.
func (s *linkSet) find(kind, ref string, nofollow bool) (index int, hash uint64, slot int) {
	hash = maphash.String(linkSeed, ref)
	mask := len(s.slots) - 1
	for slot = int(hash) & mask; s.slots[slot] != 0; slot = (slot + 1) & mask {
		l := &s.all[s.slots[slot]-1]
		if l.hash == hash && l.kind == kind && l.nofollow == nofollow && string(s.text[l.ref.start:l.ref.end]) == ref {
			return int(s.slots[slot] - 1), hash, slot
		}
	}
	return -1, hash, slot
}

// put adds a link that find has not found, and returns its index.
func (s *linkSet) put(kind, ref string, nofollow bool, hash uint64, slot int) int {
	start := len(s.text)
	s.text = append(s.text, ref...)
	s.all = append(s.all, foundLink{kind: kind, hash: hash, ref: span{start, len(s.text)}, nofollow: nofollow})
	s.slots[slot] = uint32(len(s.all))
	if 2*len(s.all) > len(s.slots) {
		s.slots = make([]uint32, 2*len(s.slots))
		mask := len(s.slots) - 1
		for i := range s.all {
			slot := int(s.all[i].hash) & mask
			for s.slots[slot] != 0 {
				slot = (slot + 1) & mask
			}
			s.slots[slot] = uint32(i + 1)
		}
	}
	return len(s.all) - 1
}

func (s *linkSet) setText(index int, text []byte) {
	start := len(s.text)
	s.text = append(s.text, text...)
	s.all[index].anchor = span{start, len(s.text)}
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
		links[i] = Link{Kind: l.kind, Ref: text[l.ref.start:l.ref.end], Nofollow: l.nofollow, Text: text[l.anchor.start:l.anchor.end]}
	}
	return links
}
