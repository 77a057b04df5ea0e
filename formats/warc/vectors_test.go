package warc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"net/http"
	"net/http/httptest"

	"mercator/pkg/fault"
)

var update = flag.Bool("update", false, "write testdata from the vectors in this file")

// vector is one file of testdata. Bad ones carry the rule that they break.
type vector struct {
	name  string
	bytes []byte // nil: made by another program, kept as it is
	types string // of a good one's records
	class error  // of a bad one
	says  string // part of its error
}

// example is the record of the worked example in SPEC.md.
func example() *Record {
	block := "HTTP/1.1 200 OK\r\n\r\nhello"
	rec := &Record{Type: TypeResponse, TargetURI: "http://example.com/", Date: testDate, ContentType: MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
	rec.Add(FieldPayloadDigest, "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N")
	return rec
}

func encoded(c Codec, recs ...*Record) []byte {
	var b []byte
	for _, rec := range recs {
		var err error
		if b, err = (Encoder{Codec: c, BlockDigest: true}).Append(b, rec); err != nil {
			panic(err)
		}
	}
	return b
}

func vectors() []vector {
	plain := string(encoded(None, example()))
	edit := func(old, new string) []byte {
		if strings.Count(plain, old) != 1 {
			panic(old)
		}
		return []byte(strings.Replace(plain, old, new, 1))
	}
	gz := encoded(Gzip, example())
	zs := encoded(Zstd, example())
	// member makes one gzip member or zstd frame of text.
	member := func(c Codec, text string) []byte {
		var b bytes.Buffer
		if c == Zstd {
			return zstdEncoder().EncodeAll([]byte(text), nil)
		}
		z := compressors.Get().(*compressor).gzip
		z.Reset(&b)
		z.Write([]byte(text))
		z.Close()
		return b.Bytes()
	}
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	long := strings.Repeat("x", 64<<10)
	bad := func(name string, class error, says string, b []byte) vector {
		return vector{name: "bad/" + name, bytes: b, class: class, says: says}
	}
	return []vector{
		{name: "good/01-example.warc", bytes: []byte(plain), types: "response"},
		{name: "good/02-gzip.warc.gz", bytes: encoded(Gzip, testRecords()...), types: "warcinfo request response metadata"},
		{name: "good/03-zstd.warc.zst", bytes: encoded(Zstd, testRecords()...), types: "warcinfo request response metadata"},
		{name: "good/04-empty.warc", bytes: []byte{}, types: ""},
		{name: "good/05-wget.warc.gz", types: "warcinfo request response request response metadata resource"},
		{name: "good/06-mixed.warc", bytes: append(append([]byte(plain), gz...), zs...), types: "response response response"},
		{name: "good/07-folded.warc", bytes: edit("Content-Type: application", "Content-Type:\r\n application"), types: "response"},
		{name: "good/08-version-1.0.warc", bytes: []byte(strings.NewReplacer("WARC/1.1", "WARC/1.0", "http://example.com/", "<http://example.com/>", ".123456Z", "Z").Replace(plain)), types: "response"},

		bad("R01-cut-in-version.warc", ErrTruncated, "record 1 at byte 0: file ends inside the record", []byte(plain[:7])),
		bad("R01-cut-in-header.warc", ErrTruncated, "file ends inside the record", []byte(plain[:60])),
		bad("R01-cut-in-block.warc", ErrTruncated, "file ends inside the record", []byte(plain[:len(plain)-6])),
		bad("R01-cut-in-end.warc", ErrTruncated, "file ends inside the record", []byte(plain[:len(plain)-1])),
		bad("R01-cut-in-member.warc.gz", ErrTruncated, "record 2 at byte", append(bytes.Clone(gz), gz[:len(gz)-3]...)),
		bad("R01-cut-in-frame.warc.zst", ErrTruncated, "record 2 at byte", append(bytes.Clone(zs), zs[:len(zs)-3]...)),
		bad("R02-not-warc.warc", ErrCorrupt, `want "WARC/", a gzip member or a zstd frame`, []byte("<html>")),
		bad("R03-version-2.warc", fault.Version, "version 2.0, want 1.0 or 1.1", edit("WARC/1.1", "WARC/2.0")),
		bad("R03-version-line.warc", ErrCorrupt, "version line", edit("WARC/1.1", "WARC/one")),
		bad("R04-dictionary.warc.zst", fault.Version, "want frames without a dictionary", append([]byte{0x5d, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0}, zs...)),
		bad("R04-dictionary-id.warc.zst", fault.Version, "want frames without a dictionary", append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 5}, zs[6:]...)),
		bad("R05-line-feed.warc", ErrCorrupt, "ends without a carriage return", edit("WARC-Type: response\r\n", "WARC-Type: response\n")),
		bad("R06-no-colon.warc", ErrCorrupt, `header line "WARC-Type response"`, edit("WARC-Type: response", "WARC-Type response")),
		bad("R06-field-name.warc", ErrCorrupt, `want "name: value"`, edit("WARC-Type: response", "WARC Type: response")),
		bad("R06-folded-first.warc", ErrCorrupt, "a folded line before the first field", edit("WARC-Type: response", " WARC-Type: response")),
		bad("R07-long-header.warc.gz", ErrCorrupt, "header longer than 65536 bytes", member(Gzip, string(edit("WARC-Type: response", "X: "+long+"\r\nWARC-Type: response")))),
		bad("R07-many-fields.warc.gz", ErrCorrupt, "more than 512 named fields", member(Gzip, string(edit("WARC-Type: response", strings.Repeat("X: y\r\n", 512)+"WARC-Type: response")))),
		bad("R08-no-type.warc", ErrCorrupt, "no WARC-Type", edit("WARC-Type: response\r\n", "")),
		bad("R08-no-id.warc", ErrCorrupt, "no WARC-Record-ID", edit("WARC-Record-ID", "X-Record-ID")),
		bad("R08-no-date.warc", ErrCorrupt, "no WARC-Date", edit("WARC-Date", "X-Date")),
		bad("R08-no-length.warc", ErrCorrupt, "no Content-Length", edit("Content-Length: 24\r\n", "")),
		bad("R09-two-lengths.warc", ErrCorrupt, "two fields content-length", edit("Content-Length: 24", "Content-Length: 24\r\ncontent-length: 24")),
		bad("R10-length-sign.warc", ErrCorrupt, `Content-Length "+24"`, edit("Content-Length: 24", "Content-Length: +24")),
		bad("R10-length-huge.warc", ErrCorrupt, "want a number of bytes", edit("Content-Length: 24", "Content-Length: 9223372036854775808")),
		bad("R11-date.warc", ErrCorrupt, "want a UTC time", edit("2026-03-01T12", "2026-13-01T12")),
		bad("R12-length-short.warc", ErrCorrupt, `"o\r\n\r" after the block`, edit("WARC-Block-Digest: sha1:IORUMWLIBUO53GZZJS7FEOU3IDD3AFBH\r\nContent-Type: application/http;msgtype=response\r\nContent-Length: 24", "Content-Length: 23")),
		bad("R12-no-end.warc.gz", ErrCorrupt, `after the block, want "\r\n\r\n"`, member(Gzip, plain[:len(plain)-4]+"\n\n\n\n")),
		bad("R13-short-member.warc.gz", ErrCorrupt, "gzip member ends inside the record", append(member(Gzip, plain[:len(plain)-8]), gz...)),
		bad("R13-short-frame.warc.zst", ErrCorrupt, "zstd member ends inside the record", append(member(Zstd, plain[:len(plain)-8]), zs...)),
		bad("R14-two-records.warc.gz", ErrCorrupt, "gzip member goes on after the record", member(Gzip, plain+plain)),
		bad("R15-gzip-data.warc.gz", ErrCorrupt, "gzip: ", append(flip(gz, 40), gz...)),
		bad("R15-gzip-checksum.warc.gz", ErrCorrupt, "gzip: ", append(flip(gz, len(gz)-8), gz...)),
		bad("R15-zstd-checksum.warc.zst", ErrCorrupt, "zstd: ", append(flip(zs, len(zs)-1), zs...)),
		bad("R16-block-digest.warc", ErrCorrupt, "block digest sha1:", edit("hello", "hullo")),
	}
}

