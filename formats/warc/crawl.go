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
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// This file makes and reads the WARC records of the fetch store's own: of the round,
// the addresses of its hosts, and what became of each contact. SPEC.md, section
// "Records", describes them.

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
// such as a record of another program.
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

// Hostname holds the addresses of one host in a round's input.
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

// AppendOutcome appends the block of the metadata record (MediaFields) that ends a
// contact's group of records: the whole row, except for the place of the response, which
// a reader knows, and the columns that this version does not know, which the round's
// input holds.
func AppendOutcome(b []byte, r Round, row *record.Fetch) []byte {
	b = appendField(b, fieldTxn, r.Txn)
	b = append(strconv.AppendUint(append(b, fieldEpoch+": "...), r.Epoch, 10), "\r\n"...)
	for i, c := range outcomeColumns {
		b = c.append(b, row, i == 0)
	}
	return b
}

// ReadOutcome reads a metadata record. ok is false if AppendOutcome did not make its
// block. The caller fills in WARCFilename, WARCOffset and WARCLength.
func ReadOutcome(rec *Record) (o Outcome, ok bool, err error) {
	if rec.ContentType != MediaFields {
		return o, false, nil
	}
	fields, err := blockFields(rec)
	if err != nil {
		return o, false, err
	}
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
		for i := range outcomeColumns {
			k := (next + i) % len(outcomeColumns)
			if outcomeColumns[k].Name == f.Name {
				if err := outcomeColumns[k].set(&o.Row, f.Value); err != nil {
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

// outcomeColumn is a column of a row. Its type says how it is written: u64 as 16 hex digits, a time as WARC-Date is, the rest as in JSON.
type outcomeColumn record.Field[record.Fetch]

// outcomeColumns are the columns of fetch rows, without the place in the archive, which a reader knows, and duplicate, which is set after the fetch.
var outcomeColumns = func() (all []outcomeColumn) {
	for _, c := range record.Fields[record.Fetch]() {
		if c.Name != "duplicate" && !strings.HasPrefix(c.Name, "warc_") {
			all = append(all, outcomeColumn(c))
		}
	}
	return all
}()

// append writes the column as a field, unless it has its zero value.
func (c outcomeColumn) append(b []byte, row *record.Fetch, always bool) []byte {
	from := len(b)
	b = append(append(b, c.Name...), ": "...)
	empty := false
	switch p := record.Field[record.Fetch](c).In(row).(type) {
	case *string:
		if *p != "" || always {
			return appendField(b[:from], c.Name, *p)
		}
		empty = true
	case *uint64:
		b, empty = fingerprint.Append(b, *p), *p == 0
	case *uint8:
		b, empty = strconv.AppendUint(b, uint64(*p), 10), *p == 0
	case *uint16:
		b, empty = strconv.AppendUint(b, uint64(*p), 10), *p == 0
	case *int64:
		b, empty = strconv.AppendInt(b, *p, 10), *p == 0
	case *float32: // every bit: a score is compared and hashed, not read
		b, empty = strconv.AppendFloat(b, float64(*p), 'g', -1, 32), math.Float32bits(*p) == 0
	case *bool:
		b, empty = strconv.AppendBool(b, *p), !*p
	case *record.Time:
		b, empty = p.Go().UTC().AppendFormat(b, dateLayout), *p == 0
	}
	if empty {
		return b[:from]
	}
	return append(b, "\r\n"...)
}

// set reads what append wrote.
func (c outcomeColumn) set(row *record.Fetch, s string) (err error) {
	var n uint64
	switch p := record.Field[record.Fetch](c).In(row).(type) {
	case *string:
		*p = s
	case *uint64:
		*p, err = fingerprint.Parse(s)
	case *uint8:
		n, err = strconv.ParseUint(s, 10, 8)
		*p = uint8(n)
	case *uint16:
		n, err = strconv.ParseUint(s, 10, 16)
		*p = uint16(n)
	case *int64:
		*p, err = strconv.ParseInt(s, 10, 64)
	case *float32:
		var f float64
		f, err = strconv.ParseFloat(s, 32)
		*p = float32(f)
	case *bool:
		*p, err = strconv.ParseBool(s)
	case *record.Time:
		*p, err = parseTime(s)
	}
	return err
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
