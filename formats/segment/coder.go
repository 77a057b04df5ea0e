package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/fingerprint"
)

// coder visits the fields of rows in a fixed order and writes or reads each.
// By columns, field i of all rows of a block stands together, which is what
// compresses; by rows (RowCoder) one buffer takes all fields.
// One method per type, fields, therefore says the layout once for both
// directions and both shapes.
//
// Rows of which no field is asked for are passed over column by column.
type coder struct {
	reading bool
	byRow   bool
	feat    Features // whose columns there are; by rows there is always room
	cols    [][]byte // writing: what was written
	left    []string // reading: what is left; fields of characters are parts of it
	prev    []uint64 // the column's last value, for delta
	i       int      // the next column
	pass    uint64   // reading by columns: rows to be passed over, but for the first column; 0: one is read
	bad     bool     // reading: a value ran past its column or its range
}

// column returns the index of the next field's column.
func (c *coder) column() int {
	if c.byRow {
		return 0
	}
	c.i++
	return c.i - 1
}

// uint is an unsigned number not above max.
func (c *coder) uint(x *uint64, max uint64) {
	i := c.column()
	if c.pass > 0 {
		c.over(i, c.pass)
		return
	}
	if !c.reading {
		c.cols[i] = binary.AppendUvarint(c.cols[i], *x)
		return
	}
	v, n := uvarint(c.left[i])
	if n == 0 || v > max {
		c.bad = true
		return
	}
	c.left[i] = c.left[i][n:]
	*x = v
}

// size is an unsigned number not above max that tells how much a row has in other columns: of rows
// that are passed over it is the sum.
func (c *coder) size(x *uint64, max uint64) {
	if c.pass == 0 {
		c.uint(x, max)
		return
	}
	i, sum := c.column(), uint64(0)
	left := c.left[i]
	for range c.pass {
		v, n := uvarint(left)
		if n == 0 || v > max {
			c.bad = true
			return
		}
		left = left[n:]
		sum += v
	}
	c.left[i] = left
	*x = sum
}

// over passes over n numbers of column i, by the bytes that end them.
func (c *coder) over(i int, n uint64) {
	left := c.left[i]
	for len(left) >= 8 {
		ends := uint64(bits.OnesCount64(^word(left) & (1 << 7 * ones)))
		if ends >= n { // the next number may begin in these bytes
			break
		}
		left, n = left[8:], n-ends
	}
	at := 0
	for ; n > 0 && at < len(left); at++ {
		if left[at] < 0x80 {
			n--
		}
	}
	c.left[i] = left[at:]
	c.bad = c.bad || n > 0
}

const ones = 0x0101_0101_0101_0101 // a bit of each byte

// word is the first eight bytes of s.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// delta is a number stored as its difference to the row before.
func (c *coder) delta(x *uint64) {
	i := c.column()
	if c.pass > 0 {
		if i > 0 {
			c.overDeltas(i)
		}
		return
	}
	var prev uint64
	if !c.byRow {
		prev = c.prev[i]
	}
	if !c.reading {
		c.cols[i] = appendDelta(c.cols[i], *x-prev)
	} else {
		z, n := uvarint(c.left[i])
		if n == 0 {
			c.bad = true
			return
		}
		c.left[i] = c.left[i][n:]
		*x = prev + unzigzag(z)
	}
	if !c.byRow {
		c.prev[i] = *x
	}
}

// overDeltas passes over rows of column i.
func (c *coder) overDeltas(i int) {
	left, prev := c.left[i], c.prev[i]
	for range c.pass {
		z, n := uvarint(left)
		if n == 0 {
			c.bad = true
			return
		}
		left = left[n:]
		prev += unzigzag(z)
	}
	c.left[i], c.prev[i] = left, prev
}

func unzigzag(z uint64) uint64 { return z>>1 ^ -(z & 1) }

func appendDelta(b []byte, d uint64) []byte {
	return binary.AppendUvarint(b, d<<1^uint64(int64(d)>>63))
}

// fixed is a number whose eight bytes are as good as random.
func (c *coder) fixed(x *uint64) {
	i := c.column()
	if !c.reading {
		c.cols[i] = binary.LittleEndian.AppendUint64(c.cols[i], *x)
		return
	}
	s := c.left[i]
	if len(s) < 8 {
		c.bad = true
		return
	}
	*x = word(s)
	c.left[i] = s[8:]
}

// string is a length in one column and the characters in the next.
func (c *coder) string(s *string) {
	n := uint64(len(*s))
	c.size(&n, MaxString)
	i := c.column()
	switch {
	case !c.reading:
		c.cols[i] = append(c.cols[i], *s...)
	case c.bad || n > uint64(len(c.left[i])):
		c.bad = true
	default:
		*s, c.left[i] = c.left[i][:n], c.left[i][n:]
	}
}

// uvarint is binary.Uvarint of a string; n is 0 where that is not above 0.
func uvarint(s string) (x uint64, n int) {
	for i := 0; i < len(s) && i < binary.MaxVarintLen64; i++ {
		b := s[i]
		if b < 0x80 {
			if i == binary.MaxVarintLen64-1 && b > 1 {
				return 0, 0 // more than 64 bits
			}
			return x | uint64(b)<<(7*i), i + 1
		}
		x |= uint64(b&0x7f) << (7 * i)
	}
	return 0, 0
}

func (c *coder) time(t *record.Time) {
	u := uint64(*t)
	c.delta(&u)
	*t = record.Time(u)
}

func small[T ~uint8 | ~uint16 | ~uint32](c *coder, x *T) {
	u := uint64(*x)
	c.uint(&u, uint64(^T(0)))
	*x = T(u)
}

