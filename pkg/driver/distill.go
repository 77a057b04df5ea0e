package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/config"
	"mercator/pkg/history"
)

// distill raises the URLs that wait and that good hubs link to, where crawl.toml asks for it (focus.distill), after every so
// many rounds: raise12 after round 12. Like what is asked of a crawl (inbox.go), it is a transaction of its own, closed by a
// checkpoint. A kill anywhere leaves it to be gone on with, with the same rows.
func (d *Driver) distill(ctx context.Context, conf *config.Config, made uint64) error {
	every := uint64(max(conf.File.Focus.Distill, 0))
	if every == 0 || made == 0 || made%every != 0 {
		return nil
	}
	txn := fmt.Sprintf("raise%d", made)
	closed, err := d.Crawl.Closed(txn)
	if err != nil || closed {
		return err
	}
	st, err := d.Crawl.State()
	if err != nil {
		return err
	}
	open := slices.Contains(st.Rounds, txn)
	if len(st.Rounds) > 0 && !open {
		return nil // the next round is open: it goes on
	}
	if _, err := d.Crawl.BeginRound(txn); err != nil {
		return err
	}
	raised := d.plan.kept(txn, "raised")
	if !open { // of a transaction that was undone
		if err := os.Remove(raised); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !isThere(raised) {
		if _, err := d.processes.run(ctx, Pipe{{"mfocus", "distill", d.plan.path(), "-o", raised}}); err != nil {
			return d.wrong(txn, err)
		}
	}
	if _, err := d.processes.run(ctx, Pipe{{"mfrontier", "raise", d.plan.path("frontier"), "--txn", txn, raised}}); err != nil {
		return d.wrong(txn, err)
	}
	_, _, err = d.Crawl.Commit(ctx, txn, d.opt.Now(), interval(conf))
	return err
}

// relevant is the relevance above which a document counts as one of the topics.
const relevant = 0.5

// dry reports whether the last rounds, as many as focus.patience says, found no relevant document. What waits by then was found on
// pages of no topic, since relevant ones come first.
func (d *Driver) dry(conf *config.Config, made uint64) (bool, error) {
	patience := uint64(max(conf.File.Focus.Patience, 0))
	if patience == 0 || made < patience || d.plan.shards > 0 {
		return false, nil
	}
	for n := made - patience + 1; n <= made; n++ {
		err := history.Read(d.plan.kept(fmt.Sprintf("r%d", n), d.outcomes()), func(r *record.Fetch) error {
			if r.Role == record.RolePage && r.Outcome == record.OutcomeFetched && r.Score > relevant && r.Extra.Text("topic") != "" {
				return errEnough
			}
			return nil
		})
		if err == errEnough || errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
