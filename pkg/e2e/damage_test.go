package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/cli"
)

// consumer is a command that reads a stage's file.
type consumer struct {
	file    string   // of a round's folder, without its suffix
	command []string // STORE stands for a crawl's folder, SAVED for the golden crawl's, FILE for what is read
}

var consumers = []consumer{
	{"batch", []string{"mresolve", "STORE/dns", "--txn", "r2", "--replay", "SAVED/fetch", "FILE"}},
	{"resolved", []string{"mfetch", "STORE/fetch", "--txn", "r2", "--replay", "SAVED/fetch", "FILE"}},
	{"fetched", []string{"mfpset", "mark", "STORE/content", "--txn", "r2", "FILE"}},
	{"marked", []string{"mextract", "--warc", "SAVED/fetch", "--txn", "r2", "FILE"}},
	{"links", []string{"murlset", "new", "STORE/urls", "--txn", "r2", "FILE"}},
	{"new", []string{"mfrontier", "update", "STORE/frontier", "--txn", "r2", "--outcomes", "SAVED/rounds/r2/marked.arrows.zst", "FILE"}},
}

const goldenCrawl = "../testdata/golden/v1/crawl"

// inRound2 is the golden crawl as it was when the batch of round 2 was in flight.
func inRound2(t *testing.T) (dir string) {
	t.Helper()
	c := &crawl{dir: goldenCrawl}
	dir = c.replay(t, "ROUNDS=1", "POLITENESS_FLAGS=--for 0") // its rounds had no time
	output(t, "mfrontier", "next", "--quiet", dir+"/frontier", "--for", "0", "--txn", "r2", "-o", filepath.Join(t.TempDir(), "batch.arrows.zst"))
	return dir
}

// cuts are places in a file of n bytes: every byte of the last 200 in the long
// form, and places all over it.
func cuts(n int) (at []int) {
	step := 7
	if long {
		step = 1
	}
	for i := max(0, n-200); i < n; i += step {
		at = append(at, i)
	}
	for i := range 20 {
		at = append(at, i*n/20)
	}
	return append(at, n-1)
}

// TestCutFiles gives each command its input cut short, as a file and down a
// pipe. It must say so in one line that names file and place, end with 3 or 4,
// and change nothing.
func TestCutFiles(t *testing.T) {
	t.Parallel()
	dir := inRound2(t)
	fill := strings.NewReplacer("STORE", dir, "SAVED", goldenCrawl)
	for _, c := range consumers {
		t.Run(c.command[0], func(t *testing.T) {
			whole, err := os.ReadFile(filepath.Join(goldenCrawl, "rounds", "r2", c.file+".arrows.zst"))
			must.OK(t, err)
			file := filepath.Join(t.TempDir(), "cut.arrows.zst")
			copied := filepath.Join(t.TempDir(), "copy.arrows.zst")
			before := tree(t, dir)
			for i, n := range cuts(len(whole)) {
				must.OK(t, os.WriteFile(file, whole[:n], 0o666))
				pipe := i%2 == 1
				var args []string
				for _, a := range c.command[1:] {
					a = fill.Replace(a)
					if a != "FILE" {
						args = append(args, a)
					} else if !pipe {
						args = append(args, file)
					}
				}
				if c.command[1] != "update" {
					args = append(args, "-o", copied)
				}
				want, name := 3, file
				var in io.Reader
				if pipe {
					full := cli.NewMemoryPipe(t.Context())
					full.Write(whole[:n])
					full.WriterDone()
					in = full
					want, name = 4, "standard input"
				}
				out, said, code := here(t, in, c.command[0], append(args, "--quiet")...)
				if code != want || out != "" {
					t.Fatalf("cut to %d of %d bytes, pipe %v: exit code %d, want %d\n%s%s", n, len(whole), pipe, code, want, said, out)
				}
				first, rest, _ := strings.Cut(said, "\n")
				if !strings.HasPrefix(first, c.command[0]+": "+name+": ") || n > 0 && !strings.ContainsAny(strings.TrimPrefix(first, c.command[0]+": "+name), "0123456789") {
					t.Fatalf("cut to %d bytes: the message names no place in the file: %s", n, first)
				}
				if rest != "" && !strings.HasPrefix(rest, c.command[0]+": hint: ") || strings.Count(rest, "\n") > 1 {
					t.Fatalf("cut to %d bytes: more than one line:\n%s", n, said)
				}
				if _, err := os.Stat(copied); err == nil {
					t.Fatalf("cut to %d bytes: output was published", n)
				}
			}
			if got := tree(t, dir); got != before {
				t.Errorf("the stores changed:\n%s", diff(before, got))
			}
			// The same command does its work when the file is whole.
			args := slices.Clone(c.command[1:])
			for i, a := range args {
				args[i] = strings.ReplaceAll(fill.Replace(a), "FILE", filepath.Join(goldenCrawl, "rounds", "r2", c.file+".arrows.zst"))
			}
			if c.command[1] != "update" {
				args = append(args, "-o", copied)
			}
			output(t, c.command[0], append(args, "--quiet")...)
		})
	}
}

// tree lists what counts in the stores: their pointers, and which files they have.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, store := range []string{"frontier", "dns", "fetch", "content", "urls"} {
		head, err := os.ReadFile(filepath.Join(dir, store, "HEAD"))
		must.OK(t, err)
		b.WriteString(store + " " + strings.TrimSpace(string(head)) + "\n")
	}
	return b.String()
}

// TestFlippedBits flips single bits of record files: an error that ends with 3,
// or the same rows.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	flips := 34 // of each of six files
	if long {
		flips = 150
	}
	for _, c := range consumers {
		t.Run(c.file, func(t *testing.T) {
			path := filepath.Join(goldenCrawl, "rounds", "r2", c.file+".arrows.zst")
			whole, err := os.ReadFile(path)
			must.OK(t, err)
			want := output(t, "mcat", "--canonical", path)
			file := filepath.Join(t.TempDir(), "flipped.arrows.zst")
			rng, refused := rand.New(rand.NewPCG(7, 26)), 0
			for range flips {
				bit := rng.IntN(len(whole) * 8)
				b := bytes.Clone(whole)
				b[bit/8] ^= 1 << (bit % 8)
				must.OK(t, os.WriteFile(file, b, 0o666))
				_, said, code := here(t, nil, "mcat", "--check", file)
				if code == 0 {
					if got := output(t, "mcat", "--canonical", file); got != want {
						t.Fatalf("%s: bit %d flipped: other rows were accepted", c.file, bit)
					}
					continue
				}
				if code != 3 {
					t.Fatalf("%s: bit %d flipped: exit code %d, want 3\n%s", c.file, bit, code, said)
				}
				refused++
			}
			t.Log(c.file + ": " + strconv.Itoa(refused) + " of " + strconv.Itoa(flips) + " refused")
		})
	}
}
