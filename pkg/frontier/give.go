package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/bits"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/folder/stage"
)

// In a crawl of several shards under policy opic, the links of a page are in the shard that fetched it, its credit is in the frontier of
// its owner, and its targets are in all shards. So Next writes the credit beside the page, Give divides it where the links are, and Update
// books what Give says of its own URLs. Elsewhere Update divides the credit itself.

// Give is the body of stage "mfrontier give". It reads the links of pages, and makes a link row, with its credit, for each URL that a page
// gives to, and one from the page to itself with the sum. outcomes opens the fetch records of the pages, with the credit that they have.
func (f *Frontier) Give(ctx context.Context, b *stage.Batch[record.Link, record.Link], outcomes func() (stage.Input[record.Fetch], error)) error {
	s, _, err := f.current()
	if err != nil {
		return err
	}
	p, is := s.policy.hooks.(*opicPolicy)
	if !is {
		return &fault.Error{Class: fault.Usage, File: f.st.Dir(), Found: "policy " + s.policy.name, Want: "policy opic: pages give no credit under another"}
	}
	c := &change{f: f}
	defer c.close()
	g := newGiving(c, p.tax)
	err = eachRead(ctx, b.Read, func(l *record.Link) error {
		b.Consume()
		c.row = record.AppendRow(c.row[:0], &record.Link{URL: l.URL, Key: l.Key, Host: l.Host})
		return g.addLink(l, c.row)
	})
	if err != nil {
		return err
	}
	in, err := outcomes()
	if err != nil {
		return err
	}
	err = eachRead(ctx, in.Read, func(o *record.Fetch) error {
		credit, _ := o.Extra.Number(columnCredit)
		if o.Role != record.RolePage || o.Outcome != record.OutcomeFetched || passing(o) {
			return nil // it keeps its credit, or has no links
		}
		c.row = record.AppendRow(c.row[:0], &record.Link{URL: o.URL, Key: o.Key, Host: o.Host})
		return g.addGiver(o.URL, credit, c.row)
	})
	if err = cmp.Or(err, ofRound("outcomes", in.Trailer(), b.Schema().Txn)); err != nil {
		return err
	}
	return g.distribute(ctx, func(page target, to []target, part uint64) error {
		source := "" // the page's URL
		put := func(t target, credit uint64) error {
			var l record.Link
			if _, err := record.ParseRow(t.row, &l, nil); err != nil {
				return err
			}
			source = cmp.Or(source, l.URL)
			l.SrcURL, l.Extra = source, CreditColumns.Extra(func(string) uint64 { return credit })
			return b.Make("given", &l)
		}
		err := put(page, part*uint64(len(to)))
		for i := 0; i < len(to) && err == nil; i++ {
			err = put(to[i], part)
		}
		return err
	})
}

// giving divides the credit of pages among the URLs that they link to.
type giving struct {
	tax    uint64  // in millionths
	links  *sorter // of all pages: by source, the target
	source string  // source of the last link
	order  uint64  // of source
	givers *sorter // pages that give their credit away: by order, the credit and the row
	buf    []byte
}

func newGiving(c *change, tax uint64) *giving {
	return &giving{tax: tax, links: c.sorter(creditSort), givers: c.sorter(smallSort)}
}

// addLink notes a link, for the case that its source gives. row comes back with the target.
func (g *giving) addLink(l *record.Link, row []byte) error {
	if l.Nofollow || l.URL == l.SrcURL {
		return nil
	}
	if l.SrcURL != g.source {
		g.source, g.order = l.SrcURL, fingerprint.SHA256(l.SrcURL)
	}
	g.buf = binary.BigEndian.AppendUint64(g.buf[:0], fingerprint.SHA256(l.URL))
	g.buf = append(binary.BigEndian.AppendUint64(g.buf, l.Key), row...)
	return g.links.addPayload(g.order, g.buf)
}

// addGiver notes a page that gives its credit away. row comes back with it.
func (g *giving) addGiver(url string, credit uint64, row []byte) error {
	g.buf = append(binary.AppendUvarint(g.buf[:0], credit), row...)
	return g.givers.addPayload(fingerprint.SHA256(url), g.buf)
}

// target is a URL that is linked to.
type target struct {
	order, key uint64
	row        string
}

// distinct sorts targets, and drops repetitions and all beyond maxTargets or maxRows.
func distinct(all []target) (kept []target, bytes int) {
	slices.SortFunc(all, func(a, b target) int { return cmp.Compare(a.order, b.order) })
	all = slices.CompactFunc(all, func(a, b target) bool { return a.order == b.order })
	for i := range all {
		if bytes += len(all[i].row); i == maxTargets || bytes > maxRows {
			return all[:i], bytes - len(all[i].row)
		}
	}
	return all, bytes
}

// distribute calls pay for each page that gives, with its targets and the part of each.
func (g *giving) distribute(ctx context.Context, pay func(page target, to []target, part uint64) error) error {
	links, err := g.links.sorted()
	if err != nil {
		return err
	}
	givers, err := g.givers.sorted()
	if err != nil {
		return err
	}
	var tick ticker
	var to []target
	for !givers.done {
		if err := tick.err(ctx); err != nil {
			return err
		}
		page, credit := target{order: givers.key}, uint64(0)
		for !givers.done && givers.key == page.order {
			n, size := binary.Uvarint(givers.row)
			credit, page.row = credit+n, string(givers.row[size:])
			if err := givers.takeRow(); err != nil {
				return err
			}
		}
		bytes := 0
		for to = to[:0]; !links.done && links.key <= page.order; {
			if links.key == page.order {
				to = append(to, target{binary.BigEndian.Uint64(links.row), binary.BigEndian.Uint64(links.row[8:]), string(links.row[16:])})
				if bytes += len(links.row) - 16; len(to) == 2*maxTargets || bytes > 2*maxRows {
					to, bytes = distinct(to)
				}
			}
			if err := links.takeRow(); err != nil {
				return err
			}
		}
		if to, _ = distinct(to); len(to) == 0 {
			continue
		}
		if part := (credit - taxOf(credit, g.tax)) / uint64(len(to)); part > 0 {
			if err := pay(page, to, part); err != nil {
				return err
			}
		}
	}
	return g.links.Close() // gives its memory back
}

// taxOf is that many millionths of a credit, rounded down.
func taxOf(credit, rate uint64) uint64 {
	hi, lo := bits.Mul64(credit, rate)
	n, _ := bits.Div64(hi, lo, millionths)
	return n
}
