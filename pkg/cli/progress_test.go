package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongWorkIsHeardOf: without a terminal, a command that may take minutes says each ten seconds how far it is, and others say nothing.
func TestLongWorkIsHeardOf(t *testing.T) {
	for _, c := range []struct {
		name, mode, want string
		quiet            bool
		start            func(*Std) *Progress
	}{
		{"long", "auto", "msearch: 50 URLs, 5/s\nmsearch: 100 URLs, 5/s\n", false, func(s *Std) *Progress { return s.StartLong("URLs") }},
		{"long, off", "off", "", false, func(s *Std) *Progress { return s.StartLong("URLs") }},
		{"long, quiet", "auto", "", true, func(s *Std) *Progress { return s.StartLong("URLs") }},
		{"of a pipe", "auto", "", false, func(s *Std) *Progress { return s.StartProgress("URLs", 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				p := c.start(&Std{Name: "msearch", Err: &said, Common: &Common{Progress: c.mode, Quiet: c.quiet}})
				for range 2 {
					p.Add(50)
					time.Sleep(10 * time.Second) // of a clock of its own
					synctest.Wait()
				}
				time.Sleep(5 * time.Second)
				p.Done()
				if said.String() != c.want {
					t.Errorf("got  %q\nwant %q", said.String(), c.want)
				}
			})
		})
	}
}