func (c *coder) float(x *float32) {
	u := math.Float32bits(*x)
	small(c, &u)
	*x = math.Float32frombits(u)
}

// Flags of an Entry.
const (
	hostGiven = 1 << iota // the host is not the authority of the URL
	keyGiven              // the key is not that of fingerprint.URLKey
	hasFP                 // a last content fingerprint is set
	hasVisit              // a visit is set; only where there are columns for it
	allFlags  = hostGiven | keyGiven | hasFP
)

// fields is the layout of an Entry; SPEC.md numbers the columns in this order.
func (e *Entry) fields(c *coder) {
	u := &e.URL
	c.delta(&e.Key)
	c.delta(&e.Place)
	var flags uint64
	if !c.reading {
		if u.Host != authority(u.URL) {
			flags |= hostGiven
		}
		if u.Key != fingerprint.URLKey(u.Host, u.URL) {
			flags |= keyGiven
		}
		if u.LastContentFP != 0 {
			flags |= hasFP
		}
		if e.Visit != (Visit{}) {
			flags |= hasVisit
		}
	}
	if c.feat&Visits != 0 || c.byRow {
		c.uint(&flags, allFlags|hasVisit)
	} else {
		c.uint(&flags, allFlags)
	}
	c.string(&u.URL)
	host := u.Host
	if !c.reading && flags&hostGiven == 0 {
		host = ""
	}
	c.string(&host)
	i := c.column()
	if flags&keyGiven != 0 {
		c.back(i)
		c.fixed(&u.Key)
	}
	small(c, &u.Priority)
	c.float(&u.Score)
	small(c, &u.Depth)
	small(c, &u.Attempt)
	c.string(&u.Via)
	c.time(&u.Discovered)
	c.time(&u.Due)
	c.string(&u.Addr)
	c.time(&u.AddrExpires)
	c.string(&u.AddrError)
	c.string(&u.ETag)
	c.string(&u.LastModified)
	i = c.column()
	if flags&hasFP != 0 {
		c.back(i)
		c.fixed(&u.LastContentFP)
	}
	if flags&hasVisit != 0 {
		e.Visit.fields(c)
	} else if c.feat&Visits != 0 {
		c.i += c.feat.columns()
	}
	if !c.reading || c.bad {
		return
	}
	// What is derived is never also stored, so that equal rows have equal bytes.
	u.Host = host
	if flags&hostGiven == 0 {
		c.bad = c.bad || host != ""
		u.Host = authority(u.URL)
	} else if host == authority(u.URL) {
		c.bad = true
	}
	if flags&keyGiven == 0 {
		u.Key = fingerprint.URLKey(u.Host, u.URL)
	} else if u.Key == fingerprint.URLKey(u.Host, u.URL) {
		c.bad = true
	}
	if flags&hasFP != 0 && u.LastContentFP == 0 || flags&hasVisit != 0 && e.Visit == (Visit{}) {
		c.bad = true
	}
}

// fields is the layout of a Visit.
func (v *Visit) fields(c *coder) {
	small(c, &v.Visits)
	small(c, &v.Changes)
	c.uint(&v.ObservedUS, math.MaxUint64)
	c.time(&v.Last)
	small(c, &v.Gone)
	if c.feat&Promises != 0 || c.byRow {
		c.time(&v.Until)
		small(c, &v.Broken)
	}
}

// back makes column i the next one again.
func (c *coder) back(i int) {
	if !c.byRow {
		c.i = i
	}
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

// fields is the layout of a Host.
func (h *Host) fields(c *coder) {
	c.delta(&h.Key)
	c.string(&h.Host)
	for _, x := range []*uint64{&h.Discovered, &h.Finished, &h.Fetched, &h.Retried, &h.Deferred, &h.Dead, &h.Contacts, &h.Failures, &h.DurationUS, &h.DelayUS} {
		c.uint(x, math.MaxUint64)
	}
	c.time(&h.LastContact)
	c.time(&h.ParkedUntil)
	c.string(&h.Addr)
	n := uint64(len(h.Last))
	c.size(&n, MaxLevels)
	first, last := c.column(), c.column()
	if c.pass > 0 {
		c.over(first, n)
		c.over(last, n)
		n = 0
	}
	if c.reading {
		h.Last = nil
	}
	for k := 0; k < int(n) && !c.bad; k++ {
		var l LevelPlace
		if !c.reading {
			l = h.Last[k]
		}
		c.back(first)
		small(c, &l.Level)
		c.uint(&l.Place, math.MaxUint64)
		if c.reading {
			if k > 0 && l.Level <= h.Last[k-1].Level {
				c.bad = true
			}
			h.Last = append(h.Last, l)
		}
	}
	c.back(last + 1)
	if c.byRow || c.feat == Spreads {
		c.uint(&h.SpreadUS, math.MaxUint64)
	}
}

// fields is the layout of a Domain.
func (d *Domain) fields(c *coder) {
	c.delta(&d.Key)
	c.string(&d.Domain)
	n := uint64(d.InDegree())
	c.uint(&n, MaxSources)
	if c.reading {
		d.Sources, d.Many = nil, n == MaxSources
	}
	sources := c.column()
	var last uint64
	for k := 0; k < int(n) && !d.Many && !c.bad; k++ {
		var gap uint64
		if !c.reading {
			gap = uint64(d.Sources[k]) - last
		}
		c.back(sources)
		c.uint(&gap, math.MaxUint32)
		if c.reading {
			if k > 0 && gap == 0 || last+gap > math.MaxUint32 {
				c.bad = true
			}
			d.Sources = append(d.Sources, uint32(last+gap))
		}
		last += gap
	}
	c.back(sources + 1)
	c.uint(&d.Round, math.MaxUint64)
	c.uint(&d.Used, math.MaxUint64)
}
