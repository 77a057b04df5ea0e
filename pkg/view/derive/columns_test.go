package derive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/charmap"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/web/httpmsg"
)

// TestOutcomeColumns has the names of Common Crawl's index in its order, and what its documentation says of each for made rows.
func TestOutcomeColumns(t *testing.T) {
	const names = "url_surtkey url url_host_name url_host_tld url_host_2nd_last_part url_host_3rd_last_part url_host_4th_last_part url_host_5th_last_part " +
		"url_host_registry_suffix url_host_registered_domain url_host_private_suffix url_host_private_domain url_host_name_reversed url_protocol url_port url_path url_query " +
		"fetch_time fetch_status fetch_redirect content_digest content_mime_type content_mime_detected content_charset content_languages content_truncated " +
		"warc_filename warc_record_offset warc_record_length warc_segment crawl subset title language redirect_final"
	table := outcomeTable(nil, new(string))
	var have []string
	for _, c := range table.Columns {
		have = append(have, c.Name)
	}
	if got := strings.Join(have, " "); got != names {
		t.Errorf("columns %s", got)
	}
	reply := record.Fetch{Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", Charset: "utf8", PayloadSHA1: "ABC", WARCFilename: "w"}
	at := func(url string, change func(*record.Fetch)) *record.Fetch {
		row := reply
		row.URL = url
		change(&row)
		return &row
	}
	same := func(*record.Fetch) {}
	for label, want := range map[string]string{"": "", "utf-8": "UTF-8", "utf8": "UTF-8", "latin1": "ISO-8859-1", "windows-1251": "windows-1251", "shift_jis": "Shift_JIS", "gbk": "GBK",
		"x-user-defined": "x-user-defined", "replacement": "replacement", "\x00": "\x00"} {
		t.Run(label, func(t *testing.T) {
			if got := charsetOf(label); got != want {
				t.Errorf("charset %q: %q, want %q", label, got, want)
			}
		})
	}
	for _, c := range []struct {
		row  *record.Fetch
		file string
		want string // names and values of made columns that are not null
	}{
		{at("https://www.a.b.bbc.co.uk:8443/A/?q=1&a", same), "/x/my/rounds/r2/marked.arrows.zst",
			"url_surtkey=uk,co,bbc,b,a:8443)/a?a&q=1 url_host_name=www.a.b.bbc.co.uk url_host_tld=uk url_host_2nd_last_part=co url_host_3rd_last_part=bbc url_host_4th_last_part=b url_host_5th_last_part=a " +
				"url_host_registry_suffix=co.uk url_host_registered_domain=bbc.co.uk url_host_private_suffix=co.uk url_host_private_domain=bbc.co.uk url_host_name_reversed=uk.co.bbc.b.a.www " +
				"url_protocol=https url_port=8443 url_path=/A/ url_query=q=1&a fetch_status=200 content_digest=ABC content_mime_type=text/html warc_segment=r2 crawl=my subset=warc"},
		{at("http://10.0.0.1/x", func(r *record.Fetch) {
			r.Status, r.RedirectURL, r.Charset, r.Truncated = 301, "http://h/", "none", "length"
		}), "marked.arrows.zst",
			"url_surtkey=1,0,0,10)/x url_host_name=10.0.0.1 url_protocol=http url_path=/x fetch_status=301 fetch_redirect=http://h/ content_digest=ABC content_mime_type=text/html " +
				"content_truncated=length warc_segment=r2 subset=crawldiagnostics"},
		{at("http://anna.github.io/robots.txt", func(r *record.Fetch) { r.Role = record.RoleRobots; r.Charset = "" }), "/my/rounds/r2/marked.arrows.zst",
			"url_surtkey=io,github,anna)/robots.txt url_host_name=anna.github.io url_host_tld=io url_host_2nd_last_part=github url_host_3rd_last_part=anna url_host_registry_suffix=io " +
				"url_host_registered_domain=github.io url_host_private_suffix=github.io url_host_private_domain=anna.github.io url_host_name_reversed=io.github.anna url_protocol=http " +
				"url_path=/robots.txt fetch_status=200 content_digest=ABC content_mime_type=text/html warc_segment=r2 crawl=my subset=robotstxt"},
		{&record.Fetch{URL: "http://[::1]:81/", Role: record.RolePage, Outcome: record.OutcomeConnect}, "-",
			"url_surtkey=::1:81)/ url_host_name=[::1] url_protocol=http url_port=81 url_path=/ fetch_status=0 warc_segment=r2"},
		{&record.Fetch{URL: "nothing like it", Role: record.RolePage, Outcome: record.OutcomeScheme, Status: 65535}, "-",
			"url_surtkey=nothing%20like%20it url_host_name= url_protocol=nothing like it url_path= fetch_status=32767 warc_segment=r2"},
	} {
		t.Run(c.row.URL, func(t *testing.T) {
			table.Row(c.row, c.file, "r2")
			var got []string
			for _, column := range table.Columns {
				var value any
				switch {
				case column.Text != nil && (*column.Text != "" || column.Required):
					value = *column.Text
				case column.Int16 != nil:
					value = *column.Int16
				case column.Int32 != nil && *column.Int32 != 0:
					value = *column.Int32
				}
				if value != nil {
					got = append(got, fmt.Sprintf("%s=%v", column.Name, value))
				}
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("%s:\n%s, want\n%s", c.row.URL, got, c.want)
			}
		})
	}
}

// TestDetected: what a document is does not go by its header.
func TestDetected(t *testing.T) {
	text := strings.Repeat("Größere Straßen führen schöne Menschen über die Brücke nach Hause, und niemand weiß, warum sie nicht schlafen. ", 20)
	latin1, err := charmap.ISO8859_1.NewEncoder().String(text)
	must.OK(t, err)
	greek, err := charmap.ISO8859_7.NewEncoder().String(strings.Repeat("Οι μεγάλοι δρόμοι οδηγούν τους ανθρώπους στο σπίτι τους πάνω από τη γέφυρα. ", 9))
	must.OK(t, err)
	crawl := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(crawl, "fetch"), 0o777))
	for name, c := range map[string]struct {
		head, body string
		want       found
	}{
		"a header that lies":    {"Content-Type: text/plain", "<!doctype html><html lang=de><meta charset=utf-8><title>Die\n Straße</title><p>" + text, found{"text/html", "UTF-8", "deu", "Die Straße", "de"}},
		"latin1 without a word": {"Content-Type: text/html; charset=utf-8", "<!doctype html><p>" + latin1, found{mime: "text/html", encoding: "windows-1252", languages: "deu"}},
		"greek by its header":   {"Content-Type: text/html; charset=iso-8859-7", "<!doctype html><title>\xc5\xeb\xeb\xe7\xed\xe9\xea\xdc</title>" + greek, found{"text/html", "ISO-8859-7", "ell", "Ελληνικά", ""}},
		"an image":              {"Content-Type: text/html", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", found{mime: "image/png"}},
	} {
		t.Run(name, func(t *testing.T) {
			block := "HTTP/1.1 200 OK\r\n" + c.head + "\r\n\r\n" + c.body
			rec := &warc.Record{Type: warc.TypeResponse, Date: time.Unix(1e9, 0), TargetURI: "http://h/", ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
			member, err := warc.Encoder{}.Append(nil, rec)
			if err == nil {
				err = os.WriteFile(filepath.Join(crawl, "fetch", name+".warc.gz"), member, 0o666)
			}
			must.OK(t, err)
			mime, charset := httpmsg.MediaType(strings.TrimPrefix(c.head, "Content-Type: "))
			row := &record.Fetch{URL: "http://h/", Outcome: record.OutcomeFetched, Status: 200, MIME: mime, Charset: charset, BodyLength: int64(len(c.body)), WARCFilename: name + ".warc.gz", WARCLength: int64(len(member))}
			d := &detector{}
			defer d.close()
			if got := d.detect(row, filepath.Join(crawl, "rounds", "r1", "marked.arrows.zst")); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			row.WARCFilename = "gone.warc.gz"
			if got := d.detect(row, filepath.Join(crawl, "rounds", "r1", "marked.arrows.zst")); got != (found{}) {
				t.Errorf("without the archive %q", got)
			}
		})
	}
}
