package fetch

import (
	"testing"

	"mercator/pkg/httpmsg"
)

// What a body may swell to counts wherever among the fields its coding stands.
func TestKeptMax(t *testing.T) {
	keep := &limited{max: robotsTextMax}
	for _, c := range []struct {
		codings []string
		want    int64
	}{{nil, 100}, {[]string{"gzip"}, robotsTextMax}, {[]string{"", "gzip"}, robotsTextMax}} {
		head := &httpmsg.Head{}
		for _, v := range c.codings {
			head.Fields = append(head.Fields, httpmsg.Field{Name: "Content-Encoding", Value: v})
		}
		if got := keptMax(&Reply{Head: head, Length: 100}, keep); got != c.want {
			t.Errorf("%q: %d bytes, want %d", c.codings, got, c.want)
		}
	}
}
