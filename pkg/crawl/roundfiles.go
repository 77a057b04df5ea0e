package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

// RoundFiles are the rounds that count, in the order in which they went into the frontier, as one look at the crawl found
// them: a round that closes meanwhile changes nothing.
type RoundFiles struct {
	c      *Crawl
	rounds []keptRound
}

// keptRound is a round. All its files are of one epoch.
type keptRound struct {
	in          *Crawl // the shard's view
	name        string
	open        bool
	first, last uint64      // the epoch is one of these
	files       []RoundFile // files that the round's checkpoint names
}

// Files looks at the rounds that count; an open round comes last.
func (c *Crawl) Files() (*RoundFiles, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	parts, err := c.parts()
	if err != nil {
		return nil, err
	}
	kept := &RoundFiles{c: c}
	all := make([][]keptRound, len(parts))
	var open []keptRound
	longest := 0
	for i, part := range parts {
		if all[i], err = part.kept(cur); err != nil {
			return nil, err
		}
		if n := len(all[i]) - 1; n >= 0 && all[i][n].open {
			all[i], open = all[i][:n], append(open, all[i][n])
		}
		longest = max(longest, len(all[i]))
	}
	for i := range longest { // a commit closes a round in all shards that there are, and the last is of all
		for _, rounds := range all {
			if at := len(rounds) - longest + i; at >= 0 {
				kept.rounds = append(kept.rounds, rounds[at])
			}
		}
	}
	kept.rounds = append(kept.rounds, open...)
	return kept, nil
}

// kept lists the rounds of a shard, or of a crawl without any.
func (c *Crawl) kept(cur store.Current) (rounds []keptRound, err error) {
	frontier, look, err := c.viewFrontier()
	if err != nil {
		return nil, err
	}
	names, closedBy, err := frontier.Names(look.Counts)
	if err != nil {
		return nil, err
	}
	known := map[string]*Checkpoint{}
	err = c.Back(func(k *Checkpoint) error {
		known[k.Txn] = k
		return nil
	})
	if err != nil {
		return nil, err
	}
	undone, err := c.undone()
	if err != nil {
		return nil, err
	}
	epochs := c.epochs(cur)
	for _, name := range names {
		r := keptRound{in: c, name: name, open: name == look.Open(), first: cur.Epoch, last: cur.Epoch}
		if k := known[name]; k != nil {
			r.first, r.last, r.files = k.Epoch, k.Epoch, k.filesOf(c.under)
		} else if !r.open {
			if r.first, r.last, err = epochs(closedBy[name]); err != nil {
				return nil, err
			}
			made, _, err := c.madeIn(name)
			if err != nil {
				return nil, err
			}
			last := r.last
			for _, text := range append(undone[name], made) { // of several in which there are files, the last
				if epoch, err := strconv.ParseUint(text, 10, 53); err == nil && r.first <= epoch && epoch <= last {
					r.first, r.last = epoch, epoch
				}
			}
		}
		rounds = append(rounds, r)
	}
	return rounds, nil
}

