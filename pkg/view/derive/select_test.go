package derive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/warc"
	"mercator/pkg/base/must"
)

// Records of one URL are left out, from the front, the middle and the end; the others stand there byte for byte, and records without a URL.
func TestSelect(t *testing.T) {
	dir := t.TempDir()
	var whole, want []byte
	var err error
	for i, url := range []string{"", "http://h/b", "http://h/a", "http://h/b", "http://h/b", "http://h/c", "http://h/b"} {
		block := fmt.Sprintf("HTTP/1.1 200 OK\r\n\r\n%d", i)
		rec := &warc.Record{Type: warc.TypeResponse, Date: time.Unix(1e9, 0), TargetURI: url, ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
		if url == "" {
			rec.Type, rec.ContentType = warc.TypeInfo, warc.MediaFields
		}
		from := len(whole)
		whole, err = (warc.Encoder{}).Append(whole, rec)
		must.OK(t, err)
		if url != "http://h/b" {
			want = append(want, whole[from:]...)
		}
	}
	path := filepath.Join(dir, "x.warc.gz.open")
	must.OK(t, os.WriteFile(path, append(whole, "not committed"...), 0o666))
	var asked []string
	to := t.TempDir()
	parts, lost, err := Select(context.Background(), []warc.Part{{Path: path, Length: int64(len(whole))}}, to, func(url string) (bool, error) {
		asked = append(asked, strings.TrimPrefix(url, "http://h/"))
		return url != "http://h/b", nil
	})
	if err != nil || lost != 0 || len(parts) != 1 || filepath.Base(parts[0].Path) != "x.warc.gz" || !slices.Equal(asked, strings.Split("b a b b c b", " ")) {
		t.Fatalf("%v, %v, asked for %q", parts, err, asked)
	}
	if got, err := os.ReadFile(parts[0].Path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d; %v", len(got), len(want), err)
	}
	if _, _, err := Select(context.Background(), []warc.Part{{Path: path, Length: int64(len(whole))}}, to, func(string) (bool, error) { return false, io.ErrClosedPipe }); err != io.ErrClosedPipe {
		t.Errorf("a rule that fails: %v", err)
	}
}

// TestSelectRevisits: a revisit whose original is left out becomes the reply that it stood for; others are revisits still.
func TestSelectRevisits(t *testing.T) {
	dir := t.TempDir()
	var file []byte
	add := func(kind, url, block string, fields ...string) int {
		rec := &warc.Record{Type: kind, Date: time.Unix(1e9, 0), TargetURI: url, ContentType: warc.MediaResponse, Block: strings.NewReader(block), Length: int64(len(block))}
		for i := 0; i < len(fields); i += 2 {
			rec.Add(fields[i], fields[i+1])
		}
		from := len(file)
		var err error
		file, err = warc.Encoder{}.Append(file, rec)
		must.OK(t, err)
		return from
	}
	head, body := "HTTP/1.1 200 OK\r\n\r\n", "the document"
	of := func(url string, offset int, name string) {
		add(warc.TypeRevisit, "http://h/of"+url, head, warc.FieldProfile, warc.ProfileIdenticalPayload, warc.FieldPayloadDigest, "sha1:x", warc.FieldRefersToTargetURI, "http://h/"+url,
			warc.FieldRefersToDate, "2001-09-09T01:46:40Z", warc.FieldRefersToFilename, name, warc.FieldRefersToOffset, fmt.Sprint(offset))
	}
	secret, open := add(warc.TypeResponse, "http://h/secret", head+body), add(warc.TypeResponse, "http://h/open", head+body)
	of("secret", secret, "x.warc.gz")
	of("open", open, "x.warc.gz")
	of("secret", secret, "../x.warc.gz")
	of("secret", open, "x.warc.gz") // another record stands there
	path := filepath.Join(dir, "x.warc.gz.open")
	must.OK(t, os.WriteFile(path, file, 0o666))
	parts, lost, err := Select(context.Background(), []warc.Part{{Path: path, Length: -1}}, t.TempDir(), func(url string) (bool, error) { return url != "http://h/secret", nil })
	if err != nil || lost != 2 {
		t.Fatalf("%v, %d lost, want 2", err, lost)
	}
	in, err := os.Open(parts[0].Path)
	must.OK(t, err)
	defer in.Close()
	r := warc.NewReader(in, warc.ReaderOptions{})
	defer r.Close()
	for _, want := range []string{"response http://h/open  " + head + body, "response http://h/ofsecret  " + head + body, "revisit http://h/ofopen http://h/open " + head} {
		rec, err := r.Next()
		must.OK(t, err)
		b, err := io.ReadAll(rec.Block)
		must.OK(t, err)
		if got := fmt.Sprintf("%s %s %s %s", rec.Type, rec.TargetURI, rec.Get(warc.FieldRefersToTargetURI), b); got != want || rec.Get(warc.FieldRefersToOffset) != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("%v, want the end", err)
	}
}
