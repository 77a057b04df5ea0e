package derive

import (
	"context"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"

	"mercator/formats/record"
	"mercator/formats/record/parquet"
	"mercator/pkg/extract"
	"mercator/pkg/merge"
	"mercator/pkg/view/history"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/process"
)

// Outcomes writes files of fetch rows as one Parquet file that has the columns of Common Crawl's columnar index
// (cc-index-table, schema "flat"), with their names and types, before those that the index lacks. Queries written for it run
// unchanged. What is different:
//
//   - Each contact has a row, also where no reply came: crawl and subset are columns, and subset is null if no WARC record was
//     written, fetch_status is 0 if no reply came, and fetch_time is null if no server was contacted.
//   - warc_record_offset and warc_record_length have 64 bits: a WARC file here may be larger than 2 GiB.
//   - warc_segment is the round, warc_filename the name within the crawl's folder fetch, crawl the name of the crawl folder.
//   - content_mime_detected, content_charset and content_languages are made of the first 256 KiB of a document of status 200 in the archive of the
//     crawl folder that the file is in, whatever its header says; the language is the one of most of its text. They are null where the archive is not
//     there, and where nothing can be told.
//   - Behind them title and language are what a document says of itself, and redirect_final is where the redirects of a page end, by what became last of
//     each URL in the files, by the URL rules of the crawl; null where it is no redirect, or they have no end.
//   - A host under no public suffix has its last label as suffix.
//
// keep says which URLs are written; nil: all. redirect is as history.Finals has it. Some mem bytes are taken for sorting.
func Outcomes(ctx context.Context, out io.Writer, files []string, of Roles, keep func(url string) (bool, error), redirect history.Target, mem int64, progress func(n int64)) error {
	d := &detector{}
	defer d.close()
	final := ""
	table := outcomeTable(d, &final)
	write := func(finals func() (uint64, []byte, error)) error {
		page := uint64(0)
		next, last, ended := finals()
		table.Only = func(r *record.Fetch) (bool, error) { // gets each row
			final = ""
			if r.OfPage() {
				if ended == nil && next == page {
					final = string(last)
					next, last, ended = finals()
				}
				page++
			}
			if of == OfPages && !r.OfPage() || of == OfRobots && r.Role != record.RoleRobots {
				return false, nil
			}
			if keep == nil {
				return true, nil
			}
			return keep(r.URL)
		}
		return parquet.Files(ctx, out, files, table, progress)
	}
	if of == OfRobots {
		return write(func() (uint64, []byte, error) { return 0, nil, io.EOF })
	}
	return history.Finals(files, mem, redirect, func(it *merge.Iter) error { return write(it.Next) })
}

// Roles says which rows Outcomes writes.
type Roles int

// The rows of pages, those of robots.txt, or both.
const (
	OfAll Roles = iota
	OfPages
	OfRobots
)

// detector looks at the documents of rows.
type detector struct {
	crawl string // folder that documents is of; "": none
	from  *extract.Documents
}

const detectBody = 256 << 10 // bytes of a document that are looked at

func (d *detector) close() {
	if d.from != nil {
		d.from.Close()
	}
}

// found has what a document looks like, and what it says of itself; "" where nothing can be told.
type found struct{ mime, encoding, languages, title, language string }

// detect looks at the document of a row. encoding is the MIME name of its charset.
func (d *detector) detect(r *record.Fetch, file string) (f found) {
	if d == nil || r.Outcome != record.OutcomeFetched || r.Status != 200 || r.WARCFilename == "" || r.BodyLength <= 0 {
		return f
	}
	abs, err := filepath.Abs(file)
	rounds := filepath.Dir(filepath.Dir(abs))
	if err != nil || filepath.Base(rounds) != "rounds" {
		return f
	}
	if crawl := filepath.Dir(rounds); crawl != d.crawl || d.from == nil {
		d.close()
		d.crawl, d.from = crawl, extract.DocumentsOf(crawl, detectBody)
	}
	row := *r
	row.MIME, row.Charset = "", "" // what was said is in other columns
	doc, err := d.from.Read(&row)
	if err != nil || doc == nil { // mckpt verify tells of damage
		return f
	}
	if f.mime = doc.MIME; strings.HasPrefix(f.mime, "text/") || strings.Contains(f.mime, "xml") {
		f.encoding = charsetOf(doc.Charset)
	}
	doc.Charset = extract.ModuleCharset(&extract.Document{URL: r.URL, MIME: doc.MIME, Charset: r.Charset, Body: doc.Body}) // its words are read as links were
	if text, err := process.Text(doc, 0); err == nil && text != "" {
		f.languages = language(text)
	}
	head := process.About(doc)
	f.title, f.language = head.Title, head.Language
	return f
}

