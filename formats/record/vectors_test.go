package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"mercator/formats/spectest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// vectorURLs are three rows that use every column.
func vectorURLs() []URL {
	return []URL{
		{URL: "http://a.test/", Key: 0x4b7d239c4d186c4f, Host: "a.test", Discovered: 1763719200000000},
		{URL: "http://a.test/é?q=1", Key: 2, Host: "a.test", Priority: 1, Score: 0.5, Depth: 3, Attempt: 2, Via: "http://a.test/",
			Discovered: 1763719200000001, Due: 1763719260000000, Addr: "192.0.2.1,2001:db8::1", AddrExpires: 1763719300000000,
			ETag: `"x"`, LastModified: "Fri, 21 Nov 2025 10:00:00 GMT", LastContentFP: 7, Hops: 20, Requisite: 3, Sitemap: 1},
		{URL: "https://b.test:8443/", Key: 3, Host: "b.test:8443", AddrError: "nxdomain"},
	}
}

func vectorFetches() []Fetch {
	return []Fetch{
		{URL: "http://a.test/", Key: 1, Host: "a.test", Addr: "192.0.2.1", Role: RolePage, FetchTime: 1763719200000000, DurationUS: 1234,
			RequiredDelayUS: 1000000, Outcome: OutcomeFetched, Status: 200, MIME: "text/html", Charset: "utf-8", BodyLength: 5, ContentFP: 9,
			PayloadSHA1: "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", WARCFilename: "warc/000001-0.warc.gz", WARCOffset: 300, WARCLength: 200, FreshUntil: 1763722800000000, Requisite: 1, Sitemap: 2},
		{URL: "http://a.test/old", Key: 2, Host: "a.test", Role: RolePage, Outcome: OutcomeFetched, Status: 301, RedirectURL: "http://a.test/", Duplicate: true, Truncated: "length", Hops: 1},
		{URL: "http://c.test/", Key: 3, Host: "c.test", Role: RolePage, Outcome: OutcomeDNS, Error: "no such name", RetryAfter: 1763719300000000},
	}
}

func vectorLinks() []Link {
	return []Link{
		{SrcURL: "http://a.test/", SrcKey: 1, URL: "http://a.test/x", Key: 4, Host: "a.test", LinkKind: "a", Nofollow: true, Text: "a link", Depth: 1, Score: 1, Discovered: 1763719200000000},
		{SrcURL: "http://a.test/", SrcKey: 1, URL: "http://a.test/y.png", Key: 5, Host: "a.test", LinkKind: "img", Depth: 1, Requisite: 1, Sitemap: 3},
		{SrcURL: "http://a.test/old", SrcKey: 2, URL: "http://a.test/", Key: 1, Host: "a.test", LinkKind: "redirect", Hops: 2},
	}
}

func vectorModules() []Module {
	return []Module{{URL: "http://a.test/", Key: 1, Module: "langid", Name: "language", Value: "en"}, {URL: "http://a.test/", Key: 1, Module: "langid", Name: "confidence", Value: ""}}
}

// goodVectors makes the streams that readers must accept.
func goodVectors(t testing.TB) map[string][]byte {
	o := WriterOptions{Txn: "r1", Now: 1763719200000000}
	urls := encode(t, vectorURLs(), o)
	extra := vectorURLs()
	schema := withExtra(extra)
	like := o
	like.Like = schema
	bare, _ := messages(t, urls)
	fast := o
	fast.Level = Fast
	return map[string][]byte{
		"url":          urls,
		"fetch":        encode(t, vectorFetches(), o),
		"link":         encode(t, vectorLinks(), o),
		"module":       encode(t, vectorModules(), o),
		"empty":        encode(t, []URL{}, o),
		"two-streams":  append(bytes.Clone(urls), encode(t, vectorURLs()[:1], o)...),
		"extra-column": encode(t, extra, like),
		"bare":         bytes.Join(bare, nil),
		"level-1":      encode(t, vectorURLs(), fast),

		"module-without-url": older(t, "module-without-url"),
		"fetch-without-hops": older(t, "fetch-without-hops"),

		"url-without-sitemap": older(t, "url-without-sitemap"),
	}
}

// older is a stream that was written before a column was there: its rows have the same hash without it.
func older(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join("testdata", "good", name+".arrows.zst"))
	must.OK(t, err)
	return b
}

