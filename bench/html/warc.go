package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/warc"
)

// pack writes pages as response records to a WARC file, gzip or zstd by its name.
func pack(path string, pages [][]byte) error {
	e := warc.Encoder{Codec: warc.Gzip}
	if strings.HasSuffix(path, ".zst") {
		e.Codec = warc.Zstd
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() // after an error; else it is closed below
	w := warc.NewWriter(f, 0)
	for i, page := range pages {
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", len(page))
		block := append([]byte(head), page...)
		rec := &warc.Record{
			Type: warc.TypeResponse, TargetURI: fmt.Sprintf("http://example.org/docs/%d.html", i), ContentType: "application/http; msgtype=response",
			Date: time.Unix(1_700_000_000+int64(i), 0), Block: bytes.NewReader(block), Length: int64(len(block)),
		}
		if _, _, err := w.Write(rec, e); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// unpack reads a WARC file to its end, and is the measure of decoding alone.
func unpack(path string) (size int64, took time.Duration, err error) {
	start := cpuTime()
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	r := warc.NewReader(bufio.NewReaderSize(f, 1<<20), warc.ReaderOptions{Name: path})
	defer r.Close()
	buf := make([]byte, 64<<10)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return size, cpuTime() - start, nil
		}
		if err != nil {
			return 0, 0, err
		}
		n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{rec.Block}, buf)
		if err != nil {
			return 0, 0, err
		}
		size += n
	}
}

// command measures mextract from WARC files of the pages to link records, beside what
// decoding alone and finding alone (in memory, so many bytes a second) take together.
func command(out io.Writer, mextract string, pages [][]byte, perSecond float64, runs int) error {
	dir, err := os.MkdirTemp("", "bench-html")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(out, "| from | decoding, MB/s | in memory, MB/s | mextract, MB/s of processor time | of clock, two cores | share of processor time that is decoding and finding | clock: share of the possible |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, suffix := range []string{".warc.gz", ".warc.zst"} {
		path := filepath.Join(dir, "pages"+suffix)
		if err := pack(path, atLeast(pages, 200e6)); err != nil {
			return err
		}
		var size int64
		var decode, cpu, clock time.Duration
		for range runs {
			n, took, err := unpack(path)
			if err != nil {
				return err
			}
			size, decode = n, least(decode, took)
			c := exec.Command(mextract, "-@", "2", "--quiet", "-o", filepath.Join(dir, "links.arrows.zst"), path)
			c.Stderr = os.Stderr
			start := time.Now()
			if err := c.Run(); err != nil {
				return err
			}
			clock = least(clock, time.Since(start))
			cpu = least(cpu, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		}
		rate := func(t time.Duration) float64 { return float64(size) / 1e6 / t.Seconds() }
		memory := time.Duration(float64(size) / perSecond * float64(time.Second))
		together := decode + memory
		fmt.Fprintf(out, "| %s | %.0f | %.0f | %.0f | %.0f | %.2f | %.2f |\n", suffix, rate(decode), rate(memory), rate(cpu), rate(clock),
			together.Seconds()/cpu.Seconds(), together.Seconds()/2/clock.Seconds())
	}
	fmt.Fprintln(out)
	return nil
}

// atLeast repeats pages until they have so many bytes, beside which the start of a
// process does not count.
func atLeast(pages [][]byte, size int) [][]byte {
	once, n := len(pages), 0
	for i := 0; n < size; i++ {
		if i >= len(pages) {
			pages = append(pages, pages[i-once])
		}
		n += len(pages[i])
	}
	return pages
}

func least(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
