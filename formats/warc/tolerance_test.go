package warc

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/dict"
	"github.com/klauspost/compress/gzip"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// gzipped is one gzip member.
func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

// reply is a response record as others write it, with some of its text replaced.
func reply(n int, replace ...string) string {
	block := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/%d>x</a>", n)
	text := fmt.Sprintf("WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-%012d>\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"+
		"WARC-Target-URI: http://e.example/%d\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", n, n, len(block), block)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			panic(replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

const arcBody = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>hello</p>"

// arcFile has a description, a reply, a name and a document without a head.
func arcFile(version int) (parts []string) {
	names, rest := "URL IP-address Archive-date Content-type Archive-length", ""
	if version == 2 {
		names, rest = "URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length", " 200 - - 0 x.arc"
	}
	for _, r := range [][2]string{
		{"filedesc://x.arc 0.0.0.0 19970102030405 text/plain", fmt.Sprintf("%d 0 Somebody\n%s\n", version, names)},
		{"http://e.example/a b 192.0.2.1 19970102030406 text/html; charset=x", arcBody},
		{"dns:e.example 192.0.2.2 19970102030407 text/dns", "19970102030407\ne.example. 1 IN A 192.0.2.1\n"},
		{"http://e.example/old 192.0.2.1 19970102030408 text/html", "<p>without a head</p>"},
	} {
		parts = append(parts, fmt.Sprintf("%s%s %d\n%s\n", r[0], rest, len(r[1]), r[1]))
	}
	return parts
}

// other is an archive as another program may have written it.
type other struct {
	name  string // the rule of SPEC.md that it is a vector of, and its file
	bytes string
	gives string // the last part of each target, or the type where there is none
	odd   string // part of what is told; "": nothing is
	skips uint64
	loose bool // compressed: the bytes hold for one version of the library
}

func otherArchives() []other {
	a, b, c := reply(1), reply(2), reply(3)
	end := "\r\n\r\n"
	cut := strings.TrimSuffix
	flip := func(s string, at int) string { return s[:at] + string(s[at]^0xff) + s[at+1:] }
	long := "X: " + strings.Repeat("x", 70<<10) + "\r\nWARC-Date"
	z := gzipped
	arc1, arc2 := arcFile(1), arcFile(2)
	all := []other{
		{name: "A1-0.17.warc", bytes: reply(1, "WARC/1.0", "WARC/0.17") + reply(2, "WARC/1.0", "WARC/0.17"), gives: "1 2", odd: "version 0.17"},
		{name: "A1-0.18.warc", bytes: reply(1, "WARC/1.0", "WARC/0.18") + b, gives: "1 2", odd: "version 0.18"},
		{name: "A1-2.0.warc", bytes: reply(1, "WARC/1.0", "WARC/2.0") + b, gives: "1 2", odd: "version 2.0"},

		{name: "A1-lower-case.warc", bytes: reply(1, "WARC/1.0", "warc/1.1") + b, gives: "1 2", odd: `version line "warc/1.1"`},
		{name: "A1-lower-case.warc.gz", bytes: z(a) + z(reply(2, "WARC/1.0", "Warc/1.0")), gives: "1 2", odd: `version line "Warc/1.0"`, loose: true},

		{name: "A2-one.warc", bytes: cut(a, "\r\n") + b, gives: "1 2", odd: `"\r\n" after the block`},
		{name: "A2-line-feed.warc", bytes: cut(a, end) + "\n" + b, gives: "1 2", odd: `"\n" after the block`},
		{name: "A2-three.warc", bytes: a + "\r\n" + b + "\r\n", gives: "1 2", odd: "line ends between records"},
		{name: "A2-none.warc", bytes: cut(a, end) + b, gives: "1 2", odd: `"" after the block`},
		{name: "A2-none-at-end.warc", bytes: a + cut(b, end), gives: "1 2", odd: `"" after the block`},
		{name: "A2-mixed.warc", bytes: cut(a, end) + "\n\r\n\n" + b, gives: "1 2", odd: `"\n\r\n\n" after the block`},
		{name: "A2-none.warc.gz", bytes: z(cut(a, end)) + z(b), gives: "1 2", odd: `"" after the block`, loose: true},

		{name: "A3-line-feeds.warc", bytes: lineFeeds(a) + b, gives: "1 2", odd: "without a carriage return"},
		{name: "A3-two-carriage-returns.warc", bytes: strings.Replace(a, "Z\r\n", "Z\r\r\n", 1) + b, gives: "1 2", odd: "several carriage returns"},
		{name: "A3-no-field.warc", bytes: reply(1, "WARC-Date", "some words\r\nWARC-Date") + b, gives: "1 2", odd: `header line "some words"`},
		{name: "A3-long.warc.gz", bytes: z(reply(1, "WARC-Date", long)) + z(b), gives: "1 2", odd: "a header of ", loose: true},

		{name: "A4-no-id.warc", bytes: reply(1, "WARC-Record-ID", "X-ID") + b, gives: "1 2", odd: "no WARC-Record-ID"},
		{name: "A4-no-date.warc", bytes: reply(1, "WARC-Date", "X-Date") + b, gives: "1 2", odd: "no WARC-Date"},
		{name: "A4-no-type.warc", bytes: reply(1, "WARC-Type", "X-Type") + b, gives: "1 2", odd: "no WARC-Type"},
		{name: "A4-two-targets.warc", bytes: reply(1, "Content-Type: app", "WARC-Target-URI: http://e.example/other\r\nContent-Type: app") + b, gives: "1 2", odd: "two fields WARC-Target-URI"},
		{name: "A4-two-dates.warc", bytes: reply(1, "Content-Type: app", "WARC-Date: 1999\r\nContent-Type: app") + b, gives: "1 2", odd: "two fields WARC-Date"},
		{name: "A4-two-lengths.warc", bytes: twice(a) + b, gives: "1 2", odd: "two fields Content-Length"},
		{name: "A4-second-length.warc", bytes: reply(1, "Content-Length: 60", "Content-Length: 61\r\nContent-Length: 60") + b, gives: "1 2", odd: "two fields Content-Length"},
		{name: "A4-second-length-longer.warc", bytes: reply(1, "Content-Length: 60", "Content-Length: 0\r\nContent-Length: 60\r\nContent-Length: 20") + b, gives: "1 2", odd: "two fields Content-Length"},
		{name: "A4-second-length.warc.gz", bytes: z(reply(1, "Content-Length: 60", "Content-Length: 90\r\nContent-Length: 60")) + z(b), gives: "1 2", odd: "two fields Content-Length", loose: true},
		{name: "A4-length-and-word.warc", bytes: reply(1, "Content-Length: 60", "Content-Length: many\r\nContent-Length: 60") + b, gives: "1 2", odd: "two fields Content-Length"},

		{name: "A5-digits.warc", bytes: reply(1, "2020-01-02T03:04:05Z", "20200102030405") + b, gives: "1 2", odd: `WARC-Date "20200102030405"`},
		{name: "A5-clueweb.warc", bytes: reply(1, "2020-01-02T03:04:05Z", "2009-03-65T08:43:19-0800") + b, gives: "1 2", odd: `WARC-Date "2009-03-65`},
		{name: "A5-none.warc", bytes: reply(1, "2020-01-02T03:04:05Z", "yesterday") + b, gives: "1 2", odd: `WARC-Date "yesterday"`},

		{name: "A6-empty.warc.gz", bytes: z(a) + z("") + z(b) + z(""), gives: "1 2", odd: "an empty gzip member", loose: true},
		{name: "A6-line-ends.warc.gz", bytes: z(cut(a, end)) + z(end) + z(b), gives: "1 2", odd: "an empty gzip member", loose: true},
		{name: "A6-whole.warc.gz", bytes: z(a + b + c), gives: "1 2 3", odd: "several records", loose: true},
		{name: "A6-split.warc.gz", bytes: z(a[:40]) + z(a[40:300]) + z(a[300:]) + z(b), gives: "1 2", odd: "a record in several gzip members", loose: true},
		{name: "A6-padding.warc.gz", bytes: z(a) + strings.Repeat("\x00", 512) + z(b) + strings.Repeat("\x00", 100), gives: "1 2", odd: "zero bytes", loose: true},
		{name: "A6-line-ends-between.warc.gz", bytes: z(a) + end + z(b), gives: "1 2", odd: "line ends between records", loose: true},
		{name: "A6-skippable.warc.zst", bytes: string(zstdEncoder().EncodeAll([]byte(a), nil)) + "\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + string(zstdEncoder().EncodeAll([]byte(b), nil)), gives: "1 2", odd: "a skippable frame", loose: true},

		{name: "A7-version-1.arc", bytes: strings.Join(arc1, ""), gives: "warcinfo:x.arc response:a b resource:dns:e.example resource:old"},
		{name: "A7-version-2.arc", bytes: strings.Join(arc2, ""), gives: "warcinfo:x.arc response:a b resource:dns:e.example resource:old"},
		{name: "A7-gzip.arc.gz", bytes: z(arc1[0]) + z(arc1[1]) + z(arc1[2]) + z(arc1[3]), gives: "warcinfo:x.arc response:a b resource:dns:e.example resource:old", loose: true},
		{name: "A7-whole.arc.gz", bytes: z(strings.Join(arc1, "")), gives: "warcinfo:x.arc response:a b resource:dns:e.example resource:old", odd: "several records", loose: true},
		{name: "A7-no-end.arc", bytes: arc1[0] + strings.TrimSuffix(arc1[1], "\n") + arc1[2] + "\n\n" + strings.TrimSuffix(arc1[3], "\n"), gives: "warcinfo:x.arc response:a b resource:dns:e.example resource:old"},
		{name: "A7-dashes.arc", bytes: strings.Replace(arc1[0], "0.0.0.0 19970102030405", "- -", 1) + arc1[1], gives: "warcinfo:x.arc response:a b"},
		{name: "A7-no-length.arc", bytes: "filedesc://x.arc a.b.c.d monday one" + arc1[0][strings.IndexByte(arc1[0], '\n'):] + arc1[1], gives: "response:a b", odd: "after the block", skips: 1},
		{name: "A7-damaged.arc", bytes: arc1[0] + strings.Replace(arc1[1], " 56\n", " 50\n", 1) + arc1[2], gives: "warcinfo:x.arc resource:dns:e.example", odd: "after the block", skips: 1},

		{name: "A8-cut.warc", bytes: a + b + c[:len(c)-20], gives: "1 2", odd: "file ends inside the record", skips: 1},
		{name: "A8-cut.warc.gz", bytes: z(a) + z(b) + z(c)[:60], gives: "1 2", odd: "file ends inside the record", skips: 1, loose: true},
		{name: "A8-cut-short-member.warc.gz", bytes: z(a) + z(b[:len(b)-20]) + z(c), gives: "1 3", odd: "gzip member ends inside the record", skips: 1, loose: true},
		{name: "A8-data.warc.gz", bytes: z(a) + flip(z(b), 40) + z(c), gives: "1 3", odd: "gzip: ", skips: 1, loose: true},
		{name: "A8-checksum.warc.gz", bytes: z(a) + flip(z(b), len(z(b))-8) + z(c), gives: "1 3", odd: "gzip: ", skips: 1, loose: true},
		{name: "A8-magic.warc.gz", bytes: z(a) + flip(z(b), 0) + z(c), gives: "1 3", odd: `want "WARC/"`, skips: 1, loose: true},
		{name: "A8-first.warc.gz", bytes: flip(z(a), 0) + z(b) + z(c), gives: "2 3", odd: `want "WARC/"`, skips: 1, loose: true},
		{name: "A8-garbage.warc.gz", bytes: z(a) + z(b) + "garbage", gives: "1 2", odd: `want "WARC/"`, skips: 1, loose: true},
		{name: "A8-frame.warc.zst", bytes: string(zstdEncoder().EncodeAll([]byte(a), nil)) + flip(string(zstdEncoder().EncodeAll([]byte(b), nil)), 60) + string(zstdEncoder().EncodeAll([]byte(c), nil)), gives: "1 3", odd: "zstd: ", skips: 1, loose: true},
		{name: "A8-length-short.warc", bytes: a + reply(2, "Content-Length: 60", "Content-Length: 57") + c, gives: "1 3", odd: "after the block", skips: 1},
		{name: "A8-length-long.warc", bytes: a + reply(2, "Content-Length: 60", "Content-Length: 90") + c, gives: "1 3", odd: "after the block", skips: 1},
		{name: "A8-no-length.warc", bytes: a + reply(2, "Content-Length", "X-Length") + c, gives: "1 3", odd: "no Content-Length", skips: 1},
		{name: "A8-version-line.warc", bytes: a + reply(2, "WARC/1.0", "WORC/1.0") + c, gives: "1 3", odd: `want "WARC/"`, skips: 1},
	}
	return all
}

// lineFeeds is a record with line feeds alone in its header.
func lineFeeds(rec string) string {
	head, rest, _ := strings.Cut(rec, "\r\n\r\n")
	return strings.ReplaceAll(head, "\r\n", "\n") + "\n\n" + rest
}

// twice has the field Content-Length twice, in the same form.
func twice(rec string) string {
	at := strings.Index(rec, "Content-Length")
	line := rec[at:][:strings.Index(rec[at:], "\r\n")+2]
	return rec[:at] + line + rec[at:]
}

// readTolerant reads a file to its end. An ARC file's records have their type before the target.
func readTolerant(in io.Reader, opt ReaderOptions) (gives string, told []string, err error) {
	opt.Tolerance.Say = func(line string) { told = append(told, line) }
	r := NewReader(in, opt)
	defer r.Close()
	var names []string
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return strings.Join(names, " "), told, nil
		}
		if err != nil {
			return strings.Join(names, " "), told, err
		}
		name := rec.TargetURI[strings.LastIndexByte(rec.TargetURI, '/')+1:]
		if rec.ARC {
			name = rec.Type + ":" + name
		}
		switch err := r.Finish(); {
		case err == nil:
			names = append(names, name)
		case !r.Damaged(err):
			return strings.Join(names, " "), told, err
		}
	}
}

// TestOthers: archives of other programs are read as far as they can be, and SPEC.md lists their forms.
func TestOthers(t *testing.T) {
	page, err := os.ReadFile("SPEC.md")
	must.OK(t, err)
	var listed []string
	for _, m := range regexp.MustCompile("`(A[0-9]+-[^`]+)`").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	for _, o := range otherArchives() {
		t.Run(o.name, func(t *testing.T) {
			if !slices.Contains(listed, o.name) {
				t.Errorf("SPEC.md does not name it")
			}
			path := filepath.Join("testdata", "other", o.name)
			file, err := os.ReadFile(path)
			if flag.Lookup("update").Value.String() == "true" && (err != nil || !o.loose) {
				file = []byte(o.bytes)
				if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
					err = os.WriteFile(path, file, 0o666)
				}
			}
			must.OK(t, err)
			if !o.loose && string(file) != o.bytes {
				t.Error("the file is not that of the test: go test -update writes it")
			}
			for _, small := range []bool{false, true} {
				lax := &Tolerance{}
				var in io.Reader = bytes.NewReader(file)
				if small {
					in = iotestHalf(in)
				}
				gives, told, err := readTolerant(in, ReaderOptions{Name: "f", Tolerance: lax})
				if err != nil || gives != o.gives || lax.Skipped != o.skips {
					t.Errorf("%q, %d skipped, %v, want %q, %d; %q", gives, lax.Skipped, err, o.gives, o.skips, told)
				}
				if all := strings.Join(told, "\n"); !strings.Contains(all, o.odd) || (o.odd == "") != (all == "") {
					t.Errorf("told %q, want %q", told, o.odd)
				}
				if (lax.Err() != nil) != (o.skips > 0) || o.skips > 0 && fault.ClassOf(lax.Err()).ExitCode() != 3 {
					t.Errorf("in the end %v", lax.Err())
				}
				strict := &Tolerance{Strict: true}
				if _, _, err := readTolerant(bytes.NewReader(file), ReaderOptions{Name: "f", Tolerance: strict}); (err != nil) != (o.skips > 0) || strict.Skipped > 0 {
					t.Errorf("strictly %v", err)
				}
			}
			if o.odd != "" && !strings.Contains(o.name, "A7") && !strings.HasSuffix(o.name, "A5-none.warc") {
				if _, err := readTypes("f", file); err == nil && !strings.HasPrefix(o.name, "A4-no-") {
					t.Error("the strict reader takes it")
				}
			}
		})
	}
	for _, name := range listed {
		if !slices.ContainsFunc(otherArchives(), func(o other) bool { return o.name == name }) {
			t.Errorf("%s is no vector of this test", name)
		}
	}
}