// badVectors makes the streams that readers must refuse. A name is the rule's
// number and what is wrong.
func badVectors(t testing.TB) map[string][]byte {
	o := WriterOptions{Txn: "r1"}
	good := encode(t, vectorURLs(), o)
	msgs, tr := messages(t, good)
	wireEnd := len(good) - len(trailerFor(t, nil, tr))
	head := len(appendStored(nil, msgs[0]))
	v := map[string][]byte{}

	// with replaces message i by what change makes of a copy.
	with := func(i int, change func(m []byte) []byte) []byte {
		out := slices.Clone(msgs)
		out[i] = change(bytes.Clone(msgs[i]))
		return seal(t, out, tr)
	}
	// patch changes a batch's metadata in place.
	patch := func(change func(meta []byte, h table, body []byte)) []byte {
		return with(1, func(m []byte) []byte {
			meta, h := header(t, m)
			change(meta, h, m[8+len(meta):])
			return m
		})
	}
	byteAt := func(at int, xor byte) []byte {
		b := bytes.Clone(good)
		b[at] ^= xor
		return b
	}
	metadata := map[string]string{metaKind: "url", metaVersion: formatVersion}
	essential := []arrow.Field{{Name: "url", Type: arrow.BinaryTypes.String}, {Name: "url_key", Type: arrow.PrimitiveTypes.Uint64}, {Name: "host", Type: arrow.BinaryTypes.String}}
	foreign := func(md map[string]string, fields []arrow.Field, opts ...ipc.Option) []byte {
		return seal(t, bareMessages(t, arrowStream(t, md, fields, opts...)), Trailer{})
	}
	plus := func(f ...arrow.Field) []arrow.Field { return append(slices.Clone(essential), f...) }

	v["R01-empty"] = nil
	v["R01-part-of-magic"] = good[:3]
	v["R02-text"] = []byte("http://a.test/\n")
	v["R03-cut-in-frame"] = good[:head+100]
	v["R03-cut-in-trailer"] = good[:len(good)-1]
	v["R04-no-trailer"] = good[:wireEnd]
	v["R04-no-end-of-stream"] = good[:len(good)-len(trailerFor(t, nil, tr))-20]
	v["R05-no-frame-checksum"] = byteAt(4, 0x04)
	v["R05-no-content-size"] = append([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x04, 0x00}, good[9:]...)
	v["R05-dictionary-id"] = byteAt(4, 0x01)
	v["R05-reserved-bit"] = byteAt(4, 0x08)
	v["R06-checksum"] = byteAt(head+200, 0x10)
	v["R07-message-over-16-MiB"] = func() []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[head+5:], MaxMessage+1)
		return b
	}()
	v["R07-schema-over-1-MiB"] = func() []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[5:], MaxSchema+1)
		return b
	}()
	v["R07-content-size"] = func() []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[head+5:], uint32(len(msgs[1]))-8)
		return b
	}()
	v["R08-no-message"] = with(1, func(m []byte) []byte { m[0] = 0; return m })
	v["R08-metadata-length"] = with(1, func(m []byte) []byte { binary.LittleEndian.PutUint32(m[4:], 1<<30); return m })
	v["R08-body-length"] = with(1, func(m []byte) []byte { return append(m, zeros[:]...) })
	v["R08-two-messages"] = with(2, func(m []byte) []byte { return append(m, m...) })
	v["R09-root-outside"] = with(1, func(m []byte) []byte { binary.LittleEndian.PutUint32(m[8:], 1<<29); return m })
	v["R09-vector-outside"] = patch(func(meta []byte, h table, _ []byte) {
		binary.LittleEndian.PutUint32(meta[nodeAt(h, 0)-4:], 0x7FFFFFFF)
	})
	v["R10-no-schema"] = seal(t, msgs[1:], tr)
	v["R10-second-schema"] = seal(t, [][]byte{msgs[0], msgs[0], msgs[1], msgs[2]}, tr)
	v["R11-no-kind"] = foreign(nil, essential)
	v["R11-unknown-kind"] = foreign(map[string]string{metaKind: "page"}, essential)
	v["R12-older"] = foreign(map[string]string{metaKind: "url", metaVersion: "2"}, essential)
	v["R12-newer"] = foreign(map[string]string{metaKind: "url", metaVersion: "4"}, essential)
	v["R13-nested-column"] = foreign(metadata, plus(arrow.Field{Name: "x", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}))
	v["R13-unknown-type"] = foreign(metadata, plus(arrow.Field{Name: "x", Type: arrow.FixedWidthTypes.Date32}))
	v["R13-column-twice"] = foreign(metadata, plus(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}, arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}))
	v["R13-no-name"] = foreign(metadata, plus(arrow.Field{Name: "", Type: arrow.PrimitiveTypes.Int8}))
	v["R14-type-of-known-column"] = foreign(metadata, plus(arrow.Field{Name: "depth", Type: arrow.PrimitiveTypes.Int64}))
	v["R14-naive-timestamp"] = foreign(metadata, plus(arrow.Field{Name: "due", Type: &arrow.TimestampType{Unit: arrow.Microsecond}}))
	v["R14-no-host"] = foreign(metadata, essential[:2])
	v["R15-node-count"] = patch(func(meta []byte, h table, _ []byte) {
		binary.LittleEndian.PutUint32(meta[nodeAt(h, 0)-4:], 15)
	})
	v["R15-buffer-count"] = patch(func(meta []byte, h table, _ []byte) {
		binary.LittleEndian.PutUint32(meta[bufferAt(h, 0)-4:], 30)
	})
	v["R15-compressed-buffers"] = func() []byte {
		out := bareMessages(t, arrowStream(t, metadata, essential, ipc.WithLZ4()))
		return seal(t, out, Trailer{})
	}()
	v["R16-misaligned"] = patch(func(meta []byte, h table, _ []byte) {
		put64(meta, bufferAt(h, 2), 4+int64(binary.LittleEndian.Uint64(meta[bufferAt(h, 2):])))
	})
	v["R16-overlap"] = patch(func(meta []byte, h table, _ []byte) { put64(meta, bufferAt(h, 2), 0) })
	v["R16-outside"] = patch(func(meta []byte, h table, _ []byte) { put64(meta, bufferAt(h, 2)+8, 1<<40) })
	v["R17-node-length"] = patch(func(meta []byte, h table, _ []byte) { put64(meta, nodeAt(h, 0), 1<<31) })
	v["R17-null-count"] = patch(func(meta []byte, h table, _ []byte) { put64(meta, nodeAt(h, 9)+8, 1) })
	v["R17-row-count"] = patch(func(meta []byte, h table, _ []byte) { put64(meta, h.field(0), -1) })
	v["R18-short-buffer"] = patch(func(meta []byte, h table, _ []byte) { put64(meta, bufferAt(h, 4)+8, 8) })
	v["R18-falling-offset"] = patch(func(meta []byte, h table, body []byte) {
		binary.LittleEndian.PutUint32(body[4:], 1<<20)
	})
	v["R18-offset-outside"] = patch(func(meta []byte, h table, body []byte) {
		binary.LittleEndian.PutUint32(body[12:], 1<<20)
	})
	v["R19-not-utf8"] = with(1, func(m []byte) []byte { return bytes.Replace(m, []byte("é"), []byte{0xFF, 0xFE}, 1) })
	v["R19-cut-character"] = patch(func(meta []byte, h table, body []byte) {
		at := bytes.Index(body, []byte("é")) - bytes.Index(body, []byte("http://a.test/"))
		binary.LittleEndian.PutUint32(body[8:], uint32(at+1))
	})
	v["R20-other-frame"] = append(bytes.Clone(good[:wireEnd]), 0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0)
	v["R20-text-behind-trailer"] = append(bytes.Clone(good), "more"...)
	trailer := func(change func(b []byte) []byte) []byte {
		return append(bytes.Clone(good[:wireEnd]), change(bytes.Clone(good[wireEnd:]))...)
	}
	v["R21-trailer-checksum"] = trailer(func(b []byte) []byte { b[trailerFixed] ^= 1; return b })
	v["R21-trailer-magic"] = trailer(func(b []byte) []byte { b[8] = 'x'; return resum(b) })
	v["R21-trailer-version"] = trailer(func(b []byte) []byte { b[16] = 1; return resum(b) })
	v["R21-trailer-json"] = trailer(func(b []byte) []byte { b[trailerFixed] = '['; return resum(b) })
	v["R21-trailer-objects"] = trailer(func(b []byte) []byte {
		doc := `{"ledger":{"stages":[{}` + strings.Repeat(",{}", MaxObjects) + "]}}"
		b = append(b[:trailerFixed:trailerFixed], doc...)
		binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8+trailerSum))
		binary.LittleEndian.PutUint32(b[20:], uint32(len(doc)))
		return resum(append(b, zeros[:]...))
	})
	fewer, other := tr, tr
	fewer.Rows--
	other.Hash[3] ^= 1
	v["R22-rows"] = seal(t, msgs, fewer)
	v["R22-row-hash"] = seal(t, msgs, other)
	v["R23-wire-hash"] = trailer(func(b []byte) []byte { b[50] ^= 1; return resum(b) })
	v["R24-another-kind"] = append(bytes.Clone(good), encode(t, vectorLinks(), o)...)
	v["R24-more-columns"] = append(bytes.Clone(good), goodVectors(t)["extra-column"]...)
	bare := bytes.Join(msgs, nil)
	v["R25-bare-cut"] = bare[:len(bare)-8]
	v["R25-bare-and-more"] = append(bytes.Clone(bare), bare...)
	return v
}

