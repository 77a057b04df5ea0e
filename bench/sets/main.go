// Command sets measures sets of fingerprints beside their peers: GNU sort and comm,
// Pebble, memcpy, and Go's own library. bench/sets.sh builds what it needs.
//
//	sets -n 1e7 -bin DIR GROUP
//
// A group prints rows of a table: our figure, the peer's, their ratio, and what
// is wanted. Contenders of a row take turns, so that all meet the same load, and the
// median of -runs counts. All inputs come from -seed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bench is the state that the groups share.
type bench struct {
	n    uint64
	seed uint64
	runs int
	bin  string // folder of our commands, of gen and of pebble
	dir  string // scratch
}

type group struct {
	name, does string
	run        func(*bench) error
}

var groups = []group{
	{"memory", "union, difference, intersection, sorting in memory beside sort and comm", memory},
	{"files", "the same from file to file", files},
	{"seen", "a batch of 1 % against one run, beside reading and writing the set and beside Pebble", seen},
	{"cold", "a batch of 1 % from and to disk, nothing in the page cache, beside reading the files", cold},
	{"size", "bits a key, beside the least possible", size},
	{"decode", "decoding beside uvarint differences", decode},
	{"rss", "peak memory of every command, at n / 100 and at n keys", rss},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sets:", err)
		os.Exit(1)
	}
}

func run() error {
	n := flag.Float64("n", 1e7, "keys")
	b := &bench{}
	flag.Uint64Var(&b.seed, "seed", 1, "seed of all inputs")
	flag.IntVar(&b.runs, "runs", 5, "runs of each contender")
	flag.StringVar(&b.bin, "bin", "bin", "folder of the commands, of gen and of pebble")
	dir := flag.String("dir", "", "folder for a temporary folder (the system's)")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "sets [FLAGS] GROUP")
		flag.PrintDefaults()
		for _, g := range groups {
			fmt.Fprintf(os.Stderr, "  %-8s %s\n", g.name, g.does)
		}
	}
	flag.Parse()
	b.n = uint64(*n)
	if b.n < 10000 || b.runs < 1 {
		return fmt.Errorf("want -n of 10,000 at least, and one run at least")
	}
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == flag.Arg(0) })
	if flag.NArg() != 1 || i < 0 {
		return fmt.Errorf("want one group of those that -help lists")
	}
	var err error
	if b.bin, err = filepath.Abs(b.bin); err != nil {
		return err
	}
	return b.group(groups[i], *dir)
}

// group runs one in a folder of its own.
func (b *bench) group(g group, parent string) (err error) {
	if b.dir, err = os.MkdirTemp(parent, "sets-"); err != nil {
		return err
	}
	defer func() {
		if rerr := os.RemoveAll(b.dir); err == nil {
			err = rerr
		}
	}()
	load, _ := os.ReadFile("/proc/loadavg") // Linux alone has it
	fmt.Printf("\n%s: %s; n = %s, %d runs, load %s\n\n", g.name, g.does, power(b.n), b.runs, strings.Join(strings.Fields(string(load))[:min(1, len(load))], ""))
	return g.run(b)
}
