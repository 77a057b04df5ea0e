package warc

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// TestSplitAnywhere: wherever members are cut, all records come, or what is lost is counted.
func TestSplitAnywhere(t *testing.T) {
	a, b, c := reply(1), reply(2), reply(3)
	var member bytes.Buffer
	zw := gzip.NewWriter(&member)
	z := func(text string) string { // gzipped, with one compressor for all
		member.Reset()
		zw.Reset(&member)
		zw.Write([]byte(text))
		zw.Close()
		return member.String()
	}
	enc := zstdEncoder()
	s := func(text string) string { return string(enc.EncodeAll([]byte(text), nil)) }
	for _, form := range []struct {
		name string
		file func(p int) string
		all  bool // nothing is lost
	}{
		{"two members", func(p int) string { return z(a) + z(b[:p]) + z(b[p:]) + z(c) }, true},
		{"two frames", func(p int) string { return s(a) + s(b[:p]) + s(b[p:]) + s(c) }, true},
		{"first record", func(p int) string { return z(b[:p]) + z(b[p:]) + z(a) + z(c) }, true},
		{"last record", func(p int) string { return z(a) + z(c) + z(b[:p]) + z(b[p:]) }, true},
		{"between others", func(p int) string { return z(a+b[:p]) + z(b[p:]+c) }, true},
		{"an empty member between", func(p int) string { return z(a) + z(b[:p]) + z("") + z(b[p:]) + z(c) }, true},
		{"three members", func(p int) string { return z(a) + z(b[:p/2]) + z(b[p/2:p]) + z(b[p:]) + z(c) }, true},
		{"a byte a member", func(p int) string { return z(a) + z(b[:p]) + z(b[p:p+1]) + z(b[p+1:]) + z(c) }, true},
		{"the rest is lost", func(p int) string { return z(a) + z(b[:p]) + z(c) }, false},
		{"the rest is lost, frames", func(p int) string { return s(a) + s(b[:p]) + s(c) }, false},
		{"the front is lost", func(p int) string { return z(a) + z(b[p:]) + z(c) }, false},
		{"the file ends", func(p int) string { return z(a) + z(c) + z(b[:p]) }, false},
	} {
		t.Run(form.name, func(t *testing.T) {
			for p := 1; p < len(b); p++ {
				kept := form.all || p >= len(b)-4
				if kept != form.all && form.name == "the front is lost" {
					break // what is lost are line ends
				}
				for _, small := range []bool{false, true} {
					if small && p%7 > 0 {
						continue
					}
					file := form.file(p)
					lax := &Tolerance{}
					var in io.Reader = bytes.NewReader([]byte(file))
					if small {
						in = iotestHalf(in)
					}
					gives, told, err := readTolerant(in, ReaderOptions{Name: "f", Tolerance: lax})
					got := strings.Fields(gives)
					whole := strings.Contains(" "+gives+" ", " 1 ") && strings.Contains(" "+gives+" ", " 3 ")
					fine := err == nil && whole && (len(got) == 3 && lax.Skipped == 0 || !kept && lax.Skipped > 0)
					if !fine {
						t.Errorf("cut at %d behind %q: %q, %d skipped, %v; told %q", p, b[max(0, p-20):p], gives, lax.Skipped, err, told)
						break
					}
				}
			}
		})
	}
}

// TestRecordEnds: whatever line ends stand behind a block, the record and the next one come.
func TestRecordEnds(t *testing.T) {
	a, b := strings.TrimSuffix(reply(1), "\r\n\r\n"), reply(2)
	ends := []string{""}
	for n := 0; len(ends[n]) < 5; n++ {
		ends = append(ends, ends[n]+"\r", ends[n]+"\n")
	}
	for _, end := range ends {
		for name, file := range map[string]string{
			"bare":               a + end + b,
			"last":               b + a + end,
			"last, twice":        b + a + end + a + end,
			"gzip":               gzipped(a+end) + gzipped(b),
			"whole":              gzipped(a + end + b + a + end),
			"between":            gzipped(a) + end + gzipped(b),
			"line feeds":         lineFeeds(a) + end + lineFeeds(b),
			"one of two lengths": strings.Replace(a, "Content-Length", "Content-Length: 70\r\nContent-Length", 1) + end + b,
		} {
			lax := &Tolerance{}
			gives, told, err := readTolerant(strings.NewReader(file), ReaderOptions{Name: "f", Tolerance: lax})
			want := map[string]string{"last": "2 1", "last, twice": "2 1 1", "whole": "1 2 1"}[name]
			if want == "" {
				want = "1 2"
			}
			if gives != want || err != nil || lax.Skipped > 0 {
				t.Errorf("%s, %q: %q, %v; %q", name, end, gives, err, told)
			}
		}
	}
}
