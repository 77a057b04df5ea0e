package warc

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

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

func vectors() []spectest.Vector {
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
	d, err := NewDictionary(testDictionary())
	if err != nil {
		panic(err)
	}
	withDict, err := Encoder{Codec: Zstd, Dictionary: d}.Append(d.Frame(), example())
	if err != nil {
		panic(err)
	}
	long := strings.Repeat("x", 64<<10)
	good := func(name, types string, b []byte) spectest.Vector {
		// Compressed bytes hold for one version of the library only.
		return spectest.Vector{Name: "good/" + name, Bytes: b, Loose: !strings.HasSuffix(name, ".warc") || name == "06-mixed.warc", Gives: types}
	}
	bad := func(name string, class fault.Class, says string, b []byte) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: b, Loose: !strings.HasSuffix(name, ".warc"), Class: class, Says: says}
	}
	return []spectest.Vector{
		good("01-example.warc", "response", []byte(plain)),
		good("02-gzip.warc.gz", "warcinfo request response metadata", encoded(Gzip, testRecords()...)),
		good("03-zstd.warc.zst", "warcinfo request response metadata", encoded(Zstd, testRecords()...)),
		good("04-empty.warc", "", []byte{}),
		good("05-wget.warc.gz", "warcinfo request response request response metadata resource", nil),
		good("06-mixed.warc", "response response response", append(append([]byte(plain), gz...), zs...)),
		good("07-folded.warc", "response", edit("Content-Type: application", "Content-Type:\r\n application")),
		good("09-dictionary.warc.zst", "response", withDict),
		good("08-version-1.0.warc", "response", []byte(strings.NewReplacer("WARC/1.1", "WARC/1.0", "http://example.com/", "<http://example.com/>", ".123456Z", "Z").Replace(plain))),

		bad("R01-cut-in-version.warc", fault.Truncated, "record 1 at byte 0: file ends inside the record", []byte(plain[:7])),
		bad("R01-cut-in-header.warc", fault.Truncated, "file ends inside the record", []byte(plain[:60])),
		bad("R01-cut-in-block.warc", fault.Truncated, "file ends inside the record", []byte(plain[:len(plain)-6])),
		bad("R01-cut-in-end.warc", fault.Truncated, "file ends inside the record", []byte(plain[:len(plain)-1])),
		bad("R01-cut-in-member.warc.gz", fault.Truncated, "file ends inside the record", append(bytes.Clone(gz), gz[:len(gz)-3]...)),
		bad("R01-cut-in-frame.warc.zst", fault.Truncated, "file ends inside the record", append(bytes.Clone(zs), zs[:len(zs)-3]...)),
		bad("R02-not-warc.warc", fault.Corrupt, `want "WARC/", a gzip member or a zstd frame`, []byte("<html>")),
		bad("R03-version-2.warc", fault.Version, "version 2.0, want 1.0 or 1.1", edit("WARC/1.1", "WARC/2.0")),
		bad("R03-version-line.warc", fault.Corrupt, "version line", edit("WARC/1.1", "WARC/one")),
		bad("R04-skippable.warc.zst", fault.Version, "a skippable frame, want a dictionary", append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0}, zs...)),
		bad("R04-dictionary-late.warc.zst", fault.Version, "a skippable frame, want a dictionary", append(bytes.Clone(zs), withDict...)),
		bad("R04-dictionary-id.warc.zst", fault.Version, "a frame that needs dictionary 7, which is not in the file", append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 5}, zs[6:]...)),
		bad("R17-dictionary.warc.zst", fault.Corrupt, "want a dictionary of zstd", append([]byte{0x5d, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0}, zs...)),
		bad("R17-dictionary-long.warc.zst", fault.Corrupt, "a dictionary of 16777216 bytes", append([]byte{0x5d, 0x2a, 0x4d, 0x18, 0, 0, 0, 1}, zs...)),
		bad("R17-dictionary-data.warc.zst", fault.Corrupt, "does not decompress", append([]byte{0x5d, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0xff, 0xff, 0xff}, zs...)),
		bad("R05-line-feed.warc", fault.Corrupt, "ends without a carriage return", edit("WARC-Type: response\r\n", "WARC-Type: response\n")),
		bad("R06-no-colon.warc", fault.Corrupt, `header line "WARC-Type response"`, edit("WARC-Type: response", "WARC-Type response")),
		bad("R06-field-name.warc", fault.Corrupt, `want "name: value"`, edit("WARC-Type: response", "WARC Type: response")),
		bad("R06-folded-first.warc", fault.Corrupt, "a folded line before the first field", edit("WARC-Type: response", " WARC-Type: response")),
		bad("R07-long-header.warc.gz", fault.Corrupt, "header longer than 65536 bytes", member(Gzip, string(edit("WARC-Type: response", "X: "+long+"\r\nWARC-Type: response")))),
		bad("R07-many-fields.warc.gz", fault.Corrupt, "more than 512 named fields", member(Gzip, string(edit("WARC-Type: response", strings.Repeat("X: y\r\n", 512)+"WARC-Type: response")))),
		bad("R08-no-type.warc", fault.Corrupt, "no WARC-Type", edit("WARC-Type: response\r\n", "")),
		bad("R08-no-id.warc", fault.Corrupt, "no WARC-Record-ID", edit("WARC-Record-ID", "X-Record-ID")),
		bad("R08-no-date.warc", fault.Corrupt, "no WARC-Date", edit("WARC-Date", "X-Date")),
		bad("R08-no-length.warc", fault.Corrupt, "no Content-Length", edit("Content-Length: 24\r\n", "")),
		bad("R09-two-lengths.warc", fault.Corrupt, "two fields content-length", edit("Content-Length: 24", "Content-Length: 24\r\ncontent-length: 24")),
		bad("R10-length-sign.warc", fault.Corrupt, `Content-Length "+24"`, edit("Content-Length: 24", "Content-Length: +24")),
		bad("R10-length-huge.warc", fault.Corrupt, "want a number of bytes", edit("Content-Length: 24", "Content-Length: 9223372036854775808")),
		bad("R11-date.warc", fault.Corrupt, "want a UTC time", edit("2026-03-01T12", "2026-13-01T12")),
		bad("R12-length-short.warc", fault.Corrupt, `"o\r\n\r" after the block`, edit("WARC-Block-Digest: sha1:IORUMWLIBUO53GZZJS7FEOU3IDD3AFBH\r\nContent-Type: application/http;msgtype=response\r\nContent-Length: 24", "Content-Length: 23")),
		bad("R12-no-end.warc.gz", fault.Corrupt, `after the block, want "\r\n\r\n"`, member(Gzip, plain[:len(plain)-4]+"\n\n\n\n")),
		bad("R13-short-member.warc.gz", fault.Corrupt, "gzip member ends inside the record", append(member(Gzip, plain[:len(plain)-8]), gz...)),
		bad("R13-short-frame.warc.zst", fault.Corrupt, "zstd member ends inside the record", append(member(Zstd, plain[:len(plain)-8]), zs...)),
		bad("R14-two-records.warc.gz", fault.Corrupt, "gzip member goes on after the record", member(Gzip, plain+plain)),
		bad("R15-gzip-data.warc.gz", fault.Corrupt, "gzip: ", append(flip(gz, 40), gz...)),
		bad("R15-gzip-checksum.warc.gz", fault.Corrupt, "gzip: ", append(flip(gz, len(gz)-8), gz...)),
		bad("R15-zstd-checksum.warc.zst", fault.Corrupt, "zstd: ", append(flip(zs, len(zs)-1), zs...)),
		bad("R16-block-digest.warc", fault.Corrupt, "block digest sha1:", edit("hello", "hullo")),
	}
}

