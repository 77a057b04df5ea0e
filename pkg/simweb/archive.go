package simweb

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/web/httpmsg"
)

// archivedBody bounds the body of a reply from an archive; a longer one is
// answered with 502.
const archivedBody = 64 << 20

// Archive is a saved crawl as a web: it answers with the response records of
// WARC files, and with revisit records of a payload in one of them. If a URL was saved more than once,
// the last record counts, or the record with the date nearest to a given time.
//
// Its memory is about 50 bytes a URL and 100 a host. It is safe for many
// goroutines.
type Archive struct {
	First string // URL of the first response that is no robots.txt; a seed to begin with

	at    time.Time // zero: the last record of a URL counts
	port  string    // ":18080", which URLs of the archive do not have
	files []*os.File
	lax   []*warc.Tolerance // of each; nil: a store's, which has no damage
	names map[string]int    // files, as revisit records name them
	index map[uint64]place  // by FP64 of the URL
	hosts map[string]int    // name, without port: number
}

// place is where a record stands.
type place struct {
	file           int32
	offset, length int64
	away           int64 // of its date from Archive.at, in microseconds
}

// OpenArchive reads the files through and keeps them open. port is the one
// that they will be served on. With at, the record of a URL nearest to that time counts, the later one of two as near. What lax says is skipped in files that are of no store.
func OpenArchive(parts []warc.Part, port int, at time.Time, lax *warc.Tolerance) (*Archive, error) {
	a := &Archive{at: at, port: fmt.Sprintf(":%d", port), names: map[string]int{}, index: map[uint64]place{}, hosts: map[string]int{}}
	var names []string
	for _, part := range parts {
		if err := a.addPart(part, lax); err != nil {
			a.Close()
			return nil, err
		}
		names = append(names, part.Path)
	}
	if len(a.index) == 0 {
		a.Close()
		return nil, &fault.Error{Class: fault.WrongKind, File: strings.Join(names, ", "), Found: "no response record of http or https", Want: "a saved crawl"}
	}
	return a, nil
}

func (a *Archive) addPart(part warc.Part, lax *warc.Tolerance) error {
	f, length, err := part.Open()
	if err != nil {
		return err
	}
	a.names[strings.TrimSuffix(filepath.Base(part.Path), ".open")] = len(a.files)
	a.files = append(a.files, f)
	if part.Length >= 0 {
		lax = nil
	}
	a.lax = append(a.lax, lax)
	if length == 0 && part.Length == 0 {
		return nil // a store's, without committed bytes
	}
	r := warc.NewReader(io.NewSectionReader(f, 0, length), warc.ReaderOptions{Name: part.Path, Tolerance: lax})
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return lax.Skip(err)
		}
		if rec.Inside {
			e := &fault.Error{Class: fault.WrongKind, File: part.Path, Place: fmt.Sprintf("record %d", r.Number()), Found: string(r.Codec()) + " member with several records", Want: "one record in a member, to read each alone"}
			e.Hint = fmt.Sprintf("%s -dc %s > FILE.warc makes a file that can be served", r.Codec(), fault.Quote(part.Path))
			return e
		}
		scheme, rest, ok := strings.Cut(rec.TargetURI, "://")
		_, _, refers := rec.Original()
		if rec.Type != warc.TypeResponse && !refers || !ok || scheme != "http" && scheme != "https" {
			continue
		}
		url, offset, date := rec.TargetURI, rec.Offset, rec.Date
		if err := r.Finish(); r.Damaged(err) {
			continue
		} else if err != nil {
			return err
		}
		id, found := fingerprint.OfString(url), place{int32(len(a.files) - 1), offset, r.Good() - offset, 0}
		if !a.at.IsZero() {
			found.away = date.UnixMicro() - a.at.UnixMicro()
			if best, ok := a.index[id]; ok && (max(best.away, -best.away) < max(found.away, -found.away) || best.away == -found.away && best.away > found.away) {
				continue
			}
		}
		a.index[id] = found
		if a.First == "" && !strings.HasSuffix(url, "/robots.txt") {
			a.First = url
		}
		host, _, _ := strings.Cut(rest, "/")
		name, _, _ := strings.Cut(host, ":")
		if _, ok := a.hosts[name]; !ok {
			a.hosts[strings.Clone(name)] = len(a.hosts)
		}
	}
}

