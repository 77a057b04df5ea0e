// Command gen makes inputs for benchmarks of sets from a seed, in a stream: 10⁹
// keys need no more memory than ten.
//
//	gen -n 1e8 -a a.fps,a.txt,a.bin
//	gen -n 1e8 -m 1e8 -both 5e7 -a a.fps,a.txt -b b.fps,b.txt
//	gen -kind zipf -n 1e8 -m 1e6 -both 5e5 -a set.fps -b batch.fps
//	gen -kind arrivals -n 1e8 -again 0.3 -a batch.txt
//	gen -kind urls -n 1e7 -a urls.txt
//	gen -kind fetch -n 1e7 -a fetch.arrows.zst
//
// A file is written as its name ends: .fps a fingerprint file, .bin eight
// little-endian bytes a key, .txt sixteen hexadecimal digits a line.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"strings"

	"mercator/bench/sets/keys"
	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	kind := flag.String("kind", "uniform", "uniform; zipf: URL checksums of a Zipf web, s = 1.1; arrivals: uniform, in no order, some again; urls: text of a Zipf web; fetch: records of its documents")
	seed := flag.Uint64("seed", 1, "seed")
	hosts := flag.Int("hosts", 1e6, "hosts of a Zipf web")
	n := flag.Float64("n", 1e6, "keys in A")
	m := flag.Float64("m", 0, "keys in B")
	both := flag.Float64("both", 0, "keys in both")
	again := flag.Float64("again", 0.3, "arrivals: probability that a key comes again")
	a := flag.String("a", "", "files of set A, comma-separated")
	b := flag.String("b", "", "files of set B")
	flag.Parse()
	if flag.NArg() > 0 || *n < 0 || *m < 0 || *both < 0 || *both > min(*n, *m) || *a == "" {
		return fmt.Errorf("want -a FILES, and -both no more than -n and -m; see -help")
	}
	toA, err := create(*a)
	if err != nil {
		return err
	}
	toB, err := create(*b)
	if err != nil {
		return err
	}
	total := uint64(*n) + uint64(*m) - uint64(*both)
	var src keys.Source
	switch *kind {
	case "uniform":
		src = keys.Uniform(*seed, total)
	case "zipf":
		src = keys.NewWeb(*seed, *hosts, 1.1).Checksums(total)
	case "arrivals":
		src = keys.Arrivals(*seed, total, *again)
	case "urls":
		return urls(toA, keys.NewWeb(*seed, *hosts, 1.1).URLs(total), total)
	case "fetch":
		return fetches(toA, keys.NewWeb(*seed, *hosts, 1.1).URLs(total), total)
	default:
		return fmt.Errorf("kind %q: want uniform, zipf, arrivals, urls or fetch", *kind)
	}
	next := keys.Pair(*seed, uint64(*n), uint64(*m), uint64(*both), src)
	for {
		key, inA, inB, ok := next()
		if !ok {
			break
		}
		if inA {
			toA.add(key)
		}
		if inB {
			toB.add(key)
		}
	}
	if err := toA.close(); err != nil {
		return err
	}
	return toB.close()
}

// file is one output; close returns its first error.
type file struct {
	f   *os.File
	w   *bufio.Writer
	fps *fpfile.Writer
	hex bool
	err error
	buf []byte
	set []uint64 // keys that wait for fps
}

type files []*file

func create(names string) (list files, err error) {
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		o := &file{f: f, w: bufio.NewWriterSize(f, 1<<20), hex: strings.HasSuffix(name, ".txt")}
		if strings.HasSuffix(name, ".fps") {
			o.fps = fpfile.NewWriter(o.w, fingerprint.Polynomial)
		}
		list = append(list, o)
	}
	return list, nil
}

func (l files) add(key uint64) {
	for _, o := range l {
		if o.err == nil {
			o.err = o.add(key)
		}
	}
}

func (o *file) add(key uint64) error {
	if o.fps != nil {
		if o.set = append(o.set, key); len(o.set) < 1<<13 {
			return nil
		}
		err := o.fps.AddKeys(o.set)
		o.set = o.set[:0]
		return err
	}
	if o.buf = o.buf[:0]; o.hex {
		o.buf = append(fingerprint.Append(o.buf, key), '\n')
	} else {
		o.buf = binary.LittleEndian.AppendUint64(o.buf, key)
	}
	_, err := o.w.Write(o.buf)
	return err
}

func (l files) close() error {
	for _, o := range l {
		if o.err == nil && o.fps != nil {
			if o.err = o.fps.AddKeys(o.set); o.err == nil {
				o.err = o.fps.Finish()
			}
		}
		if o.err == nil {
			o.err = o.w.Flush()
		}
		if err := o.f.Close(); o.err == nil {
			o.err = err
		}
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// urls writes n lines.
func urls(to files, next func() string, n uint64) error {
	for range n {
		url := next()
		for _, o := range to {
			if o.err == nil {
				_, o.err = o.w.WriteString(url + "\n")
			}
		}
	}
	return to.close()
}

// fetches writes n fetch records; the content of one URL is always the same.
func fetches(to files, next func() string, n uint64) error {
	w, err := record.NewWriter[record.Fetch](to[0].w, record.WriterOptions{Name: to[0].f.Name()})
	if err != nil {
		return err
	}
	for i := range n {
		url := next()
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		fp := fingerprint.OfString(url)
		row := record.Fetch{
			URL: url, Host: host, Key: fingerprint.URLKey(host, url), Role: record.RolePage, FetchTime: record.Time(i),
			Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", BodyLength: int64(fp>>54) + 1, ContentFP: fp,
		}
		if err := w.Write(&row); err != nil {
			return err
		}
	}
	rows, hash, err := w.Finish()
	if err != nil {
		return err
	}
	made := record.Stage{Name: "gen", Out: rows, OutHash: hash.String(), Made: []record.Count{{Reason: "gen", N: rows}}}
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{made}}); err != nil {
		return err
	}
	return to.close()
}
