// Package tell tells people about a crawl: its status, the progress of a run, statistics, what became of a URL, exports.
//
//   - It reads the files of the crawl, which may run meanwhile. It changes no store.
//   - What only a run knows comes as values, to the methods of Reporter and in Status.Stages.
//   - Its own files are PROGRESS (Reporter) and the times of a round (KeepTimes). A crawl is whole without them.
package tell

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/setup"
	"mercator/pkg/folder/shard"
	"mercator/pkg/frontier"
	"mercator/pkg/view/history"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
)

// Crawl is a crawl as it is read.
type Crawl struct {
	*crawl.Crawl
	Frontiers frontier.Shards
	Walk      bool // the policy is a walk: batches come from links

	shards int // 0: the crawl has none
	now    func() time.Time
	warn   func(format string, args ...any)
}

// Open opens the crawl in dir.
func Open(dir string, now func() time.Time, warn func(format string, args ...any)) (*Crawl, error) {
	folder, err := setup.Open(dir, crawl.Options{LockWait: setup.LockWait, Warn: func(err error) { warn("%v", err) }})
	if err != nil {
		return nil, err
	}
	c := &Crawl{Crawl: folder, now: now, warn: warn}
	if err := c.OpenFrontiers(); err != nil {
		return nil, err
	}
	if c.Walk, err = c.Frontiers[0].FromLinks(); err != nil {
		return nil, err
	}
	_, err = c.Config()
	return c, err
}

// OpenFrontiers opens the frontiers of the shards that there are now.
func (c *Crawl) OpenFrontiers() (err error) {
	if c.Frontiers, err = frontier.OpenShards(c.Dir()); err == nil {
		c.shards, err = c.Shards()
	}
	return err
}

// Path is a path in the crawl folder, or a pattern for the path in all shards.
func (c *Crawl) Path(names ...string) string {
	if c.shards > 0 {
		names = append([]string{store.ShardsDir, "*"}, names...)
	}
	return pipe.Path(append([]string{c.Dir()}, names...)...)
}

// store is the folder of a store in a shard; the shard is 0 in a crawl without shards.
func (c *Crawl) store(n int, kind string) string {
	dir := c.Dir()
	if c.shards > 0 {
		dir = shard.Dir(dir, n)
	}
	return pipe.Path(dir, kind)
}

// HistoryMemory bounds the memory that sorts the rounds' rows, in bytes.
const HistoryMemory = 24 << 20

// Outcomes is the name of the round file that holds the outcomes.
func (c *Crawl) Outcomes() string {
	if c.Walk {
		return "fetched"
	}
	return "marked"
}

// History lists the files that tell what became of URLs, in the order of the rounds. With allThere, a lost file is an error.
func (c *Crawl) History(allThere bool) (files []history.File, err error) {
	what := map[string]history.What{"dropped": history.Dropped, c.Outcomes(): history.Fetched, "refused": history.Refused, "new": history.Queued, "again": history.Queued}
	kept, err := c.Files()
	if err != nil {
		return nil, err
	}
	names := []string{"dropped", c.Outcomes(), "refused", "new", "again"} // in the order in which a round has them
	if allThere {
		if err := kept.AllThere(names...); err != nil {
			return nil, err
		}
	}
	paths, err := kept.Files(names...)
	for _, path := range paths {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		files = append(files, history.File{Path: path, What: what[name]})
	}
	return files, err
}

// Refusals calls each for the URLs that the crawl did not follow, once each; rule, if not "", is the only one that counts.
func (c *Crawl) Refusals(ctx context.Context, rule string, each func(*history.Refusal) error) error {
	limited, err := c.limited(ctx)
	if err != nil {
		return err
	}
	if _, err := c.History(true); err != nil {
		limited = nil // what was fetched is not told from what was never queued
	}
	files := func() ([]history.File, error) { return c.History(false) }
	return damaged(c.Dir(), history.Refusals(files, rule, limited, HistoryMemory/2, each))
}

const dropFiltered = "filtered" // by the program of stages.new

// IsLimit reports whether a reason is that of a new URL that was not queued, such as too-deep.
func IsLimit(reason string) bool {
	first, _, _ := strings.Cut(reason, history.ReasonOr)
	return first == dropFiltered || slices.Contains(frontier.LimitDrops, first)
}

// limited says where the URLs are that a limit of new URLs, or stages.new, dropped; nil: the ledgers count none, or the crawl is a walk, which may drop any link.
func (c *Crawl) limited(ctx context.Context) (*history.Limited, error) {
	k, err := c.Current()
	if err != nil || k == nil || c.Walk {
		return nil, err
	}
	conf, err := c.Config()
	if err != nil {
		return nil, err
	}
	var reasons []string
	if conf.File.Stages.New != "" {
		reasons = append(reasons, dropFiltered)
	}
	for _, s := range k.Totals.Stages {
		for _, drop := range s.Drops {
			if drop.Reason != dropFiltered && IsLimit(drop.Reason) && !slices.Contains(reasons, drop.Reason) {
				reasons = append(reasons, drop.Reason)
			}
		}
	}
	if len(reasons) == 0 {
		return nil, nil
	}
	slices.Sort(reasons)
	kept, err := c.Files()
	if err != nil {
		return nil, err
	}
	links, err := kept.Closed().Files("links")
	return &history.Limited{Reason: strings.Join(reasons, history.ReasonOr), Links: links, Waiting: func(each func(*record.URL) error) error {
		for _, f := range c.Frontiers {
			if err := f.EachURL(ctx, each); err != nil {
				return err
			}
		}
		return nil
	}}, err
}

