package extract

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// TestRevisit: the body of a row with a revisit of identical payload as its record is
// that of the record referred to, under the reply's own head.
func TestRevisit(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("the text")); err != nil {
		t.Fatal(err)
	}
	must.OK(t, z.Close())
	dir := t.TempDir()
	var file []byte
	add := func(rec *warc.Record, block string) int64 {
		rec.Date, rec.ContentType = time.Unix(1, 0), warc.MediaResponse
		rec.Block, rec.Length = bytes.NewReader([]byte(block)), int64(len(block))
		at := int64(len(file))
		var err error
		file, err = (&warc.Encoder{}).Append(file, rec)
		must.OK(t, err)
		return at
	}
	response := func(digest string) *warc.Record {
		return &warc.Record{Type: warc.TypeResponse, TargetURI: "http://a.test/first", Fields: []warc.Field{{Name: warc.FieldPayloadDigest, Value: digest}}}
	}
	revisit := func(name string, at int64) *warc.Record {
		return &warc.Record{Type: warc.TypeRevisit, TargetURI: "http://a.test/again", Fields: []warc.Field{
			{Name: warc.FieldProfile, Value: warc.ProfileIdenticalPayload}, {Name: warc.FieldPayloadDigest, Value: "sha1:ONE"},
			{Name: warc.FieldRefersToFilename, Value: name}, {Name: warc.FieldRefersToOffset, Value: strconv.FormatInt(at, 10)}}}
	}
	const coded = "HTTP/1.1 203 Fine\r\nContent-Type: text/x\r\nContent-Encoding: gzip\r\n\r\n"
	const plain = "HTTP/1.1 200 OK\r\nContent-Type: text/y\r\n\r\n"
	add(response("sha1:TWO"), plain+"another")
	first := add(response("sha1:ONE"), coded+packed.String())
	again := add(revisit("a.warc.gz", first), coded)
	raw := add(revisit("a.warc.gz", first), plain)
	wrong := add(revisit("a.warc.gz", 0), plain)
	asked := response("sha1:ONE")
	asked.Type = warc.TypeRequest
	request := add(revisit("a.warc.gz", add(asked, plain+"the text")), plain)
	damaged := add(response("sha1:ONE"), plain+"the text")
	file[len(file)-6] ^= 1 // of the member's CRC-32
	damaged = add(revisit("a.warc.gz", damaged), plain)
	outside := add(revisit("../a.warc.gz", first), plain)
	gone := add(revisit("b.warc.gz", first), plain)
	must.OK(t, os.WriteFile(filepath.Join(dir, "a.warc.gz.open"), file, 0o666))
	a := &archive{dir: dir}
	defer a.close()
	read := func(at int64, headOnly bool) (reply, error) {
		return a.read(&record.Fetch{URL: "http://a.test/again", WARCFilename: "a.warc.gz", WARCOffset: at}, 1<<20, headOnly)
	}
	if p, err := read(again, false); err != nil || string(p.body) != "the text" || p.status != 203 || p.header.Get("Content-Type") != "text/x" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := read(again, true); err != nil || p.body != nil || p.status != 203 {
		t.Errorf("head only: %+v, %v", p, err)
	}
	if p, err := read(raw, false); err != nil || !bytes.Equal(p.body, packed.Bytes()) || p.status != 200 {
		t.Errorf("without content coding: %+v, %v", p, err)
	}
	for name, at := range map[string]int64{"another payload": wrong, "no response": request, "a damaged original": damaged, "a name that leads out of the store": outside} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(at, false); !errors.Is(err, fault.Corrupt) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if _, err := read(gone, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}
