package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/fault"
)

// fields returns pointers to a row's fields by column name: *uint64, *string,
// *record.Time and so on.
func fields[T record.Row](row *T) map[string]any {
	switch r := any(row).(type) {
	case *record.URL:
		return map[string]any{"url": &r.URL, "url_key": &r.Key, "host": &r.Host, "priority": &r.Priority, "score": &r.Score,
			"depth": &r.Depth, "attempt": &r.Attempt, "via": &r.Via, "discovered": &r.Discovered, "due": &r.Due,
			"addr": &r.Addr, "addr_expires": &r.AddrExpires, "addr_error": &r.AddrError,
			"etag": &r.ETag, "last_modified": &r.LastModified, "last_content_fp": &r.LastContentFP}
	case *record.Fetch:
		return map[string]any{"url": &r.URL, "url_key": &r.Key, "host": &r.Host, "priority": &r.Priority, "score": &r.Score,
			"depth": &r.Depth, "attempt": &r.Attempt, "via": &r.Via, "discovered": &r.Discovered,
			"addr": &r.Addr, "etag": &r.ETag, "last_modified": &r.LastModified, "last_content_fp": &r.LastContentFP,
			"role": &r.Role, "fetch_time": &r.FetchTime, "duration_us": &r.DurationUS, "required_delay_us": &r.RequiredDelayUS,
			"outcome": &r.Outcome, "status": &r.Status, "mime": &r.MIME, "charset": &r.Charset, "body_length": &r.BodyLength,
			"truncated": &r.Truncated, "content_fp": &r.ContentFP, "payload_sha1": &r.PayloadSHA1, "duplicate": &r.Duplicate,
			"redirect_url": &r.RedirectURL, "retry_after": &r.RetryAfter, "error": &r.Error, "warc_filename": &r.WARCFilename,
			"warc_record_offset": &r.WARCOffset, "warc_record_length": &r.WARCLength, "fresh_until": &r.FreshUntil}
	case *record.Link:
		return map[string]any{"src_url": &r.SrcURL, "src_key": &r.SrcKey, "url": &r.URL, "url_key": &r.Key, "host": &r.Host,
			"link_kind": &r.LinkKind, "nofollow": &r.Nofollow, "text": &r.Text, "depth": &r.Depth, "score": &r.Score, "discovered": &r.Discovered}
	case *record.Module:
		return map[string]any{"url_key": &r.Key, "module": &r.Module, "key": &r.Name, "value": &r.Value}
	}
	return nil
}

// column returns the field of row that a column name stands for; an unknown name is fault.Usage.
func column[T record.Row](row *T, name string) (any, error) {
	all := fields(row)
	if p, ok := all[name]; ok {
		return p, nil
	}
	var names []string
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("no column %q", name), Want: "one of " + strings.Join(names, ", ")}
}

// value is a column's value that can be ordered: numbers and times by n, text by s.
type value struct {
	n uint64
	s string
}

func (a value) compare(b value) int {
	if c := cmp.Compare(a.n, b.n); c != 0 {
		return c
	}
	return strings.Compare(a.s, b.s)
}

// sign makes signed numbers ascend as unsigned ones.
const sign = 1 << 63

// valueOf reads the field p of fields; false if its type has no order here.
func valueOf(p any) (value, bool) {
	switch p := p.(type) {
	case *uint64:
		return value{n: *p}, true
	case *uint16:
		return value{n: uint64(*p)}, true
	case *uint8:
		return value{n: uint64(*p)}, true
	case *int64:
		return value{n: uint64(*p) ^ sign}, true
	case *record.Time:
		return value{n: uint64(*p) ^ sign}, true
	case *string:
		return value{s: *p}, true
	}
	return value{}, false
}

// isNumber says whether valueOf(p) is told by n alone.
func isNumber(p any) bool {
	_, text := p.(*string)
	return !text
}

// assign copies *from to *to, which must be of one type.
func assign(to, from any) bool {
	switch to := to.(type) {
	case *uint64:
		return set(to, from)
	case *uint16:
		return set(to, from)
	case *uint8:
		return set(to, from)
	case *int64:
		return set(to, from)
	case *float32:
		return set(to, from)
	case *bool:
		return set(to, from)
	case *string:
		return set(to, from)
	case *record.Time:
		return set(to, from)
	}
	return false
}

func set[V any](to *V, from any) bool {
	v, ok := from.(*V)
	if ok {
		*to = *v
	}
	return ok
}
