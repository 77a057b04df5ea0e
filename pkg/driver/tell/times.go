package tell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"mercator/pkg/base/fault"
	"mercator/pkg/view/stats"
)

const (
	timesVersion = 1
	timesMax     = 2 << 20 // bytes, which hold some 10,000 commands
)

// times is the content of crawl.TimesFile. The file is written when a round is closed, and by each stage that is run by itself: in a crawl of
// several shards, in the shard's folder. Only statistics read it.
type times struct {
	Version  int           `json:"version"`
	Commands []stats.Spent `json:"commands"`
}

// KeepTimes adds the times of a stage's commands to the file of a round. The stage is "" for commands that ran together. The times
// of an earlier attempt are replaced.
func KeepTimes(file, stage string, spent []stats.Spent) error {
	before, err := readTimes(file)
	if err != nil {
		before = nil // it is replaced
	}
	for i := range spent {
		spent[i].Stage = stage
	}
	again := func(b stats.Spent) bool {
		return slices.ContainsFunc(spent, func(s stats.Spent) bool { return s.Stage == b.Stage && s.Command == b.Command })
	}
	return replace(file, times{timesVersion, append(slices.DeleteFunc(before, again), spent...)})
}

// readTimes reads the file of a round; nil if there is none.
func readTimes(file string) ([]stats.Spent, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var b []byte
	if err == nil {
		defer f.Close() // was read only
		b, err = io.ReadAll(io.LimitReader(f, timesMax+1))
	}
	bad := &fault.Error{Class: fault.Corrupt, File: file, Want: fmt.Sprintf("the times of a round, version %d", timesVersion),
		Hint: "nothing is lost but the times of this round; remove it: " + fault.Quote("rm", file)}
	if err != nil {
		bad.Err = err
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			bad.Err = of.Err // bad names the file
		}
		return nil, bad
	}
	var t times
	if len(b) > timesMax {
		bad.Found = fmt.Sprintf("more than %d bytes", timesMax)
		return nil, bad
	}
	if err := json.Unmarshal(b, &t); err != nil {
		bad.Err = err
		return nil, bad
	}
	if t.Version != timesVersion {
		bad.Found = fmt.Sprintf("version %d", t.Version)
		return nil, bad
	}
	for _, c := range t.Commands {
		for _, s := range []float64{c.ElapsedS, c.OwnS, c.WaitedS, c.LookupsS} {
			if s < 0 || s > 1e9 {
				bad.Place, bad.Found = c.Command, fmt.Sprintf("%g seconds", s)
				return nil, bad
			}
		}
	}
	return t.Commands, nil
}
