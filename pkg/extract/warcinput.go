package extract

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// WARCInput reads any WARC files, also those that other crawlers wrote, as fetch rows with
// bodies: one row for each response or resource record with a URL that has a
// canonical form. The rows of robots.txt files have role robots, and so has plain text behind their
// redirects. It is a stage.Input. One goroutine reads; any may recycle.
type WARCInput struct {
	opt     canon.Options
	maxBody int64
	lax     *warc.Tolerance
	open    func(name string) (io.ReadCloser, error)
	names   []string

	name   string // of the open file
	file   io.ReadCloser
	r      *warc.Reader
	header http.Header
	bodies sync.Pool // recycled bodies
	sum    record.RowHasher[record.Fetch]
	bad    map[string]uint64 // records left out
	moved  map[string]bool   // where replies for robots.txt redirect to, at most movedMax
	end    record.Trailer

	unreadable uint64 // replies that lax counts as skipped
}

// NewWARCInput reads the named files in order. open opens them, "-" being standard
// input; bodies are cut at
// maxBody bytes (0: DefaultMaxBody). What lax says is skipped or taken (nil: nothing).
func NewWARCInput(names []string, open func(name string) (io.ReadCloser, error), opt canon.Options, maxBody int64, lax *warc.Tolerance) *WARCInput {
	if maxBody <= 0 {
		maxBody = DefaultMaxBody
	}
	return &WARCInput{opt: opt, maxBody: maxBody, lax: lax, open: open, names: names, bad: make(map[string]uint64), moved: make(map[string]bool), bodies: sync.Pool{New: func() any { return new([]byte) }}}
}

// Recycle takes back the body of a row that was read, for another.
func (in *WARCInput) Recycle(body []byte) {
	if cap(body) <= idleBody {
		in.bodies.Put(&body)
	}
}

// Schema of the rows: fetch.
func (in *WARCInput) Schema() *record.Schema {
	return &record.Schema{Kind: record.KindFetch}
}

// Header returns the header of the row that was read last.
func (in *WARCInput) Header() http.Header { return in.header }

// Trailer is the ledger of the input after io.EOF: its one stage, "warc".
func (in *WARCInput) Trailer() record.Trailer { return in.end }

// Read fills row with the next reply. Damage that is not skipped is an error with file and place.
func (in *WARCInput) Read(row *record.Fetch) error {
	for {
		if in.r == nil {
			if len(in.names) == 0 {
				if err := in.lax.Nothing(); err != nil {
					return err
				}
				in.finish()
				return io.EOF
			}
			in.name, in.names = in.names[0], in.names[1:]
			var err error
			if in.file, err = in.open(in.name); err != nil {
				return err
			}
			if in.name == "-" {
				in.name = "standard input"
			}
			in.r = warc.NewReader(in.file, warc.ReaderOptions{Name: in.name, Tolerance: in.lax})
		}
		rec, err := in.r.Next()
		if err != nil {
			if err = in.ended(err); err != nil {
				return err
			}
			continue
		}
		ok, err := in.fill(row, rec)
		if in.r.Damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		if ok {
			in.sum.Add(row)
			return nil
		}
	}
}

// ended closes a file that Next ended with err. It returns the error if that is to end the input.
func (in *WARCInput) ended(err error) error {
	if err == io.EOF {
		if err = nil; in.r.Number() == 0 {
			err = &fault.Error{Class: fault.Truncated, File: in.name, Found: "an empty file", Want: "a WARC record"}
		}
	}
	if err != nil {
		err = in.lax.Skip(err)
	}
	in.r.Close()
	in.r = nil
	return errors.Join(err, in.file.Close())
}

// fill makes a row of a record; false if the record is not a reply.
func (in *WARCInput) fill(row *record.Fetch, rec *warc.Record) (bool, error) {
	if !rec.IsReply() && (rec.Type != warc.TypeResource || !strings.Contains(rec.TargetURI, "://")) {
		return false, nil
	}
	// wget writes the target between angle brackets.
	asFetched := in.opt
	asFetched.URLRules = 0 // links are relative to it
	u, host, err := asFetched.URL(strings.Trim(rec.TargetURI, "<>"))
	if err != nil {
		in.bad[string(canon.ReasonOf(err))]++
		return false, nil
	}
	offset, kind, contentType, truncated := rec.Offset, rec.Type, rec.ContentType, rec.Get(warc.FieldTruncated)
	date := record.TimeOf(rec.Date)
	p, err := readReply(rec, nil, rec.Length, in.maxBody, false, *in.bodies.Get().(*[]byte))
	if err != nil {
		return false, err
	}
	if err := in.r.Finish(); err != nil {
		return false, err
	}
	if p.undecodable != nil && p.header == nil {
		in.bad[ReasonUndecodable]++
		if in.lax == nil || rec.Length == 0 {
			return false, nil
		}
		in.unreadable++
		return false, in.r.Unreadable(p.undecodable)
	}
	*row = record.Fetch{
		URL: u, Key: in.opt.URLKey(host, u), Host: host, Role: record.RolePage,
		FetchTime: date, Discovered: date, Outcome: record.OutcomeFetched, Status: p.status,
		BodyLength: int64(len(p.body)), Body: p.body, WARCFilename: filepath.Base(in.name), WARCOffset: offset,
	}
	if row.Truncated = p.cut; row.Truncated == "" {
		row.Truncated = truncated
	}
	if _, _, rest := canon.Split(u); rest == "/robots.txt" {
		row.Role = record.RoleRobots
	}
	in.header = p.header
	if kind == warc.TypeResponse {
		contentType = p.header.Get("Content-Type")
	}
	if t, params, err := mime.ParseMediaType(contentType); err == nil {
		row.MIME, row.Charset = t, strings.ToLower(params["charset"])
	}
	if location := p.header.Get("Location"); location != "" && p.status/100 == 3 {
		if to, _, _, err := in.opt.Redirect(u, location); err == nil {
			row.RedirectURL = to
		}
	}
	if in.moved[u] && (row.RedirectURL != "" || row.MIME == "text/plain") {
		row.Role = record.RoleRobots
		delete(in.moved, u)
	}
	if row.Role == record.RoleRobots && row.RedirectURL != "" && len(in.moved) < movedMax {
		in.moved[row.RedirectURL] = true
	}
	return true, nil
}

// movedMax bounds the memory for redirects that are never followed.
const movedMax = 10_000

// Damage returns an error that counts the damage skipped, after io.EOF; nil: none.
func (in *WARCInput) Damage() error {
	if in.lax == nil {
		return nil
	}
	return in.lax.Err()
}

func (in *WARCInput) finish() {
	if in.lax != nil {
		in.bad["damaged"] = in.lax.Skipped - in.unreadable // which the ledger has as undecodable
	}
	rows, hash := in.sum.Sum()
	st := record.Stage{Name: "warc", Out: rows, OutHash: hash.String()}
	if rows > 0 {
		st.Made = []record.Count{{Reason: "reply", N: rows}}
	}
	for _, reason := range []string{string(canon.ReasonInvalid), string(canon.ReasonScheme), string(canon.ReasonTooLong), ReasonUndecodable, "damaged"} {
		if n := in.bad[reason]; n > 0 {
			st.Refused = append(st.Refused, record.Count{Reason: reason, N: n})
		}
	}
	in.end = record.Trailer{Verified: true, Rows: rows, Hash: hash, Ledger: record.Ledger{Stages: []record.Stage{st}}}
}
