package resolve

import (
	"context"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/canon"
	"mercator/pkg/stage"
)

// CanonStats counts what Canon did.
type CanonStats struct {
	Stats
	Folded uint64 `json:"folded"` // links whose host has another canonical name
}

// Canon is the body of mresolve canon: link rows in, the same out in the same order, of
// which those to a host that is an alias (by CNAME) lead to its canonical name instead.
// Mercator recognised host aliases so (Heydon and Najork 1999, section 4.2). A link whose
// URL has no canonical form by opt under that name stays as it is.
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
		if err != nil || strings.EqualFold(name, host) {
			return nil
		}
		row.URL, row.Host, row.Key = folded, name, urls.URLKey(name, folded)
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
