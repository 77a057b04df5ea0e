package fetch

import (
	"context"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/merge"
	"mercator/pkg/web/canon"
)

// input reads the batch to its end.
func (r *runner) input(ctx context.Context) error {
	read := r.readURLs
	if r.archive.saved.n > 0 {
		read = r.resume
	}
	if err := read(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.eof = true
	r.mu.Unlock()
	r.warnOfSettings()
	r.poke()
	return nil
}

// nextURL reads a row of the batch. Politeness goes by the column host, so that must be
// the host that is contacted.
func (r *runner) nextURL(ctx context.Context, row *record.URL) error {
	if err := r.b.Read(row); err != nil {
		return err
	}
	r.urls.Add(1)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	scheme, host, _ := canon.Split(row.URL)
	_, port := canon.SplitPort(host)
	if host == "" || host != row.Host || strings.ContainsFunc(host, notOfHosts) || port != "" && port == canon.DefaultPort(scheme) {
		return &fault.Error{Class: fault.Corrupt, File: "input", Place: clean(row.URL), Found: "host " + strconv.Quote(clean(row.Host)), Want: "a canonical URL and its host",
			Hint: "mcat --from json, and commands that read text, bring URLs into canonical form"}
	}
	return nil
}

// notOfHosts reports whether canonical hosts never have a character.
func notOfHosts(c rune) bool {
	return c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' || strings.ContainsRune(`?#@\`, c)
}

// readURLs spools the input and makes hosts of it.
func (r *runner) readURLs(ctx context.Context) error {
	r.askDue()
	var row record.URL
	for {
		err := r.nextURL(ctx, &row)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.addURL(ctx, &row); err != nil {
			return err
		}
	}
}

// resume is read for a transaction that an earlier run had archived in part.
// The rows of that part come first, in the order of the archive, so that a replay
// of the archive gives the same rows in the same order.
func (r *runner) resume(ctx context.Context) error {
	missing := noRows
	found := merge.NewSorter(sortMemory, r.opt.Store.Dir()) // pages with their rows of the input, by number
	defer found.Close()
	var b []byte
	for {
		var row record.URL
		err := r.nextURL(ctx, &row)
		if err == io.EOF {
			break
		}
		var s savedRow
		var ok bool
		if err == nil {
			s, ok, err = r.archive.saved.takeContact(record.RolePage, row.URL)
		}
		switch {
		case err != nil:
		case ok:
			b = record.AppendRow(s.append(b[:0]), &row)
			err = found.Add(uint64(s.n), b)
		default:
			r.mu.Lock()
			err = r.sp.push(&missing, &row)
			r.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
	if err := r.archive.saved.robots(func(s savedRow) error { return found.Add(uint64(s.n), s.append(b[:0])) }); err != nil {
		return err
	}
	sorted, err := found.Sort()
	if err != nil {
		return err
	}
	redirected := redirectors{names: map[string][]string{}}
	if err := sorted.Each(func(_ uint64, b []byte) error { return r.emitSaved(ctx, b, &redirected) }); err != nil {
		return err
	}
	r.askDue()
	for missing.n > 0 {
		var row record.URL
		r.mu.Lock()
		err := r.sp.peek(&missing, &row)
		if err == nil {
			err = r.sp.pop(&missing)
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
		if err := r.addURL(ctx, &row); err != nil {
			return err
		}
	}
	return nil
}

// emitSaved emits the row of a contact that an earlier run archived: b is its savedRow, and of a page
// the input's row.
func (r *runner) emitSaved(ctx context.Context, b []byte, redirected *redirectors) error {
	s, in := parseSavedRow(b)
	g, text, err := r.archive.load(s)
	if err != nil {
		return err
	}
	r.remember(&g.Row)
	o := &output{row: &g.Row, made: g.Row.Role}
	var row record.URL
	if s.page {
		if _, err := record.ParseRow(string(in), &row, r.opt.Schema); err != nil {
			return err
		}
	}
	if err := r.recallReply(g, &row); err != nil {
		return err
	}
	if s.page {
		page := Merge(&row, &g.Row)
		o = &output{row: &page}
	} else if g.Row.Role == record.RoleRobots {
		r.mu.Lock()
		err := r.robots.importRow(&g.Row, text, redirected)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	o.whole = r.payloads != nil && g.whole && identifiable(o.row)
	return r.send(ctx, o)
}

// remember holds to how a contact in an earlier run of the batch ended, and to what the
// server asked for.
func (r *runner) remember(row *record.Fetch) {
	if row.Addr == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	own := r.s.rules(row.Host)
	c, _ := r.s.contacts.takeContact(row.Host, now)
	c.fails = failsAfter(row, c.fails)
	gap, asked := r.gap(own, row, 0, c.fails)
	if end := ended(row); end > c.ended {
		c.ended, c.took, c.serverGap = end, row.DurationUS, asked
		c.addr, _ = netip.ParseAddr(row.Addr)
	}
	if next := ended(row) + gap; next > c.next {
		c.next, c.required, c.copied = next, gap, false
	}
	if own.HostConnections > 1 {
		c.required = 0 // another connection may have ended later
	}
	r.s.contacts.put(row.Host, c, now)
}

// addURL puts a row into its host's queue.
func (r *runner) addURL(ctx context.Context, row *record.URL) error {
	r.mu.Lock()
	for r.s.hosts[row.Host] == nil && len(r.s.hosts) >= r.opt.BackQueues && ctx.Err() == nil {
		r.room.Wait()
	}
	if err := context.Cause(ctx); err != nil {
		r.mu.Unlock()
		return err
	}
	h := r.s.hosts[row.Host]
	fresh := h == nil || !h.dnsArchived // a redirect of robots.txt may have led there first
	r.mu.Unlock()
	if fresh {
		g := &group{}
		var err error
		g.b, err = r.archive.enc.Append(nil, warc.NewHostname(r.opt.Now(), warc.Hostname{Host: row.Host, Addr: row.Addr, Expires: row.AddrExpires, Error: row.AddrError}))
		if err != nil {
			return err
		}
		if err := r.send(ctx, &output{group: g}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if h = r.s.hosts[row.Host]; h == nil {
		h = r.s.host(strings.Clone(row.Host), now)
		r.refusals.countReopened(row.Host)
	}
	h.dnsArchived = true
	if err := r.sp.push(&h.queue, row); err != nil {
		return err
	}
	r.s.schedule(h, now)
	r.stir()
	return nil
}