// iotestHalf gives few bytes at a time.
func iotestHalf(in io.Reader) io.Reader { return &fewBytes{in} }

type fewBytes struct{ in io.Reader }

func (f *fewBytes) Read(p []byte) (int, error) { return f.in.Read(p[:min(len(p), 7)]) }

func TestLooseDate(t *testing.T) {
	for text, want := range map[string]string{
		"20200102030405":                "2020-01-02T03:04:05Z",
		"20200102":                      "2020-01-02T00:00:00Z",
		"202001020304":                  "2020-01-02T03:04:00Z",
		"20200102030405123":             "2020-01-02T03:04:05Z",
		"2020-01-02T03:04:05":           "2020-01-02T03:04:05Z",
		"2020-01-02 03:04:05":           "2020-01-02T03:04:05Z",
		"2020-01-02T03:04:05.5":         "2020-01-02T03:04:05.5Z",
		"2020-01-02T03:04:05.5Z":        "2020-01-02T03:04:05.5Z",
		"2020-01-02T03:04:05+0100":      "2020-01-02T02:04:05Z",
		"2020-01-02T03:04:05-08:00":     "2020-01-02T11:04:05Z",
		"2016-12-31T23:59:60Z":          "2017-01-01T00:00:00Z",
		"2016-12-31T24:00:00Z":          "2017-01-01T00:00:00Z",
		"2009-03-65T08:43:19-0800":      "2009-03-06T16:43:19Z",
		"2008-10-294T05:21:46-0700":     "2008-10-20T12:21:46Z",
		"2020-01":                       "2020-01-01T00:00:00Z",
		"2020":                          "2020-01-01T00:00:00Z",
		"2020-1-2T3:4:5Z":               "2020-01-02T03:04:05Z",
		"Thu, 02 Jan 2020 03:04:05 GMT": "2020-01-02T03:04:05Z",
		"":                              "",
		"yesterday":                     "",
		"0000-01-01T00:00:00Z":          "",
		"2020-13-01T00:00:00Z":          "",
		"2020-02-30T00:00:00Z":          "",
		"2020-02-294T00:00:00Z":         "",
		"2020-01-02T03:04:61Z":          "",
		"2020-01-02T03:04:05Zx":         "",
		"2020-01-02T03:04:05+1":         "",
	} {
		t.Run(text, func(t *testing.T) {
			got, ok := looseDate(text)
			if ok != (want != "") || ok && got.Format(time.RFC3339Nano) != want {
				t.Errorf("%q: %v %v, want %q", text, got, ok, want)
			}
		})
	}
}

