package fetch_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/fetch/replay"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/robots"
)

// wall is a protocol module with sites that answer by the cookies that they are sent.
type wall struct {
	jar    *cookies.Jar
	answer func(url string, sent map[string]string) string // raw HTTP; nil: walls
	rules  string                                          // of robots.txt; "": there is none
	down   string                                          // host that nobody reaches

	mu      sync.Mutex
	log     []string // URL and cookies of each contact
	onFetch func(n int)
}

func (w *wall) Check(string) error { return nil }

func (w *wall) Fetch(_ context.Context, req *fetch.Request) *fetch.Reply {
	t := cookies.TargetOf(req.URL)
	line := w.jar.Line(t, time.Now())
	sent := map[string]string{}
	for pair := range strings.SplitSeq(line, "; ") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			sent[name] = value
		}
	}
	w.mu.Lock()
	if !strings.HasSuffix(req.URL, "/robots.txt") {
		w.log = append(w.log, strings.TrimSpace(req.URL+" "+line))
	}
	n := len(w.log)
	w.mu.Unlock()
	if w.onFetch != nil {
		w.onFetch(n)
	}
	if req.Host == w.down {
		return &fetch.Reply{Outcome: record.OutcomeTimeout, Error: "silence", Sent: []byte("GET " + req.URL + "\r\n\r\n")}
	}
	raw := "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
	switch {
	case !strings.HasSuffix(req.URL, "/robots.txt"):
		raw = w.answer(req.URL, sent)
	case w.rules != "":
		raw = text(w.rules)
	}
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	for field := range strings.SplitSeq(head, "\r\n") {
		if set, ok := strings.CutPrefix(field, "Set-Cookie: "); ok {
			w.jar.Keep(t, set, time.Now())
		}
	}
	m, err := httpmsg.Open(strings.NewReader(raw))
	if err != nil {
		panic(err)
	}
	return &fetch.Reply{Outcome: record.OutcomeFetched, Sent: []byte("GET " + req.URL + "\r\n\r\n"), Head: &m.Head, Response: strings.NewReader(raw), Length: int64(len(raw)), Wire: int64(len(raw))}
}

func moved(to string, set ...string) string {
	fields := ""
	for _, s := range set {
		fields += "Set-Cookie: " + s + "\r\n"
	}
	return "HTTP/1.1 302 Found\r\nLocation: " + to + "\r\n" + fields + "Content-Length: 0\r\n\r\n"
}

func setting(raw, set string) string {
	return strings.Replace(raw, "\r\n", "\r\nSet-Cookie: "+set+"\r\n", 1)
}

// walls are sites that let nobody in without a cookie.
func walls(url string, sent map[string]string) string {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	path = "/" + path
	_, to, _ := strings.Cut(path, "to=")
	in := sent["ok"] == "1"
	switch host {
	case "self.test":
		if !in {
			return moved(path, "ok=1; Path=/")
		}
	case "via.test":
		if to != "" {
			return moved(to, "ok=1; Path=/")
		}
		if !in {
			return moved("/set?to=" + path)
		}
	case "token.test": // a cookie for each page
		if to != "" {
			return moved(to, "ok="+strings.Trim(to, "/")+"; Path=/")
		}
		if sent["ok"] != strings.Trim(path, "/") {
			return moved("/set?to=" + path)
		}
	case "check.test": // the page that sets the cookie is known from the second time on
		if path == "/check" {
			return moved(sent["to"], "pass="+strings.Trim(sent["to"], "/")+"; Path=/")
		}
		if sent["pass"] != strings.Trim(path, "/") {
			return moved("/check", "to="+path+"; Path=/")
		}
	case "apex.test":
		if !in {
			return moved("http://www.apex.test/set?to=" + path)
		}
	case "www.apex.test":
		return moved("http://apex.test"+to, "ok=1; Domain=apex.test; Path=/")
	case "steps.test": // counts
		if n := len(sent["n"]); n < 4 {
			return moved(path, "n="+strings.Repeat("x", n+1)+"; Path=/")
		}
	case "meta.test":
		if !in {
			return setting(page("<title>wait</title><META content=' 5 ' http-equiv=Refresh>"), "ok=1; Path=/")
		}
	case "header.test":
		if !in {
			return strings.Replace(setting(page("wait"), "ok=1; Path=/"), "\r\n", "\r\nRefresh: 0; url="+path+"\r\n", 1)
		}
	case "bounce.test": // there and back by documents
		if to != "" {
			return setting(page(`<meta http-equiv=refresh content="1;URL='`+to+`'">`), "ok=1; Path=/")
		}
		if !in {
			return page(`<meta http-equiv=refresh content="0;url=/set?to=` + path + `">`)
		}
	case "endless.test":
		return moved(path, "r"+fmt.Sprint(len(sent))+"=1; Path=/")
	case "news.test": // loads itself again, with another session in each reply
		return setting(page("<meta http-equiv=refresh content=300>"), "sid="+sent["sid"]+"x; Path=/")
	case "loop.test":
		if path == "/1" {
			return moved("/2")
		}
		return moved("/1")
	case "other.test":
		return moved("http://self.test/1", "ok=1; Path=/")
	}
	return page("in " + url)
}

