package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/merge"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/linkkind"
)

// Broken is a link that leads to no document: the server or the network failed at its end, or it names no URL.
type Broken struct {
	Page      string    `json:"page,omitempty"` // "": its URL is a seed
	Kind      string    `json:"kind,omitempty"` // of the link, as in link rows
	Text      string    `json:"text,omitempty"`
	URL       string    `json:"url"`
	Redirects []string  `json:"redirects,omitempty"` // where the URL leads to, in order; the last one failed
	Failure   string    `json:"failure"`             // a status such as 404, an outcome such as dns-failed, or one of those of redirects
	Error     string    `json:"error,omitempty"`     // detail for people
	Checked   time.Time `json:"checked,omitzero"`    // when it failed
	Links     uint64    `json:"links,omitempty"`     // how many lead to URL, where only some are listed
}

// Links says which record files a search for broken links reads, and what it takes for one.
type Links struct {
	Fetched  []string // files of fetch rows, in the order of the rounds
	Found    []string // files of link rows
	Refused  []string // files of refused link rows
	Accept   []uint16 // statuses from 400 on, or classes (4 is 400 to 499), that are no failure
	Except   []string // of Failures, that are none either
	Redirect Target
	Searched bool   // duplicates were searched for links, too
	Tried    uint64 // set by Each: URLs with an outcome
	Copies   uint64 // set by Each: HTML pages that were not searched as duplicates, of pages in other folders: their relative links lead elsewhere
}

// Target is the target of a redirect, and its key; false: it is no URL of the crawl.
type Target func(r *record.Fetch) (url string, key uint64, ok bool)

// Unchecked counts the URLs that no server was asked for, by their last outcome.
type Unchecked map[string]uint64

// FailureInvalid is of a link that is no URL by the WHATWG standard. Links of a scheme that is not crawled are none of these.
const FailureInvalid = string(canon.ReasonInvalid)

// Failures are the names of those that are no statuses.
var Failures = append(slices.Clone(unreached), FailureLoop, FailureLimit, FailureURL, FailureInvalid, OutcomeCut)

// unreached are the outcomes of contacts that gave no whole reply.
var unreached = []string{record.OutcomeDNS, record.OutcomeConnect, record.OutcomeTLS, record.OutcomeTimeout, record.OutcomeDisconnect, record.OutcomeProtocol}

// failed names the failure of a row; "" if it is none. checked is false of an outcome that says nothing of a document.
func (l *Links) failed(r *record.Fetch) (failure string, checked bool) {
	switch r.Outcome {
	case record.OutcomeFetched:
		if r.Status >= 400 && !slices.Contains(l.Accept, r.Status) && !slices.Contains(l.Accept, r.Status/100) {
			return strconv.Itoa(int(r.Status)), true
		}
		if nowhere(r) {
			return FailureURL, true
		}
		if r.Status < 300 && (r.Truncated == httpmsg.TruncatedDisconnect || r.Truncated == httpmsg.TruncatedUnspecified) { // by the server; other cuts are limits of the crawl
			return OutcomeCut, true
		}
		return "", true
	case record.OutcomeNotModified:
		return "", true
	}
	outcome := r.Outcome
	if outcome == record.OutcomeRobotsUnreachable { // its error begins with the outcome of the contact, if that gave no reply
		outcome, _, _ = strings.Cut(r.Error, ": ")
	}
	if slices.Contains(unreached, outcome) {
		return outcome, true
	}
	return "", false
}

// nowhere reports whether a reply redirects, and names no URL to go to. One of a scheme that is not crawled is a URL.
func nowhere(r *record.Fetch) bool {
	switch r.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		reason, _, _ := strings.Cut(r.RedirectWhy(), ": ")
		return r.RedirectURL == "" && canon.Reason(reason) != canon.ReasonScheme
	}
	return false
}

// putOff reports whether a row is of a URL that was not asked for then.
func putOff(r *record.Fetch) bool {
	return r.Outcome == record.OutcomeDeferred || r.Outcome == record.OutcomeParked
}

// target is the URL that broken links lead to, as a row of a sorter.
type target struct {
	Broken
	Seed bool `json:"seed,omitempty"`
}

// candidate is a link to a target. Its page may have changed since.
type candidate struct {
	Broken
	Number uint64      `json:"n"`
	Found  record.Time `json:"at"`
}

func add(s *merge.Sorter, key uint64, row any) error {
	b, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return s.Add(key, b)
}