// readAny reads a stream of whatever kind to its end.
func readAny(in io.Reader, opt ReaderOptions) (Trailer, *Schema, error) {
	s, err := Open(in, opt)
	if err != nil {
		return Trailer{}, nil, err
	}
	switch s.Kind() {
	case KindURL:
		return readAll[URL](s)
	case KindFetch:
		return readAll[Fetch](s)
	case KindLink:
		return readAll[Link](s)
	}
	return readAll[Module](s)
}

func readAll[T Row](s *Source) (Trailer, *Schema, error) {
	r, err := Rows[T](s)
	if err != nil {
		return Trailer{}, nil, err
	}
	for {
		var row T
		if err := r.Read(&row); err == io.EOF {
			return r.Trailer(), r.Schema(), nil
		} else if err != nil {
			return Trailer{}, nil, err
		}
	}
}

// vectors are the streams above, with what expect.txt says of each.
func vectors(t testing.TB) (all []spectest.Vector) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", "expect.txt"))
	must.OK(t, err)
	good, bad := goodVectors(t), badVectors(t)
	expected := regexp.MustCompile(`(?m)^(good|bad)/(\S+): (.*?)(?: \[(.*)\])?$`).FindAllStringSubmatch(string(file), -1)
	for _, m := range expected {
		v := spectest.Vector{Name: m[1] + "/" + m[2]}
		var made bool
		if m[1] == "good" {
			v.Bytes, made = good[m[2]]
			v.Gives, v.Loose = m[3], m[2] == "level-1"
		} else {
			v.Bytes, made = bad[m[2]]
			v.Says, v.Class = m[3], fault.Class(m[4])
		}
		if !made {
			t.Errorf("expect.txt has %s/%s, which is not made", m[1], m[2])
		}
		all = append(all, v)
	}
	if len(expected) != len(good)+len(bad) || len(expected) != bytes.Count(file, []byte("\n")) {
		t.Errorf("%d lines in expect.txt, %d of a vector, %d vectors", bytes.Count(file, []byte("\n")), len(expected), len(good)+len(bad))
	}
	return all
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	first := len(goodVectors(t)["url"])
	in := bufio.NewReaderSize(nil, 64<<10) // for all of the 70,000 reads
	spectest.Check(t, spectest.Format{
		Ext:     ".arrows.zst",
		Vectors: vectors(t),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			in.Reset(bytes.NewReader(file))
			tr, s, err := readAny(in, ReaderOptions{Name: name})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("kind %s, %d rows, extra %v, hash %v, txn %q, verified %v", s.Kind, tr.Rows, s.ExtraColumns(), tr.Hash, tr.Txn, tr.Verified), nil
		},
		Whole: func(name string, file []byte, n int) bool { // between two streams
			return name == "good/two-streams.arrows.zst" && n == first
		},
		Open:    func(name string, _, _ []byte, _ int) bool { return name == "good/bare.arrows.zst" },
		Regions: map[string]string{"example": "```\n" + annotate(t, exampleStream(t)) + "```\n", "columns": columnLists(), "row": annotateRow()},
	})
}

