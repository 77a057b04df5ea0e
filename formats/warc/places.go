package warc

import (
	"fmt"
	"strconv"

	"mercator/pkg/base/fingerprint"
)

// Plain reports whether a record is what the outcome of its contact suggests: an HTTP reply, or that a page has not changed. Not plain
// are a revisit that refers to an equal payload elsewhere, and a document that came without HTTP.
func (r *Record) Plain() bool {
	_, _, refers := r.Original()
	return (r.Type == TypeResponse || r.Type == TypeRevisit && !refers) && r.ContentType == MediaResponse
}

// Places describes a set of records that an index has. Two sets that say the same of themselves are, but for
// accidents of 64 bits, the same.
type Places struct {
	Records uint64 // how many
	Odd     uint64 // how many of the records are not Plain
	Sum     uint64 // of the fingerprints of "FILE OFFSET LENGTH", modulo 2⁶⁴
}

// Add adds a record.
func (p *Places) Add(file string, offset, length int64, plain bool) {
	p.Records++
	if !plain {
		p.Odd++
	}
	var room [128]byte // fmt would allocate thrice for each record
	text := append(append(room[:0], file...), ' ')
	text = append(strconv.AppendInt(text, offset, 10), ' ')
	p.Sum += fingerprint.Of(strconv.AppendInt(text, length, 10))
}

// Join adds the records of another set.
func (p *Places) Join(q Places) {
	p.Records += q.Records
	p.Odd += q.Odd
	p.Sum += q.Sum
}

// String has the three numbers, the last one with 16 hexadecimal digits.
func (p Places) String() string {
	return fmt.Sprintf("%d %d %s", p.Records, p.Odd, fingerprint.Format(p.Sum))
}

// ParsePlaces reads what String wrote.
func ParsePlaces(s string) (p Places, ok bool) {
	var sum string
	if _, err := fmt.Sscanf(s, "%d %d %16s", &p.Records, &p.Odd, &sum); err != nil {
		return Places{}, false
	}
	var err error
	p.Sum, err = fingerprint.Parse(sum)
	return p, err == nil && p.String() == s
}