// Each gives to each the links that are broken now, in the order in which they were found; seeds come first, and what is no URL last. A link counts as long as its page
// has the content that it was found in. Of equal documents only the first is searched for links, so only it has them here. Some mem bytes are taken.
//
// Three things are sorted, one after the other: outcomes by URL, links to URLs that failed by URL, and these links by page.
func (l *Links) Each(mem int64, each func(*Broken) error) (unchecked Unchecked, err error) {
	targets := merge.NewSorter(mem/8, "") // by key
	defer func() { err = errors.Join(err, targets.Close()) }()
	links := merge.NewSorter(mem/8, "") // by key of the page
	defer func() { err = errors.Join(err, links.Close()) }()
	out := merge.NewSorter(mem/8, "") // by number of the link
	defer func() { err = errors.Join(err, out.Close()) }()

	bad := keys{}
	if unchecked, err = l.targets(mem/2, targets, bad); err != nil {
		return nil, err
	}
	pages := keys{}
	if err := l.links(mem/2, targets, bad, links, pages, out); err != nil {
		return nil, err
	}
	if err := l.current(mem/2, links, pages, out); err != nil {
		return nil, err
	}
	sorted, err := out.Sort()
	if err != nil {
		return nil, err
	}
	return unchecked, sorted.Each(func(_ uint64, row []byte) error {
		var b Broken
		if err := json.Unmarshal(row, &b); err != nil {
			return err
		}
		return each(&b)
	})
}

// maxKeys bounds keys.
const maxKeys = 1 << 17

// keys are the keys of wanted rows. With more than maxKeys all rows are wanted.
type keys map[uint64]struct{}

func (k keys) addKey(key uint64) {
	if len(k) < maxKeys {
		k[key] = struct{}{}
	}
}

func (k keys) may(key uint64) bool {
	_, ok := k[key]
	return ok || len(k) == maxKeys
}

// targets sorts the URLs that failed, or are redirected to one that did.
func (l *Links) targets(mem int64, targets *merge.Sorter, bad keys) (unchecked Unchecked, err error) {
	s := newRedirects(mem / 2)
	defer func() { err = errors.Join(err, s.close()) }()
	folders := merge.NewSorter(mem/8, "") // by content, of HTML pages: the folder, with key 1 if the page was not searched, and 0 before it
	defer func() { err = errors.Join(err, folders.Close()) }()
	unchecked, l.Tried = Unchecked{}, 0
	err = eachLast(l.Fetched, mem*3/8, func(r *record.Fetch) uint64 { return r.Key }, func(r *record.Fetch) error {
		if r.Outcome == record.OutcomeFetched && r.RedirectURL != "" {
			url, key, ok := l.Redirect(r)
			if l.Tried++; !ok {
				return nil
			}
			to := hop{key, url}
			return errors.Join(s.redirect(r.Key, to), s.follow(&chain{id: r.Key, seed: r.Via == "", hops: []hop{{r.Key, r.URL}, to}}))
		}
		if !putOff(r) {
			l.Tried++
		}
		if !l.Searched && strings.Contains(r.MIME, "html") {
			key := r.ContentFP &^ 1
			if r.Duplicate {
				key |= 1
			}
			if err := folders.Add(key, []byte(folder(r.URL))); err != nil {
				return err
			}
		}
		failure, checked := l.failed(r)
		if !checked {
			unchecked[r.Outcome]++
		}
		if failure == "" || slices.Contains(l.Except, failure) {
			return nil
		}
		b, err := json.Marshal(target{Broken{URL: r.URL, Failure: failure, Error: strings.TrimPrefix(r.Error, failure+": "), Checked: r.FetchTime.Go().Truncate(time.Second)}, r.Via == ""})
		if err != nil {
			return err
		}
		return s.failure(r.Key, b)
	})
	if err == nil {
		l.Copies, err = copies(folders)
	}
	if err != nil {
		return nil, err
	}
	return unchecked, s.ends(func(key uint64, row []byte) error {
		bad.addKey(key)
		return targets.Add(key, row)
	}, func(c *chain, row []byte, failure string) error {
		t := target{Broken: Broken{Failure: failure}}
		if row != nil {
			if err := json.Unmarshal(row, &t); err != nil {
				return err
			}
		}
		if t.Failure == "" || slices.Contains(l.Except, t.Failure) {
			return nil
		}
		t.URL, t.Seed = c.hops[0].url, c.seed
		for _, h := range c.hops[1:] {
			t.Redirects = append(t.Redirects, h.url)
		}
		bad.addKey(c.id)
		return add(targets, c.id, t)
	})
}

