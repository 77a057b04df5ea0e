package search

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// TestMemory holds an update on two threads to 128 MiB, on documents that are made to cost memory.
func TestMemory(t *testing.T) {
	if list := os.Getenv("MSEARCH_FILES"); list != "" { // the process that is measured
		var files []File
		must.OK(t, json.Unmarshal([]byte(list), &files))
		upToDate(t, os.Getenv("MSEARCH_CRAWL"), files...)
		status, _ := os.ReadFile("/proc/self/status")
		fmt.Println(string(status))
		return
	}
	if runtime.GOOS != "linux" {
		needs.Skip(t, "needs /proc")
	}
	const n = 10 << 20
	var z bytes.Buffer
	zip := zip.NewWriter(&z)
	w, err := zip.Create("word/document.xml")
	must.OK(t, err)
	w.Write([]byte("<w:t>" + strings.Repeat("word ", n/5)))
	zip.Close()
	var words strings.Builder
	for i := 0; words.Len() < n; i++ {
		fmt.Fprintf(&words, "<p>w%x", i)
	}
	kinds := []struct{ mime, body string }{
		{"text/html", words.String()},
		{"text/html", strings.Repeat("<title>", n/7)},
		{"text/html; charset=windows-1252", strings.Repeat("\x80 &amp; ", n/8)},
		{"text/plain", strings.Repeat("word", n/4)},
		{"application/vnd.openxmlformats-officedocument.wordprocessingml.document", z.String()},
	}
	crawl := t.TempDir()
	var visits []visit
	for i := range 6 {
		k := kinds[i%len(kinds)]
		visits = append(visits, visit{url: fmt.Sprintf("http://h/%d", i), outcome: record.OutcomeFetched, status: 200, mime: k.mime, body: k.body + fmt.Sprint(" ", i)})
		if len(k.body) < 1<<20 { // small ones fill a window
			for j := range 20 {
				visits = append(visits, visit{url: fmt.Sprintf("http://h/%d.%d", i, j), outcome: record.OutcomeFetched, status: 200, mime: k.mime, body: k.body + fmt.Sprint(" ", i, j)})
			}
		}
	}
	list, err := json.Marshal([]File{round(t, crawl, "", "r1", 1, visits...)})
	must.OK(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$", "-test.v")
	cmd.Env = append(os.Environ(), "MSEARCH_CRAWL="+crawl, "MSEARCH_FILES="+string(list), "GOMEMLIMIT=64MiB", "GOMAXPROCS=2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "VmHWM:")
	var kib int
	_, err = fmt.Sscan(text, &kib)
	must.OK(t, err)
	st, err := os.Stat(filepath.Join(crawl, "search.db"))
	must.OK(t, err)
	t.Logf("%d MiB at the peak, index of %d MiB", kib>>10, st.Size()>>20)
	if kib >= 128<<10 || st.Size() < 2<<20 {
		t.Errorf("%d MiB at the peak, want below 128; index of %d bytes", kib>>10, st.Size())
	}
}
