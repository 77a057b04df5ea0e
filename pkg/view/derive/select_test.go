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
		if whole, err = (warc.Encoder{}).Append(whole, rec); err != nil {
			t.Fatal(err)
		}
		if url != "http://h/b" {
			want = append(want, whole[from:]...)
		}
	}
	path := filepath.Join(dir, "x.warc.gz.open")
	if err := os.WriteFile(path, append(whole, "not committed"...), 0o666); err != nil {
		t.Fatal(err)
	}
	var asked []string
	to := t.TempDir()
	parts, err := Select(context.Background(), []warc.Part{{Path: path, Length: int64(len(whole))}}, to, func(url string) (bool, error) {
		asked = append(asked, strings.TrimPrefix(url, "http://h/"))
		return url != "http://h/b", nil
	})
	if err != nil || len(parts) != 1 || filepath.Base(parts[0].Path) != "x.warc.gz" || !slices.Equal(asked, strings.Split("b a b b c b", " ")) {
		t.Fatalf("%v, %v, asked for %q", parts, err, asked)
	}
	if got, err := os.ReadFile(parts[0].Path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d; %v", len(got), len(want), err)
	}
	if _, err := Select(context.Background(), []warc.Part{{Path: path, Length: int64(len(whole))}}, to, func(string) (bool, error) { return false, io.ErrClosedPipe }); err != io.ErrClosedPipe {
		t.Errorf("a rule that fails: %v", err)
	}
}
