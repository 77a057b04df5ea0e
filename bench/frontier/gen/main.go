// Command gen makes the inputs of bench/frontier.sh from a seed, in constant memory.
//
//	gen -n 1e6 -hosts 1e4 -txn seed > new.arrows.zst     url records, all different
//	gen -n 1e6 -from 1e6 -hosts 1e4 -txn r1 > more.arrows.zst   the next million
//	gen -one 1e7 > big.arrows.zst                        URLs of one host
//	gen -outcomes -txn r1 < batch.arrows.zst > fetched.arrows.zst
//
// Hosts are drawn by Zipf's law: the h-th of them has a share in proportion to
// h^-s. A URL has one to four folders, drawn by Zipf's law too, and was found on
// the page of its folder.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"

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
	n := flag.Float64("n", 0, "URLs over all hosts")
	one := flag.Float64("one", 0, "URLs of the host big.example")
	hosts := flag.Float64("hosts", 1e4, "hosts")
	s := flag.Float64("s", 1.1, "exponent of Zipf's law for hosts, above 1")
	from := flag.Float64("from", 0, "number of the first URL: what two ranges have in common is the same")
	seed := flag.Uint64("seed", 1, "seed")
	txn := flag.String("txn", "", "transaction that the records carry")
	outcomes := flag.Bool("outcomes", false, "read a batch, write a fetch record for each URL")
	flag.Parse()
	if flag.NArg() > 0 || *n < 0 || *one < 0 || *hosts < 1 || *from < 0 || *s <= 1 {
		return fmt.Errorf("see -help")
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	var err error
	if *outcomes {
		err = fetch(os.Stdin, out, *txn)
	} else {
		err = urls(out, uint64(*n), uint64(*one), uint64(*hosts), uint64(*from), *s, *seed, *txn)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// step is how many URLs are drawn from one state of the generator, so that a
// range can begin anywhere without what is before it.
const step = 1 << 10

func urls(out io.Writer, n, one, hosts, from uint64, s float64, seed uint64, txn string) error {
	w, err := record.NewWriter[record.URL](out, record.WriterOptions{Txn: txn})
	if err != nil {
		return err
	}
	var u record.URL
	for i := range one {
		fill(&u, "big.example", "/p/", i)
		if err := w.Write(&u); err != nil {
			return err
		}
	}
	if err := each(n, hosts, from, s, seed, w.Write); err != nil {
		return err
	}
	rows, hash, err := w.Finish()
	if err != nil {
		return err
	}
	made := record.Stage{Name: "gen", Txn: txn, Out: rows, OutHash: hash.String(), Made: []record.Count{{Reason: "gen", N: rows}}}
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{made}})
	return err
}

// each makes n URLs from number from on.
func each(n, hosts, from uint64, s float64, seed uint64, fn func(*record.URL) error) error {
	var u record.URL
	var rng *rand.Rand
	var host, word *rand.Zipf
	for i := from / step * step; i < from+n; i++ {
		if i%step == 0 {
			rng = rand.New(rand.NewPCG(seed, i))
			host, word = rand.NewZipf(rng, s, 1, hosts-1), rand.NewZipf(rng, 1.2, 1, 4999)
		}
		name := "www.h" + strconv.FormatUint(host.Uint64(), 10) + ".example"
		folder := "/"
		for range 1 + rng.IntN(4) {
			folder += words[word.Uint64()] + "/"
		}
		if i < from {
			continue
		}
		fill(&u, name, folder, i)
		if err := fn(&u); err != nil {
			return err
		}
	}
	return nil
}

// fill makes u page i of a folder.
func fill(u *record.URL, host, folder string, i uint64) {
	u.Host = host
	u.Via = "http://" + host + folder
	u.URL = u.Via + strconv.FormatUint(i, 10) + ".html"
	u.Key = fingerprint.URLKey(host, u.URL)
	u.Depth = uint16(len(folder) / 8)
	u.Discovered = record.Time(1_700_000_000_000_000 + i/step*1_000_000)
}

// words are 5,000 names of folders, of two to four syllables.
var words = func() (w []string) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 5000 {
		s := ""
		for range 2 + rng.IntN(3) {
			s += string("bcdfghklmnprstvw"[rng.IntN(16)]) + string("aeiou"[rng.IntN(5)])
		}
		w = append(w, s)
	}
	return w
}()

// fetch answers a batch: every URL is fetched, at the batch's time.
func fetch(in io.Reader, out io.Writer, txn string) error {
	r, err := record.NewReader[record.URL](in, record.ReaderOptions{Name: "batch"})
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.Fetch](out, record.WriterOptions{Txn: txn, Now: r.Schema().Now})
	if err != nil {
		return err
	}
	for {
		var u record.URL
		if err := r.Read(&u); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		err := w.Write(&record.Fetch{
			URL: u.URL, Key: u.Key, Host: u.Host, Depth: u.Depth, Attempt: u.Attempt, Via: u.Via, Discovered: u.Discovered, Role: record.RolePage,
			Outcome: record.OutcomeFetched, Status: 200, MIME: "text/html", Addr: "192.0.2.1", FetchTime: max(r.Schema().Now, 1), DurationUS: 200_000,
		})
		if err != nil {
			return err
		}
	}
	rows, hash, err := w.Finish()
	if err != nil {
		return err
	}
	before := r.Trailer()
	ledger := before.Ledger
	ledger.Stages = append(ledger.Stages, record.Stage{Name: "gen", Txn: txn, In: rows, InHash: before.Hash.String(), Passed: rows, Out: rows, OutHash: hash.String()})
	_, err = w.Commit(ledger)
	return err
}
