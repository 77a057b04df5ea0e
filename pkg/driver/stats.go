package driver

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/shard"
	"mercator/pkg/view/history"
	"mercator/pkg/view/report"
	"mercator/pkg/view/stats"
)

// maxGrowth is how many checkpoints the statistics list: of more, only some are.
const maxGrowth = 1000

// Stats reads the record files of all rounds, also of one that is open.
func (d *Driver) Stats() (s *stats.Stats, err error) {
	defer func() { err = damaged(d.Crawl.Dir(), err) }()
	each, err := d.outcomeRows()
	if err != nil {
		return nil, err
	}
	c := stats.New(historyMemory)
	if d.plan.focused {
		c.Topic = func(r *record.Fetch) (string, bool) {
			topic := r.Extra.Text(classify.TopicColumn)
			return topic, topic != "" && r.Score > classify.Relevant
		}
	}
	if s, err = c.End(d.byRound(c)); err != nil {
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

// byRound gives the outcomes of all rounds to c, with the times of each.
func (d *Driver) byRound(c *stats.Collector) error {
	files, err := d.Crawl.RoundFiles(d.outcomes())
	if err != nil {
		return err
	}
	before := ""
	for _, file := range files {
		dir := filepath.Dir(file)
		round := filepath.Base(dir)
		spent := d.timesOf(filepath.Join(dir, crawl.TimesFile))
		if d.plan.shards > 0 && round != before { // times of the whole crawl, beside the shards' times
			spent = append(spent, d.timesOf(d.plan.path("rounds", round, crawl.TimesFile))...)
		}
		before = round
		c.Round(round, spent)
		if err := history.Read(file, c.Add); err != nil {
			return err
		}
	}
	return nil
}

// timesOf reads the times of a round for statistics, which do without a record that cannot be read.
func (d *Driver) timesOf(file string) []stats.Spent {
	spent, err := readTimes(file)
	if err != nil {
		d.opt.Warn("%v; its times are not counted", err)
	}
	return spent
}

// outcomeRows gives a function that reads the outcomes of all rounds, in their order.
func (d *Driver) outcomeRows() (func(row func(*record.Fetch) error) error, error) {
	kept, err := d.Crawl.Kept()
	if err != nil {
		return nil, err
	}
	files, err := kept.Files(d.outcomes())
	return func(row func(*record.Fetch) error) error {
		return eachRow(files, row)
	}, err
}

// Compare compares the outcomes of two crawls.
func (d *Driver) Compare(other *Driver) (*stats.Comparison, error) {
	here, err := d.outcomeRows()
	if err != nil {
		return nil, err
	}
	there, err := other.outcomeRows()
	if err != nil {
		return nil, err
	}
	return stats.Compare(historyMemory/2, here, there)
}

// Fetched refuses a crawl that has tried no URL, as an export does: a report of it would have no plot.
func (d *Driver) Fetched(c *report.Crawl) error {
	if c.Stats.Attempts > 0 {
		return nil
	}
	return empty(d.Crawl)
}

// Report collects what a report shows of the crawl.
func (d *Driver) Report(ctx context.Context, now time.Time) (*report.Crawl, error) {
	s, err := ReadStatus(ctx, d.Crawl.Dir(), now)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(d.Crawl.Dir())
	if err != nil {
		return nil, err
	}
	c := &report.Crawl{Name: filepath.Base(dir), Folder: fault.Quote(d.Crawl.Dir()), Policy: s.Policy, Round: s.Round, Made: s.Made, Known: s.Known, Done: s.Done, Waiting: s.Pending + s.InFlight, Running: s.Driver != "", Drops: s.Drops}
	if s.Left > 0 {
		c.Left = time.Duration(s.Left * float64(time.Second)).Round(time.Second).String()
	}
	if c.Stats, err = d.Stats(); err != nil {
		return nil, err
	}
	if s.Checkpoint == 0 {
		return c, nil
	}
	last, err := d.Crawl.Current()
	if err != nil {
		return nil, err
	}
	for _, of := range last.Shards {
		sh := report.Shard{Name: shard.Name(of.Shard)}
		for _, stage := range of.Ledger.Stages {
			switch stage.Name {
			case "murlset new":
				sh.Known += stage.Passed
			case "mfrontier next":
				sh.Taken += stage.Out
			case "mfetch":
				sh.Fetched += stage.Out
			}
		}
		c.Shards = append(c.Shards, sh)
	}
	return c, nil
}

// maxBroken is how many broken links a report shows.
const maxBroken = 100

// ReportPages adds what takes longer to find than a page may that loads itself again: broken links, and what documents lack.
func (d *Driver) ReportPages(ctx context.Context, c *report.Crawl) (err error) {
	b := new(report.Broken)
	sum, err := d.Broken(ctx, Broken{}, func(l *history.Broken) error {
		if len(b.First) < maxBroken {
			b.First = append(b.First, *l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.Links, b.Pages, b.Unchecked = sum.Links, sum.Pages, sum.Text()
	c.Broken = b
	c.Documented, err = d.Pages()
	return err
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