// Config reads crawl.toml.
func (c *Crawl) Config() (*config.Config, error) {
	conf, err := config.Load(filepath.Join(c.Dir(), config.Name))
	if err == nil && c.shards > 0 {
		err = conf.Shardable()
	}
	return conf, err
}

// Form returns the form of the crawl's canonical URLs.
func (c *Crawl) Form() (canon.Options, error) {
	conf, err := c.Config()
	if err != nil {
		return canon.Options{}, err
	}
	return conf.Canon()
}

// Release is the command that puts back what is parked.
func (c *Crawl) Release() string {
	var all []string
	for n := range c.Frontiers {
		all = append(all, fault.Quote("mfrontier", "release", c.store(n, frontier.Kind)))
	}
	return strings.Join(all, " && ")
}

// damaged adds a hint to an error of a damaged file that has none.
func damaged(dir string, err error) error {
	class := fault.ClassOf(err)
	if class.ExitCode() != fault.Corrupt.ExitCode() || fault.HintOf(err) != "" {
		return err
	}
	return &fault.Error{Class: class, Err: err, Hint: "see what is damaged, and what to do: " + fault.Quote("mckpt", "verify", dir)}
}

// empty refuses a crawl without a reply, with the command that fetches or, where a round could not, the one that says why.
func empty(folder *crawl.Crawl) error {
	next, err := folder.NextRound()
	if err != nil {
		return err
	}
	hint := "see why: " + fault.Quote("mcrawl", "status", folder.Dir())
	if next <= 1 {
		hint = "fetch: " + fault.Quote("mcrawl", "run", folder.Dir())
	}
	return &fault.Error{Class: fault.Conflict, File: folder.Dir(), Found: "nothing was fetched in this crawl", Want: "pages", Hint: hint}
}

// until returns the rounds up to one. Its name, or the number of its checkpoint, says which.
func (c *Crawl) until(kept *crawl.RoundFiles, name string) (*crawl.RoundFiles, error) {
	if number, err := strconv.ParseUint(name, 10, 53); err == nil {
		err = c.Back(func(k *crawl.Checkpoint) error {
			if k.Number == number {
				name = k.Txn
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if then := kept.Until(name); then != nil {
		return then, nil
	}
	names := kept.Names()
	return nil, &fault.Error{Class: fault.Usage, File: c.Dir(), Found: fmt.Sprintf("no round or checkpoint %q that counts", name), Want: "one such as " + strings.Join(names[max(0, len(names)-3):], ", "),
		Hint: "list the checkpoints: " + fault.Quote("mckpt", "list", c.Dir())}
}

// eachRow gives the rows of files, in their order.
func eachRow(files []string, row func(*record.Fetch) error) error {
	for _, file := range files {
		if err := history.Read(file, row); err != nil {
			return err
		}
	}
	return nil
}

// outcomeRows gives a function that reads the outcomes of all rounds, in their order.
func (c *Crawl) outcomeRows() (func(row func(*record.Fetch) error) error, error) {
	kept, err := c.Files()
	if err != nil {
		return nil, err
	}
	files, err := kept.Files(c.Outcomes())
	return func(row func(*record.Fetch) error) error {
		return eachRow(files, row)
	}, err
}

// Filter loads the filter and the URL form of the settings as they are now.
func (c *Crawl) Filter() (rules *filter.Filter, form canon.Options, err error) {
	conf, err := c.Config()
	if err == nil {
		form, err = conf.Canon()
	}
	if err == nil {
		rules, _, err = setup.LoadFilter(conf, form)
	}
	return rules, form, err
}

// CheckRule refuses a name that no rule has now, and that no dropped row has as its reason.
func (c *Crawl) CheckRule(rule string) error {
	rule = strings.TrimPrefix(rule, "filter:")
	rules, _, err := c.Filter()
	if err != nil {
		return err
	}
	defer rules.Close()
	names := map[string]bool{"default": true, "scheme": true, "invalid": true, "too-long": true, "nofollow": true, "too-many": true, "redirect-limit": true, frontier.RefusedBytes: true}
	for _, name := range append(frontier.LimitDrops, dropFiltered) {
		names[name] = true
	}
	for _, r := range rules.Rules {
		names[r.Name] = true
	}
	k, err := c.Current()
	if err != nil {
		return err
	}
	if k == nil {
		k = &crawl.Checkpoint{}
	}
	for _, s := range k.Totals.Stages {
		for _, drop := range s.Drops {
			if name, of := strings.CutPrefix(drop.Reason, "filter:"); of {
				names[name] = true
			}
		}
		for _, drop := range s.Refused { // entity, too
			names[strings.TrimPrefix(drop.Reason, "filter:")] = true
		}
	}
	if !slices.ContainsFunc(strings.Split(rule, history.ReasonOr), func(name string) bool { return !names[name] }) {
		return nil
	}
	known := slices.Sorted(maps.Keys(names))
	const shown = 5
	slices.SortStableFunc(known, func(a, b string) int { return fault.Distance(rule, a) - fault.Distance(rule, b) })
	want := strings.Join(known[:min(len(known), shown)], ", ")
	if more := len(known) - shown; more > 0 {
		want += fmt.Sprintf(", or one of %d more", more)
	}
	return &fault.Error{Class: fault.Usage, File: c.Dir(), Found: fmt.Sprintf("no rule %q, and nothing that it refused", rule), Want: want,
		Hint: cmp.Or(fault.DidYouMean(rule, known), "list the rules that refused URLs: "+fault.Quote("mcrawl", "refused", c.Dir(), "--count"))}
}
