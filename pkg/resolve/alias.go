package resolve

import (
	"context"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/linkkind"
)

// CanonStats counts what Canon did.
type CanonStats struct {
	Stats
	Folded uint64 `json:"folded"` // links to a host with another canonical name
}

// AliasColumn is the further column of link rows that has the host of the link as the page has it, where that is an alias.
// Replays answer from it.
const AliasColumn = "alias"

// Aliases wraps a stage's input; its rows go out with AliasColumn.
func Aliases(in stage.Input[record.Link]) stage.Input[record.Link] {
	return withAlias{in, in.Schema().WithText(AliasColumn)}
}

type withAlias struct {
	stage.Input[record.Link]
	schema *record.Schema
}

func (in withAlias) Schema() *record.Schema { return in.schema }

// Canon is the body of mresolve canon. Its input must come from Aliases: link rows in, the same out in the same order. If the host of a link is
// an alias (by CNAME), the link gets the canonical name instead, and AliasColumn keeps the alias. Mercator recognised host aliases so (Heydon and Najork
// 1999, section 5.1), and took the smallest address of a host without an alias for its name: that is not done here.
//
// A shared canonical name does not prove shared content: unrelated sites have the same content network's server as canonical name. So a link stays
// as it is
//
//   - if the canonical name is not of the same registered domain;
//   - if it is a redirect, and folded would lead to the URL that redirects: a site that sends readers from its canonical name to the alias;
//   - if its URL has no canonical form by opt under that name.
//
// Name-based virtual hosts of one domain that are aliases of one of them are folded, and their pages lost.
func Canon(ctx context.Context, st *store.Store, b *stage.Batch[record.Link, record.Link], opt Options, urls canon.Options) (CanonStats, error) {
	var stats CanonStats
	fold := func(row *record.Link, a *answer) error {
		if a.cname == "" || a.status != StatusOK {
			return nil
		}
		scheme, host, rest := canon.Split(row.URL)
		_, port := canon.SplitPort(host)
		if port != "" {
			port = ":" + port
		}
		folded, name, err := urls.URL(scheme + "://" + a.cname + port + rest)
		if err != nil || strings.EqualFold(name, host) || canon.RegisteredDomain(name) != canon.RegisteredDomain(host) ||
			row.LinkKind == linkkind.Redirect && folded == row.SrcURL {
			return nil
		}
		row.URL, row.Host, row.Key = folded, name, urls.URLKey(name, folded)
		row.Extra = b.Schema().AddText(row.Extra, AliasColumn, host)
		stats.Folded++
		return nil
	}
	var err error
	stats.Stats, err = resolveRows(ctx, st, b, opt, use[record.Link]{
		name: func(row *record.Link) string { return Name(row.Host) },
		tell: fold,
	})
	return stats, err
}

// ReplayAliases answers for Canon from link rows that Canon made in transaction txn ("": in any). It keeps up to mem bytes of them in memory. A
// host is an alias if AliasColumn has it.
func ReplayAliases(files []string, txn string, mem int64) (_ *Replay, err error) {
	r := &Replay{saved: newLearnt(nil), txn: txn, aliases: true}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	for _, file := range files {
		if err := r.readAliases(file, mem); err != nil {
			return nil, err
		}
	}
	return r, r.saved.flush()
}

func (r *Replay) readAliases(file string, mem int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() // was read only
	rows, err := record.NewReader[record.Link](f, record.ReaderOptions{Name: file})
	if err != nil {
		return err
	}
	if was := rows.Schema().Txn; was != "" && r.txn != "" && was != r.txn {
		return &fault.Error{Class: fault.Conflict, File: file, Found: "links of transaction " + was, Want: "of " + r.txn, Hint: "give --replay the links of the round that --txn names"}
	}
	return record.Each(rows, func(row *record.Link) error {
		alias := row.Extra.Text(AliasColumn)
		if alias == "" {
			return nil
		}
		return r.saved.first(Name(alias), &answer{cname: Name(row.Host)}, mem)
	})
}
