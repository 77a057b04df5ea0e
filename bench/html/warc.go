package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/web/canon"
)

// pack writes pages as response records to a WARC file, gzip or zstd by its name, and
// the fetch rows that point to them to another file. It leaves the pages as mfetch does.
func pack(path, rows string, pages [][]byte) error {
	e := warc.Encoder{Codec: warc.Gzip}
	if strings.HasSuffix(path, ".zst") {
		e.Codec = warc.Zstd
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() // after an error; else it is closed below
	fetched, err := os.Create(rows)
	if err != nil {
		return err
	}
	defer fetched.Close()
	w := warc.NewWriter(f, 0)
	out, err := record.NewWriter[record.Fetch](fetched, record.WriterOptions{Level: record.Fast})
	if err != nil {
		return err
	}
	ring := bodies.Create(durable.OS, filepath.Dir(path), 1)
	if ring == nil {
		return fmt.Errorf("%s: no file of the pages that mfetch leaves can be made: has the disk 256 MiB free?", filepath.Dir(path))
	}
	defer ring.Close()
	for i, page := range pages {
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", len(page))
		block := append([]byte(head), page...)
		rec := &warc.Record{
			Type: warc.TypeResponse, TargetURI: fmt.Sprintf("http://example.org/docs/%d.html", i), ContentType: "application/http; msgtype=response",
			Date: time.Unix(1_700_000_000+int64(i), 0), Block: bytes.NewReader(block), Length: int64(len(block)),
		}
		offset, length, err := w.Write(rec, e)
		if err != nil {
			return err
		}
		row := &record.Fetch{
			URL: rec.TargetURI, Key: canon.Options{}.URLKey("example.org", rec.TargetURI), Host: "example.org", FetchTime: record.TimeOf(rec.Date),
			Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", Charset: "utf-8", BodyLength: int64(len(page)),
			WARCFilename: filepath.Base(path), WARCOffset: offset, WARCLength: length,
		}
		ring.Enter(row, ring.Put(block, len(head)))
		if err := out.Write(row); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n, hash, err := out.Finish()
	if err != nil {
		return err
	}
	made := record.Stage{Name: "pack", Out: n, OutHash: hash.String(), Made: []record.Count{{Reason: "page", N: n}}}
	if _, err := out.Commit(record.Ledger{Stages: []record.Stage{made}}); err != nil {
		return err
	}
	return errors.Join(f.Close(), fetched.Close())
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

// command measures mextract from WARC files of the pages to link records, as they are
// and by the fetch rows that point to them, as in a crawl, beside what
// decoding alone and finding alone (in memory, so many bytes a second) take together.
func command(out io.Writer, mextract string, pages [][]byte, perSecond float64, runs int) error {
	dir, err := os.MkdirTemp("", "bench-html")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(out, "| from | decoding, MB/s | in memory, MB/s | mextract, MB/s of processor time | of clock, two cores | share of processor time that is decoding and finding | clock: share of the possible | times finding in memory |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	rows := filepath.Join(dir, "rows.arrows.zst")
	for _, suffix := range []string{".warc.gz", ".warc.zst"} {
		path := filepath.Join(dir, "pages"+suffix)
		if err := pack(path, rows, atLeast(pages, 200e6)); err != nil {
			return err
		}
		ways := []struct {
			name       string
			args       []string
			ring       bool // the file that mfetch leaves is there
			cpu, clock time.Duration
		}{{name: suffix, args: []string{path}}, {name: "store of " + suffix, args: []string{"--warc", dir, rows}}, {name: "store of " + suffix + ", pages left", args: []string{"--warc", dir, rows}, ring: true}}
		var size int64
		var decode time.Duration
		for range runs {
			n, took, err := unpack(path)
			if err != nil {
				return err
			}
			size, decode = n, least(decode, took)
			for i := range ways {
				way := &ways[i]
				file, away := filepath.Join(dir, bodies.File), filepath.Join(dir, "away")
				if way.ring {
					file, away = away, file
				}
				if err := os.Rename(file, away); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				c := exec.Command(mextract, append([]string{"-@", "2", "--quiet", "-o", filepath.Join(dir, "links.arrows.zst")}, way.args...)...)
				c.Stderr = os.Stderr
				start := time.Now()
				if err := c.Run(); err != nil {
					return err
				}
				way.clock = least(way.clock, time.Since(start))
				way.cpu = least(way.cpu, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
			}
		}
		rate := func(t time.Duration) float64 { return float64(size) / 1e6 / t.Seconds() }
		memory := time.Duration(float64(size) / perSecond * float64(time.Second))
		together := decode + memory
		for _, way := range ways {
			fmt.Fprintf(out, "| %s | %.0f | %.0f | %.0f | %.0f | %.2f | %.2f | %.2f |\n", way.name, rate(decode), rate(memory), rate(way.cpu), rate(way.clock),
				together.Seconds()/way.cpu.Seconds(), together.Seconds()/2/way.clock.Seconds(), way.cpu.Seconds()/memory.Seconds())
		}
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
