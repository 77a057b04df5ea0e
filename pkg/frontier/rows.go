package frontier

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// Limits of what a row holds.
const (
	maxString  = 1<<16 - 1 // bytes of one string
	maxLevels  = 256       // front queues of one host
	MaxSources = 256       // domains that link to one, and are told apart
)

// Kinds of the frontier's runs. SPEC.md has the payloads.
const (
	KindQueue   = "queue"   // Entry
	KindHosts   = "hosts"   // Host
	KindDomains = "domains" // Domain
	KindKeys    = "keys"    // keys alone, without payload
)

// Row is a row of a run or a sorter: *Entry, *Host or *Domain.
type Row interface {
	// Append appends the row's payload, which has all of it but its key.
	Append(b []byte) []byte
	// Parse is the reverse of Append. The row shares no memory with payload, which is copied as a whole.
	Parse(key uint64, payload []byte) error
}

// rowOf is a pointer to T that is a row.
type rowOf[T any] interface {
	*T
	Row
}

// NewRow returns a row to parse payloads of a kind with, nil where these have none or are not the frontier's.
func NewRow(kind string) Row {
	switch kind {
	case KindQueue:
		return new(Entry)
	case KindHosts:
		return new(Host)
	case KindDomains:
		return new(Domain)
	}
	return nil
}

// Entry is a URL in a queue.
type Entry struct {
	Key         uint64 // sort key; its meaning depends on the queue
	VirtualTime uint64 // the key in the queue that the row was taken from; 0 while it is in one. With policy opic, its credit
	URL         record.URL
	Visit       Visit
}

// Visit has what earlier visits of a URL told about its page, for schedules that
// come back to it.
type Visit struct {
	Visits     uint32      // visits that found the page, changed or not
	Changes    uint32      // changes that were seen
	ObservedUS uint64      // time in which Changes were seen, in µs
	Last       record.Time // start of the last visit that found the page
	Gone       uint8       // visits in a row that did not find it
	Until      record.Time // the last visit's response promised no change until then; 0: it promised nothing
	Broken     uint8       // how little such promises are believed; grows with broken ones
}

// LevelTime is the virtual time of a host's last URL in one front queue.
type LevelTime struct {
	Level       uint8
	VirtualTime uint64
}

// Host is a host's state. Counts are of URLs unless said otherwise.
type Host struct {
	Key         uint64 // hostKey of Host
	Host        string
	Discovered  uint64      // URLs ever put into the frontier; a URL that is fetched again counts once
	Finished    uint64      // URLs with a final outcome
	Fetched     uint64      // finished URLs with a reply (outcome "fetched")
	Retried     uint64      // attempts that failed and were queued again
	Deferred    uint64      // times that a URL was put off untried
	Dead        uint64      // times that a URL was finished because no attempt was left
	Contacts    uint64      // contacts with the server, robots.txt included
	Failures    uint64      // contacts that failed since the last success
	DurationUS  uint64      // mean duration of a contact
	SpreadUS    uint64      // standard deviation of a contact's duration
	DelayUS     uint64      // mean gap that politeness demanded before a contact
	LastContact record.Time // end of the last contact; after failures, of the first of them in a row
	ParkedUntil record.Time // latest time that the server asked for (Retry-After), or until which it is left alone as it does not answer
	Addr        string      // address of the last contact
	Last        []LevelTime
	Bytes       uint64 // bytes of bodies from the host, robots.txt and repetitions included
}

// Domain is a registered domain's state.
type Domain struct {
	Key    uint64 // hostKey of Domain
	Domain string
	// Sources are the other domains that link to it, MaxSources-1 at most: the last four
	// bytes of SHA-256 of each, ascending.
	Sources []uint32
	Many    bool   // more domains link to it than Sources can list
	Round   uint64 // last round of updates with a budget that is charged
	Used    uint64 // part of that round's budget that is charged
}

// InDegree is the number of other domains that link to it; MaxSources is that many or more.
func (d *Domain) InDegree() int {
	if d.Many {
		return MaxSources
	}
	return len(d.Sources)
}

// fits reports whether a URL keeps the limits of a row.
func fits(u *record.URL) bool {
	return max(len(u.URL), len(u.Host), len(u.Via), len(u.Addr), len(u.AddrError), len(u.ETag), len(u.LastModified)) <= maxString && len(u.X) <= record.MaxUserBytes
}

// Flags of an Entry.
const (
	hostGiven = 1 << iota // the host is not the authority of the URL
	keyGiven              // the key differs from fingerprint.URLKey
	hasVisit              // a visit is set
	allFlags  = hostGiven | keyGiven | hasVisit
)