func TestVectors(t *testing.T) {
	want := map[string]bool{}
	for _, v := range vectors() {
		path := filepath.Join("testdata", v.name)
		want[path] = true
		if *update && v.bytes != nil {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, v.bytes, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v (go test -update writes it)", err)
		}
		// Compressed bytes hold for one version of the library only.
		if strings.HasSuffix(path, ".warc") && !bytes.Equal(b, v.bytes) && v.name != "good/06-mixed.warc" {
			t.Errorf("%s differs from what this version makes", path)
		}
		var types []string
		r := NewReader(bytes.NewReader(b), ReaderOptions{Name: v.name, Verify: true})
		for err = nil; err == nil; {
			var rec *Record
			if rec, err = r.Next(); err == nil {
				types = append(types, rec.Type)
			}
		}
		r.Close()
		switch {
		case v.class == nil && (err != io.EOF || strings.Join(types, " ") != v.types):
			t.Errorf("%s: %q, %v, want %s", v.name, types, err, v.types)
		case v.class != nil && (!errors.Is(err, v.class) || !strings.Contains(err.Error(), v.says) || !strings.Contains(err.Error(), v.name+": record")):
			t.Errorf("%s: %v, want %v with %q", v.name, err, v.class, v.says)
		}
	}
	files, _ := filepath.Glob("testdata/*/*.warc*")
	for _, f := range files {
		if !want[f] {
			t.Errorf("%s is no vector of this test", f)
		}
	}
}

