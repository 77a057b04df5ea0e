package tell

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/shard"
	"mercator/pkg/view/history"
	"mercator/pkg/view/report"
	"mercator/pkg/view/stats"
)

// maxGrowth is how many checkpoints the statistics list: of more, only some are.
const maxGrowth = 1000

// Stats reads the record files of all rounds, also of one that is open.
func (c *Crawl) Stats() (s *stats.Stats, err error) {
	defer func() { err = damaged(c.Dir(), err) }()
	each, err := c.outcomeRows()
	if err != nil {
		return nil, err
	}
	all, s, err := c.counted()
	if err != nil {
		return nil, err
	}
	if all.Again() {
		h := stats.NewHistories(HistoryMemory)
		if s.Changes, err = h.End(each(h.Add)); err != nil {
			return nil, err
		}
	}
	s.Growth, err = c.growth()
	return s, err
}

// counted counts the outcomes of all rounds.
func (c *Crawl) counted() (all *stats.Collector, s *stats.Stats, err error) {
	conf, err := c.Config()
	if err != nil {
		return nil, nil, err
	}
	all = stats.New(HistoryMemory)
	if conf.File.Focus.Model != "" {
		all.Topic = func(r *record.Fetch) (string, bool) {
			topic := r.Extra.Text(classify.TopicColumn)
			return topic, topic != "" && r.Score > classify.Relevant
		}
	}
	s, err = all.End(c.byRound(all))
	return all, s, err
}

// byRound gives the outcomes of all rounds to a collector, with the times of each.
func (c *Crawl) byRound(to *stats.Collector) error {
	files, err := c.RoundFiles(c.Outcomes())
	if err != nil {
		return err
	}
	before := ""
	for _, file := range files {
		dir := filepath.Dir(file)
		round := filepath.Base(dir)
		spent := c.timesOf(filepath.Join(dir, crawl.TimesFile))
		if c.shards > 0 && round != before { // times of the whole crawl, beside the shards' times
			spent = append(spent, c.timesOf(pipe.Path(c.Dir(), "rounds", round, crawl.TimesFile))...)
		}
		before = round
		to.Round(round, spent)
		if err := history.Read(file, to.Add); err != nil {
			return err
		}
	}
	return nil
}

// timesOf reads the times of a round for statistics, which do without a record that cannot be read.
func (c *Crawl) timesOf(file string) []stats.Spent {
	spent, err := readTimes(file)
	if err != nil {
		c.warn("%v; its times are not counted", err)
	}
	return spent
}

// Compare compares the outcomes of two crawls.
func (c *Crawl) Compare(other *Crawl) (*stats.Comparison, error) {
	here, err := c.outcomeRows()
	if err != nil {
		return nil, err
	}
	there, err := other.outcomeRows()
	if err != nil {
		return nil, err
	}
	return stats.Compare(HistoryMemory/2, here, there)
}

// Fetched refuses a crawl that has tried no URL, as an export does: a report of it would have no plot.
func (c *Crawl) Fetched(r *report.Crawl) error {
	if r.Stats.Attempts > 0 {
		return nil
	}
	return empty(c.Crawl)
}

// Report collects what a report shows of the crawl.
func (c *Crawl) Report(ctx context.Context, now time.Time) (*report.Crawl, error) {
	s, err := ReadStatus(ctx, c.Dir(), now)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(c.Dir())
	if err != nil {
		return nil, err
	}
	r := &report.Crawl{Name: filepath.Base(dir), Folder: fault.Quote(c.Dir()), Policy: s.Policy, Round: s.Round, Made: s.Made, Known: s.Known, Done: s.Done, Waiting: s.Pending + s.InFlight, Running: s.Driver != "", Drops: s.Drops}
	if s.Left > 0 {
		r.Left = time.Duration(s.Left * float64(time.Second)).Round(time.Second).String()
	}
	if r.Stats, err = c.Stats(); err != nil {
		return nil, err
	}
	if s.Checkpoint == 0 {
		return r, nil
	}
	last, err := c.Current()
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
		r.Shards = append(r.Shards, sh)
	}
	return r, nil
}

// maxBroken is how many broken links a report shows.
const maxBroken = 100

// ReportPages adds what takes longer to find than a page may that loads itself again: broken links, and what documents lack.
func (c *Crawl) ReportPages(ctx context.Context, r *report.Crawl) (err error) {
	b := new(report.Broken)
	sum, err := c.Broken(ctx, Broken{}, func(l *history.Broken) error {
		if len(b.First) < maxBroken {
			b.First = append(b.First, *l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.Links, b.Pages, b.Unchecked = sum.Links, sum.Pages, sum.Text()
	r.Broken = b
	r.Documented, err = c.Pages()
	return err
}

// growth tells the size of the URL space at each checkpoint.
func (c *Crawl) growth() (list []stats.Growth, err error) {
	err = c.Back(func(k *crawl.Checkpoint) error {
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