// readTypes reads a file to its end and tells its records' types.
func readTypes(name string, file []byte) (string, error) {
	r := NewReader(bytes.NewReader(file), ReaderOptions{Name: name, Verify: true})
	defer r.Close()
	var types []string
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return strings.Join(types, " "), nil
		} else if err != nil {
			return "", err
		}
		types = append(types, rec.Type)
	}
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: vectors(),
		Read:    func(_ testing.TB, name string, file []byte) (string, error) { return readTypes(name, file) },
		Whole: func(_ string, file []byte, n int) bool { // between its records
			r := NewReader(bytes.NewReader(file), ReaderOptions{})
			defer r.Close()
			for err := error(nil); err == nil && r.Good() < int64(n); {
				_, err = r.Next()
			}
			return r.Good() == int64(n)
		},
		// No checksum covers the header of a bare record; in a compressed one some bits mean nothing.
		Open: func(_ string, file, damaged []byte, at int) bool {
			want, _, _ := readAll(bytes.NewReader(file), ReaderOptions{})
			got, _, _ := readAll(bytes.NewReader(damaged), ReaderOptions{})
			bare := bytes.HasPrefix(file, []byte("WARC/")) && at < bytes.Index(file, []byte("\r\n\r\n"))
			return bare || slices.Equal(got, want)
		},
		Regions: map[string]string{"example": "```\n" + strings.ReplaceAll(string(encoded(None, example())), "\r\n", `\r\n`+"\n") + "```\n"},
	})
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
	must.OK(t, err)
	all, good, err := readAll(bytes.NewReader(file), ReaderOptions{Name: "x.warc.gz", Verify: true})
	if err != nil || good != int64(len(file)) || len(all) < 5 {
		t.Errorf("%d records, %d of %d bytes, %v", len(all), good, len(file), err)
	}
}

func FuzzReader(f *testing.F) {
	spectest.Seeds(f, vectors())
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
			must.OK(t, err)
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