func TestParseARC(t *testing.T) {
	for line, want := range map[string]arcLine{
		"http://e.example/ 192.0.2.1 19970102030405 text/html 12":                        {url: "http://e.example/", ip: "192.0.2.1", media: "text/html", length: 12},
		"http://e.example/a b c 192.0.2.1 19970102030405 text/html; charset=x 12":        {url: "http://e.example/a b c", ip: "192.0.2.1", media: "text/html; charset=x", length: 12},
		"http://e.example/ 2001:db8::1 19970102030405 no-type 0":                         {url: "http://e.example/", ip: "2001:db8::1", media: "no-type", length: 0},
		"http://e.example/ 192.0.2.1 19970102030405 text/html 404 abc - 123 x.arc.gz 12": {url: "http://e.example/", ip: "192.0.2.1", media: "text/html", length: 12},
		"http://e.example/ - 19970102030405  12":                                         {url: "http://e.example/", ip: "-", length: 12},
	} {
		t.Run(line, func(t *testing.T) {
			got, ok := parseARC(line)
			got.date = time.Time{}
			if !ok || got != want {
				t.Errorf("%q: %+v, %v", line, got, ok)
			}
		})
	}
	for _, line := range []string{"", "WARC/1.0", "http://e.example/", "http://e.example/ 192.0.2.1 19970102030405 text/html abc", "GET / HTTP/1.0", "a b c d 5", "Date: 1 2 19970102030405 3"} {
		if got, ok := parseARC(line); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// testDictionary is one of replies.
var testDictionary = sync.OnceValue(func() []byte {
	var pages [][]byte
	for n := range 200 {
		pages = append(pages, []byte(reply(n)))
	}
	d, err := dict.BuildZstdDict(pages, dict.Options{MaxDictSize: 4 << 10, HashBytes: 6, ZstdDictID: 77})
	if err != nil {
		panic(err)
	}
	return d
})

// TestDictionary: a file that begins with a dictionary is read from front to end and from any record; records become smaller.
func TestDictionary(t *testing.T) {
	content := testDictionary()
	d, err := NewDictionary(content)
	must.OK(t, err)
	plain := append(append([]byte{0x5d, 0x2a, 0x4d, 0x18}, byte(len(content)), byte(len(content)>>8), 0, 0), content...)
	for name, front := range map[string][]byte{"compressed": d.Frame(), "plain": plain} {
		t.Run(name, func(t *testing.T) {
			file, starts := bytes.Clone(front), []int{}
			without := 0
			for n := range 5 {
				block := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/%d>x</a>", n)
				rec := func() *Record {
					return &Record{Type: TypeResponse, TargetURI: fmt.Sprint("http://e.example/", n), Date: testDate, ContentType: MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
				}
				starts = append(starts, len(file))
				file, err = (Encoder{Codec: Zstd, Dictionary: d}).Append(file, rec())
				must.OK(t, err)
				b, err := Encoder{Codec: Zstd}.Append(nil, rec())
				must.OK(t, err)
				without += len(b)
			}
			if with := len(file) - len(front); with > without*3/4 {
				t.Errorf("%d bytes with the dictionary, %d without", with, without)
			}
			for _, lax := range []*Tolerance{nil, {}} {
				all, good, err := readAll(bytes.NewReader(file), ReaderOptions{Name: "f", Tolerance: lax})
				if err != nil || len(all) != 5 || good != int64(len(file)) {
					t.Errorf("%d records, %d of %d bytes, %v", len(all), good, len(file), err)
				}
				for n := len(starts) - 1; n >= 0; n-- {
					rec, r, err := OpenAt(bytes.NewReader(file), int64(starts[n]), 0, ReaderOptions{Name: "f", Tolerance: lax})
					if err != nil || rec.TargetURI != fmt.Sprint("http://e.example/", n) {
						t.Fatalf("record %d: %v", n, err)
					}
					if err := r.Finish(); err != nil {
						t.Errorf("record %d: %v", n, err)
					}
					r.Close()
				}
			}
			// Without its front the file has no dictionary.
			if _, _, err := readAll(bytes.NewReader(file[len(front):]), ReaderOptions{Name: "f"}); !errors.Is(err, fault.Version) {
				t.Errorf("without the dictionary: %v", err)
			}
			if !Sniff(file[:min(len(file), frontMax)]) {
				t.Error("not seen to be an archive")
			}
		})
	}
	for name, content := range map[string][]byte{"empty": nil, "text": []byte("no dictionary"), "damaged": append(bytes.Clone(content[:8]), 0xff, 0xff, 0xff), "large": append(bytes.Clone(content), make([]byte, DictionaryMax)...)} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewDictionary(content); fault.ClassOf(err).ExitCode() != 3 {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestMisfit: a zstd frame that cannot be decoded is no record stream, but for a file that is called so.
func TestMisfit(t *testing.T) {
	frame := string(zstdEncoder().EncodeAll([]byte("\xff\xff\xff\xff some words and more of them"), nil))
	for name, c := range map[string]struct{ front, file, want, hint string }{
		"damaged header":        {"\x28\xb5\x2f\xfd\xff\xff\xff\xff", "f", "f: a damaged zstd frame, want an archive", ""},
		"damaged data":          {"\x28\xb5\x2f\xfd\x24\x08\x00\x01garbagegarbage", "f", "f: a damaged zstd frame, want an archive", ""},
		"cut":                   {frame[:12], "f", "", ""},
		"dictionary":            {"\x28\xb5\x2f\xfd\x21\x09\x05\x00\x00\x00\x00\x00", "f", "f: a zstd frame that needs dictionary 9, want an archive", ""},
		"window":                {"\x28\xb5\x2f\xfd\x00\x88\x09\x00\x00a", "f", "f: a zstd frame with a window of 134217728 bytes, above 8388608, want an archive", "zstd -dc --long=31 f | mcat"},
		"record stream":         {frame, "f", "", ""},
		"damaged record stream": {"\x28\xb5\x2f\xfd\xff\xff\xff\xff", "f.arrows.zst", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, hint := "", ""
			if err := Misfit([]byte(c.front), c.file, "an archive"); err != nil {
				got, hint = err.Error(), err.(*fault.Error).Hint
			}
			if got != c.want || hint != c.hint {
				t.Errorf("%q, hint %q, want %q, %q", got, hint, c.want, c.hint)
			}
		})
	}
}

func TestSniffAndDescribe(t *testing.T) {
	a := reply(1)
	frame := func(text string) string { return string(zstdEncoder().EncodeAll([]byte(text), nil)) }
	random := rand.New(rand.NewPCG(1, 2))
	noise := []byte("WARC/1.0\r\n")
	for len(noise) < 90<<10 {
		noise = append(noise, byte(random.Uint32()))
	}
	for name, c := range map[string]struct {
		file string
		is   bool
		what string
	}{
		"warc":                        {a, true, ""},
		"warc.gz":                     {gzipped(a), true, ""},
		"warc.zst":                    {string(zstdEncoder().EncodeAll([]byte(a), nil)), true, ""},
		"arc":                         {arcFile(1)[0], true, ""},
		"arc without its description": {arcFile(1)[1], true, ""},
		"arc.gz":                      {gzipped(arcFile(1)[0]), true, ""},
		"empty members":               {gzipped("") + gzipped(a), true, ""},
		"damaged gzip":                {gzipped(a)[:12], true, ""},
		"gzip of HTML":                {gzipped("<!DOCTYPE html><p>"), false, "gzip of HTML"},
		"gzip twice":                  {gzipped(gzipped(a)), false, "gzip of gzip of an archive"},
		"gzip of gzip of JSON":        {gzipped(gzipped("{}")), false, "gzip of gzip of JSON"},
		"gzip of words":               {gzipped("some words"), false, `gzip of "some words"`},
		"zip":                         {"PK\x03\x04abc", false, "a ZIP file"},
		"lz4":                         {"\x04\x22\x4d\x18abc", false, "an LZ4 file"},
		"pdf":                         {"%PDF-1.7", false, "a PDF file"},
		"reply":                       {"HTTP/1.1 200 OK\r\n\r\n", false, "an HTTP reply without a WARC header"},
		"zstd of words":               {frame("some words"), false, `zstd of "some words"`},
		"zstd of HTML":                {frame("<html>"), false, "zstd of HTML"},
		"record stream":               {frame("\xff\xff\xff\xff\x10\x00\x00\x00"), false, ""},
		"large first record":          {frame(string(noise))[:40<<10], true, ""}, // nothing of the record can be decoded yet
		"nothing":                     {"", false, ""},
		"words":                       {"some words", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, what := Sniff([]byte(c.file)), Describe([]byte(c.file)); got != c.is || what != c.what {
				t.Errorf("%s: %v %q, want %v %q", name, got, what, c.is, c.what)
			}
		})
	}
	if hint := HintFor([]byte(gzipped(gzipped(a))), "x y.gz"); hint != "gzip -dc 'x y.gz' | mcat" {
		t.Error(hint)
	}
}

// TestNoArchive: a file without one record is named for what it is.
func TestNoArchive(t *testing.T) {
	_, _, err := readTolerant(strings.NewReader(gzipped("<html>"+strings.Repeat("x\n", 1000))), ReaderOptions{Name: "f", Tolerance: &Tolerance{}})
	if !errors.Is(err, fault.WrongKind) || !strings.Contains(err.Error(), "f: gzip of HTML, want WARC or ARC records") {
		t.Error(err)
	}
}

// TestResyncIsLinear: what looks like the beginning of a member everywhere is read a bounded number of times.
func TestResyncIsLinear(t *testing.T) {
	const n = 1 << 20
	stored := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x00\xff\xff\x00\x00WARC/1.0\r\n" // a stored block of 65535 bytes
	for name, unit := range map[string]string{
		"heads of gzip":      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
		"members that go on": stored,
		"empty members":      gzipped(""),
		"members of text":    gzipped("text"),
		"version lines":      "WARC/1.0\r\n",
		"headers":            "WARC/1.0\r\nContent-Length: 1000000\r\n\r\n",
		"lines of ARC":       "http://e.example/ 192.0.2.1 19970102030405 text/html 100000\n",
		"frames":             "\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00",
		"line ends":          "\r\n",
		"zero bytes":         "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			file := gzipped(reply(1)) + strings.Repeat(unit, n/len(unit))
			lax := &Tolerance{}
			r := NewReader(strings.NewReader(file), ReaderOptions{Name: "f", Tolerance: lax})
			defer r.Close()
			for {
				if _, err := r.Next(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if r.src.reread > int64(len(file))+rereadFree || r.src.top != int64(len(file)) {
				t.Errorf("%d of %d bytes read, %d again", r.src.top, len(file), r.src.reread)
			}
		})
	}
}

// TestPipeAsFile: a pipe gives what a file gives. A file is read again; of a pipe the last bytes are copied.
func TestPipeAsFile(t *testing.T) {
	var file strings.Builder
	for n := range 15 { // which may be read again
		file.WriteString(reply(n))
		file.WriteString("WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("x\n", 15_000+n) + "\r\n\r\n") // too long
	}
	read := func(in io.Reader) string {
		r := NewReader(in, ReaderOptions{Name: "f", Tolerance: &Tolerance{}})
		defer r.Close()
		all := ""
		for {
			rec, err := r.Next()
			if err != nil {
				return fmt.Sprint(all, err)
			}
			_, err = io.Copy(io.Discard, rec.Block)
			all += fmt.Sprintln(rec.Offset, rec.Length, err)
		}
	}
	want, got := read(strings.NewReader(file.String())), read(struct{ io.Reader }{strings.NewReader(file.String())})
	if got != want || strings.Count(want, "\n") < 15 {
		t.Errorf("pipe: %s\nfile: %s", got, want)
	}
}

// TestToleranceMemory: it does not grow with the file.
func TestToleranceMemory(t *testing.T) {
	file := strings.Repeat(gzipped(reply(1))+gzipped("garbage"), 30_000)
	var before, after runtime.MemStats
	lax := &Tolerance{}
	r := NewReader(strings.NewReader(file), ReaderOptions{Name: "f", Tolerance: lax})
	defer r.Close()
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for ; ; n++ {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); n != 30_000 || lax.Skipped != 30_000 || grown > 2<<20 {
		t.Errorf("%d records, %d skipped, %d bytes more", n, lax.Skipped, grown)
	}
}

// undecodable are files of frames that nobody can decode.
func undecodable(t testing.TB) map[string]string {
	d, err := NewDictionary(testDictionary())
	must.OK(t, err)
	var frames []byte
	for range 3 {
		block := "HTTP/1.1 200 OK\r\n\r\ntext"
		rec := &Record{Type: TypeResource, Date: testDate, Block: strings.NewReader(block), Length: int64(len(block))}
		frames, err = (Encoder{Codec: Zstd, Dictionary: d}).Append(frames, rec)
		must.OK(t, err)
	}
	return map[string]string{
		"damaged frame header": "\x28\xb5\x2f\xfd\xff\xff\xff\xff",
		fmt.Sprintf("a frame that needs dictionary %d, which is not in the file", d.id): string(frames),
		"want a dictionary of zstd":             "\x5d\x2a\x4d\x18\x04\x00\x00\x00none" + string(frames),
		"a dictionary that does not decompress": "\x5d\x2a\x4d\x18\x08\x00\x00\x00\x28\xb5\x2f\xfd\xff\xff\xff\xff" + string(frames),
		"file ends inside the record":           string(frames[:4]),
	}
}

// TestUndecodable: frames that cannot be decoded are passed over, alone and between records.
func TestUndecodable(t *testing.T) {
	for want, file := range undecodable(t) {
		t.Run("alone: "+want, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(file), iotestHalf(strings.NewReader(file))} {
				tol := &Tolerance{}
				r := NewReader(in, ReaderOptions{Name: "f", Tolerance: tol})
				defer r.Close()
				if rec, err := r.Next(); fault.ClassOf(err).ExitCode() != 3 || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, %v", rec, err)
				}
			}
		})
		t.Run("between: "+want, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(gzipped(reply(1)) + file + gzipped(reply(2))), iotestHalf(strings.NewReader(gzipped(reply(1)) + file + gzipped(reply(2))))} {
				tol := &Tolerance{}
				if _, _, err := readTolerant(in, ReaderOptions{Name: "f", Tolerance: tol}); err != nil || tol.Records != 2 || tol.Skipped == 0 {
					t.Errorf("%v, %+v", err, tol)
				}
			}
		})
	}
}

