package warc_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"mercator/formats/warc"
)

func Example() {
	const reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	var file bytes.Buffer
	w := warc.NewWriter(&file, 0)
	_, _, err := w.Write(&warc.Record{
		Type: "response", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), TargetURI: "http://a.test/",
		ContentType: "application/http; msgtype=response", Block: strings.NewReader(reply), Length: int64(len(reply)),
	}, warc.Encoder{Codec: warc.Gzip})
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	r := warc.NewReader(&file, warc.ReaderOptions{Name: "a.warc.gz"})
	defer r.Close()
	rec, err := r.Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	block, err := io.ReadAll(rec.Block)
	fmt.Println(rec.Type, rec.TargetURI, rec.Length, string(block) == reply, err)
	// Output: response http://a.test/ 43 true <nil>
}
