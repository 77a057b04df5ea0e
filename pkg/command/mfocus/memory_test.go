package mfocus

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
)

// TestMemory holds the stage to 64 MiB on documents made to cost memory, on two threads.
func TestMemory(t *testing.T) {
	const n = 11 << 20
	var z, packed bytes.Buffer
	zip := zip.NewWriter(&z)
	w, err := zip.Create("word/document.xml")
	must.OK(t, err)
	w.Write([]byte("<w:t>" + strings.Repeat("mouse ", n/6)))
	zip.Close()
	deflate := zlib.NewWriter(&packed)
	deflate.Write([]byte(strings.Repeat("BT /F 9 Tf (mouse mice) Tj ET ", n/30)))
	deflate.Close()
	var words strings.Builder
	for i := 0; words.Len() < n; i++ {
		fmt.Fprintf(&words, "%s%s ", strings.Repeat("w", i%20), strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(i)))
	}
	docs := []struct{ mime, body string }{
		{"text/html", strings.Repeat("<p>mouse", n/8)},
		{"text/html", strings.Repeat("<img alt='mouse mouse mouse' src=a/b>", n/37)},
		{"text/html", strings.Repeat("<a "+strings.Repeat("b ", 1<<20-100)+">", 6)},
		{"text/html; charset=windows-1252", strings.Repeat("\x80 &amp; ", n/8)},
		{"text/plain", words.String()},
		{"text/plain", strings.Repeat("mouse", n/5)},
		{"application/xml", "<a>" + strings.Repeat("<b>mouse ", n/9)},
		{"application/msword", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("m\x00o\x00u\x00s\x00e\x00 \x00", n/12)},
		{"application/msword", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("mouse and mice ", n/15)},
		{"application/vnd.openxmlformats-officedocument.wordprocessingml.document", z.String()},
		{"application/pdf", "%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]>>endobj 3 0 obj<</Contents [4 0 R 4 0 R]>>endobj 4 0 obj<</Filter/FlateDecode>>stream\n" +
			packed.String() + "\nendstream endobj trailer<</Root 1 0 R>>" + strings.Repeat(" ", n)},
	}
	dir := t.TempDir()
	rows, model := filepath.Join(dir, "fetched.arrows.zst"), filepath.Join(dir, "m")
	out, err := os.Create(rows)
	must.OK(t, err)
	to, err := record.NewWriter[record.Fetch](out, record.WriterOptions{Name: rows})
	must.OK(t, err)
	var file []byte
	for i, d := range docs {
		mime, charset, _ := strings.Cut(d.mime, "; charset=")
		row := record.Fetch{URL: fmt.Sprintf("http://h/%d", i), Host: "h", Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: mime, Charset: charset,
			BodyLength: int64(len(d.body)), WARCFilename: "a.warc.gz", WARCOffset: int64(len(file))}
		reply := "HTTP/1.1 200 OK\r\nContent-Type: " + d.mime + "\r\n\r\n" + d.body
		file, err = (&warc.Encoder{Codec: warc.Gzip}).Append(file, &warc.Record{Type: warc.TypeResponse, Date: time.Unix(int64(i+1), 0), TargetURI: row.URL,
			ContentType: warc.MediaResponse, Block: strings.NewReader(reply), Length: int64(len(reply))})
		must.OK(t, err)
		row.WARCLength = int64(len(file)) - row.WARCOffset
		must.OK(t, to.Write(&row))
	}
	_, err = to.Commit(record.Ledger{})
	must.OK(t, err)
	topics := filepath.Join(dir, "topics.jsonl")
	for name, data := range map[string][]byte{filepath.Join(dir, "a.warc.gz"): file, topics: []byte(`{"topic":"m","query":"mouse","words":[{"word":"mouse","weight":1}]}`)} {
		must.OK(t, os.WriteFile(name, data, 0o666))
	}
	must.OK(t, out.Close())
	stats := filepath.Join(dir, "stats.json")
	for _, args := range [][]string{{"train", "-o", model, "--topics", topics}, {"score", "-@", "2", "--model", model, "--warc", dir, rows, "--stats", stats, "-o", filepath.Join(dir, "scored")}} {
		if out, err := exec.Command("mfocus", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	var got struct {
		Peak    int64   `json:"peak_rss_bytes"`
		Elapsed float64 `json:"elapsed_s"`
		Score   struct{ Scored, Promised, Relevant int }
	}
	clitest.JSON(t, stats, &got)
	t.Logf("%d MiB at the peak, %d documents, %d relevant, %.1f s", got.Peak>>20, got.Score.Scored, got.Score.Relevant, got.Elapsed)
	if got.Peak == 0 || got.Peak >= 64<<20 || got.Score.Scored+got.Score.Promised != len(docs) || got.Score.Relevant < len(docs)/2 {
		t.Errorf("%d bytes at the peak, %d documents, %d relevant, want below 64 MiB, %d documents, half of them relevant", got.Peak, got.Score.Scored, got.Score.Relevant, len(docs))
	}
}