func wallOptions(st *store.Store, w *wall) fetch.Options {
	w.jar = cookies.New()
	if w.answer == nil {
		w.answer = walls
	}
	opt := options(st, w)
	opt.Cookies, opt.Resolver = w.jar, names{}
	return opt
}

// rounds crawls from a URL to its end, as a crawl does that follows redirects and reloads to URLs that it does not know. It
// returns the rows of pages.
func rounds(t *testing.T, opt func() fetch.Options, urls ...string) (rows []record.Fetch) {
	t.Helper()
	known := map[string]bool{}
	for n := 1; len(urls) > 0; n++ {
		var batch []record.URL
		for _, u := range urls {
			if known[u] = true; true {
				batch = append(batch, url(u))
			}
		}
		urls = nil
		got := run(t, opt(), fmt.Sprintf("r%d", n), batch)
		outcomes(t, got, batch)
		for _, row := range got {
			if !row.OfPage() {
				continue
			}
			rows = append(rows, row)
			to := row.RedirectURL
			if strings.HasPrefix(row.URL, "http://bounce.test") && !strings.Contains(row.URL, "?") {
				to = strings.Replace(row.URL, "test/", "test/set?to=/", 1)
			}
			if to != "" && !known[to] && !slices.Contains(urls, to) {
				urls = append(urls, to)
			}
		}
	}
	return rows
}

// said is what a crawl's rows say of a URL, in order: the status of pages, and of those asked again with a '+'.
func said(rows []record.Fetch) map[string]string {
	all := map[string]string{}
	for _, row := range rows {
		mark := ""
		if row.Role == record.RoleAgain {
			mark = "+"
		}
		at := strings.TrimPrefix(row.URL, "http://")
		all[at] = strings.TrimSpace(fmt.Sprintf("%s %s%d", all[at], mark, row.Status))
	}
	return all
}

// TestCookieWalls: whoever keeps cookies gets in, and who does not has the redirects; what never lets anybody in ends. Each round is a
// run of its own, with a jar from the store.
func TestCookieWalls(t *testing.T) {
	for _, c := range []struct {
		name string
		urls string
		want map[string]string
	}{
		{"self", "self.test/1 self.test/2", map[string]string{"self.test/1": "302 +200", "self.test/2": "200"}},
		{"over a second page", "via.test/", map[string]string{"via.test/": "302 +200", "via.test/set?to=/": "302"}},
		{"a cookie for each page", "token.test/1 token.test/2", map[string]string{"token.test/1": "302 +200", "token.test/2": "302 +200", "token.test/set?to=/1": "302", "token.test/set?to=/2": "302"}},
		{"a second page that is known", "check.test/1 check.test/2", map[string]string{"check.test/1": "302", "check.test/2": "302 +200", "check.test/check": "302"}},
		{"another host", "apex.test/", map[string]string{"apex.test/": "302 +200", "www.apex.test/set?to=/": "302"}},
		{"four steps", "steps.test/", map[string]string{"steps.test/": "302 +302 +302 +302 +200"}},
		{"meta refresh", "meta.test/1 meta.test/2", map[string]string{"meta.test/1": "200 +200", "meta.test/2": "200"}},
		{"Refresh field", "header.test/", map[string]string{"header.test/": "200 +200"}},
		{"documents there and back", "bounce.test/", map[string]string{"bounce.test/": "200 +200", "bounce.test/set?to=/": "200"}},
		{"endless", "endless.test/", map[string]string{"endless.test/": "302" + strings.Repeat(" +302", 10)}},
		{"news", "news.test/1 news.test/2", map[string]string{"news.test/1": "200 +200", "news.test/2": "200"}},
		{"loop without cookies", "loop.test/1", map[string]string{"loop.test/1": "302", "loop.test/2": "302"}},
		{"another site", "other.test/ other.test/2", map[string]string{"other.test/": "302", "other.test/2": "302", "self.test/1": "302 +200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStore(t)
				var urls []string
				for _, u := range strings.Fields(c.urls) {
					urls = append(urls, "http://"+u)
				}
				got := said(rounds(t, func() fetch.Options {
					opt := wallOptions(st, &wall{})
					opt.MinDelay = time.Second
					return opt
				}, urls...))
				if !maps.Equal(got, c.want) {
					t.Errorf("with cookies: %v, want %v", got, c.want)
				}
				st = newStore(t)
				for at, what := range said(rounds(t, func() fetch.Options {
					opt := wallOptions(st, &wall{})
					opt.Cookies = nil
					return opt
				}, urls...)) {
					if strings.Contains(what, "+") {
						t.Errorf("without cookies: %s: %s", at, what)
					}
				}
			})
		})
	}
}