// folder is what relative links of a URL begin with.
func folder(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url[:strings.LastIndexByte(url, '/')+1]
}

// copies counts the pages of targets that were not searched, and have no page in their folder that was, with the same content.
func copies(folders *merge.Sorter) (n uint64, err error) {
	sorted, err := folders.Sort()
	if err != nil {
		return 0, err
	}
	var content uint64
	const most = 1 << 16          // a content in more folders, as of a trap's pages, counts no more
	searched := map[string]bool{} // folders with that content
	err = sorted.Each(func(key uint64, folder []byte) error {
		if key&^1 != content {
			content = key &^ 1
			clear(searched)
		}
		switch {
		case len(searched) == most:
		case key&1 == 0:
			searched[string(folder)] = true
		case !searched[string(folder)]:
			n++
		}
		return nil
	})
	return n, err
}

// eachLast gives the last row of each page, in the order of key, with some of its columns. Rows of URLs that were put off count where there are no others.
// MIME and Duplicate are those of the document that the page has now: it is a duplicate if this page was not searched for links with that content.
func eachLast(files []string, mem int64, key func(*record.Fetch) uint64, each func(*record.Fetch) error) (err error) {
	rows := merge.NewSorter(mem, "")
	defer func() { err = errors.Join(err, rows.Close()) }()
	var buf []byte
	for _, file := range files {
		if err := Read(file, func(r *record.Fetch) error {
			if !r.OfPage() {
				return nil
			}
			buf = record.AppendRow(buf[:0], &record.Fetch{URL: r.URL, Key: r.Key, Via: r.Via, Role: r.Role, FetchTime: r.FetchTime, Outcome: r.Outcome, Status: r.Status, RedirectURL: r.RedirectURL, Error: r.Error,
				Truncated: r.Truncated, ContentFP: r.ContentFP, MIME: r.MIME, Duplicate: r.Duplicate})
			return rows.Add(key(r), buf)
		}); err != nil {
			return err
		}
	}
	sorted, err := rows.Sort()
	if err != nil {
		return err
	}
	var last, document record.Fetch
	var of uint64
	var searched []uint64 // contents of the page
	some := false
	if err := sorted.Each(func(key uint64, row []byte) error {
		var r record.Fetch
		if _, err := record.ParseRow(string(row), &r, nil); err != nil {
			return err
		}
		if some && of != key {
			if err := each(&last); err != nil {
				return err
			}
			some, searched, document = false, searched[:0], record.Fetch{}
		}
		of = key
		if r.Outcome == record.OutcomeFetched && r.Status < 500 { // else it is as it was
			if !r.Duplicate {
				searched = append(searched, r.ContentFP)
			}
			document.MIME, document.ContentFP, document.Duplicate = r.MIME, r.ContentFP, !slices.Contains(searched, r.ContentFP)
			if r.Status < 200 || r.Status > 299 {
				document = record.Fetch{}
			}
		}
		r.MIME, r.ContentFP, r.Duplicate = document.MIME, document.ContentFP, document.Duplicate
		if !some || !putOff(&r) || putOff(&last) {
			last, some = r, true
		}
		return nil
	}); err != nil || !some {
		return err
	}
	return each(&last)
}

// counts reports whether a link may be broken by itself: a redirect is a part of a chain, and what looks like a URL in a script may be none.
func counts(l *record.Link) bool {
	return l.LinkKind != linkkind.Redirect && l.LinkKind != linkkind.ScriptGuess
}

