package resolve

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/miekg/dns"
)

// udpPayload is the EDNS0 size asked for: it avoids fragmentation (RFC 9715).
const udpPayload = 1232

// headerLen is the length of a message's fixed header (RFC 1035, section 4.1.1).
const headerLen = 12

// query is a question as it goes over the wire. Its letters have random case, which
// an honest reply repeats (draft-vixie-dnsext-dns0x20) and one who does not see the
// query cannot know.
type query struct {
	wire  []byte // the whole message; its id is set by who sends it
	end   int    // of the question section
	plain []byte // question section with the letters as they were given
}

// newQuery packs a question for a name as wireName gives it.
func newQuery(name string, qtype uint16) (query, error) {
	m := dns.Msg{MsgHdr: dns.MsgHdr{RecursionDesired: true}, Question: []dns.Question{{Name: name, Qtype: qtype, Qclass: dns.ClassINET}}}
	m.SetEdns0(udpPayload, false)
	wire, err := m.PackBuffer(make([]byte, 0, 320)[:320])
	if err != nil {
		return query{}, err
	}
	end := headerLen
	for wire[end] != 0 {
		end += 1 + int(wire[end])
	}
	end += 5 // the root's length, type, class
	q := query{wire, end, bytes.Clone(wire[headerLen:end])}
	coins := rand.Uint64()
	for i := headerLen; wire[i] != 0; i += 1 + int(wire[i]) {
		for j := i + 1; j <= i+int(wire[i]); j++ {
			if c := wire[j] | 0x20; 'a' <= c && c <= 'z' {
				wire[j] = c &^ byte(coins&1<<5)
				coins = coins>>1 | coins<<63
			}
		}
	}
	return q, nil
}

func (q *query) setID(id uint16) { binary.BigEndian.PutUint16(q.wire, id) }

// likeness says how far a message is the reply to a query.
type likeness int

const (
	foreign   likeness = iota // another id or question, or no reply: it may be forged
	otherCase                 // the reply, but for the case of letters: forged, or of a server that does not keep it
	exact
)

// compare holds a message against the query, by its bytes: nothing is parsed of a
// message that is not a reply to it (RFC 5452, section 9.1).
func (q *query) compare(m []byte) likeness {
	if len(m) < q.end || m[0] != q.wire[0] || m[1] != q.wire[1] || m[2]&0x80 == 0 || m[4] != 0 || m[5] != 1 {
		return foreign
	}
	asked, got := q.wire[headerLen:q.end], m[headerLen:q.end]
	switch {
	case bytes.Equal(asked, got):
		return exact
	// A label's length is below 64, so lower-casing does not make one of another.
	case bytes.Equal(asked[len(asked)-4:], got[len(got)-4:]) && equalFold(asked[:len(asked)-4], got[:len(got)-4]):
		return otherCase
	}
	return foreign
}

// unpack reads a reply, whole: the library takes what there is. Names that it shortens by
// pointing into the question get the letters that were given.
func (q *query) unpack(wire []byte) (*dns.Msg, error) {
	copy(wire[headerLen:], q.plain)
	m := new(dns.Msg)
	if m.Unpack(wire) != nil || int(binary.BigEndian.Uint16(wire[6:])) != len(m.Answer) {
		return nil, errBadReply
	}
	return m, nil
}

// equalFold compares ASCII without regard to case, and all other bytes exactly.
func equalFold(a, b []byte) bool {
	for i := range a {
		if a[i] != b[i] && (a[i]^b[i] != 0x20 || a[i]|0x20 < 'a' || a[i]|0x20 > 'z') {
			return false
		}
	}
	return true
}
