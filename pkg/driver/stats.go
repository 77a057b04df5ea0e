package driver

import (
	"slices"

	"mercator/formats/record"
	"mercator/pkg/crawl"
	"mercator/pkg/history"
	"mercator/pkg/stats"
)

// maxGrowth is how many checkpoints the statistics list: of more, only some are.
const maxGrowth = 1000

// Stats reads the record files of all rounds, also of one that is open.
func (d *Driver) Stats() (*stats.Stats, error) {
	kept, err := d.Crawl.Kept()
	if err != nil {
		return nil, err
	}
	files, err := kept.Files(d.outcomes())
	if err != nil {
		return nil, err
	}
	each := func(row func(*record.Fetch) error) error {
		for _, file := range files {
			if err := history.Read(file, row); err != nil {
				return err
			}
		}
		return nil
	}
	c := stats.New(historyMemory)
	s, err := c.End(each(c.Add))
	if err != nil {
		return nil, err
	}
	if c.Again() {
		h := stats.NewHistories(historyMemory)
		if s.Changes, err = h.End(each(h.Add)); err != nil {
			return nil, err
		}
	}
	s.Growth, err = d.growth()
	return s, err
}

// growth tells the size of the URL space at each checkpoint.
func (d *Driver) growth() (list []stats.Growth, err error) {
	err = d.Crawl.Back(func(k *crawl.Checkpoint) error {
		g := stats.Growth{Checkpoint: k.Number, Round: k.Txn, Made: k.Made}
		for _, s := range k.Totals.Stages {
			switch s.Name {
			case "murlset new":
				g.Known = s.Passed
			case "mfrontier next":
				g.Taken = s.Out
			}
		}
		list = append(list, g)
		return nil
	})
	slices.Reverse(list)
	for step := (len(list) + maxGrowth - 1) / maxGrowth; step > 1; step = 0 {
		var some []stats.Growth
		for i := (len(list) - 1) % step; i < len(list); i += step { // the last is among them
			some = append(some, list[i])
		}
		list = some
	}
	return list, err
}
