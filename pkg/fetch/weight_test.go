package fetch

import (
	"bytes"
	"fmt"
	"testing"

	"mercator/pkg/web/httpmsg"
)

// What a body may swell to counts wherever among the fields its coding stands.
func TestKeptMax(t *testing.T) {
	keep := &limited{max: robotsTextMax}
	for _, c := range []struct {
		codings []string
		want    int64
	}{{nil, 100}, {[]string{"gzip"}, robotsTextMax}, {[]string{"", "gzip"}, robotsTextMax}} {
		t.Run(fmt.Sprint(c.codings), func(t *testing.T) {
			head := &httpmsg.Head{}
			for _, v := range c.codings {
				head.Fields = append(head.Fields, httpmsg.Field{Name: "Content-Encoding", Value: v})
			}
			if got := keptMax(&Reply{Head: head, Length: 100}, keep); got != c.want {
				t.Errorf("%q: %d bytes, want %d", c.codings, got, c.want)
			}
		})
	}
}

// TestPlainByStatus: documents that the commands behind do not read are not gathered.
func TestPlainByStatus(t *testing.T) {
	for status, want := range map[int]bool{200: true, 203: true, 304: false, 302: false, 404: false, 503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			head := &httpmsg.Head{Status: status, Size: 4, Fields: []httpmsg.Field{{Name: "Transfer-Encoding", Value: "chunked"}}}
			l := plainOf(&Reply{Head: head, Response: bytes.NewReader([]byte("head5\r\nbody\n0\r\n\r\n")), Length: 19})
			if (l != nil) != want {
				t.Errorf("status %d: gathered %v, want %v", status, l != nil, want)
			}
		})
	}
}
