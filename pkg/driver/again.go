package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
	"mercator/pkg/folder/ownstage"
	"mercator/pkg/folder/shard"
	"mercator/pkg/frontier"
	"mercator/pkg/urlset"
	"mercator/pkg/view/history"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
)

// CheckAgain refuses requests that mean nothing in this crawl. list, if not nil, reads the URLs that are listed, and given are the arguments that name them.
func (d *Driver) CheckAgain(r Request, list func() (io.ReadCloser, error), given ...string) error {
	st, err := d.Crawl.Frontiers.Stat(context.Background(), frontier.StatOptions{})
	if err != nil {
		return err
	}
	switch {
	case d.plan.fromLinks:
		return &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "a walk", Want: "a crawl of another policy", Hint: "a walk visits its URLs again and again by itself"}
	case tell.IsLimit(r.Rule):
		return &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "--rule " + r.Rule + ", which kept new URLs out of the queue", Want: "these URLs, which come in whatever the limits",
			Hint: fault.Quote("mcrawl", "refused", d.plan.crawl, "--rule", r.Rule) + " | cut -f 1 | " + fault.Quote("mcrawl", "again", d.plan.crawl, "-f", "-")}
	case r.Before > 0 && st.Policy == "revisit":
		return &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: "--older for a crawl of policy revisit", Want: "URLs or -f FILE, or --outcome, --status or --rule",
			Hint: "its pages are visited again by themselves, when they are likely to have changed; frontier.max_interval says how late at the most"}
	}
	if _, err := d.Crawl.History(true); err != nil || r.Rule == "" && list == nil {
		return err
	}
	if r.Rule != "" {
		return d.Crawl.CheckRule(r.Rule)
	}
	form, err := d.Crawl.Form()
	if err != nil {
		return err
	}
	n, example := uint64(0), ""
	err = d.eachTask(func(p plan, owns func(*record.URL) bool) error {
		set, err := store.Open(p.path(urlset.Kind), urlset.Kind, urlset.Version, store.Options{})
		if err != nil {
			return ownstage.Explain(p.path(urlset.Kind), urlset.Kind, err)
		}
		unseen, one, err := urlset.Unseen(set, tell.HistoryMemory, func(each func(*record.URL) error) error {
			in, err := list()
			if err != nil {
				return err
			}
			defer in.Close()
			return eachURL(in, "the list", form, func(u *record.URL) error {
				if !owns(u) {
					return nil
				}
				return each(u)
			})
		})
		n, example = n+unseen, cmp.Or(example, one)
		return err
	})
	if err != nil || n == 0 {
		return err
	}
	if n == 1 {
		given = []string{example}
	}
	return &fault.Error{Class: fault.Usage, File: d.Crawl.Dir(), Found: fmt.Sprintf("%d of the URLs were never in this crawl, such as %s; none is queued", n, example), Want: "URLs that it knows",
		Hint: "put new URLs in: " + fault.Quote(append([]string{"mcrawl", "add", d.plan.crawl}, given...)...)}
}

// eachTask calls of once, or once for each shard. owns reports whether a URL belongs to that shard.
func (d *Driver) eachTask(of func(p plan, owns func(*record.URL) bool) error) error {
	if d.plan.shards == 0 {
		return of(d.plan, func(*record.URL) bool { return true })
	}
	m, err := shard.Read(durable.OS, d.Crawl.Dir())
	for n := range d.plan.shards {
		if err == nil {
			err = of(d.plan.ofShard(n), func(u *record.URL) bool { return m.Of(fingerprint.URLKey(u.Host, u.URL)) == n })
		}
	}
	return err
}

// eachURL calls each for the URLs of a list.
func eachURL(in io.Reader, file string, form canon.Options, each func(*record.URL) error) error {
	return setup.EachLine(in, file, 0, func(line string) error {
		var u record.URL
		if err := urlset.ParseLine(line, form, &u); err != nil {
			return &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("%.200q: %v", line, err), Want: "URLs of this crawl", Err: err}
		}
		return each(&u)
	})
}

