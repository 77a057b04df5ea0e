package extract

import (
	"context"
	"io"
	"slices"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/trace"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
)

// BaseColumn has the further columns of raw links (Settings.Raw). Their url is the reference as it is written in the document;
// they have no host and no url_key. Resolve makes links of them: a reference is relative to src_url, or to base if
// the document declares another (HTML's base element).
//
// menu is "1" if the page repeats its menu below itself: see repeatsMenu.
var BaseColumn = record.NewSchema(record.KindLink, record.Column{Name: "base", Text: true}, record.Column{Name: menuColumn, Text: true})

const menuColumn = "menu"

// rawLinks makes rows of what the finder has found, as it is written.
func (o *output) rawLinks(depth uint16) {
	found, row := &o.finder.found, &o.job.row
	var extra record.Extra
	base := o.finder.page.Base.String()
	if base == row.URL {
		base = ""
	}
	if menu := o.finder.repeatsMenu(row.URL); menu || base != "" {
		extra = BaseColumn.Texts(func(column string) string {
			switch {
			case column != menuColumn:
				return base
			case menu:
				return "1"
			}
			return ""
		})
	}
	for i := range found.all {
		l := &found.all[i]
		start := len(o.text)
		o.text = append(o.text, found.text[l.ref.start:l.ref.end]...)
		end := len(o.text)
		o.text = append(o.text, found.text[l.anchor.start:l.anchor.end]...)
		row := o.link(found.kinds[l.kind], depth)
		row.Nofollow, row.Extra = l.nofollow, extra
		o.put(linkParts{url: spanOf(start, end), text: spanOf(end, len(o.text))}, row)
	}
}

// traceRefused traces a link that is not followed.
func traceRefused(l *record.Link, reason string) {
	if trace.On(l.URL) || trace.On(l.SrcURL) {
		trace.Say("mextract", l.URL, "refused: %s kind=%s of=%s", reason, l.LinkKind, l.SrcURL)
	}
}

// Links is a stage.Batch from link to link rows.
type Links interface {
	Read(*record.Link) error
	Pass(*record.Link) error
	Drop(reason string)
}

// resolved is how many links are judged at a time.
const resolved = 256

// Resolve makes links of raw ones: absolute, canonical, each once for a page, kind and text, and without those that rules (nil: none) refuse, or are one redirect too many.
// The rows of a page stand together. Links that are absolute already stay as they are, and are judged.
func Resolve(ctx context.Context, b Links, opt canon.Options, rules *filter.Filter, done func()) (err error) {
	var judge *filter.Judge
	if rules != nil {
		judge = rules.NewJudge()
		defer func() {
			if e := judge.Close(); err == nil {
				err = e
			}
		}()
	}
	var (
		base       *canon.Base
		of         string // URL that base was parsed from
		src, from  string // the page, and its host
		page       uint64 // key of the page of the links in seen
		seen       keySet
		rows       []record.Link
		candidates []filter.Candidate
		verdicts   []filter.Verdict
	)
	seen.reset()
	flush := func() error {
		if judge != nil {
			verdicts = slices.Grow(verdicts[:0], len(rows))[:len(rows)]
			if err := judge.URLs(ctx, candidates, verdicts); err != nil {
				return err
			}
		}
		for i := range rows {
			if judge != nil && !verdicts[i].Allow {
				traceRefused(&rows[i], verdicts[i].Reason())
				b.Drop(verdicts[i].Reason())
				continue
			}
			if judge != nil && verdicts[i].Page {
				rows[i].Requisite |= linkkind.Page
			}
			if err := b.Pass(&rows[i]); err != nil {
				return err
			}
		}
		rows, candidates = rows[:0], candidates[:0]
		return context.Cause(ctx)
	}
	for {
		var l record.Link
		if err := b.Read(&l); err == io.EOF {
			return flush()
		} else if err != nil {
			return err
		}
		if done != nil {
			done()
		}
		if l.Hops > MaxHops {
			b.Drop(ReasonHops)
			continue
		}
		text := l.SrcURL
		if declared := l.Extra.Text("base"); declared != "" {
			text = declared
		}
		if base == nil || text != of {
			if base, err = opt.Base(text); err != nil {
				base = nil
				b.Drop(string(canon.ReasonOf(err)))
				continue
			}
			of = text
		}
		if l.SrcURL != src {
			src = l.SrcURL
			_, from, _ = canon.Split(src)
		}
		if l.Sitemap > sitemapLevels {
			b.Drop(ReasonSitemapDepth)
			continue
		}
		url, p, err := base.AppendResolve(nil, []byte(l.URL))
		if err != nil {
			b.Drop(string(canon.ReasonOf(err)))
			continue
		}
		menu := l.Extra.Text(menuColumn) != ""
		l.URL, l.Host, l.Extra = string(url), string(url[p.Host:p.Path]), record.Extra{}
		l.Key = opt.Key(url, p)
		if l.SrcKey != page {
			page = l.SrcKey
			seen.reset()
		}
		if !firstOf(&seen, &l) {
			b.Drop(ReasonRepeated)
			continue
		}
		rows = append(rows, l)
		candidates = append(candidates, filter.Candidate{URL: l.URL, Host: l.Host, Depth: l.Depth, Kind: l.LinkKind, From: from, Via: src, Named: filter.Named(&l), Requisite: l.Requisite > 0, Menu: menu && belowItself(src, l.URL)})
		if len(rows) == resolved {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// firstOf reports whether the page had the link not yet with the same text, nor with any if this one has none.
func firstOf(seen *keySet, l *record.Link) bool {
	again := l.Key ^ fingerprint.OfString(l.LinkKind)
	if l.Nofollow {
		again = ^again
	}
	fresh := seen.add(again)
	if l.Text != "" {
		fresh = seen.add(again + fingerprint.OfString(l.Text))
	}
	return fresh
}