// outcomeTable is for one Writer: a row's values are in it, and where its redirects end in final.
func outcomeTable(d *detector, final *string) *parquet.Table[record.Fetch] {
	var surt, host, reversed, protocol, path, query, redirect, digest, mime, truncated, segment, crawl, subset string
	var seen found
	var parts [5]string // of the host, the last first
	var domains canon.Domains
	var port int32
	var status int16
	from := "" // the file of the row before
	return &parquet.Table[record.Fetch]{
		Columns: []parquet.Column{
			{Name: "url_surtkey", Text: &surt, Required: true},
			{Name: "url"},
			{Name: "url_host_name", Text: &host, Required: true},
			{Name: "url_host_tld", Text: &parts[0]},
			{Name: "url_host_2nd_last_part", Text: &parts[1]},
			{Name: "url_host_3rd_last_part", Text: &parts[2]},
			{Name: "url_host_4th_last_part", Text: &parts[3]},
			{Name: "url_host_5th_last_part", Text: &parts[4]},
			{Name: "url_host_registry_suffix", Text: &domains.RegistrySuffix},
			{Name: "url_host_registered_domain", Text: &domains.Registered},
			{Name: "url_host_private_suffix", Text: &domains.PrivateSuffix},
			{Name: "url_host_private_domain", Text: &domains.Private},
			{Name: "url_host_name_reversed", Text: &reversed},
			{Name: "url_protocol", Text: &protocol, Required: true},
			{Name: "url_port", Int32: &port},
			{Name: "url_path", Text: &path, Required: true},
			{Name: "url_query", Text: &query},
			{Name: "fetch_time"},
			{Name: "fetch_status", Int16: &status, Required: true},
			{Name: "fetch_redirect", Text: &redirect},
			{Name: "content_digest", Text: &digest},
			{Name: "content_mime_type", Text: &mime},
			{Name: "content_mime_detected", Text: &seen.mime},
			{Name: "content_charset", Text: &seen.encoding},
			{Name: "content_languages", Text: &seen.languages},
			{Name: "content_truncated", Text: &truncated},
			{Name: "warc_filename"},
			{Name: "warc_record_offset"},
			{Name: "warc_record_length"},
			{Name: "warc_segment", Text: &segment, Required: true},
			{Name: "crawl", Text: &crawl},
			{Name: "subset", Text: &subset},
			{Name: "title", Text: &seen.title},
			{Name: "language", Text: &seen.language},
			{Name: "redirect_final", Text: final},
		},
		Instead: []string{"status", "mime", "charset", "truncated", "payload_sha1", "redirect_url"},
		Row: func(r *record.Fetch, file, round string) {
			surt = canon.CDXKey(r.URL)
			scheme, hostPort, rest := canon.Split(r.URL)
			protocol = scheme
			path, query, _ = strings.Cut(rest, "?")
			name, digits := canon.SplitPort(hostPort)
			n, _ := strconv.ParseInt(digits, 10, 32) // 0: none
			port = int32(n)
			if name != host {
				host, domains = name, canon.DomainsOf(name)
				parts, reversed = partsOf(name, domains)
			}
			status = int16(min(r.Status, math.MaxInt16))
			redirect, digest, mime, truncated = r.RedirectURL, r.PayloadSHA1, r.MIME, r.Truncated
			segment, subset = round, subsetOf(r)
			seen = d.detect(r, file)
			if file != from {
				from, crawl = file, crawlOf(file)
			}
		},
	}
}

// partsOf are a host's last five labels, the last first, and all of them in this order. An address has none.
func partsOf(name string, domains canon.Domains) (parts [5]string, reversed string) {
	if domains == (canon.Domains{}) {
		return parts, ""
	}
	labels := strings.Split(name, ".")
	slices.Reverse(labels)
	copy(parts[:], labels)
	return parts, strings.Join(labels, ".")
}

// charsetOf is the MIME name of an encoding, such as ISO-8859-1 for latin1; the label as it is if IANA and browsers know no such encoding.
func charsetOf(label string) string {
	e, err := ianaindex.MIME.Encoding(label)
	if e == nil || err != nil {
		e, err = htmlindex.Get(label) // has utf8
	}
	if err != nil {
		return label
	}
	name, err := ianaindex.MIME.Name(e)
	if err != nil {
		return label
	}
	return name
}

// crawlOf is the name of the crawl folder of a file CRAWL/rounds/ROUND/…; "" if it is none.
func crawlOf(file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	rounds := filepath.Dir(filepath.Dir(abs))
	if filepath.Base(rounds) != "rounds" {
		return ""
	}
	return filepath.Base(filepath.Dir(rounds))
}

// subsetOf is where Common Crawl has a capture: documents, robots.txt, or replies that are no document.
func subsetOf(r *record.Fetch) string {
	switch {
	case r.WARCFilename == "":
		return ""
	case r.Role == record.RoleRobots:
		return "robotstxt"
	case r.Outcome == record.OutcomeFetched && r.Status == 200:
		return "warc"
	}
	return "crawldiagnostics"
}
