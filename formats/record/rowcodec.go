package record

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"
)

// rowCodec moves rows between Go and columns, and makes the canonical encoding on
// the way. One list of fields per kind (visitURL and so on) serves reading,
// writing and hashing, so the three cannot disagree.
type rowCodec struct {
	mode  codecMode
	in    []inColumn  // reading: one per known column (body last), in table order
	out   []outColumn // writing: the same
	next  int         // the column that the next field belongs to
	row   int         // row number in the batch
	bytes int         // writing: bytes of values in the batch
	src   []byte      // parsing: canonical encoding, consumed from its front
	bad   bool        // parsing: src ended too early
	vals  []value     // showing, filling: one per known column, body last
	canon []byte      // otherwise: canonical encoding, appended to

	// The column joined: its value, which the canonical encoding has among the unknown
	// columns; and, parsing, where it goes. Rows of kinds without it have 0 and nil.
	joined Time
	at     *Time
}

// value is one value on its way between a row and text: numbers and times in
// num (floats as their bits), text and bytes in str.
type value struct {
	num  uint64
	str  string
	null bool
}

type codecMode uint8

const (
	hashing codecMode = iota
	reading
	writing
	parsing
	showing
	filling
)

// atValue handles the two modes that work on c.vals.
func (c *rowCodec) atValue() *value {
	c.next++
	return &c.vals[c.next-1]
}

// visit handles all known fields of one row.
func visit[T Row](c *rowCodec, row *T) {
	c.next, c.joined, c.at = 0, 0, nil
	switch r := any(row).(type) {
	case *URL:
		switch c.mode {
		case reading:
			c.readURL(r)
		case writing:
			c.writeURL(r)
		default:
			c.visitURL(r)
		}
	case *Fetch:
		c.visitFetch(r)
	case *Link:
		c.visitLink(r)
	case *Module:
		c.visitModule(r)
	}
}

// extraOf returns the place of a row's unknown columns.
func extraOf[T Row](row *T) *Extra {
	switch r := any(row).(type) {
	case *URL:
		return &r.Extra
	case *Fetch:
		return &r.Extra
	case *Link:
		return &r.Extra
	case *Module:
		return &r.Extra
	}
	panic("record: unreachable row type")
}

func (c *rowCodec) visitURL(r *URL) {
	c.text(&r.URL)
	c.u64(&r.Key)
	c.text(&r.Host)
	c.u8(&r.Priority)
	c.f32(&r.Score)
	c.u16(&r.Depth)
	c.u8(&r.Attempt)
	c.text(&r.Via)
	c.time(&r.Discovered)
	c.time(&r.Due)
	c.text(&r.Addr)
	c.time(&r.AddrExpires)
	c.text(&r.AddrError)
	c.text(&r.ETag)
	c.text(&r.LastModified)
	c.u64(&r.LastContentFP)
}

func (c *rowCodec) visitFetch(r *Fetch) {
	c.text(&r.URL)
	c.u64(&r.Key)
	c.text(&r.Host)
	c.u8(&r.Priority)
	c.f32(&r.Score)
	c.u16(&r.Depth)
	c.u8(&r.Attempt)
	c.text(&r.Via)
	c.time(&r.Discovered)
	c.text(&r.Addr)
	c.text(&r.ETag)
	c.text(&r.LastModified)
	c.u64(&r.LastContentFP)
	c.text(&r.Role)
	c.time(&r.FetchTime)
	c.i64(&r.DurationUS)
	c.i64(&r.RequiredDelayUS)
	c.text(&r.Outcome)
	c.u16(&r.Status)
	c.text(&r.MIME)
	c.text(&r.Charset)
	c.i64(&r.BodyLength)
	c.text(&r.Truncated)
	c.u64(&r.ContentFP)
	c.text(&r.PayloadSHA1)
	c.boolean(&r.Duplicate)
	c.text(&r.RedirectURL)
	c.time(&r.RetryAfter)
	c.text(&r.Error)
	c.text(&r.WARCFilename)
	c.i64(&r.WARCOffset)
	c.i64(&r.WARCLength)
	c.late(&r.FreshUntil)
	c.body(&r.Body)
}

func (c *rowCodec) visitLink(r *Link) {
	c.text(&r.SrcURL)
	c.u64(&r.SrcKey)
	c.text(&r.URL)
	c.u64(&r.Key)
	c.text(&r.Host)
	c.text(&r.LinkKind)
	c.boolean(&r.Nofollow)
	c.text(&r.Text)
	c.u16(&r.Depth)
	c.f32(&r.Score)
	c.time(&r.Discovered)
}

func (c *rowCodec) visitModule(r *Module) {
	c.u64(&r.Key)
	c.text(&r.Module)
	c.text(&r.Name)
	c.text(&r.Value)
}

func (c *rowCodec) text(p *string) {
	s := *p
	switch c.mode {
	case showing:
		*c.atValue() = value{str: validText(s)}
		return
	case filling:
		*p = c.atValue().str
		return
	case parsing:
		*p = string(c.takeText())
		return
	case reading:
		s = c.in[c.next].text(c.row)
		*p = s
	case writing:
		s = validText(s)
		c.bytes += 4 + len(s)
		c.out[c.next].appendText(s)
	case hashing:
		s = validText(s)
	}
	c.next++
	c.canon = appendText(c.canon, s)
}

