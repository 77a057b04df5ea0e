package crawl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mercator/formats/record"
)

// RoundFiles lists the files rounds/ROUND/NAME.arrows.zst of the rounds that count, in the
// order in which the rounds went into the frontier; an open round comes last. A round that
// keeps no such file is passed over, and so are files that the records in them say are of
// another epoch: of a round that abandon or restore has undone.
func (c *Crawl) RoundFiles(name string) ([]string, error) {
	cur, err := c.current()
	if err != nil {
		return nil, err
	}
	frontier := c.folder("frontier")
	look, err := frontier.Look()
	if err != nil {
		return nil, err
	}
	rounds, err := frontier.Names(look.Counts)
	if err != nil {
		return nil, err
	}
	epochs := map[string]uint64{look.Open(): cur.Epoch} // of rounds whose checkpoint is not forgotten
	err = c.Back(func(k *Checkpoint) error {
		epochs[k.Txn] = k.Epoch
		return nil
	})
	if err != nil {
		return nil, err
	}
	var files []string
	for _, round := range rounds {
		path := c.path(filepath.Join(roundsDir, round, name+recordSuffix))
		epoch, known := epochs[round]
		if of, err := c.epochOf(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		} else if known && of != "" && of != epochText(epoch) {
			continue
		}
		files = append(files, path)
	}
	return files, nil
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