func FuzzTolerance(f *testing.F) {
	for _, file := range undecodable(f) {
		f.Add([]byte(file))
	}
	for _, o := range otherArchives() {
		f.Add([]byte(o.bytes))
	}
	f.Add([]byte("\x5d\x2a\x4d\x18\x04\x00\x00\x00\x37\xa4\x30\xec"))
	f.Fuzz(func(t *testing.T, file []byte) {
		lax := &Tolerance{}
		r := NewReader(bytes.NewReader(file), ReaderOptions{Name: "f", Verify: true, Tolerance: lax})
		defer r.Close()
		for last := int64(-1); ; {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				if fault.ClassOf(err) == "" {
					t.Fatalf("error without a class: %v", err)
				}
				break
			}
			if rec.Offset < last {
				t.Fatalf("record at %d after one at %d", rec.Offset, last)
			}
			last = rec.Offset
			if _, err := io.Copy(io.Discard, io.LimitReader(rec.Block, 1<<20)); err != nil && !r.Damaged(err) {
				t.Fatal(err)
			}
		}
		if r.src.reread > int64(len(file))+rereadFree || len(r.src.past) > pastMax {
			t.Fatalf("%d bytes read again, %d kept", r.src.reread, len(r.src.past))
		}
	})
}

func FuzzDictionary(f *testing.F) {
	content := testDictionary()
	f.Add(content, []byte("text"))
	f.Fuzz(func(t *testing.T, content, text []byte) {
		d, err := NewDictionary(content)
		if err != nil {
			return
		}
		rec := &Record{Type: TypeResource, Date: testDate, Block: bytes.NewReader(text), Length: int64(len(text))}
		file, err := Encoder{Codec: Zstd, Dictionary: d}.Append(d.Frame(), rec)
		if err != nil {
			return
		}
		r := NewReader(bytes.NewReader(file), ReaderOptions{Name: "f"})
		defer r.Close()
		got, err := r.Next()
		must.OK(t, err)
		if b, err := io.ReadAll(got.Block); err != nil || !bytes.Equal(b, text) {
			t.Fatalf("%q, %v", b, err)
		}
	})
}