// validText replaces bytes that are not UTF-8, such as a server may put into a
// header: an Arrow utf8 column must not hold them.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (c *rowCodec) u64(p *uint64) {
	switch c.mode {
	case showing:
		*c.atValue() = value{num: *p}
		return
	case filling:
		*p = c.atValue().num
		return
	case parsing:
		*p = binary.LittleEndian.Uint64(c.take(8))
		return
	case reading:
		*p = c.in[c.next].u64(c.row)
	case writing:
		c.out[c.next].appendU64(*p)
		c.bytes += 8
	}
	c.next++
	c.canon = binary.LittleEndian.AppendUint64(c.canon, *p)
}

func (c *rowCodec) i64(p *int64) {
	u := uint64(*p)
	c.u64(&u)
	if int64(u) != *p { // others may read a row that is written
		*p = int64(u)
	}
}

func (c *rowCodec) time(p *Time) {
	switch c.mode {
	case showing:
		*c.atValue() = value{num: uint64(*p), null: *p == 0}
		return
	case filling:
		*p = Time(c.atValue().num)
		return
	case parsing:
		*p = Time(binary.LittleEndian.Uint64(c.take(8)))
		return
	case reading:
		*p = Time(c.in[c.next].u64(c.row))
	case writing:
		c.out[c.next].appendTime(c.row, *p)
		c.bytes += 8
	}
	c.next++
	c.canon = binary.LittleEndian.AppendUint64(c.canon, uint64(*p))
}

// late is time for the column joined.
func (c *rowCodec) late(p *Time) {
	if c.mode == parsing {
		*p, c.at = 0, p
		return
	}
	n := len(c.canon)
	c.time(p)
	c.canon, c.joined = c.canon[:n], *p
}

func (c *rowCodec) f32(p *float32) {
	u := math.Float32bits(*p)
	switch c.mode {
	case showing:
		*c.atValue() = value{num: uint64(u)}
		return
	case filling:
		*p = math.Float32frombits(uint32(c.atValue().num))
		return
	case parsing:
		*p = math.Float32frombits(binary.LittleEndian.Uint32(c.take(4)))
		return
	case reading:
		u = c.in[c.next].u32(c.row)
		*p = math.Float32frombits(u)
	case writing:
		c.out[c.next].data = binary.LittleEndian.AppendUint32(c.out[c.next].data, u)
		c.bytes += 4
	}
	c.next++
	c.canon = binary.LittleEndian.AppendUint32(c.canon, u)
}

func (c *rowCodec) u16(p *uint16) {
	switch c.mode {
	case showing:
		*c.atValue() = value{num: uint64(*p)}
		return
	case filling:
		*p = uint16(c.atValue().num)
		return
	case parsing:
		*p = binary.LittleEndian.Uint16(c.take(2))
		return
	case reading:
		*p = c.in[c.next].u16(c.row)
	case writing:
		c.out[c.next].data = binary.LittleEndian.AppendUint16(c.out[c.next].data, *p)
		c.bytes += 2
	}
	c.next++
	c.canon = binary.LittleEndian.AppendUint16(c.canon, *p)
}

func (c *rowCodec) u8(p *uint8) {
	switch c.mode {
	case showing:
		*c.atValue() = value{num: uint64(*p)}
		return
	case filling:
		*p = uint8(c.atValue().num)
		return
	case parsing:
		*p = c.take(1)[0]
		return
	case reading:
		*p = c.in[c.next].u8(c.row)
	case writing:
		c.out[c.next].data = append(c.out[c.next].data, *p)
		c.bytes++
	}
	c.next++
	c.canon = append(c.canon, *p)
}

func (c *rowCodec) boolean(p *bool) {
	switch c.mode {
	case showing:
		v := value{}
		if *p {
			v.num = 1
		}
		*c.atValue() = v
		return
	case filling:
		*p = c.atValue().num != 0
		return
	case parsing:
		*p = c.take(1)[0] != 0
		return
	case reading:
		*p = c.in[c.next].boolean(c.row)
	case writing:
		c.out[c.next].appendBool(c.row, *p)
		c.bytes++
	}
	c.next++
	b := byte(0)
	if *p {
		b = 1
	}
	c.canon = append(c.canon, b)
}

// take consumes n bytes of the canonical encoding.
func (c *rowCodec) take(n int) []byte {
	if c.bad || n > len(c.src) {
		c.bad = true
		return zeros[:]
	}
	b := c.src[:n]
	c.src = c.src[n:]
	return b
}

// takeText consumes a length and that many bytes.
func (c *rowCodec) takeText() []byte {
	n, w := binary.Uvarint(c.src)
	if w <= 0 || n > uint64(len(c.src)-w) {
		c.bad = true
		return nil
	}
	c.src = c.src[w:]
	return c.take(int(n))
}

// body stands outside the canonical encoding, and in the output only where it
// was asked for.
func (c *rowCodec) body(p *[]byte) {
	switch c.mode {
	case parsing:
		*p = nil
	case showing:
		*c.atValue() = value{str: string(*p), null: *p == nil}
	case filling:
		if v := c.atValue(); v.null {
			*p = nil
		} else {
			*p = []byte(v.str)
		}
	case reading:
		*p = c.in[c.next].binary(c.row)
	case writing:
		if c.next == len(c.out) {
			return
		}
		o := &c.out[c.next]
		o.appendValid(c.row, *p != nil)
		o.appendBinary(*p)
		c.bytes += 4 + len(*p)
	}
}