// TestAgainIsRow: what is asked again has the columns of its page, stands in the archive, and is contacted no earlier than politeness allows.
func TestAgainIsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := wallOptions(newStore(t), &wall{})
		opt.MinDelay = time.Second
		in := url("http://self.test/1")
		in.Depth, in.Via, in.Priority, in.Discovered, in.X = 3, "http://self.test/", 2, 77, "{}"
		var rows []record.Fetch
		for _, row := range run(t, opt, "r1", []record.URL{in}) {
			if row.OfPage() {
				rows = append(rows, row)
			}
		}
		if len(rows) != 2 {
			t.Fatalf("%d rows", len(rows))
		}
		page, again := rows[0], rows[1]
		if page.Role != record.RolePage || again.Role != record.RoleAgain || again.Key != in.Key || again.Host != in.Host || again.Depth != 3 || again.Via != in.Via || again.Priority != 2 ||
			again.Discovered != 77 || again.X != in.X || again.WARCLength == 0 || again.WARCOffset == page.WARCOffset {
			t.Errorf("rows %+v", rows)
		}
		if gap := int64(again.FetchTime) - int64(page.FetchTime) - page.DurationUS; gap < 1_000_000 || again.RequiredDelayUS != 1_000_000 {
			t.Errorf("a gap of %d µs, required %d", gap, again.RequiredDelayUS)
		}
	})
}

// TestAgainIsCutAndKnown: a document that was asked again counts in the ledger where it is cut, in a replay too, and its payload is archived once.
func TestAgainIsCutAndKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long, short = "more than the limit", "short"
		pause := func(int) { time.Sleep(time.Second) } // until what came before stands in the archive
		opt := wallOptions(newStore(t), &wall{onFetch: pause, answer: func(url string, sent map[string]string) string {
			switch {
			case sent["ok"] == "":
				return moved(url, "ok=1; Path=/")
			case strings.HasSuffix(url, "/long"):
				return page(long)
			}
			return page(short)
		}})
		opt.Dedup, opt.BodyMax, opt.Connections = true, int64(len(short)), 1
		urls := []record.URL{url("http://a.test/long"), url("http://b.test/"), url("http://c.test/")}
		body := func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return fetch.Run(ctx, b, opt)
		}
		for _, how := range []string{"fetched", "replayed"} {
			in, out := stream(t, "r1", urls), &recordtest.Output{}
			opt.Txn, opt.Schema = "r1", in.Schema()
			st := opt.Store
			if how == "replayed" {
				parts, err := fetch.Saved([]string{st.Dir()}, store.Options{})
				must.OK(t, err)
				st = newStore(t)
				body = func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
					return replay.Run(ctx, b, replay.Options{Files: parts, Txn: "r1", Schema: in.Schema()})
				}
			}
			_, err := stage.Run(t.Context(), stage.Spec{Name: "mfetch", Verb: "fetch", Store: st, Txn: "r1"}, in, []stage.Output{out}, body)
			must.OK(t, err)
			rows, end := recordtest.Rows[record.Fetch](t, &out.Buffer)
			ledger := end.Ledger.Stages[len(end.Ledger.Stages)-1]
			if want := []record.Count{{Reason: "cut-length", N: 1}}; !slices.Equal(ledger.Refused, want) {
				t.Errorf("%s: refused %v, want %v", how, ledger.Refused, want)
			}
			var first []string
			for i, row := range rows {
				if row.Role == record.RoleAgain && row.Truncated == "" {
					first = append(first, original(t, opt.Store, &rows[i], short))
				}
			}
			if want := []string{"", "http://b.test/"}; len(first) != 2 || first[0] != want[0] || first[1] != want[1] && first[1] != "http://c.test/" {
				t.Errorf("%s: payloads refer to %q, want %q", how, first, want)
			}
		}
	})
}

