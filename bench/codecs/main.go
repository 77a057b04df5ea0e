// Command codecs measures what archiving a page costs by codec and setting, in memory.
//
//	codecs [-every N] [-suffix .html] [-runs N] DIR ...
//
// Of the files below the folders each N-th is read. Each codec then compresses all of them, a file a member, in turns
// with the others and on one core. A table says microseconds of processor a file (medians of the runs), and bytes.
// "warc" is the project's own warc.Encoder, whose records have headers, and ids made by hashing; the others are the
// compressors alone.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"mercator/formats/warc"
)

type codec struct {
	name  string
	bytes int
	times []time.Duration
	run   func(dst, src []byte) []byte
}

func main() {
	every := flag.Int("every", 10, "take each n-th file")
	suffix := flag.String("suffix", ".html", "end of the files' names")
	runs := flag.Int("runs", 9, "runs of each codec")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	files, total := read(flag.Args(), *suffix, *every)
	if len(files) == 0 {
		fmt.Fprintf(os.Stderr, "codecs: no files %s in %v\n", *suffix, flag.Args())
		os.Exit(1)
	}
	all := codecs()
	var dst []byte
	for range *runs {
		for _, c := range all {
			c.bytes = 0
			start := processor()
			for _, f := range files {
				dst = c.run(dst[:0], f)
				c.bytes += len(dst)
			}
			c.times = append(c.times, processor()-start)
		}
	}
	fmt.Printf("%d files, mean %d bytes; a file:\n%-14s %8s %8s\n", len(files), total/len(files), "", "us", "bytes")
	for _, c := range all {
		slices.Sort(c.times)
		fmt.Printf("%-14s %8.1f %8d\n", c.name, c.times[len(c.times)/2].Seconds()/float64(len(files))*1e6, c.bytes/len(files))
	}
}

func read(dirs []string, suffix string, every int) (files [][]byte, total int) {
	n := 0
	for _, dir := range dirs {
		check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, suffix) {
				return err
			}
			if n++; (n-1)%every > 0 {
				return nil
			}
			b, err := os.ReadFile(path)
			files, total = append(files, b), total+len(b)
			return err
		}))
	}
	return files, total
}

// appender is what compressed bytes are appended to.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

func codecs() (all []*codec) {
	add := func(name string, run func(dst, src []byte) []byte) { all = append(all, &codec{name: name, run: run}) }
	for _, c := range []warc.Codec{warc.Gzip, warc.Zstd, warc.None} {
		e := warc.Encoder{Codec: c}
		add("warc "+string(c), func(dst, src []byte) []byte {
			rec := warc.Record{Type: warc.TypeResource, Date: time.Unix(0, 0), TargetURI: "http://www.example.org/", Length: int64(len(src)), Block: bytes.NewReader(src)}
			dst, err := e.Append(dst, &rec)
			check(err)
			return dst
		})
	}
	names := map[int]string{gzip.HuffmanOnly: "Huffman only", gzip.StatelessCompression: "stateless"}
	for _, level := range []int{gzip.HuffmanOnly, gzip.StatelessCompression, 1, 2, 3, 4, 5, 6} {
		w, err := gzip.NewWriterLevel(nil, level)
		check(err)
		name := names[level]
		if name == "" {
			name = fmt.Sprint(level)
		}
		add("gzip "+name, func(dst, src []byte) []byte {
			a := appender(dst)
			w.Reset(&a)
			_, err := w.Write(src)
			check(err)
			check(w.Close())
			return a
		})
	}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault} {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))
		check(err)
		add("zstd "+level.String(), func(dst, src []byte) []byte { return e.EncodeAll(src, dst) })
	}
	return all
}

// processor is the time that this process has taken.
func processor() time.Duration {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "codecs:", err)
		os.Exit(1)
	}
}
