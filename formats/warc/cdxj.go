package warc

import (
	"crypto/sha1"
	"encoding/json"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/httpmsg"
)

// CDXJ returns the index line of the current record, without line end: SURT key,
// timestamp of 14 digits, and a JSON object with url, mime, status, digest,
// length, offset and filename, all strings. It reads the record to its end. ok is
// false for types that indexes leave out (warcinfo, request, metadata).
//
//	com,example)/a?b=c 20260301120000 {"url": "http://example.com/a?b=c", …}
func (r *Reader) CDXJ(filename string) (line []byte, ok bool, err error) {
	rec := &r.rec
	switch {
	case !r.open || rec.TargetURI == "":
		return nil, false, nil
	case rec.Type != TypeResponse && rec.Type != TypeRevisit && rec.Type != TypeResource:
		return nil, false, nil
	}
	entry := struct {
		URL      string `json:"url"`
		MIME     string `json:"mime,omitempty"`
		Status   string `json:"status,omitempty"`
		Digest   string `json:"digest,omitempty"`
		Length   string `json:"length"`
		Offset   string `json:"offset"`
		Filename string `json:"filename"`
	}{URL: rec.TargetURI, Offset: strconv.FormatInt(rec.Offset, 10), Filename: filename}

	payload := rec.Block
	entry.MIME, _ = httpmsg.MediaType(rec.ContentType)
	if strings.HasPrefix(entry.MIME, "application/http") {
		entry.MIME, payload = "", nil
		// A reply that is not HTTP is indexed without status and media type, and has no payload.
		if m, err := httpmsg.Open(rec.Block); err == nil {
			payload = m.Payload
			entry.MIME, _ = httpmsg.MediaType(m.Head.Get("Content-Type"))
			entry.Status = strconv.Itoa(m.Head.Status)
		}
	}
	if rec.Type == TypeRevisit {
		entry.MIME = "warc/revisit"
	}
	if sum, ok := parseSHA1(rec.Get(FieldPayloadDigest)); ok {
		entry.Digest = Base32SHA1(sum)
	} else if payload != nil && rec.Type != TypeRevisit {
		h := sha1.New()
		io.Copy(h, payload) // a payload cut short is digested as far as it goes
		entry.Digest = Base32SHA1([sha1.Size]byte(h.Sum(nil)))
	}
	if err := r.Finish(); err != nil {
		return nil, false, err
	}
	entry.Length = strconv.FormatInt(r.good-rec.Offset, 10)

	var b strings.Builder
	b.WriteString(SURT(rec.TargetURI))
	b.WriteString(rec.Date.Format(" 20060102150405 "))
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if err := j.Encode(&entry); err != nil {
		return nil, false, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), true, nil
}

// SURT is the sort-friendly key of a URL, by which an index is ordered: labels of
// the host from right to left without a leading "www", then ")" and path and
// query in lower case, query parameters in order. Other schemes than http, https
// and ftp, and hosts that are addresses, stay as they are.
//
//	http://www.Example.com:8080/A?c&b → com,example:8080)/a?b&c
func SURT(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" && scheme != "ftp" {
		return strings.ReplaceAll(url, " ", "%20")
	}
	rest, _, _ = strings.Cut(rest, "#")
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i:]
	}
	if port == ":" || port == map[string]string{"http": ":80", "https": ":443", "ftp": ":21"}[scheme] {
		port = ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
		labels := strings.Split(host, ".")
		if len(labels) > 2 && isWWW(labels[0]) {
			labels = labels[1:]
		}
		slices.Reverse(labels)
		host = strings.Join(labels, ",")
	}
	path, query, hasQuery := strings.Cut(strings.ToLower(path), "?")
	if path == "" {
		path = "/"
	}
	if hasQuery && query != "" {
		params := strings.Split(query, "&")
		slices.Sort(params)
		path += "?" + strings.Join(params, "&")
	}
	return strings.ReplaceAll(host+port+")"+path, " ", "%20")
}

// isWWW: "www", "www2" and so on.
func isWWW(label string) bool {
	digits, ok := strings.CutPrefix(label, "www")
	return ok && strings.Trim(digits, "0123456789") == ""
}
