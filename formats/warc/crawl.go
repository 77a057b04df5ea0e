package warc

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

// This file is what the fetch store says in WARC records of its own: the round,
// the addresses of its hosts, and what became of each contact. SPEC.md, section
// "What a crawl writes".

// Round names the change of a fetch store that the records after it belong to.
type Round struct {
	Txn   string
	Epoch uint64
	Now   record.Time // the round's clock; 0: none
}

// Fields of a warcinfo record that starts a round.
const (
	fieldTxn   = "transaction"
	fieldEpoch = "epoch"
	fieldNow   = "now"
)

// fieldsMax bounds the block of a record that is read as fields.
const fieldsMax = 1 << 20

// NewInfo returns the warcinfo record that starts a round in a file.
func NewInfo(filename string, date time.Time, r Round, about []Field) *Record {
	fields := append([]Field{}, about...)
	fields = append(fields, Field{fieldTxn, r.Txn}, Field{fieldEpoch, strconv.FormatUint(r.Epoch, 10)})
	if r.Now != 0 {
		fields = append(fields, Field{fieldNow, formatTime(r.Now)})
	}
	rec := fieldsRecord(TypeInfo, fields)
	rec.Date = date
	rec.Add(FieldFilename, filename)
	return rec
}

func fieldsRecord(kind string, fields []Field) *Record {
	b := FormatFields(fields)
	return &Record{Type: kind, ContentType: MediaFields, Block: bytes.NewReader(b), Length: int64(len(b))}
}

// ReadRound reads a warcinfo record. ok is false for one that starts no round,
// such as those of other programs.
func ReadRound(rec *Record) (r Round, ok bool, err error) {
	fields, err := blockFields(rec)
	if err != nil {
		return r, false, err
	}
	for _, f := range fields {
		switch f.Name {
		case fieldTxn:
			r.Txn, ok = f.Value, true
		case fieldEpoch:
			r.Epoch, err = strconv.ParseUint(f.Value, 10, 64)
		case fieldNow:
			r.Now, err = parseTime(f.Value)
		}
		if err != nil {
			return r, false, badField(rec, f)
		}
	}
	return r, ok, nil
}

func blockFields(rec *Record) ([]Field, error) {
	if rec.Length > fieldsMax {
		return nil, &fault.Error{Class: fault.Corrupt, Place: place(rec), Found: fmt.Sprintf("%d bytes of fields", rec.Length), Want: fmt.Sprintf("at most %d", fieldsMax)}
	}
	if rec.Block == nil {
		return nil, nil
	}
	b, err := io.ReadAll(rec.Block)
	if err != nil {
		return nil, err
	}
	return ParseFields(b), nil
}

func place(rec *Record) string { return fmt.Sprintf("%s record at byte %d", rec.Type, rec.Offset) }

func badField(rec *Record, f Field) error {
	return &fault.Error{Class: fault.Corrupt, Place: place(rec), Found: fmt.Sprintf("field %s: %.60q", f.Name, f.Value)}
}

// Hostname is what a round's input said of one host's addresses.
type Hostname struct {
	Host    string // as in the column host
	Addr    string // addresses in order of preference, comma-separated
	Expires record.Time
	Error   string // why there is none
}

const dnsScheme = "dns:"

// NewHostname returns the resource record that keeps h, as text/dns (RFC 4027):
// address records for people and other tools, and in comments what the columns said.
func NewHostname(date time.Time, h Hostname) *Record {
	var b bytes.Buffer
	ttl := int64(0)
	if h.Expires != 0 {
		ttl = max(0, int64(h.Expires.Go().Sub(date)/time.Second))
	}
	name := h.Host
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	for addr := range strings.SplitSeq(h.Addr, ",") {
		if addr == "" {
			continue
		}
		kind := "A"
		if strings.Contains(addr, ":") {
			kind = "AAAA"
		}
		fmt.Fprintf(&b, "%s. %d IN %s %s\r\n", name, ttl, kind, addr)
	}
	for _, f := range []Field{{"host", h.Host}, {"addr", h.Addr}, {"addr_expires", formatTime(h.Expires)}, {"addr_error", h.Error}} {
		if f.Value != "" {
			b.WriteString("; ")
			b.Write(FormatFields([]Field{f}))
		}
	}
	return &Record{
		Type: TypeResource, Date: date, TargetURI: dnsScheme + name, ContentType: MediaDNS,
		Block: bytes.NewReader(b.Bytes()), Length: int64(b.Len()),
	}
}

// ReadHostname reads a resource record. ok is false for one that NewHostname did not make.
func ReadHostname(rec *Record) (h Hostname, ok bool, err error) {
	if rec.ContentType != MediaDNS || !strings.HasPrefix(rec.TargetURI, dnsScheme) {
		return h, false, nil
	}
	fields, err := blockFields(rec)
	if err != nil {
		return h, false, err
	}
	for _, f := range fields {
		name, comment := strings.CutPrefix(f.Name, "; ")
		if !comment {
			continue
		}
		switch name {
		case "host":
			h.Host, ok = f.Value, true
		case "addr":
			h.Addr = f.Value
		case "addr_expires":
			if h.Expires, err = parseTime(f.Value); err != nil {
				return h, false, badField(rec, f)
			}
		case "addr_error":
			h.Error = f.Value
		}
	}
	return h, ok, nil
}