// Append gives: virtual time; flags; with hasVisit the visit; the URL's row as record has it, without
// what can be derived.
func (e *Entry) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, e.VirtualTime)
	at, flags := len(b), byte(0)
	b = append(b, 0)
	if v := &e.Visit; *v != (Visit{}) {
		flags |= hasVisit
		for _, x := range [...]uint64{uint64(v.Visits), uint64(v.Changes), v.ObservedUS, uint64(v.Last), uint64(v.Gone), uint64(v.Until), uint64(v.Broken)} {
			b = binary.AppendUvarint(b, x)
		}
	}
	u := e.URL
	u.Extra = record.Extra{}
	if e.URL.Key == fingerprint.URLKey(e.URL.Host, e.URL.URL) {
		u.Key = 0
	} else {
		flags |= keyGiven
	}
	if e.URL.Host == authority(e.URL.URL) {
		u.Host = ""
	} else {
		flags |= hostGiven
	}
	b[at] = flags
	return record.AppendRow(b, &u)
}

// Parse is the reverse of Append.
func (e *Entry) Parse(key uint64, payload []byte) error {
	f := rowFields{left: string(payload)}
	e.Key, e.VirtualTime, e.Visit = key, f.uint(math.MaxUint64), Visit{}
	flags := f.uint(allFlags)
	if flags&hasVisit != 0 {
		e.Visit = Visit{uint32(f.uint(math.MaxUint32)), uint32(f.uint(math.MaxUint32)), f.uint(math.MaxUint64), f.time(), uint8(f.uint(math.MaxUint8)), f.time(), uint8(f.uint(math.MaxUint8))}
		f.bad = f.bad || e.Visit == Visit{}
	}
	u := &e.URL
	if n, err := record.ParseRow(f.left, u, nil); err != nil || n != len(f.left) {
		f.bad = true
	}
	f.left = ""
	host := authority(u.URL)
	if flags&hostGiven == 0 {
		f.bad = f.bad || u.Host != ""
		u.Host = host
	} else {
		f.bad = f.bad || u.Host == host
	}
	derived := fingerprint.URLKey(u.Host, u.URL)
	if flags&keyGiven == 0 {
		f.bad = f.bad || u.Key != 0
		u.Key = derived
	} else {
		f.bad = f.bad || u.Key == derived
	}
	return f.checkEnd("a URL")
}

// replace appends an Entry's payload, with another virtual time.
func replace(b, payload []byte, time uint64) []byte {
	_, n := binary.Uvarint(payload)
	return append(binary.AppendUvarint(b, time), payload[n:]...)
}

// authority returns what stands between "://" and the path: the host of a
// canonical URL that has no user information.
func authority(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return ""
	}
	for i := 0; i < len(rest); i++ {
		if c := rest[i]; c == '/' || c == '?' || c == '#' {
			return rest[:i]
		}
	}
	return rest
}

// numbers are the numbers of a host, in the order of its payload.
func (h *Host) numbers() [11]*uint64 {
	return [...]*uint64{&h.Discovered, &h.Finished, &h.Fetched, &h.Retried, &h.Deferred, &h.Dead, &h.Contacts, &h.Failures, &h.DurationUS, &h.SpreadUS, &h.DelayUS}
}

// Append gives host; the numbers; the times; addr; the number of front queues, and level and virtual time of each; bytes, unless 0.
func (h *Host) Append(b []byte) []byte {
	b = record.AppendText(b, h.Host)
	for _, x := range h.numbers() {
		b = binary.AppendUvarint(b, *x)
	}
	b = binary.AppendUvarint(b, uint64(h.LastContact))
	b = binary.AppendUvarint(b, uint64(h.ParkedUntil))
	b = record.AppendText(b, h.Addr)
	b = binary.AppendUvarint(b, uint64(len(h.Last)))
	for _, l := range h.Last {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.Level)), l.VirtualTime)
	}
	if h.Bytes > 0 {
		b = binary.AppendUvarint(b, h.Bytes)
	}
	return b
}

// Parse is the reverse of Append.
func (h *Host) Parse(key uint64, payload []byte) error {
	f := rowFields{left: string(payload)}
	*h = Host{Key: key, Host: f.text()}
	for _, x := range h.numbers() {
		*x = f.uint(math.MaxUint64)
	}
	h.LastContact, h.ParkedUntil, h.Addr = f.time(), f.time(), f.text()
	for n := f.uint(maxLevels); n > 0 && !f.bad; n-- {
		l := LevelTime{uint8(f.uint(math.MaxUint8)), f.uint(math.MaxUint64)}
		f.bad = f.bad || len(h.Last) > 0 && l.Level <= h.Last[len(h.Last)-1].Level
		h.Last = append(h.Last, l)
	}
	if f.left != "" {
		h.Bytes = f.uint(math.MaxInt64)
		f.bad = f.bad || h.Bytes == 0
	}
	return f.checkEnd("a host")
}