// TestCookiesSurvive: a batch that is killed at any contact goes on with the cookies that its archive has, asks again what it had not yet,
// and nothing twice; a replay of the archive gives the same rows.
func TestCookiesSurvive(t *testing.T) { synctest.Test(t, cookiesSurvive) }

func cookiesSurvive(t *testing.T) {
	urls := []record.URL{url("http://self.test/1"), url("http://via.test/set?to=/"), url("http://steps.test/"), url("http://meta.test/")}
	st := newStore(t)
	w := &wall{}
	run(t, wallOptions(st, w), "r1", []record.URL{url("http://via.test/")})
	whole := 0
	for kill := 1; whole == 0 || kill < whole; kill++ {
		dir := filepath.Join(t.TempDir(), "fetch")
		must.OK(t, os.CopyFS(dir, os.DirFS(st.Dir())))
		st := open(t, dir)
		w := &wall{}
		opt := wallOptions(st, w)
		ctx, cancel := context.WithCancel(t.Context())
		opt.Connections = 1
		w.onFetch = func(n int) {
			if n == kill {
				time.Sleep(time.Second) // until what came before stands in the archive
				cancel()
			}
		}
		if _, err := try(t, ctx, opt, "r2", urls); err == nil {
			t.Fatalf("kill %d: it was not", kill)
		}
		cancel()
		first := len(w.log) - 1 // the last was not archived
		w = &wall{}
		opt = wallOptions(st, w)
		opt.Connections = 1
		rows := run(t, opt, "r2", urls)
		if whole = first + len(w.log); whole != 11 {
			t.Errorf("kill %d: %d contacts, want 11", kill, whole)
		}
		want := map[string]string{"self.test/1": "302 +200", "via.test/": "+200", "via.test/set?to=/": "302", "steps.test/": "302 +302 +302 +302 +200", "meta.test/": "200 +200"}
		var pages []record.Fetch
		for _, row := range rows {
			if row.OfPage() {
				pages = append(pages, row)
			}
		}
		if got := said(pages); !maps.Equal(got, want) {
			t.Errorf("kill %d: %v, want %v", kill, got, want)
		}
		parts, err := fetch.Saved([]string{dir}, store.Options{})
		must.OK(t, err)
		in := stream(t, "r2", urls)
		replayed := runBody(t, newStore(t), "r2", in, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
			return replay.Run(ctx, b, replay.Options{Files: parts, Txn: "r2", Schema: in.Schema()})
		})
		if !slices.EqualFunc(rows, replayed, func(a, b record.Fetch) bool {
			return string(record.AppendRow(nil, &a)) == string(record.AppendRow(nil, &b))
		}) {
			t.Errorf("kill %d: a replay gives other rows", kill)
		}
	}
}

// TestCookiesOfTheStore: cookies stand in a file that nobody else may read, go back with a checkpoint, and may be missing.
func TestCookiesOfTheStore(t *testing.T) {
	st := newStore(t)
	ask := func(txn, path string) string {
		w := &wall{}
		run(t, wallOptions(st, w), txn, []record.URL{url("http://self.test/" + path)})
		return strings.Join(w.log, ", ")
	}
	if got := ask("r1", "1"); got != "http://self.test/1, http://self.test/1 ok=1" {
		t.Errorf("first round: %s", got)
	}
	if got := ask("r2", "2"); got != "http://self.test/2 ok=1" {
		t.Errorf("second round: %s", got)
	}
	m, err := st.Current()
	must.OK(t, err)
	files := m.WithRole("cookies")
	if len(files) != 1 || !files[0].Secret {
		t.Fatalf("files %+v", files)
	}
	path := st.Path(files[0].Path)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	must.OK(t, os.Remove(path))
	if err := st.CheckFile(files[0]); err != nil {
		t.Errorf("a copy without the file: %v", err)
	}
	if got := ask("r3", "3"); got != "http://self.test/3, http://self.test/3 ok=1" {
		t.Errorf("without the file: %s", got)
	}
}

