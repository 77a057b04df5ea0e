package extract

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// encodingCases reads a file of html5lib's encoding tests: documents, and what a
// browser that knows no more of them reads them as.
func encodingCases(t *testing.T, name string) (cases [][2]string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(append([]byte("\n"), b...), []byte("\n#data\n")) {
		if data, encoding, ok := bytes.Cut(part, []byte("\n#encoding\n")); ok {
			cases = append(cases, [2]string{string(data), strings.TrimSpace(string(encoding))})
		}
	}
	return cases
}

// "make browser" runs it on the cases that html5lib ships; MERCATOR_HTML5LIB is
// their folder.
func TestHTML5LibEncodings(t *testing.T) {
	dir := os.Getenv("MERCATOR_HTML5LIB")
	if dir == "" {
		t.Skip(`needs html5lib's tests: "make browser"`)
	}
	n := 0
	for _, name := range []string{"tests1.dat", "tests2.dat", "test-yahoo-jp.dat"} {
		for i, c := range encodingCases(t, filepath.Join(dir, "encoding", name)) {
			n++
			if strings.Contains(c[0], `+ '2">')`) {
				continue // the meta element is written by a script
			}
			_, got := documentEncoding(&Document{Body: []byte(c[0])}, true)
			if _, want := lookup(c[1]); got != want || want == "" {
				t.Errorf("%s, case %d: %s, want %s (%s):\n%s", name, i+1, got, want, c[1], c[0][:min(len(c[0]), 500)])
			}
		}
	}
	if n < 80 {
		t.Errorf("%d cases, want 80 or more", n)
	}
}