// undone lists the epochs of the files of each round in rounds/undone.
func (c *Crawl) undone() (map[string][]string, error) {
	list, err := c.fs.ReadDir(c.roundsPath(undoneDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	undone := map[string][]string{}
	for _, e := range list {
		if i := strings.LastIndexByte(e.Name(), '.'); i > 0 {
			undone[e.Name()[:i]] = append(undone[e.Name()[:i]], e.Name()[i+1:])
		}
	}
	return undone, nil
}

// epochs bounds the epoch of a forgotten checkpoint by the epochs of the nearest kept checkpoints before and after it.
func (c *Crawl) epochs(cur store.Current) func(number uint64) (first, last uint64, err error) {
	var numbers []uint64
	known := map[uint64]uint64{cur.Last + 1: cur.Epoch}
	of := func(number uint64) (uint64, error) {
		if epoch, ok := known[number]; ok {
			return epoch, nil
		}
		k, err := readCheckpoint(c.fs, c.dir, number)
		if err != nil {
			return 0, err
		}
		known[number] = k.Epoch
		return k.Epoch, nil
	}
	return func(number uint64) (first, last uint64, err error) {
		if numbers == nil {
			if numbers, err = checkpointNumbers(c.fs, c.dir, cur); err != nil {
				return 0, 0, err
			}
			numbers = append(numbers, cur.Last+1)
		}
		for { // one that is damaged says nothing
			i, kept := slices.BinarySearch(numbers, min(number, cur.Last+1))
			if last, err = of(numbers[i]); store.Damaged(err) {
				numbers = slices.Delete(numbers, i, i+1)
				continue
			}
			if kept || err != nil {
				return last, last, err
			}
			if first = 0; i > 0 {
				if first, err = of(numbers[i-1]); store.Damaged(err) {
					numbers = slices.Delete(numbers, i-1, i)
					continue
				}
			}
			return first, last, err
		}
	}
}

// Closed are the rounds without an open one.
func (k *RoundFiles) Closed() *RoundFiles {
	return &RoundFiles{k.c, slices.DeleteFunc(slices.Clone(k.rounds), func(r keptRound) bool { return r.open })}
}

// Until are the rounds up to one of this name, and that one; nil where there is none.
func (k *RoundFiles) Until(round string) *RoundFiles {
	for i, r := range slices.Backward(k.rounds) {
		if r.name == round {
			return &RoundFiles{k.c, k.rounds[:i+1]}
		}
	}
	return nil
}

// Names returns the names of the rounds, in their order.
func (k *RoundFiles) Names() (names []string) {
	for _, r := range k.rounds {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}

// Outcomes is the name of the files that say what became of each URL: "marked" or, in a walk, which marks nothing, "fetched".
func (k *RoundFiles) Outcomes() (string, error) {
	for _, name := range [...]string{"marked", "fetched"} {
		if files, _, err := k.listFiles([]string{name}); err != nil || len(files) > 0 {
			return name, err
		}
	}
	return "marked", nil
}

// Files lists the files rounds/ROUND/NAME.arrows.zst, in the order of the rounds and, within a round, of the names. A round that
// keeps no such file is passed over, and so are files of another epoch, from a round that abandon or restore has undone. Options.Warn gets one
// warning about closed rounds with a lost file.
func (k *RoundFiles) Files(names ...string) ([]string, error) {
	files, lost, err := k.listFiles(names)
	if len(lost) > 0 && k.c.opt.Warn != nil {
		if warning := k.c.LostFiles(lost); warning.Error() != k.c.warned {
			k.c.warned = warning.Error()
			k.c.opt.Warn(warning)
		}
	}
	return files, err
}

// listFiles lists the files, and the closed rounds that lost some.
func (k *RoundFiles) listFiles(names []string) (files, lost []string, err error) {
	for _, r := range k.rounds {
		for _, name := range names {
			path := r.in.roundsPath(r.name, name+recordSuffix)
			epoch, err := k.c.epochOf(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
			named := slices.ContainsFunc(r.files, func(f RoundFile) bool { return f.Name == filepath.Base(path) })
			n, other := strconv.ParseUint(epoch, 10, 64)
			switch {
			case err == nil && (epoch == "" || other == nil && r.first <= n && n <= r.last):
				files = append(files, path)
			case !r.open && (err == nil || named) && !slices.Contains(lost, r.name):
				lost = append(lost, r.name)
			}
		}
	}
	return files, lost, nil
}

// LostFiles warns that files of rounds that count are not in rounds/.
func (c *Crawl) LostFiles(rounds []string) error {
	return &fault.Error{File: c.path(roundsDir), Found: fmt.Sprintf("files of %s are missing, or of a round that was undone: their rows are left out; put back what a restore has set aside: %s",
		firstOf(rounds), fault.Quote("mckpt", "rounds", c.dir))}
}

// AllThere is fault.Corrupt where Files would warn: who calls it needs the rows of all rounds.
func (k *RoundFiles) AllThere(names ...string) error {
	_, lost, err := k.listFiles(names)
	if err != nil || len(lost) == 0 {
		return err
	}
	c := k.c
	return &fault.Error{Class: fault.Corrupt, File: c.path(roundsDir), Found: fmt.Sprintf("files of %s are missing, or of a round that was undone", firstOf(lost)),
		Want: "those of all rounds, which say what became of each URL", Hint: "put them back, what a restore has set aside: " + fault.Quote("mckpt", "rounds", c.dir)}
}

// firstOf names some of many rounds.
func firstOf(rounds []string) string {
	const most = 8
	names := strings.Join(rounds[:min(len(rounds), most)], ", ")
	if n := len(rounds) - most; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return names
}

// RoundFiles looks at the crawl, and lists the files of these names.
func (c *Crawl) RoundFiles(names ...string) ([]string, error) {
	kept, err := c.Files()
	if err != nil {
		return nil, err
	}
	return kept.Files(names...)
}

// epochOf is the epoch that a record file names at its begin; "" if it names none, or is
// damaged there: who reads the file will say so.
func (c *Crawl) epochOf(path string) (string, error) {
	f, err := c.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	src, err := record.Open(f, record.ReaderOptions{Name: path})
	if err != nil {
		return "", nil
	}
	return src.Schema().Epoch, nil
}
