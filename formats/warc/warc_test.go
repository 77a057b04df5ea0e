package warc

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

var testDate = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func testRecords() []*Record {
	body := strings.Repeat("<p>hello</p>\n", 50)
	page := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
	info := string(FormatFields([]Field{{"software", "mercator"}, {"format", "WARC File Format 1.1"}}))
	make := func(typ, uri, media, block string) *Record {
		return &Record{Type: typ, TargetURI: uri, Date: testDate, ContentType: media, Block: strings.NewReader(block), Length: int64(len(block))}
	}
	request := make(TypeRequest, "http://example.com/", MediaRequest, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	response := make(TypeResponse, "http://example.com/", MediaResponse, page)
	response.Add(FieldIPAddress, "192.0.2.1")
	response.Add(FieldPayloadDigest, FormatSHA1(sha1.Sum([]byte(body))))
	return []*Record{
		make(TypeInfo, "", MediaFields, info), request, response,
		{Type: TypeMetadata, TargetURI: "http://example.com/", Date: testDate}, // empty block
	}
}

func testFile(t testing.TB, c Codec) (file []byte, ends []int64) {
	var b bytes.Buffer
	w := NewWriter(&b, 0)
	for _, rec := range testRecords() {
		off, n, err := w.Write(rec, Encoder{Codec: c, BlockDigest: true})
		must.OK(t, err)
		ends = append(ends, off+n)
	}
	must.OK(t, w.Flush())
	if w.Offset() != int64(b.Len()) {
		t.Fatalf("offset %d, want %d", w.Offset(), b.Len())
	}
	return b.Bytes(), ends
}

// readAll returns each record as text, where the sound part ends, and the error.
func readAll(in io.Reader, opt ReaderOptions) (all []string, good int64, err error) {
	r := NewReader(in, opt)
	defer r.Close()
	for {
		rec, err := r.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return all, r.Good(), err
		}
		b, err := io.ReadAll(rec.Block)
		if err != nil {
			return all, r.Good(), err
		}
		all = append(all, fmt.Sprintf("%s %s %s %s %s %v %d %q", rec.Type, rec.ID, FormatDate(rec.Date), rec.TargetURI, rec.ContentType, rec.Fields, rec.Length, b))
	}
}

var codecs = []Codec{Gzip, Zstd, None}

func TestRoundTrip(t *testing.T) {
	var first []string
	for _, c := range codecs {
		file, ends := testFile(t, c)
		all, good, err := readAll(bytes.NewReader(file), ReaderOptions{Name: "a", Verify: true})
		if err != nil || len(all) != len(ends) || good != int64(len(file)) {
			t.Fatalf("%s: %d records, good %d, %v", c, len(all), good, err)
		}
		if first == nil {
			first = all
		}
		start := int64(0)
		for i, end := range ends {
			if all[i] != first[i] {
				t.Errorf("%s: record %d is %s, want %s", c, i, all[i], first[i])
			}
			rec, r, err := OpenAt(bytes.NewReader(file), start, end-start, ReaderOptions{})
			if err != nil || rec.Offset != start || r.Codec() != c {
				t.Fatalf("%s: at %d: %+v %v", c, start, rec, err)
			}
			if err := r.Finish(); err != nil || r.Good() != end {
				t.Errorf("%s: record %d ends at %d, want %d: %v", c, i, r.Good(), end, err)
			}
			start = end
		}
	}
}

// TestLargeRecords: the Reader reads what the Encoder writes, also where that is longer than a zstd window may be.
func TestLargeRecords(t *testing.T) {
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for _, n := range []int{windowMax - 512, windowMax, windowMax + 512, 10 << 20} {
		body := bytes.Repeat(noise, n>>20+1)[:n]
		for _, c := range codecs {
			rec := &Record{Type: TypeResource, Date: time.Unix(0, 0), Length: int64(n), Block: bytes.NewReader(body)}
			member, err := Encoder{Codec: c}.Append(nil, rec)
			must.OK(t, err)
			r := NewReader(bytes.NewReader(member), ReaderOptions{Name: "a"})
			got, err := r.Next()
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", c, n, err)
			}
			if b, err := io.ReadAll(got.Block); err != nil || !bytes.Equal(b, body) {
				t.Errorf("%s: %d bytes came back as %d: %v", c, n, len(b), err)
			}
			if err := r.Finish(); err != nil || r.Good() != int64(len(member)) {
				t.Errorf("%s of %d bytes ends at %d, want %d: %v", c, n, r.Good(), len(member), err)
			}
			r.Close()
		}
	}
}