// Further columns come back from a stream as they were, null where a row has none.
func TestFurtherColumns(t *testing.T) {
	s := NewSchema(KindURL, Column{Name: "n"}, Column{Name: "at", Time: true})
	if got := s.ExtraColumns(); !slices.Equal(got, []string{"at", "n"}) {
		t.Errorf("columns %v", got)
	}
	rows := vectorURLs()
	rows[1].Extra = s.Extra(func(name string) uint64 { return map[string]uint64{"n": 1 << 63, "at": 7}[name] })
	rows[2].Extra = s.Extra(func(string) uint64 { return 0 })
	back, _, err := decode[URL](encode(t, rows, WriterOptions{Like: s}))
	must.OK(t, err)
	for i, want := range []struct {
		n, at     uint64
		has, when bool
	}{{}, {1 << 63, 7, true, true}, {0, 0, true, false}} {
		for _, r := range []URL{rows[i], back[i]} {
			n, has := r.Extra.Number("n")
			at, when := r.Extra.Number("at")
			if n != want.n || has != want.has || at != want.at || when != want.when {
				t.Errorf("row %d: %d %v, %d %v", i, n, has, at, when)
			}
			if _, ok := r.Extra.Number("none"); ok {
				t.Errorf("row %d: a column that is not there", i)
			}
		}
	}
	text := vectorURLs()
	withExtra(text)
	if _, ok := text[0].Extra.Number("note"); ok {
		t.Error("a number in a column of text")
	}
}

