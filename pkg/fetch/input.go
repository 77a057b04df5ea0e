package fetch

import (
	"context"
	"io"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/canon"
	"mercator/pkg/fault"
)

// input reads the batch to its end.
func (r *runner) input(ctx context.Context) error {
	read := r.read
	if r.archive.saved.n > 0 {
		read = r.resume
	}
	if err := read(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.eof = true
	r.mu.Unlock()
	r.poke()
	return nil
}

// next reads a row of the batch. Politeness goes by the column host, so that must be
// the host that is contacted.
func (r *runner) next(ctx context.Context, row *record.URL) error {
	if err := r.b.Read(row); err != nil {
		return err
	}
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

// notOfHosts says whether canonical hosts never have a character.
func notOfHosts(c rune) bool {
	return c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' || strings.ContainsRune(`?#@\`, c)
}

// read spools the input and makes hosts of it.
func (r *runner) read(ctx context.Context) error {
	var row record.URL
	for {
		err := r.next(ctx, &row)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.add(ctx, &row); err != nil {
			return err
		}
	}
}

// resume is read for a transaction of which an earlier run had archived a part.
// The rows of that part come first, in the order of the archive, so that a replay
// of the archive gives the same rows in the same order.
func (r *runner) resume(ctx context.Context) error {
	missing := noRows
	for {
		var row record.URL
		err := r.next(ctx, &row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = r.match(&row, &missing)
		}
		if err != nil {
			return err
		}
	}
	redirected := recalled{names: map[string][]string{}}
	for n := range r.archive.saved.n {
		s, err := r.archive.saved.at(n)
		if err != nil {
			return err
		}
		if s.in == none {
			continue // the input does not hold it any more
		}
		g, text, err := r.archive.load(s)
		if err != nil {
			return err
		}
		r.remember(&g.Row)
		if g.Row.Role == record.RoleRobots {
			r.mu.Lock()
			err = r.robots.recall(&g.Row, text, &redirected)
			r.mu.Unlock()
			if err != nil {
				return err
			}
		}
		o := &output{row: &g.Row, made: g.Row.Role}
		if g.Row.Role == record.RolePage {
			var row record.URL
			r.mu.Lock()
			err := r.sp.readRow(s.in, &row)
			r.mu.Unlock()
			if err != nil {
				return err
			}
			page := Merge(&row, &g.Row)
			o = &output{row: &page, whole: r.payloads != nil && g.whole && identifiable(&page)}
		}
		if err := r.send(ctx, o); err != nil {
			return err
		}
	}
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
		if err := r.add(ctx, &row); err != nil {
			return err
		}
	}
	return nil
}

// match spools a row of the input for the contact that an earlier run saved of it, or else
// appends it to missing.
func (r *runner) match(row *record.URL, missing *queue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found, err := r.archive.saved.take(record.RolePage, row.URL, r.sp.end())
	if err != nil {
		return err
	}
	q := missing
	if found {
		alone := noRows
		q = &alone
	}
	return r.sp.push(q, row)
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
	c, _ := r.s.contacts.take(row.Host, now)
	c.fails = failsAfter(row, c.fails)
	gap := r.gap(row, 0, c.fails)
	if next := ended(row) + gap; next > c.next {
		c.next, c.required = next, gap
	}
	r.s.contacts.put(row.Host, c, now)
}

// add puts a row into its host's queue.
func (r *runner) add(ctx context.Context, row *record.URL) error {
	r.mu.Lock()
	for r.s.hosts[row.Host] == nil && len(r.s.hosts) >= r.opt.HostsMax && ctx.Err() == nil {
		r.room.Wait()
	}
	if err := context.Cause(ctx); err != nil {
		r.mu.Unlock()
		return err
	}
	h := r.s.hosts[row.Host]
	fresh := h == nil || !h.named // a redirect of robots.txt may have led there first
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
	}
	h.named = true
	if err := r.sp.push(&h.queue, row); err != nil {
		return err
	}
	r.s.schedule(h, now)
	r.stir()
	return nil
}