// Close closes the files.
func (a *Archive) Close() error {
	var first error
	for _, f := range a.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Lookup gives each host of the archive an address of its own.
func (a *Archive) Lookup(name string) Answer {
	n, ok := a.hosts[strings.ToLower(strings.TrimSuffix(name, "."))]
	if !ok {
		return Answer{Rcode: dns.RcodeNameError}
	}
	return Answer{Addr: HostAddr(n)}
}

// Respond is a Responder. A request means the http URL of its Host and target,
// with or without the port that the archive is served on, or else the https one.
func (a *Archive) Respond(scratch []byte, q *Request) (Response, time.Duration) {
	say := func(status int, text string) (Response, time.Duration) {
		return Response{Status: status, Type: "text/plain; charset=utf-8", Body: append(scratch[len(scratch):], text...), Length: len(text)}, 0
	}
	if q.Method != "GET" && q.Method != "HEAD" {
		return say(405, "Only GET and HEAD are understood.\n")
	}
	host := strings.ToLower(q.Host)
	bare := strings.TrimSuffix(host, a.port)
	for _, origin := range []string{"http://" + bare, "http://" + host, "https://" + bare} {
		url := origin + q.Target
		at, ok := a.index[fingerprint.OfString(url)]
		if !ok {
			continue
		}
		p, err := a.read(scratch, url, at)
		if err != nil {
			return say(502, "The record cannot be read: "+err.Error()+"\n")
		}
		if q.Method == "HEAD" {
			p.Body = nil
		}
		return p, 0
	}
	return say(404, "The archive has no reply for this URL.\n")
}

// options of a file, to read one record that was read before.
func (a *Archive) options(file int) warc.ReaderOptions {
	opt := warc.ReaderOptions{Name: a.files[file].Name()}
	if a.lax[file] != nil {
		opt.Tolerance = &warc.Tolerance{}
	}
	return opt
}

func (a *Archive) read(scratch []byte, url string, at place) (Response, error) {
	rec, r, err := warc.OpenAt(a.files[at.file], at.offset, at.length, a.options(int(at.file)))
	if r != nil {
		defer r.Close()
	}
	if err != nil {
		return Response{}, err
	}
	if rec.TargetURI != url {
		return Response{}, &fault.Error{Class: fault.Corrupt, Found: rec.TargetURI, Want: url}
	}
	m, err := httpmsg.OpenArchived(rec.Block)
	if err != nil {
		return Response{}, err
	}
	p := Response{Status: m.Head.Status}
	for _, f := range m.Head.Fields {
		switch http.CanonicalHeaderKey(f.Name) {
		case "Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // of that connection; ours has its own
		case "Content-Encoding":
			continue
		}
		p.Fields = append(p.Fields, f.Name+": "+f.Value+"\r\n"...)
	}
	if codings := m.Head.Codings(); codings != "" { // the payload still has the codings of the transfer
		p.Fields = append(p.Fields, "Content-Encoding: "+codings+"\r\n"...)
	}
	payload := m.Payload
	if name, offset, ok := rec.Original(); ok {
		i, given := a.names[name]
		if !given {
			return Response{}, &fault.Error{Found: "the payload is in " + name + ", which was not given"}
		}
		original, or, err := warc.OpenAt(a.files[i], offset, 0, a.options(i))
		defer or.Close()
		if err != nil {
			return Response{}, err
		}
		om, err := httpmsg.OpenArchived(original.Block)
		if err != nil {
			return Response{}, err
		}
		payload = om.Payload
	}
	p.Body = scratch[len(scratch):]
	body := writer{&p.Body}
	n, err := io.Copy(body, io.LimitReader(payload, archivedBody+1))
	if err != nil && err != io.ErrUnexpectedEOF { // a reply that was cut is served as far as it goes
		return Response{}, err
	}
	if n > archivedBody {
		return Response{}, &fault.Error{Found: fmt.Sprintf("a body of more than %d bytes", archivedBody)}
	}
	p.Length = len(p.Body)
	return p, nil
}

// writer appends to a slice.
type writer struct{ b *[]byte }

func (w writer) Write(p []byte) (int, error) {
	*w.b = append(*w.b, p...)
	return len(p), nil
}