// links sorts the links to targets by the keys of their pages; seeds, which stand on none, go out at once.
func (l *Links) links(mem int64, targets *merge.Sorter, bad keys, links *merge.Sorter, pages keys, out *merge.Sorter) (err error) {
	found := merge.NewSorter(mem, "") // by key of the target
	defer func() { err = errors.Join(err, found.Close()) }()
	number := uint64(0)
	var buf []byte
	for _, file := range l.Found {
		if err := Read(file, func(r *record.Link) error {
			if number++; !counts(r) || !bad.may(r.Key) {
				return nil
			}
			buf = record.AppendRow(binary.AppendUvarint(buf[:0], number), &record.Link{URL: r.URL, Key: r.Key, SrcURL: r.SrcURL, SrcKey: r.SrcKey, LinkKind: r.LinkKind, Text: r.Text, Discovered: r.Discovered})
			return found.Add(r.Key, buf)
		}); err != nil {
			return err
		}
	}
	for _, file := range l.Refused {
		if err := Read(file, func(r *record.Link) error {
			if number++; r.Extra.Text(RefusedColumn) != FailureInvalid || !counts(r) || slices.Contains(l.Except, FailureInvalid) {
				return nil
			}
			return (&candidate{Broken: Broken{URL: r.URL, Failure: FailureInvalid, Checked: r.Discovered.Go().Truncate(time.Second)}}).of(r, number, pages, links)
		}); err != nil {
			return err
		}
	}
	a, err := targets.Sort()
	if err != nil {
		return err
	}
	b, err := found.Sort()
	if err != nil {
		return err
	}
	return join(a.Next, b.Next, func(_ uint64, row []byte) error {
		var t target
		if err := json.Unmarshal(row, &t); err != nil || !t.Seed {
			return err
		}
		return add(out, 0, &t.Broken)
	}, func(of, row []byte) error {
		if of == nil {
			return nil
		}
		var c candidate
		var link record.Link
		err := json.Unmarshal(of, &c)
		n, width := binary.Uvarint(row)
		if err == nil {
			_, err = record.ParseRow(string(row[width:]), &link, nil)
		}
		if err != nil {
			return err
		}
		c.URL = link.URL
		return c.of(&link, n, pages, links)
	})
}

// of adds a candidate that is this link to links, and its page to pages.
func (c *candidate) of(link *record.Link, number uint64, pages keys, links *merge.Sorter) error {
	c.Page, c.Kind, c.Text, c.Number, c.Found = link.SrcURL, link.LinkKind, link.Text, number, link.Discovered
	pages.addKey(link.SrcKey)
	return add(links, link.SrcKey, c)
}

// What a visit says of the document of a page.
const (
	visitHas  = iota // there is one, with a fingerprint
	visitGone        // there is none
)

// current gives to out the links that their pages still have, each once.
func (l *Links) current(mem int64, links *merge.Sorter, pages keys, out *merge.Sorter) (err error) {
	visits := merge.NewSorter(mem, "") // by key of the page: what, time, fingerprint
	defer func() { err = errors.Join(err, visits.Close()) }()
	var buf []byte
	for _, file := range l.Fetched {
		if err := Read(file, func(r *record.Fetch) error {
			if !r.OfPage() || r.Outcome != record.OutcomeFetched || r.Status >= 500 || !pages.may(r.Key) {
				return nil // as it was
			}
			what := byte(visitHas)
			if r.Status >= 300 {
				what = visitGone
			}
			buf = binary.LittleEndian.AppendUint64(append(buf[:0], what), uint64(r.FetchTime))
			return visits.Add(r.Key, binary.LittleEndian.AppendUint64(buf, r.ContentFP))
		}); err != nil {
			return err
		}
	}
	a, err := visits.Sort()
	if err != nil {
		return err
	}
	b, err := links.Sort()
	if err != nil {
		return err
	}
	had := map[uint64]struct{}{} // hashes of the page's links so far
	return join(present(a.Next), b.Next, func(uint64, []byte) error {
		clear(had)
		return nil
	}, func(of, row []byte) error {
		var c candidate
		if err := json.Unmarshal(row, &c); err != nil {
			return err
		}
		is := of == nil // a robots.txt, which names a sitemap
		for ; len(of) > 0; of = of[8:] {
			is = is || binary.LittleEndian.Uint64(of) == uint64(c.Found)
		}
		h := xxh3.HashString(c.Page + "\x00" + c.URL + "\x00" + c.Kind + "\x00" + c.Text)
		if _, twice := had[h]; twice || !is {
			return nil
		}
		had[h] = struct{}{}
		return add(out, c.Number, &c.Broken)
	})
}

// present gives for each page the times of the visits that found the content that it has now.
func present(next func() (uint64, []byte, error)) func() (uint64, []byte, error) {
	key, row, err := next()
	row = slices.Clone(row)
	return func() (uint64, []byte, error) {
		if err != nil {
			return 0, nil, err
		}
		page := key
		times := []byte{} // not nil: the page was visited
		type visit struct{ at, content []byte }
		var all []visit
		gone := false
		for err == nil && key == page {
			if gone = row[0] == visitGone; !gone {
				all = append(all, visit{row[1:9], row[9:]})
			}
			key, row, err = next()
			row = slices.Clone(row)
		}
		if err != nil && err != io.EOF {
			return 0, nil, err
		}
		for _, v := range all {
			if !gone && string(v.content) == string(all[len(all)-1].content) {
				times = append(times, v.at...)
			}
		}
		return page, times, nil
	}
}