// Outcome is a fetch row as the archive keeps it.
type Outcome struct {
	Round Round // Txn and Epoch only
	Row   record.Fetch
}

// NewOutcome returns the metadata record that ends a contact's group of records:
// the whole row, except for the place of the response, which a reader knows, and
// the columns that this version does not know, which the round's input holds.
func NewOutcome(r Round, row *record.Fetch) *Record {
	fields := make([]Field, 0, 40)
	fields = append(fields, Field{fieldTxn, r.Txn}, Field{fieldEpoch, strconv.FormatUint(r.Epoch, 10)})
	c := outcomeFields{row: row}
	for i, f := range c.list() {
		if v := f.get(); v != "" || i == 0 {
			fields = append(fields, Field{f.name, v})
		}
	}
	rec := fieldsRecord(TypeMetadata, fields)
	rec.Date = row.FetchTime.Go()
	rec.TargetURI = row.URL
	return rec
}

// ReadOutcome reads a metadata record. ok is false for one that NewOutcome did not make.
// The caller fills in WARCFilename, WARCOffset and WARCLength.
func ReadOutcome(rec *Record) (o Outcome, ok bool, err error) {
	if rec.ContentType != MediaFields {
		return o, false, nil
	}
	fields, err := blockFields(rec)
	if err != nil {
		return o, false, err
	}
	c := outcomeFields{row: &o.Row}
	list := c.list()
	next := 0
	for _, f := range fields {
		switch f.Name {
		case fieldTxn:
			o.Round.Txn, ok = f.Value, true
			continue
		case fieldEpoch:
			if o.Round.Epoch, err = strconv.ParseUint(f.Value, 10, 64); err != nil {
				return o, false, badField(rec, f)
			}
			continue
		}
		// Fields come in the order of the list, so the search is short.
		for i := range list {
			k := (next + i) % len(list)
			if list[k].name == f.Name {
				if err := list[k].set(f.Value); err != nil {
					return o, false, badField(rec, f)
				}
				next = k + 1
				break
			}
		}
	}
	ok = ok && o.Row.URL != "" && o.Row.Role != "" && o.Row.Outcome != ""
	return o, ok, nil
}

// outcomeFields names the columns of a row and converts them.
type outcomeFields struct{ row *record.Fetch }

type outcomeField struct {
	name string
	get  func() string
	set  func(string) error
}

func (c outcomeFields) list() []outcomeField {
	r := c.row
	return []outcomeField{
		text("url", &r.URL), hex64("url_key", &r.Key), text("host", &r.Host),
		number("priority", &r.Priority, 8), float("score", &r.Score), number("depth", &r.Depth, 16), number("attempt", &r.Attempt, 8),
		text("via", &r.Via), instant("discovered", &r.Discovered), text("addr", &r.Addr), text("etag", &r.ETag), text("last_modified", &r.LastModified),
		hex64("last_content_fp", &r.LastContentFP), text("role", &r.Role), instant("fetch_time", &r.FetchTime),
		span("duration_us", &r.DurationUS), span("required_delay_us", &r.RequiredDelayUS), text("outcome", &r.Outcome), number("status", &r.Status, 16),
		text("mime", &r.MIME), text("charset", &r.Charset), span("body_length", &r.BodyLength), text("truncated", &r.Truncated),
		hex64("content_fp", &r.ContentFP), text("payload_sha1", &r.PayloadSHA1), text("redirect_url", &r.RedirectURL),
		instant("retry_after", &r.RetryAfter), text("error", &r.Error),
	}
}

func text(name string, p *string) outcomeField {
	return outcomeField{name, func() string { return *p }, func(s string) error { *p = s; return nil }}
}

func hex64(name string, p *uint64) outcomeField {
	return outcomeField{name, func() string {
		if *p == 0 {
			return ""
		}
		return fingerprint.Format(*p)
	}, func(s string) (err error) { *p, err = fingerprint.Parse(s); return err }}
}

func number[T uint8 | uint16](name string, p *T, bits int) outcomeField {
	return outcomeField{name, func() string {
		if *p == 0 {
			return ""
		}
		return strconv.FormatUint(uint64(*p), 10)
	}, func(s string) error {
		n, err := strconv.ParseUint(s, 10, bits)
		*p = T(n)
		return err
	}}
}

func span(name string, p *int64) outcomeField {
	return outcomeField{name, func() string {
		if *p == 0 {
			return ""
		}
		return strconv.FormatInt(*p, 10)
	}, func(s string) (err error) { *p, err = strconv.ParseInt(s, 10, 64); return err }}
}

// float keeps every bit: a score is compared and hashed, not read.
func float(name string, p *float32) outcomeField {
	return outcomeField{name, func() string {
		if math.Float32bits(*p) == 0 {
			return ""
		}
		return strconv.FormatFloat(float64(*p), 'g', -1, 32)
	}, func(s string) error {
		v, err := strconv.ParseFloat(s, 32)
		*p = float32(v)
		return err
	}}
}

func instant(name string, p *record.Time) outcomeField {
	return outcomeField{name, func() string { return formatTime(*p) }, func(s string) (err error) { *p, err = parseTime(s); return err }}
}

func formatTime(t record.Time) string {
	if t == 0 {
		return ""
	}
	return FormatDate(t.Go())
}

func parseTime(s string) (record.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return record.TimeOf(t), err
}
