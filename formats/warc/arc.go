package warc

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// arcLineMax bounds the line with which an ARC record begins.
const arcLineMax = 8 << 10

// arcLine is that line, of version 1 or 2 (https://archive.org/web/researcher/ArcFileFormat.php):
//
//	URL IP-address Archive-date Content-type Archive-length
//	URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length
type arcLine struct {
	url, ip, media string
	date           time.Time
	length         int64
}

// parseARC reads the line. Blanks in URLs and media types are taken as such: address and date, which have a form, tell where these are.
func parseARC(line string) (a arcLine, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	last := strings.LastIndexByte(line, ' ')
	if last < 0 || strings.IndexByte(line, ':') <= 0 || strings.IndexByte(line, ':') > last {
		return a, false
	}
	n, err := strconv.ParseUint(line[last+1:], 10, 62)
	if url, _, _ := strings.Cut(line, " "); strings.HasPrefix(url, "filedesc:") { // no more of it is needed
		a = arcLine{url: url, ip: "-", media: "text/plain", length: int64(n)}
	} else if err != nil && line[last+1:] != "-1" { // which some write for nothing
		return a, false
	}
	words := strings.Split(line[:last], " ")
	for i := len(words) - 1; i >= 2; i-- {
		if len(words[i]) < 8 || strings.Trim(words[i], "0123456789") != "" {
			continue
		}
		if _, err := netip.ParseAddr(words[i-1]); err != nil && words[i-1] != "-" && words[i-1] != "unknown" {
			continue
		}
		if a.date, ok = looseDate(words[i]); !ok {
			continue
		}
		a.url, a.ip, a.length = strings.Join(words[:i-1], " "), words[i-1], int64(n)
		media := words[i+1:]
		if len(media) >= 6 { // version 2
			if code := media[len(media)-5]; code == "-" || len(code) == 3 && strings.Trim(code, "0123456789") == "" {
				media = media[:len(media)-5]
			}
		}
		a.media = strings.Join(media, " ")
		return a, strings.IndexByte(a.url, ':') > 0
	}
	return a, strings.HasPrefix(a.url, "filedesc:")
}

// arcRecord turns an ARC record into a Record; its line is already read. A reply over HTTP becomes a response, a document
// over another protocol, or without a head, a resource, and the file's own description a warcinfo.
func (r *Reader) arcRecord(a arcLine, left int) {
	rec := &r.rec
	r.arc, r.isARC = true, true
	*rec = Record{Offset: r.start, Fields: rec.Fields[:0], Header: r.opt.HeaderMax - left, Type: TypeResource, Date: a.date, TargetURI: a.url, ContentType: a.media, Length: a.length, ARC: true}
	scheme, _, _ := strings.Cut(a.url, ":")
	switch strings.ToLower(scheme) {
	case "filedesc":
		rec.Type = TypeInfo
	case "http", "https":
		b, _ := r.plain.Peek(int(min(64, a.length)))
		if head := strings.TrimLeft(string(b), " \t\r\n"); len(head) >= 4 && (strings.EqualFold(head[:4], "HTTP") || strings.EqualFold(head[:4], "ICY ")) {
			rec.Type, rec.ContentType = TypeResponse, MediaResponse
		}
	}
	if a.ip != "0.0.0.0" && a.ip != "-" && a.ip != "unknown" {
		rec.Add(FieldIPAddress, a.ip)
	}
}
