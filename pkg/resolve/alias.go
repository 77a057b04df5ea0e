package resolve

import (
	"context"
	"math"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/canon"
	"mercator/pkg/fingerprint"
	"mercator/pkg/stage"
)

// CanonStats counts what Canon did.
type CanonStats struct {
	Stats
	Folded uint64 `json:"folded"`       // links whose host has another canonical name
	Hosts  uint64 `json:"folded_hosts"` // these hosts, to a thousandth (see distinct)
}

// distinct counts different keys in 1 MiB, however many there are: each sets a bit, and of n
// keys so many find theirs set that n is read from the bits that are not (linear counting;
// Whang, Vander-Zanden and Taylor 1990).
type distinct struct {
	bits []uint64
	set  int
}

const distinctBits = 1 << 23

func (d *distinct) add(key uint64) {
	if d.bits == nil {
		d.bits = make([]uint64, distinctBits/64)
	}
	at := key * 0x9e3779b97f4a7c15 >> 41 // the upper 23 bits of a product that all bits have a part in
	if word, bit := &d.bits[at/64], uint64(1)<<(at%64); *word&bit == 0 {
		*word |= bit
		d.set++
	}
}

func (d *distinct) count() uint64 {
	clear := max(distinctBits-d.set, 1)
	return uint64(math.Round(distinctBits * math.Log(distinctBits/float64(clear))))
}

// Canon is the body of mresolve canon: link rows in, the same out in the same order, of
// which those to a host that is an alias (by CNAME) lead to its canonical name instead.
// Mercator recognised host aliases so (Heydon and Najork 1999, section 4.2). A link whose
// URL has no canonical form by opt under that name stays as it is.
func Canon(ctx context.Context, st *store.Store, b *stage.Batch[record.Link, record.Link], opt Options, urls canon.Options) (CanonStats, error) {
	var stats CanonStats
	var hosts distinct
	fold := func(row *record.Link, e *entry) error {
		if e.CNAME == "" || e.Error != StatusOK {
			return nil
		}
		scheme, host, rest := canon.Split(row.URL)
		_, port := canon.SplitPort(host)
		if port != "" {
			port = ":" + port
		}
		folded, name, err := urls.URL(scheme + "://" + e.CNAME + port + rest)
		if err != nil || strings.EqualFold(name, host) {
			return nil
		}
		hosts.add(fingerprint.OfString(row.Host))
		row.URL, row.Host, row.Key = folded, name, urls.URLKey(name, folded)
		stats.Folded++
		return nil
	}
	var err error
	stats.Stats, err = resolveRows(ctx, st, b, opt, use[record.Link]{
		name: func(row *record.Link) string { return Name(row.Host) },
		size: func(row *record.Link) int {
			return len(row.URL) + len(row.Host) + len(row.SrcURL) + len(row.Text)
		},
		tell: fold,
	})
	stats.Hosts = hosts.count()
	return stats, err
}