// errNone is the error of takeAgain where nothing is to be queued: then there is no transaction.
var errNone = errors.New("no URL matches")

// takeAgain queues the URLs of a request once more. It chooses them from the rows of the rounds before, so that a
// repetition chooses the same. An open transaction keeps its files, since the filter may have changed.
// Each shard gets the URLs of its hosts.
func (d *Driver) takeAgain(ctx context.Context, txn string, r Request, asked string, open bool) error {
	if !open {
		remove := func(p plan, _ func(*record.URL) bool) error {
			for _, name := range []string{"again", "links", "new"} {
				if err := os.Remove(p.roundFile(txn, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			return nil
		}
		if err := errors.Join(remove(d.plan, nil), d.eachTask(remove)); err != nil {
			return err
		}
	}
	files, err := d.Crawl.History(true)
	if lost := (*fault.Error)(nil); errors.Is(err, fault.Corrupt) && errors.As(err, &lost) {
		request := d.plan.path("inbox", fmt.Sprintf("%06s", strings.TrimPrefix(txn, "again")))
		lost.Hint = strings.TrimPrefix(lost.Hint+"; or move "+request+" elsewhere, and the crawl goes on without it", "; or ")
	}
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f history.File) bool { return filepath.Base(filepath.Dir(f.Path)) == txn })
	round := &againRound{txn: txn, rule: r.Rule, links: d.rowOptions(txn)}
	round.urls = round.links
	round.urls.Like = history.Was // each row keeps the columns that it had
	rows, err := d.chooseAgain(ctx, round, r, asked, files)
	if err != nil {
		return err
	}
	if rows == 0 && !open && !r.Listed {
		return errNone
	}
	return d.eachTask(func(p plan, owns func(*record.URL) bool) error { return d.queueAgain(ctx, round, p, owns) })
}

// againRound is a transaction of takeAgain. The rows of all its files are of one time.
type againRound struct {
	txn, rule   string
	links, urls record.WriterOptions
}

// chooseAgain writes the URLs of a request, and the links that its rule refused, to the files of the round, and counts both.
func (d *Driver) chooseAgain(ctx context.Context, round *againRound, r Request, asked string, files []history.File) (rows int, err error) {
	rules, form, err := d.Crawl.Filter()
	if err != nil {
		return 0, err
	}
	defer rules.Close()
	judge := rules.NewJudge()
	defer judge.Close()
	if r.Rule != "" {
		err := writeRows(d.plan.roundFile(round.txn, "links"), round.rule, round.links, func(write func(*record.Link) error) error {
			return wantedLinks(ctx, files, r.Rule, judge, form, func(l *record.Link) error { rows++; return write(l) })
		})
		if err != nil {
			return 0, err
		}
	}
	err = writeRows(d.plan.roundFile(round.txn, "again"), "again", round.urls, func(put func(*record.URL) error) error {
		write := func(u *record.URL) error { rows++; return put(u) }
		q := history.Query{Outcomes: r.Outcomes, Statuses: r.Statuses, Before: r.Before, Rule: r.Rule}
		if r.Listed {
			q.Listed = func(each func(*record.URL) error) error {
				in, err := os.Open(asked)
				if err != nil {
					return err
				}
				defer in.Close()
				return eachURL(in, asked, form, each)
			}
			kept, err := d.Crawl.Files()
			if err == nil {
				q.Links, err = kept.Closed().Files("links")
			}
			if err != nil {
				return err
			}
		}
		if r.Rule == "" {
			return history.Again(files, q, tell.HistoryMemory, write)
		}
		refused := make([]string, 1)
		return history.Again(files, q, tell.HistoryMemory, func(u *record.URL) error {
			if err := judge.Waiting(ctx, []*record.URL{u}, refused); err != nil || refused[0] != "" {
				return err
			}
			return write(u)
		})
	})
	if err != nil {
		return 0, err
	}
	return rows, judge.Close()
}

// queueAgain queues what takeAgain chose: all of it, or what a shard owns.
func (d *Driver) queueAgain(ctx context.Context, round *againRound, p plan, owns func(*record.URL) bool) error {
	again, links, fresh := p.roundFile(round.txn, "again"), p.roundFile(round.txn, "links"), p.roundFile(round.txn, "new")
	if p.shards > 0 {
		if _, _, err := d.Crawl.BeginShardRound(ctx, p.shard, round.txn); err != nil {
			return err
		}
		whole, wholeLinks := d.plan.roundFile(round.txn, "again"), d.plan.roundFile(round.txn, "links")
		err := writeRows(again, "again", round.urls, func(write func(*record.URL) error) error {
			return history.Read(whole, func(u *record.URL) error {
				if !owns(u) {
					return nil
				}
				return write(u)
			})
		})
		if err == nil && round.rule != "" {
			err = writeRows(links, round.rule, round.links, func(write func(*record.Link) error) error {
				return history.Read(wholeLinks, func(l *record.Link) error {
					if !owns(&record.URL{URL: l.URL, Host: l.Host}) {
						return nil
					}
					return write(l)
				})
			})
		}
		if err != nil {
			return err
		}
	}
	add := []string{"mfrontier", "add", p.path("frontier"), "--txn", round.txn, "--again", again}
	if round.rule != "" {
		if _, err := d.runner.Run(ctx, pipe.Pipe{{"murlset", "new", p.path("urls"), "--txn", round.txn, links, "-o", fresh}}); err != nil {
			return err
		}
		add = append(add, fresh)
	}
	_, err := d.runner.Run(ctx, pipe.Pipe{add})
	return err
}

// wantedLinks writes the links that rule refused and that the filter accepts now. A reference that was no URL of the
// crawl may be one by the settings of now.
func wantedLinks(ctx context.Context, files []history.File, rule string, judge *filter.Judge, form canon.Options, write func(*record.Link) error) error {
	verdict := make([]filter.Verdict, 1)
	return history.RefusedLinks(files, rule, tell.HistoryMemory, func(l *record.Link) error {
		if l.Host == "" {
			base, err := form.Base(l.SrcURL)
			if err != nil {
				return nil
			}
			url, _, err := base.Resolve(l.URL)
			if err != nil {
				return nil
			}
			var u record.URL
			if err := urlset.ParseLine(url, form, &u); err != nil {
				return nil
			}
			l.URL, l.Host, l.Key = u.URL, u.Host, u.Key
		}
		_, from, _ := canon.Split(l.SrcURL)
		err := judge.URLs(ctx, []filter.Candidate{{URL: l.URL, Host: l.Host, Depth: l.Depth, Kind: l.LinkKind, From: from, Via: l.SrcURL, Named: filter.Named(l), Requisite: l.Requisite > 0}}, verdict)
		if err != nil || !verdict[0].Allow {
			return err
		}
		if verdict[0].Page {
			l.Requisite |= linkkind.Page
		}
		return write(l)
	})
}

// rowOptions are the writer's options for the first rows of a transaction.
func (d *Driver) rowOptions(txn string) record.WriterOptions {
	of := record.WriterOptions{Txn: txn, Now: record.TimeOf(d.opt.Now())}
	if st, err := d.Crawl.State(); err == nil {
		of.Epoch = strconv.FormatUint(st.Epoch, 10)
	}
	return of
}

// writeRows makes a file of rows, unless it is there. It appears whole, with a ledger.
func writeRows[T record.Row](path, reason string, of record.WriterOptions, rows func(write func(*T) error) error) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := durable.CreateOutput(path)
	if err != nil {
		return err
	}
	defer file.Abort()
	of.Name = path
	w, err := record.NewWriter[T](file, of)
	if err != nil {
		return err
	}
	n := uint64(0)
	if err := rows(func(row *T) error { n++; return w.Write(row) }); err != nil {
		return err
	}
	_, hash, err := w.Finish()
	if err != nil {
		return err
	}
	own := record.Stage{Name: "mcrawl again", Txn: of.Txn, Out: n, OutHash: hash.String()}
	if n > 0 {
		own.Made = []record.Count{{Reason: reason, N: n}}
	}
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{own}}); err != nil {
		return err
	}
	return file.Commit()
}