// A stage adds a column of text to rows: what they had else comes through, the other way round too.
func TestAddText(t *testing.T) {
	rows := vectorURLs()
	schema := withExtra(rows)
	with := schema.WithText("topic")
	if got := with.ExtraColumns(); !slices.Equal(got, []string{"flag", "n", "note", "topic"}) || len(schema.ExtraColumns()) != 3 {
		t.Fatalf("columns %v of %v", got, schema.ExtraColumns())
	}
	added := slices.Clone(rows)
	for i := range added {
		added[i].Extra = with.AddText(rows[i].Extra, "topic", []string{"mouse", ""}[i%2])
	}
	back, _, err := decode[URL](encode(t, added, WriterOptions{Like: with}))
	must.OK(t, err)
	for i := range back {
		if got, want := back[i].Extra.Text("topic"), []string{"mouse", ""}[i%2]; got != want {
			t.Errorf("row %d: topic %q, want %q", i, got, want)
		}
	}
	if got, want := encode(t, back, WriterOptions{Like: schema}), encode(t, rows, WriterOptions{Like: schema}); !bytes.Equal(got, want) {
		t.Error("without the column the rows are others than they were")
	}
	again := with.WithText("n")
	if got := again.AddText(back[0].Extra, "n", "now text").Text("n"); got != "now text" || len(again.ExtraColumns()) != 4 {
		t.Errorf("a column that was a number: %q, columns %v", got, again.ExtraColumns())
	}
}

// A url row's column that fetch rows have too, as something else, ends there.
func TestColumnOfAnotherKind(t *testing.T) {
	like := &Schema{Kind: KindURL, extra: []column{{name: "fresh_until", typ: typeUTF8}, {name: "status", typ: typeUTF8}, {name: "y", typ: typeUTF8}}}
	rows := vectorFetches()
	r, err := NewReader[Fetch](bytes.NewReader(encode(t, rows, WriterOptions{Like: like})), ReaderOptions{})
	must.OK(t, err)
	if got := r.Schema().ExtraColumns(); !slices.Equal(got, []string{"y"}) {
		t.Errorf("unknown columns %v, want y alone", got)
	}
}

func TestErrorsHavePlaces(t *testing.T) {
	b := encode(t, vectorURLs(), WriterOptions{})
	msgs, tr := messages(t, b)
	cut := b[:len(b)-len(trailerFor(t, nil, tr))]
	_, _, err := decode[URL](cut)
	want := fmt.Sprintf("x.arrows.zst: frame 4 at byte %d: no trailer (3 rows read)", len(cut))
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = NewReader[Link](bytes.NewReader(b), ReaderOptions{Name: "u.arrows.zst"})
	if err == nil || err.Error() != "u.arrows.zst: url records, want link records" || !errors.Is(err, fault.WrongKind) {
		t.Errorf("got %v", err)
	}
	if len(msgs) != 3 {
		t.Errorf("%d messages, want schema, batch and end", len(msgs))
	}
}