// TestRules: each rule of SPEC.md names its vectors, and each bad vector its rule.
func TestRules(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for i, m := range regexp.MustCompile(`(?m)^- \*\*R(\d+)\*\* (.*(?:\n  .*)*)`).FindAllStringSubmatch(string(spec), -1) {
		names := regexp.MustCompile("`(R\\d+-[^`]+)`").FindAllStringSubmatch(m[2], -1)
		if len(names) == 0 {
			t.Errorf("rule R%s has no vector", m[1])
		}
		for _, n := range names {
			named[n[1]] = true
			if !strings.HasPrefix(n[1], "R"+strings.Repeat("0", 2-len(m[1]))+m[1]+"-") {
				t.Errorf("rule R%s (number %d) names %s", m[1], i+1, n[1])
			}
		}
	}
	if len(named) == 0 {
		t.Error("SPEC.md has no rules")
	}
	for _, v := range vectors() {
		if name, bad := strings.CutPrefix(v.name, "bad/"); bad {
			if !named[name] {
				t.Errorf("no rule names %s", name)
			}
			delete(named, name)
		}
	}
	for name := range named {
		t.Errorf("SPEC.md names %s, which is no vector", name)
	}
}

// The worked example of SPEC.md is what the encoder makes.
func TestWorkedExample(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(spec), "<!-- example -->\n")
	if !ok {
		t.Fatal("SPEC.md has no worked example")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	var want []byte
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		want = append(want, b...)
	}
	got, err := Encoder{Codec: None, BlockDigest: true}.Append(nil, example())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encoder makes\n%q\nSPEC.md has\n%q", got, want)
	}
}

// What wget writes now is read whole and its digests hold.
func TestWget(t *testing.T) {
	wget, err := exec.LookPath("wget")
	if err != nil {
		t.Log("no wget here; testdata/good/05-wget.warc.gz stands for it")
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			io.WriteString(w, `<a href="chunked">x</a>`)
			return
		}
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	}))
	defer server.Close()
	dir := t.TempDir()
	cmd := exec.Command(wget, "-q", "-r", "-l", "1", "-e", "robots=off", "--delete-after", "--warc-file=x", server.URL)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.ReadFile(filepath.Join(dir, "x.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	all, good, err := readAll(bytes.NewReader(file), ReaderOptions{Name: "x.warc.gz", Verify: true})
	if err != nil || good != int64(len(file)) || len(all) < 5 {
		t.Errorf("%d records, %d of %d bytes, %v", len(all), good, len(file), err)
	}
}

func FuzzReader(f *testing.F) {
	for _, v := range vectors() {
		if len(v.bytes) < 4<<10 {
			f.Add(v.bytes)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r := NewReader(bytes.NewReader(file), ReaderOptions{Name: "f", Verify: true})
		defer r.Close()
		for {
			rec, err := r.Next()
			if err == nil {
				_, err = io.Copy(io.Discard, io.LimitReader(rec.Block, 1<<20))
			}
			if r.Good() > int64(len(file)) {
				t.Fatalf("good %d of %d bytes", r.Good(), len(file))
			}
			if err != nil {
				if err == io.EOF && r.Good() != int64(len(file)) {
					t.Fatalf("end at %d of %d bytes", r.Good(), len(file))
				}
				if err != io.EOF && fault.ClassOf(err) == "" {
					t.Fatalf("error without a class: %v", err)
				}
				return
			}
		}
	})
}

// What is accepted encodes again to a record that reads the same.
func FuzzEncode(f *testing.F) {
	f.Add("response", "http://example.com/", "text/html", "X-Field", "value", []byte("block"))
	f.Add("x\r\n", "a\nb", "\x00", "WARC-Truncated", "\r\n\r\nWARC/1.1", []byte("\r\n\r\n"))
	f.Fuzz(func(t *testing.T, typ, uri, media, name, value string, block []byte) {
		if !isToken(name) || isMember(name) || len(typ)+len(uri)+len(media)+len(value)+len(name) > 32<<10 {
			return
		}
		for _, c := range codecs {
			rec := &Record{Type: typ, TargetURI: uri, ContentType: media, Date: testDate, Block: bytes.NewReader(block), Length: int64(len(block))}
			rec.Add(name, value)
			id, err := ID(rec)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Encoder{Codec: c, BlockDigest: true}.Append(nil, rec)
			if err != nil {
				return
			}
			r := NewReader(bytes.NewReader(b), ReaderOptions{Verify: true})
			got, err := r.Next()
			if err != nil {
				if strings.Trim(typ, " \t\r\n\x00") == "" || strings.TrimFunc(typ, func(c rune) bool { return c <= ' ' || c == 0x7f }) == "" {
					return // a type of nothing but spaces is none
				}
				t.Fatal(err)
			}
			back, err := io.ReadAll(got.Block)
			if err != nil || !bytes.Equal(back, block) || got.ID != id {
				t.Fatalf("%q, %v", back, err)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Fatal(err)
			}
			r.Close()
		}
	})
}

// isMember: fields that Record has members for.
func isMember(name string) bool {
	for _, m := range []string{"WARC-Type", "WARC-Record-ID", "WARC-Date", "WARC-Target-URI", "Content-Type", "Content-Length", FieldBlockDigest} {
		if strings.EqualFold(m, name) {
			return true
		}
	}
	return false
}