// TestAgainIsPutOff: what a batch has no time for, the next asks, once, unless a setting or a robots.txt forbids it by then.
func TestAgainIsPutOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fetch.Options)
		want   string
	}{
		{"asked", func(*fetch.Options) {}, "http://self.test/1 ok=1"},
		{"robots.txt", func(opt *fetch.Options) {
			opt.Robots = func([]byte) fetch.Rules {
				return robots.Parse([]byte("User-agent: *\nDisallow: /1\n")).Group("mercator")
			}
			opt.Protocols["http"].(*wall).rules = "User-agent: *\nDisallow: /1\n"
		}, ""},
		{"guard", func(opt *fetch.Options) {
			opt.Guard = func(a netip.Addr) (string, error) {
				if a == netip.MustParseAddr("127.9.9.9") {
					return "not allowed", nil
				}
				return "", nil
			}
		}, ""},
		{"no cookies", func(opt *fetch.Options) { opt.Cookies = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := putOff(t)
				for n, want := range []string{c.want, ""} {
					w := &wall{}
					opt := wallOptions(st, w)
					c.change(&opt)
					run(t, opt, fmt.Sprintf("r%d", n+2), []record.URL{url("http://plain.test/")})
					w.log = slices.DeleteFunc(w.log, func(s string) bool { return strings.HasPrefix(s, "http://plain.test/") })
					if got := strings.Join(w.log, ", "); got != want {
						t.Errorf("round %d: %q, want %q", n+2, got, want)
					}
				}
			})
		})
	}
}

// putOff is a store in which a URL of self.test is to be asked again by the next batch.
func putOff(t *testing.T) *store.Store {
	st := newStore(t)
	w := &wall{}
	opt := wallOptions(st, w)
	opt.MinDelay, opt.Deadline, opt.Robots = 2*time.Minute, time.Minute, nil
	run(t, opt, "r1", []record.URL{url("http://self.test/1")})
	if len(w.log) != 1 {
		t.Fatalf("first round: %v", w.log)
	}
	time.Sleep(time.Hour)
	return st
}

// TestAgainFails: a contact that failed is made by the next batch again, as often as a chain is long, also where a batch learns nothing else.
func TestAgainFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := putOff(t)
		var asked []int
		for n := 2; n < 15; n++ {
			w := &wall{down: "self.test"}
			opt := wallOptions(st, w)
			opt.Robots = nil
			run(t, opt, fmt.Sprintf("r%d", n), []record.URL{url("http://plain.test/")})
			asked = append(asked, len(w.log)-1)
			time.Sleep(time.Hour)
		}
		if want := []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}; !slices.Equal(asked, want) {
			t.Errorf("asked %v times, want %v", asked, want)
		}
	})
}

// TestAgainFailsOnce: a batch that is killed after a contact that failed does not make it again.
func TestAgainFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := putOff(t)
		var log []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			w := &wall{down: "self.test"}
			opt := wallOptions(st, w)
			opt.Connections, opt.Robots, opt.MinDelay = 1, nil, time.Minute // so that the third contact is to the second page
			w.onFetch = func(n int) {
				if n == 3 {
					time.Sleep(time.Second) // until what came before stands in the archive
					cancel()
				}
			}
			_, err := try(t, ctx, opt, "r2", []record.URL{url("http://plain.test/1"), url("http://plain.test/2")})
			if log = append(log, w.log...); (err == nil) == (ctx.Err() != nil) {
				t.Fatal(err)
			}
			ctx = t.Context()
		}
		slices.Sort(log[:min(2, len(log))])                                                                              // either host may be first
		want := []string{"http://plain.test/1", "http://self.test/1 ok=1", "http://plain.test/2", "http://plain.test/2"} // the last was broken off
		if !slices.Equal(log, want) {
			t.Errorf("asked %q, want %q", log, want)
		}
	})
}
