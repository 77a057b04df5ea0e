package record

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Rows of kind url go through every stage of a crawl. They are read and written here, field
// by field without asking for each what is to be done with it: in two thirds of the
// time of visitURL, which does the same.

// readURL is visitURL, reading.
func (c *rowCodec) readURL(r *URL) {
	in, i := c.in[:len(urlColumns)], c.row
	r.URL = in[0].text(i)
	r.Key = in[1].u64(i)
	r.Host = in[2].text(i)
	r.Priority = in[3].u8(i)
	r.Score = math.Float32frombits(in[4].u32(i))
	r.Depth = in[5].u16(i)
	r.Attempt = in[6].u8(i)
	r.Via = in[7].text(i)
	r.Discovered = Time(in[8].u64(i))
	r.Due = Time(in[9].u64(i))
	r.Addr = in[10].text(i)
	r.AddrExpires = Time(in[11].u64(i))
	r.AddrError = in[12].text(i)
	r.ETag = in[13].text(i)
	r.LastModified = in[14].text(i)
	r.LastContentFP = in[15].u64(i)
	c.canon = appendURL(c.canon, r)
}

// writeURL is visitURL, writing.
func (c *rowCodec) writeURL(r *URL) {
	bytes := 5*8 + 4 + 2 + 1 + 1
	for _, s := range [...]*string{&r.URL, &r.Host, &r.Via, &r.Addr, &r.AddrError, &r.ETag, &r.LastModified} {
		if !utf8.ValidString(*s) {
			valid := *r
			for _, s := range [...]*string{&valid.URL, &valid.Host, &valid.Via, &valid.Addr, &valid.AddrError, &valid.ETag, &valid.LastModified} {
				*s = validText(*s)
			}
			c.writeURL(&valid)
			return
		}
		bytes += 4 + len(*s)
	}
	out, i := c.out[:len(urlColumns)], c.row
	out[0].appendText(r.URL)
	out[1].appendU64(r.Key)
	out[2].appendText(r.Host)
	out[3].data = append(out[3].data, r.Priority)
	out[4].data = binary.LittleEndian.AppendUint32(out[4].data, math.Float32bits(r.Score))
	out[5].data = binary.LittleEndian.AppendUint16(out[5].data, r.Depth)
	out[6].data = append(out[6].data, r.Attempt)
	out[7].appendText(r.Via)
	out[8].appendTime(i, r.Discovered)
	out[9].appendTime(i, r.Due)
	out[10].appendText(r.Addr)
	out[11].appendTime(i, r.AddrExpires)
	out[12].appendText(r.AddrError)
	out[13].appendText(r.ETag)
	out[14].appendText(r.LastModified)
	out[15].appendU64(r.LastContentFP)
	c.bytes += bytes
	c.canon = appendURL(c.canon, r)
}

// appendURL appends the canonical encoding of the row's known columns.
func appendURL(b []byte, r *URL) []byte {
	score := math.Float32bits(r.Score)
	b = appendText(b, r.URL)
	b = binary.LittleEndian.AppendUint64(b, r.Key)
	b = appendText(b, r.Host)
	b = append(b, r.Priority, byte(score), byte(score>>8), byte(score>>16), byte(score>>24), byte(r.Depth), byte(r.Depth>>8), r.Attempt)
	b = appendText(b, r.Via)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Discovered))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Due))
	b = appendText(b, r.Addr)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.AddrExpires))
	b = appendText(b, r.AddrError)
	b = appendText(b, r.ETag)
	b = appendText(b, r.LastModified)
	return binary.LittleEndian.AppendUint64(b, r.LastContentFP)
}

// appendText appends a text as canonical encodings have it.
func appendText(b []byte, s string) []byte {
	if len(s) < 0x80 { // as most are: one byte of uvarint
		b = append(b, byte(len(s)))
	} else {
		b = binary.AppendUvarint(b, uint64(len(s)))
	}
	return append(b, s...)
}