// Append gives domain; how many other domains link to it; unless these are many, each of them as its difference
// to the one before; round; used.
func (d *Domain) Append(b []byte) []byte {
	b = record.AppendText(b, d.Domain)
	b = binary.AppendUvarint(b, uint64(d.InDegree()))
	last := uint32(0)
	for _, s := range d.Sources {
		b = binary.AppendUvarint(b, uint64(s-last))
		last = s
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, d.Round), d.Used)
}

// Parse is the reverse of Append.
func (d *Domain) Parse(key uint64, payload []byte) error {
	f := rowFields{left: string(payload)}
	*d = Domain{Key: key, Domain: f.text()}
	n := f.uint(MaxSources)
	d.Many = n == MaxSources
	last := uint64(0)
	for i := uint64(0); i < n && !d.Many && !f.bad; i++ {
		gap := f.uint(math.MaxUint32)
		last += gap
		f.bad = f.bad || i > 0 && gap == 0 || last > math.MaxUint32
		d.Sources = append(d.Sources, uint32(last))
	}
	d.Round, d.Used = f.uint(math.MaxUint64), f.uint(math.MaxUint64)
	return f.checkEnd("a domain")
}

// rowFields takes the fields of a payload from its front.
type rowFields struct {
	left string
	bad  bool // a field ran past the end, or out of its range
}

// uint takes a number of at most so much.
func (f *rowFields) uint(most uint64) (x uint64) {
	for i := 0; i < len(f.left) && i < binary.MaxVarintLen64; i++ {
		c := f.left[i]
		if c < 0x80 {
			x |= uint64(c) << (7 * i)
			f.left = f.left[i+1:]
			if x <= most && (i < binary.MaxVarintLen64-1 || c <= 1) {
				return x
			}
			break
		}
		x |= uint64(c&0x7f) << (7 * i)
	}
	f.bad = true
	return 0
}

func (f *rowFields) time() record.Time { return record.Time(f.uint(math.MaxUint64)) }

// text takes a string of at most maxString bytes.
func (f *rowFields) text() (s string) {
	n := f.uint(maxString)
	if n > uint64(len(f.left)) {
		f.bad = true
		return ""
	}
	s, f.left = f.left[:n], f.left[n:]
	return s
}

// checkEnd returns an error if the payload is damaged.
func (f *rowFields) checkEnd(what string) error {
	if f.bad || f.left != "" {
		return &fault.Error{Class: fault.Corrupt, Found: what + " that does not decode"}
	}
	return nil
}

// MarshalJSON shows a host to people and programs, as "mfrontier hosts" and mcat
// do: times in RFC 3339, and virtual times by front queue.
func (h *Host) MarshalJSON() ([]byte, error) {
	last := make(map[string]uint64, len(h.Last))
	for _, l := range h.Last {
		last[strconv.Itoa(int(l.Level))] = l.VirtualTime
	}
	return json.Marshal(struct {
		Host        string            `json:"host"`
		Discovered  uint64            `json:"discovered"`
		Unfinished  uint64            `json:"unfinished"`
		Finished    uint64            `json:"finished"`
		Fetched     uint64            `json:"fetched"`
		Retried     uint64            `json:"retried"`
		Deferred    uint64            `json:"deferred"`
		Dead        uint64            `json:"dead"`
		Contacts    uint64            `json:"contacts"`
		Failures    uint64            `json:"failures_in_a_row"`
		Bytes       uint64            `json:"body_bytes"`
		DurationUS  uint64            `json:"mean_duration_us"`
		SpreadUS    uint64            `json:"duration_spread_us"`
		DelayUS     uint64            `json:"mean_delay_us"`
		LastContact string            `json:"last_contact,omitempty"`
		ParkedUntil string            `json:"parked_until,omitempty"`
		Addr        string            `json:"addr,omitempty"`
		LastPlace   map[string]uint64 `json:"last_place"`
	}{h.Host, h.Discovered, h.Discovered - h.Finished, h.Finished, h.Fetched, h.Retried, h.Deferred, h.Dead, h.Contacts, h.Failures, h.Bytes,
		h.DurationUS, h.SpreadUS, h.DelayUS, instant(h.LastContact), instant(h.ParkedUntil), h.Addr, last})
}

// MarshalJSON shows a domain to people and programs.
func (d *Domain) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Domain   string `json:"domain"`
		LinkedBy int    `json:"linked_by"`
		More     bool   `json:"linked_by_more,omitempty"`
		Round    uint64 `json:"given_until_round"`
		Used     uint64 `json:"given_in_round"`
	}{d.Domain, d.InDegree(), d.Many, d.Round, d.Used})
}

func instant(t record.Time) string {
	if t == 0 {
		return ""
	}
	return t.Go().Format(time.RFC3339Nano)
}
