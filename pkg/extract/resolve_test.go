package extract

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/web/canon"
)

// linkRows is a batch of links.
type linkRows struct{ in, out []string }

func (r *linkRows) Read(l *record.Link) error {
	if len(r.in) == 0 {
		return io.EOF
	}
	*l = record.Link{}
	_, err := fmt.Sscan(r.in[0], &l.SrcURL, &l.SrcKey, &l.URL)
	r.in = r.in[1:]
	return err
}

func (r *linkRows) Pass(l *record.Link) error {
	r.out = append(r.out, l.URL)
	return nil
}

func (r *linkRows) Drop(reason string) { r.out = append(r.out, reason) }

// Resolve counts by its reason what has no URL, and goes on.
func TestResolveBad(t *testing.T) {
	rows := linkRows{in: []string{
		"nonsense 1 a", "http://h/x/ 2 ../%61", "http://h/x/ 2 mailto:x", "http://h/x/ 2 /a", "http://h/y 3 /a", "nonsense 4 http://h/", "http://h/ 5 http://[",
	}}
	want := []string{"invalid", "scheme", "repeated", "invalid", "invalid", "http://h/a", "http://h/a"}
	err := Resolve(context.Background(), &rows, canon.Options{}, nil, nil)
	slices.Sort(rows.out)
	slices.Sort(want)
	if err != nil || !slices.Equal(rows.out, want) {
		t.Errorf("%q, %v, want %q", rows.out, err, want)
	}
}
