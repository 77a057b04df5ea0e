package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/config"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/focus/classify"
	"mercator/pkg/view/history"
)

// distill raises the URLs that wait and that good hubs link to. Where crawl.toml has focus.distill = 3, it does so after round
// 3, 6, 9 and so on, as the transactions raise3, raise6, raise9. Each ends with a checkpoint of its own, as a transaction of the
// inbox does (inbox.go). After a kill it continues with the same rows.
func (d *Driver) distill(ctx context.Context, conf *config.Config, made uint64) error {
	txn, err := d.raiseDue(conf, made)
	if err != nil || txn == "" {
		return err
	}
	return d.raise(ctx, conf, txn)
}

// raiseDue names the raise that comes after as many rounds; "" if there is none.
func (d *Driver) raiseDue(conf *config.Config, made uint64) (txn string, err error) {
	if txn, err := d.openRaise(); err != nil || txn != "" {
		return txn, err
	}
	every := uint64(max(conf.File.Focus.Distill, 0))
	if every == 0 || made == 0 || made%every != 0 {
		return "", nil
	}
	txn = fmt.Sprintf("raise%d", made)
	if closed, err := d.Crawl.Closed(txn); err != nil || closed {
		return "", err
	}
	if st, err := d.Crawl.State(); err != nil || len(st.Rounds) > 0 { // the next round is open: it goes on
		return "", err
	}
	return txn, nil
}

// openRaise names the raise that a killed run left open; "" if there is none.
func (d *Driver) openRaise() (string, error) {
	txn, err := d.Crawl.OpenRound() // a raise changes nothing else
	if err != nil || !strings.HasPrefix(txn, "raise") {
		return "", err
	}
	return txn, nil
}

// endRaise ends a raise that a killed run left open, whatever crawl.toml says now.
func (d *Driver) endRaise(ctx context.Context) error {
	txn, err := d.openRaise()
	if err != nil || txn == "" {
		return err
	}
	conf, err := d.bounded()
	if err != nil {
		return err
	}
	return d.raise(ctx, conf, txn)
}

// raisePipes are the commands of a raise.
func (p plan) raisePipes(txn string) (distill, raise pipe.Pipe) {
	raised := p.roundFile(txn, "raised")
	return pipe.Pipe{{"mfocus", "distill", p.path(), "-o", raised}}, pipe.Pipe{{"mfrontier", "raise", p.path("frontier"), "--txn", txn, raised}}
}

func (d *Driver) raise(ctx context.Context, conf *config.Config, txn string) error {
	open, err := d.openRaise()
	if err != nil {
		return err
	}
	if _, err := d.Crawl.BeginRound(txn); err != nil {
		return err
	}
	raised := d.plan.roundFile(txn, "raised")
	if open != txn { // what is there is of a transaction that was undone
		if err := os.Remove(raised); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	distill, raise := d.plan.raisePipes(txn)
	if _, err := os.Stat(raised); err != nil {
		if _, err := d.runner.Run(ctx, distill); err != nil {
			return d.wrapRoundError(txn, err)
		}
	}
	if _, err := d.runner.Run(ctx, raise); err != nil {
		return d.wrapRoundError(txn, err)
	}
	_, _, err = d.Crawl.Commit(ctx, txn, d.opt.Now(), conf.File.Interval)
	return err
}

// errRelevant ends the reading of rows at a relevant document.
var errRelevant = errors.New("a relevant document")

// dry reports whether the last focus.patience rounds found no relevant document, after some round that did. The URLs that wait then were
// found on pages of no topic, since links of relevant pages come first. Rounds before the last mcrawl add or again do not count. While no round of the
// crawl has had a relevant document, the run goes on, and says so once. A crawl of policy revisit has no end: most of its rounds find what is known.
func (d *Driver) dry(conf *config.Config, made uint64) (dry bool, err error) {
	patience := uint64(max(conf.File.Focus.Patience, 0))
	if patience == 0 || made < patience || d.plan.shards > 0 || conf.File.Frontier.Policy == "revisit" {
		return false, nil
	}
	all, err := d.Crawl.Rounds()
	if err != nil {
		return false, err
	}
	last := roundsSinceAsked(all, patience)
	if uint64(len(last)) < patience {
		return false, nil
	}
	for _, name := range slices.Backward(all) {
		if strings.TrimRight(name, "0123456789") != "r" {
			continue
		}
		err := history.Read(d.plan.roundFile(name, d.Crawl.Outcomes()), func(r *record.Fetch) error {
			if r.OfPage() && r.Outcome == record.OutcomeFetched && r.Score > classify.Relevant && r.Extra.Text(classify.TopicColumn) != "" {
				return errRelevant
			}
			return nil
		})
		switch {
		case err == errRelevant || errors.Is(err, fs.ErrNotExist):
			return !slices.Contains(last, name), nil
		case err != nil:
			return false, err
		}
	}
	if made == patience {
		d.opt.Warn("no page has passed yet as relevant, after %d rounds: focus.patience does not end the run before one has", patience)
	}
	return false, nil
}

// roundsSinceAsked lists the last rounds of a crawl, at most as many as given, back to the last add or again.
func roundsSinceAsked(names []string, most uint64) (last []string) {
	for _, name := range slices.Backward(names) {
		switch strings.TrimRight(name, "0123456789") {
		case "add", "again":
			return last
		case "r":
			last = append(last, name)
		}
		if uint64(len(last)) == most {
			return last
		}
	}
	return last
}