// TestAt: one Reader gives the records at any offsets, of any codec, in any order, read to
// their end or not, also after damage, as a new Reader each does.
func TestAt(t *testing.T) {
	files := map[string][]byte{}
	var names []string
	var ends []int64
	for _, c := range codecs {
		file, e := testFile(t, c)
		damaged := bytes.Clone(file)
		damaged[e[1]+40] ^= 0x20 // in the response
		files[string(c)], files["damaged "+string(c)] = file, damaged
		names, ends = append(names, string(c), "damaged "+string(c)), append(ends, e...)
	}
	text := func(r *Reader, rec *Record, err error, whole bool) string {
		var b []byte
		if err == nil && whole {
			if b, err = io.ReadAll(rec.Block); err == nil {
				err = r.Finish()
			}
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s %s %v %d %q at %d, good %d", rec.Type, rec.ID, rec.Fields, rec.Length, b, rec.Offset, r.Good())
	}
	again := NewReader(nil, ReaderOptions{})
	defer again.Close()
	random := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for range 400 {
		name, offset, whole := names[random.IntN(len(names))], int64(0), random.IntN(3) > 0
		if random.IntN(20) == 0 {
			offset = -1
		} else if i := random.IntN(len(ends)); random.IntN(2) == 0 {
			offset = ends[i] // of this file or, where it is no record's place, of another
		}
		rec, fresh, err := OpenAt(bytes.NewReader(files[name]), offset, 0, ReaderOptions{Name: name})
		want := text(fresh, rec, err, whole)
		fresh.Close()
		if err != nil {
			failed++
		}
		rec, err = again.At(bytes.NewReader(files[name]), name, offset, 0)
		if got := text(again, rec, err, whole); got != want {
			t.Fatalf("%s at %d: %s\nwant %s", name, offset, got, want)
		}
	}
	if failed < 50 || failed > 350 {
		t.Errorf("%d of 400 records were damaged", failed)
	}
}

// A file cut anywhere is truncated unless the cut falls between two records, and
// Good says where the sound part ends.
func TestCutAtEveryByte(t *testing.T) {
	for _, c := range codecs {
		file, ends := testFile(t, c)
		for cut := range file {
			_, good, err := readAll(bytes.NewReader(file[:cut]), ReaderOptions{Name: "a.warc"})
			want := int64(0)
			for _, e := range ends {
				if e <= int64(cut) {
					want = e
				}
			}
			if good != want {
				t.Fatalf("%s cut at %d: good %d, want %d (%v)", c, cut, good, want, err)
			}
			if whole := want == int64(cut); whole != (err == nil) || !whole && !errors.Is(err, fault.Truncated) {
				t.Fatalf("%s cut at %d: %v", c, cut, err)
			}
		}
	}
}

func TestBitFlips(t *testing.T) {
	for _, c := range []Codec{Gzip, Zstd} {
		file, _ := testFile(t, c)
		want, _, _ := readAll(bytes.NewReader(file), ReaderOptions{Verify: true})
		for bit := 0; bit < len(file)*8; bit++ {
			file[bit/8] ^= 1 << (bit % 8)
			got, _, err := readAll(bytes.NewReader(file), ReaderOptions{Verify: true})
			if err == nil && strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("%s: bit %d flipped: other data without an error", c, bit)
			}
			file[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestIDIsMadeOfContent(t *testing.T) {
	seen := map[string]int{}
	for i, change := range []func(*Record){
		func(*Record) {},
		func(r *Record) { r.Type = TypeResponse },
		func(r *Record) { r.TargetURI += "x" },
		func(r *Record) { r.Date = r.Date.Add(time.Microsecond) },
		func(r *Record) { r.Block, r.Length = strings.NewReader("y"), 1 },
	} {
		rec := testRecords()[1]
		change(rec)
		id, err := ID(rec)
		must.OK(t, err)
		if len(id) != len("urn:uuid:")+36 || id[len("urn:uuid:")+14] != '5' {
			t.Errorf("id %q is not a version 5 UUID", id)
		}
		if j, ok := seen[id]; ok {
			t.Errorf("records %d and %d have the same id", i, j)
		}
		seen[id] = i
		again, _ := ID(rec)
		if again != id {
			t.Errorf("id %q, then %q", id, again)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, rec := range map[string]*Record{
		"length too small": {Type: "x", Date: testDate, Block: strings.NewReader("abc"), Length: 2},
		"length too large": {Type: "x", Date: testDate, Block: strings.NewReader("abc"), Length: 4},
		"no block":         {Type: "x", Date: testDate, Length: 4},
		"not a seeker":     {Type: "x", Date: testDate, Block: io.LimitReader(strings.NewReader("abc"), 3), Length: 3},
		"no type":          {Date: testDate},
		"no date":          {Type: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := (Encoder{}).Append(nil, rec); err == nil || len(b) != 0 {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		})
	}
}

// A value cannot end its line: it could forge a header or a record.
func TestHeaderInjection(t *testing.T) {
	rec := &Record{Type: TypeMetadata, Date: testDate, TargetURI: "http://a/\r\nWARC-Type: response\r\n\r\nx\x00"}
	rec.Add("WARC-Filename", "a\nb")
	b, err := Encoder{Codec: None}.Append(nil, rec)
	must.OK(t, err)
	got, err := NewReader(bytes.NewReader(b), ReaderOptions{}).Next()
	if err != nil || got.Type != TypeMetadata || got.Get("warc-filename") != "a b" || strings.ContainsAny(got.TargetURI, "\r\n\x00") {
		t.Errorf("%+v, %v", got, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestErrorsOfTheFileAreNotDamage(t *testing.T) {
	broken := errors.New("disk broke")
	for _, c := range codecs {
		file, _ := testFile(t, c)
		_, _, err := readAll(io.MultiReader(bytes.NewReader(file[:len(file)-9]), failing{broken}), ReaderOptions{Name: "f"})
		if !errors.Is(err, broken) || fault.ClassOf(err) != "" {
			t.Errorf("%s: %v", c, err)
		}
	}
	w := NewWriter(failing{broken}, 0)
	w.Append([]byte("x"))
	if err := w.Flush(); err != broken {
		t.Errorf("flush: %v", err)
	}
	if _, _, err := w.Append([]byte("x")); err != broken {
		t.Errorf("append after a failure: %v", err)
	}
}

// Digests are compared where that is asked for: of blocks, empty ones too, and of
// payloads, which some writers take with the transfer coding.
func TestDigests(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	of := func(s string) string { return FormatSHA1(sha1.Sum([]byte(s))) }
	for _, c := range []struct{ name, typ, block, field, digest, want string }{
		{"block", TypeResource, "hello", FieldBlockDigest, of("hello"), ""},
		{"another block", TypeResource, "hello", FieldBlockDigest, of("hullo"), "block digest " + of("hello")},
		{"empty block", TypeMetadata, "", FieldBlockDigest, of(""), ""},
		{"a block that should not be empty", TypeMetadata, "", FieldBlockDigest, of("x"), "block digest " + of("")},
		{"payload", TypeResponse, "HTTP/1.1 200 OK\r\n\r\nhello", FieldPayloadDigest, of("hello"), ""},
		{"another payload", TypeResponse, "HTTP/1.1 200 OK\r\n\r\nhello", FieldPayloadDigest, of("hullo"), "payload digest " + of("hello")},
		{"no payload", TypeResponse, "HTTP/1.1 200 OK\r\n\r\n", FieldPayloadDigest, of("x"), "payload digest " + of("")},
		{"chunked", TypeResponse, chunked, FieldPayloadDigest, of("hello"), ""},
		{"digest of the chunks", TypeResponse, chunked, FieldPayloadDigest, of("5\r\nhello\r\n0\r\n\r\n"), ""},
		{"another chunked", TypeResponse, chunked, FieldPayloadDigest, of("hullo"), "payload digest " + of("hello")},
		{"longer than a buffer", TypeResponse, "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<17), FieldPayloadDigest, of(strings.Repeat("x", 1<<17)), ""},
		{"HTTP/0.9", TypeResponse, "<p>hello", FieldPayloadDigest, of("<p>hello"), ""},
		{"no HTTP", TypeResponse, "HTTP/1.1 nonsense", FieldPayloadDigest, of("x"), ""},
		{"resource", TypeResource, "hello", FieldPayloadDigest, of("hello"), ""},
		{"another resource", TypeResource, "hello", FieldPayloadDigest, of("hullo"), "payload digest " + of("hello")},
		{"revisit, of what was seen before", TypeRevisit, "HTTP/1.1 200 OK\r\n\r\n", FieldPayloadDigest, of("hello"), ""},
		{"MD5", TypeResource, "hello", FieldPayloadDigest, "md5:XUFAKRXLKNK4OISUWEM6OQ2HUQ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := &Record{Type: c.typ, TargetURI: "http://a.test/", Date: testDate, Block: strings.NewReader(c.block), Length: int64(len(c.block))}
			rec.Add(c.field, c.digest)
			file, err := Encoder{Codec: None}.Append(nil, rec)
			must.OK(t, err)
			r := NewReader(bytes.NewReader(file), ReaderOptions{Name: "f", Verify: true})
			_, err = r.Next()
			if err == nil {
				err = r.CheckPayload()
			}
			if err == nil {
				err = r.Finish()
			}
			r.Close()
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		})
	}
}

// TestFoldedLines: what they cost grows with the header, and no faster.
func TestFoldedLines(t *testing.T) {
	var before, after runtime.MemStats
	file := "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:x:1>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nX-Long: b\r\n" +
		strings.Repeat(" \r\n\tc\r\n", 8000) + "Content-Length: 0\r\n\r\n\r\n\r\n"
	r := NewReader(strings.NewReader(file), ReaderOptions{})
	runtime.ReadMemStats(&before)
	rec, err := r.Next()
	runtime.ReadMemStats(&after)
	if want := "b" + strings.Repeat(" c", 8000); err != nil || rec.Get("X-Long") != want || rec.Length != 0 {
		t.Errorf("%+v, %v", rec, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("%d bytes of memory for a header of %d", n, len(file))
	}
}
