package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"mercator/formats/fpfile"
	"mercator/pkg/merge"
)

// readKeys reads a .bin file.
func readKeys(name string) ([]uint64, error) {
	data, err := os.ReadFile(name)
	list := make([]uint64, len(data)/8)
	for i := range list {
		list[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	return list, err
}

// writeKeys writes a .bin file.
func writeKeys(name string, list []uint64) error {
	data := make([]byte, 0, 8*len(list))
	for _, key := range list {
		data = binary.LittleEndian.AppendUint64(data, key)
	}
	return os.WriteFile(name, data, 0o666)
}

// sweep asks a file for all of batch, which ascends, and counts those there.
func sweep(r *fpfile.Reader, batch []uint64, seen []bool) (hits int, err error) {
	clear(seen)
	it := r.All()
	const chunk = 1 << 13 // as murlset does
	for at := 0; at < len(batch); at += chunk {
		end := min(at+chunk, len(batch))
		if err := it.Mark(batch[at:end], seen[at:end]); err != nil {
			return 0, err
		}
	}
	for _, s := range seen {
		if s {
			hits++
		}
	}
	return hits, nil
}

// seen asks for a batch of 1 %; half of it is in the set.
func seen(b *bench) error {
	m := b.n / 100
	if err := b.gen("-n %d -m %d -both %d -a a.fps,a.bin -b batch.bin", b.n, m, m/2); err != nil {
		return err
	}
	batch, err := readKeys(b.path("batch.bin"))
	if err != nil {
		return err
	}
	f, err := os.Open(b.path("a.fps"))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	answers := make([]bool, len(batch))
	ask := func() error {
		r, err := fpfile.Open(f, info.Size(), "a.fps")
		if err != nil {
			return err
		}
		hits, err := sweep(r, batch, answers)
		if err == nil && uint64(hits) != m/2 {
			err = fmt.Errorf("%d hits, want %d", hits, m/2)
		}
		return err
	}
	list := []contender{
		{name: "set", run: ask},
		{name: "read", run: func() error { return readThrough(b.path("a.fps")) }},
		{name: "read and write", run: func() error { return copyFile(b.path("copy"), b.path("a.fps")) }},
	}
	// The same keys as they arrive: ours are sorted first.
	arrived, err := readKeys(b.path("batch.bin"))
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(b.seed, 8))
	rng.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })
	if err := writeKeys(b.path("arrived.bin"), arrived); err != nil {
		return err
	}
	scratch := make([]uint64, len(batch))
	list = append(list, contender{"sort, set", func() error { copy(batch, arrived); return nil }, func() error {
		merge.RadixSort(batch, scratch)
		return ask()
	}})
	var ascending, arriving []time.Duration
	if _, err := exec.LookPath(filepath.Join(b.bin, "pebble")); err == nil {
		if _, err := b.shell("pebble build db a.bin"); err != nil {
			return err
		}
		get := func(file string, took *[]time.Duration) contender {
			return contender{name: "Pebble, " + file, run: func() error {
				out, err := exec.Command(filepath.Join(b.bin, "pebble"), "get", b.path("db"), b.path(file)).Output()
				if err != nil {
					return err
				}
				var hits uint64
				var seconds float64
				if _, err := fmt.Sscan(string(out), &hits, &seconds); err != nil || hits != m/2 {
					return fmt.Errorf("said %q, want %d hits: %w", out, m/2, err)
				}
				*took = append(*took, time.Duration(seconds*1e9))
				return nil
			}}
		}
		list = append(list, get("batch.bin", &ascending), get("arrived.bin", &arriving))
	}
	took, err := b.turns(list...)
	if err != nil {
		return err
	}
	head()
	b.atMost(fmt.Sprintf("set in the page cache: %.3g ns a check", took[0].clock.Seconds()/float64(m)*1e9), took[0], "reading and writing the encoded set, page cache, no sync", took[2], 1.6)
	b.atMost("set in the page cache", took[0], "reading the encoded set, page cache", took[1], 0)
	if len(ascending) > 0 {
		p := median(arriving)
		b.row("set in the page cache, batch in order of arrival, sorted first", took[3], float64(m), "checks", "Pebble, point reads in order of arrival, warm", cost{p, p}, "≥ 45", 45)
		p = median(ascending)
		b.row("set in the page cache, batch sorted already", took[0], float64(m), "checks", "Pebble, point reads by ascending key, warm", cost{p, p}, "≥ 45", 45)
	}
	return nil
}

// copyFile reads and writes a file in pieces of 1 MiB, as cp would where it cannot
// share blocks; it does not sync.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 1<<20))
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// cold times one change to a set with none of its files in the page cache: mfpset add
// of a batch of 1 %, half of it new. For comparison it times reading the same files and
// writing the same bytes.
func cold(b *bench) error {
	m := b.n / 100
	if err := b.gen("-n %d -m %d -both %d -a a.fps -b batch.fps", b.n, m, m/2); err != nil {
		return err
	}
	if _, err := b.shell("mfpset create set && mfpset add --quiet set a.fps && rm a.fps"); err != nil {
		return err
	}
	runs, err := filepath.Glob(b.path("set/runs/*"))
	if err != nil {
		return err
	}
	inputs := append(runs, b.path("batch.fps"))
	forget := func() error {
		for _, name := range inputs {
			if err := dropCache(name); err != nil {
				return err
			}
		}
		return nil
	}
	var wrote, peak int64
	restore := func() error { // a copy of the set that shares its runs
		if err := os.RemoveAll(b.path("changed")); err != nil {
			return err
		}
		if _, err := b.shell("mkdir -p changed/runs && cp -p set/HEAD set/MANIFEST-* changed/ && ln set/runs/* changed/runs/"); err != nil {
			return err
		}
		return forget()
	}
	took, err := b.turns(
		contender{"mfpset add", restore, func() error {
			p, err := b.shell("mfpset add --quiet changed batch.fps")
			peak = max(peak, p)
			return err
		}},
		contender{"read and write", func() error {
			if wrote, err = sizeOf(b.path("changed/runs")); err != nil {
				return err
			}
			kept, err := sizeOf(b.path("set/runs"))
			if wrote -= kept; wrote < 0 {
				return fmt.Errorf("the set became smaller by %d bytes", -wrote)
			}
			if err != nil {
				return err
			}
			return forget()
		}, func() error {
			if err := readThrough(inputs...); err != nil {
				return err
			}
			return writeThrough(b.path("wrote"), wrote)
		}},
		contender{"read only", forget, func() error { return readThrough(inputs...) }},
	)
	if err != nil {
		return err
	}
	read, err := sizeOf(b.path("set/runs"))
	if err != nil {
		return err
	}
	fmt.Printf("Files %.4g GB, written %.3g MB and synced; all input dropped from the page cache before each run (posix_fadvise).\n\n", float64(read)/1e9, float64(wrote)/1e6)
	head()
	b.atMost("`mfpset add set batch.fps`, cold, batch of 1 %", took[0], fmt.Sprintf("reading the files (%.0f MB/s) and writing what changed", float64(read)/took[2].clock.Seconds()/1e6), took[1], 1.15)
	fmt.Printf("\nPeak memory of mfpset add: %.1f MiB; wanted: ≤ 64.\n", float64(peak)/(1<<20))
	return nil
}

// sizeOf sums up the files of a folder.
func sizeOf(dir string) (sum int64, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, err
}
