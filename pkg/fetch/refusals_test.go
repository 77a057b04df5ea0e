package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
)

// attempt fetches a batch, and returns its rows, or why it was not committed, and the warnings.
func attempt(t testing.TB, opt fetch.Options, txn string, urls []record.URL) (rows []record.Fetch, told []string, err error) {
	t.Helper()
	var mu sync.Mutex
	opt.Warn = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf(format, args...))
	}
	in := stream(t, txn, urls)
	opt.Txn, opt.Schema = txn, in.Schema()
	out := &recordtest.Output{}
	spec := stage.Spec{Name: "mfetch", Verb: "fetch", Store: opt.Store, Txn: txn}
	_, err = stage.Run(t.Context(), spec, in, []stage.Output{out}, func(ctx context.Context, b *stage.Batch[record.URL, record.Fetch]) error {
		return fetch.Run(ctx, b, opt)
	})
	if err == nil {
		rows = readAll(t, out)
	}
	return rows, told, err
}

// linked are n URLs of as many hosts that pages linked to.
func linked(host string, n int) (urls []record.URL) {
	for i := range n {
		u := url(fmt.Sprintf("http://%s%d.test/", host, i))
		u.Depth = 3
		urls = append(urls, u)
	}
	return urls
}

func only(allowed string) fetch.Guard {
	return func(a netip.Addr) (string, error) {
		if !strings.HasPrefix(a.String(), allowed) {
			return "loopback", nil
		}
		return "", nil
	}
}

// tally counts the outcomes of pages.
func tally(rows []record.Fetch) map[string]int {
	n := map[string]int{}
	for i := range rows {
		if rows[i].Role == record.RolePage {
			n[rows[i].Outcome]++
		}
	}
	return n
}

// TestSettingsAreNoOutcome: where settings refuse many URLs of hosts that were contacted
// before, or all seeds, the batch fails. Run again with the right ones, it fetches each URL once.
func TestSettingsAreNoOutcome(t *testing.T) {
	seed := func(n int) []record.URL {
		urls := linked("seed", n)
		for i := range urls {
			urls[i].Depth = 0
		}
		return urls
	}
	away := linked("away", 100) // at an address that is allowed
	for i := range away {
		away[i].Addr = "192.0.2.1"
	}
	known := func(n int) []record.URL { // hosts of the round before
		urls := linked("known", n)
		for i := range urls {
			urls[i].URL += "again"
		}
		return urls
	}
	of := func(hosts, n int) (urls []record.URL) { // n URLs of each of the first of these hosts
		for _, u := range known(hosts) {
			for i := range n {
				u.URL = fmt.Sprintf("http://%s/%d", u.Host, i)
				urls = append(urls, u)
			}
		}
		return urls
	}
	ftp := url("ftp://seed.test/")
	for _, c := range []struct {
		name  string
		urls  []record.URL
		fails bool
		hint  string

		others int64
	}{
		{"three seeds", seed(3), true, "--allow-net 127.53.72.81/32,127.192.173.128/32,127.253.199.90/32", 0},
		{"three seeds that are denied", []record.URL{url("http://deny.test/"), url("http://deny.test/2")}, true, "--deny", 0},
		{"a seed that nothing fetches", []record.URL{ftp}, true, "--exec", 0},
		{"ten seeds among others", append(seed(10), away...), false, "", 0},
		{"eleven seeds among others", append(seed(11), away...), true, "--allow-net 127.0.0.0/8", 0},
		{"hosts contacted before", append(known(11), away...), true, "--allow-net", 0},
		{"a link to a host contacted before", known(1), true, "--allow-net", 0},
		{"links to hosts never contacted", append(linked("new", 50), away...), false, "", 0},
		{"one link alone", linked("new", 1), false, "", 0},
		{"eleven links alone", linked("new", 11), false, "", 0},
		{"many URLs of one host contacted before", append(of(1, 50), away...), false, "", 0},
		{"a shard's eleven of a thousand", append(seed(11), away...), false, "", 1000},
		{"a shard's whole part, beside others", seed(3), false, "", 5},
		{"a shard's many of a batch of few", append(seed(30), away...), true, "--allow-net", 20},
		{"five of six hosts contacted before", append(of(5, 4), away[0]), true, "--allow-net", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &web{}
				st := newStore(t)
				opt := options(st, w)
				run(t, opt, "r1", linked("known", 11))
				w.log = nil
				right, wrong := opt, opt
				wrong.Guard, wrong.Others = only("192."), c.others
				wrong.Deny = denying(t, "deny.test\n")
				rows, told, err := attempt(t, wrong, "r2", c.urls)
				if (err != nil) != c.fails {
					t.Fatalf("error %v, want one: %v", err, c.fails)
				}
				if !c.fails {
					n := tally(rows)
					if n[record.OutcomeAddress]+n[record.OutcomeFetched] != len(c.urls) || n[record.OutcomeAddress] == 0 {
						t.Errorf("outcomes %v", n)
					}
					return
				}
				if !strings.Contains(err.Error(), c.hint) || !strings.Contains(err.Error(), "such as ") {
					t.Errorf("error %q, want %s and an example", err, c.hint)
				}
				if len(c.urls) > 100 && (len(told) != 1 || !strings.Contains(told[0], c.hint)) {
					t.Errorf("told %q, want one warning", told)
				}
				if _, found, err := st.Lookup("fetch", "r2"); found || err != nil {
					t.Errorf("committed: %v, %v", found, err)
				}
				right.Store = open(t, st.Dir())
				right.Protocols = map[string]fetch.Protocol{"http": w, "ftp": w}
				rows, _, err = attempt(t, right, "r2", c.urls)
				if err != nil || tally(rows)[record.OutcomeFetched] != len(c.urls) {
					t.Fatalf("with the right settings: %v, %v", err, tally(rows))
				}
				asked := map[string]int{}
				for _, u := range w.log {
					if asked[u]++; asked[u] > 1 && !strings.HasSuffix(u, "robots.txt") {
						t.Errorf("%s was asked for twice", u)
					}
				}
			})
		})
	}
}

// TestRefusedOK: a batch that settings refuse goes on, if told to, with the columns of a newer version.
func TestRefusedOK(t *testing.T) {
	opt := options(newStore(t), &web{})
	opt.Guard, opt.RefusedOK = only("192."), true
	rows, _, err := attempt(t, opt, "r1", linked("known", 30))
	if err != nil || tally(rows)[record.OutcomeAddress] != 30 || !strings.Contains(rows[0].Error, "refused: loopback") {
		t.Errorf("%v, %v", tally(rows), err)
	}
}

// A robots.txt that is said to be where settings do not let us go is no answer of the server: its
// pages have the outcome of a setting, which no attempts end. No host can stop the batch so.
func TestRobotsWhereSettingsForbid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := func(url string) string {
			return "HTTP/1.1 301 Moved\r\nLocation: " + url + "\r\nContent-Length: 0\r\n\r\n"
		}
		urls := linked("a", 30)
		w := &web{replies: map[string]string{}}
		for i := range urls {
			urls[i].Addr = "192.0.2.1"
			w.replies[urls[i].URL+"robots.txt"] = to("http://inside.test/robots.txt")
		}
		w.replies["http://a0.test/robots.txt"] = to("http://deny.test/robots.txt")
		w.replies["http://a1.test/robots.txt"] = to("ftp://a1.test/robots.txt")
		opt := options(newStore(t), w)
		opt.Guard, opt.Deny, opt.Resolver = only("192."), denying(t, "deny.test\n"), names{}
		rows, _, err := attempt(t, opt, "r1", urls)
		if n := tally(rows); err != nil || n[record.OutcomeDenied] != 1 || n[record.OutcomeAddress] != 28 || n[record.OutcomeRobotsUnreachable] != 1 {
			t.Errorf("%v, %v, %s", n, err, rows[len(rows)-1].Error)
		}
		for _, url := range w.log {
			if !strings.HasSuffix(url, "/robots.txt") {
				t.Errorf("%s was fetched", url)
			}
		}
	})
}

// What settings refuse is told as soon as it is more than a hundredth of the batch, also of hosts that were never contacted.
func TestRefusedIsTold(t *testing.T) {
	for _, c := range []struct {
		refused, others int
		told            bool
	}{{10, 0, false}, {11, 0, true}, {30, 2970, false}, {31, 2969, true}} {
		t.Run(fmt.Sprint(c.refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				urls := linked("inside", c.refused)
				for _, u := range linked("out", c.others) {
					u.Addr = "192.0.2.1"
					urls = append(urls, u)
				}
				opt := options(newStore(t), &web{})
				opt.Guard = only("192.")
				_, told, err := attempt(t, opt, "r1", urls)
				if err != nil || (len(told) > 0) != c.told || c.told && !strings.Contains(told[0], "URLs were not fetched because of settings: address-refused") {
					t.Errorf("%d of %d: told %q, %v", c.refused, len(urls), told, err)
				}
			})
		})
	}
}

// lacking is a web that this machine cannot always reach.
type lacking struct {
	web
	lacks func(req *fetch.Request) error
}

func (w *lacking) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	if err := w.lacks(req); err != nil {
		return fetch.Failed(err)
	}
	return w.web.Fetch(ctx, req)
}

func cannotDial(req *fetch.Request, errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: req.Addr.AsSlice(), Port: 80}, Err: os.NewSyscallError("connect", errno)}
}

// TestThisMachineFails: what this machine could not do is no outcome of a URL and no failure
// of a host.
func TestThisMachineFails(t *testing.T) {
	nowhere := netip.MustParseAddr("fe80::1") // without a zone there is no route to it
	for _, c := range []struct {
		name  string
		lacks func(n int, req *fetch.Request) error
		want  map[string]int // of 20 pages of 20 hosts; nil: the batch fails
		says  string
	}{
		{"no port, for a while", func(n int, req *fetch.Request) error {
			if n < 30 {
				return cannotDial(req, syscall.EADDRNOTAVAIL)
			}
			return nil
		}, map[string]int{record.OutcomeFetched: 20}, localfault.NoPort},
		{"no file for one host", func(n int, req *fetch.Request) error {
			if req.Host == "h7.test" {
				return cannotDial(req, syscall.EMFILE)
			}
			return nil
		}, map[string]int{record.OutcomeFetched: 19, record.OutcomeDeferred: 1}, localfault.NoFile},
		{"no file for pages", func(n int, req *fetch.Request) error {
			if req.Host == "h7.test" && !strings.HasSuffix(req.URL, "robots.txt") {
				return cannotDial(req, syscall.EMFILE)
			}
			return nil
		}, map[string]int{record.OutcomeFetched: 19, record.OutcomeDeferred: 1}, localfault.NoFile},
		{"no port at all", func(n int, req *fetch.Request) error { return cannotDial(req, syscall.EADDRNOTAVAIL) }, nil, localfault.NoPort},
		{"network down", func(n int, req *fetch.Request) error { return cannotDial(req, syscall.ENETDOWN) }, nil, localfault.Down},
		{"firewall", func(n int, req *fetch.Request) error { return cannotDial(req, syscall.EPERM) }, nil, localfault.Firewall},
		{"no route at all", func(n int, req *fetch.Request) error {
			req.Addr = nowhere
			return cannotDial(req, syscall.ENETUNREACH)
		}, nil, "this machine: no "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				n := 0
				w := &lacking{lacks: func(req *fetch.Request) error {
					mu.Lock()
					defer mu.Unlock()
					n++
					return c.lacks(n-1, req)
				}}
				st := newStore(t)
				opt := options(st, w)
				urls := linked("h", 20)
				rows, told, err := attempt(t, opt, "r1", urls)
				if len(told) == 0 || !strings.Contains(told[0], c.says) {
					t.Errorf("told %q, want %q", told, c.says)
				}
				if c.want == nil {
					if c.name == "no route at all" && err == nil { // another network may have one
						if tally(rows)[record.OutcomeAddress] != 20 {
							t.Errorf("outcomes %v", tally(rows))
						}
						return
					}
					if err == nil || !strings.Contains(err.Error(), c.says+" (URLs: 20)") {
						t.Fatalf("error %v, want %q", err, c.says)
					}
				} else if err != nil || fmt.Sprint(tally(rows)) != fmt.Sprint(c.want) {
					t.Fatalf("outcomes %v, error %v, want %v", tally(rows), err, c.want)
				}
				for i := range rows {
					if rows[i].Outcome == record.OutcomeDeferred && (rows[i].Error != c.says || rows[i].Addr != "") {
						t.Errorf("%s: %q at %q, want %q at no address", rows[i].URL, rows[i].Error, rows[i].Addr, c.says)
					}
				}
				// The same again, or the next batch, when the fault is over: no host has failed.
				w.lacks = func(*fetch.Request) error { return nil }
				txn := "r1"
				if c.want != nil {
					txn, urls = "r2", urls[7:8]
				}
				opt.Store = open(t, st.Dir())
				rows, told, err = attempt(t, opt, txn, urls)
				if err != nil || len(told) > 0 || tally(rows)[record.OutcomeFetched] != len(urls) {
					t.Errorf("afterwards: outcomes %v, told %q, error %v", tally(rows), told, err)
				}
			})
		})
	}
}

// TestAddressWithoutRoute: a host has an address that this machine has no way to, and another.
func TestAddressWithoutRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &lacking{lacks: func(req *fetch.Request) error {
			if req.Addr.Is6() {
				return cannotDial(req, syscall.ENETUNREACH)
			}
			return nil
		}}
		opt := options(newStore(t), w)
		opt.MinDelay, opt.AddrDelay = time.Second, time.Second
		u := url("http://h.test/")
		u.Addr = "fe80::1,127.0.0.1,fe80::2"
		start := time.Now()
		rows, _, err := attempt(t, opt, "r1", []record.URL{u})
		if err != nil || tally(rows)[record.OutcomeFetched] != 1 {
			t.Errorf("outcomes %v, error %v", tally(rows), err)
		}
		// robots.txt, a gap, the page: nothing was asked of the other address.
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("it took %v, want a second", took)
		}
	})
}

type silent string

func (s silent) Resolve(context.Context, string) ([]netip.Addr, time.Time, string) {
	return nil, time.Time{}, string(s)
}

// TestNamesWithoutNetwork: a name that this machine could not ask for is no dead name.
func TestNamesWithoutNetwork(t *testing.T) {
	opt := options(newStore(t), &web{})
	opt.Resolver = silent(localfault.NoRoute)
	urls := linked("h", 12)
	for i := range urls {
		urls[i].Addr = ""
	}
	urls[3].AddrError = localfault.Down // as mresolve may say
	if _, _, err := attempt(t, opt, "r1", urls); err == nil || !strings.Contains(err.Error(), localfault.NoRoute+" (URLs: 11)") {
		t.Errorf("error %v", err)
	}
}

func denying(t testing.TB, text string) *fetch.Deny {
	t.Helper()
	path := t.TempDir() + "/deny"
	must.OK(t, os.WriteFile(path, []byte(text), 0o644))
	d, err := fetch.OpenDeny(path, canon.Options{})
	must.OK(t, err)
	return d
}

// short runs the test that calls it in a process that a line of shell has made short of
// something; there it returns true.
func short(t *testing.T, shell string, env ...string) bool {
	t.Helper()
	const mark = "MERCATOR_TEST_SHORT"
	if os.Getenv(mark) != "" {
		return true
	}
	cmd := exec.Command("sh", "-c", shell+` && exec "$0" -test.v -test.run="^$1\$"`, os.Args[0], t.Name())
	cmd.Env = append(append(os.Environ(), mark+"=1"), env...)
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "=== RUN") {
		needs.Skip(t, "not possible here: ", err, string(out))
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// atOnce fetches from 60 hosts of a slow server at once, in a process that is short of what that
// takes. Nothing is held against a server.
func atOnce(t *testing.T, port, want string) {
	var urls []record.URL
	for i := range 60 {
		u := url(fmt.Sprintf("http://h%d.test:%s/", i, port))
		u.Addr = "127.0.0.1"
		urls = append(urls, u)
	}
	opt := options(newStore(t), loopback(t))
	opt.Connections, opt.Robots = len(urls), nil
	rows, told, err := attempt(t, opt, "r1", urls)
	n := tally(rows)
	t.Log(n, told)
	if err != nil || n[record.OutcomeFetched] == 0 || n[record.OutcomeFetched]+n[record.OutcomeDeferred] != len(urls) {
		t.Errorf("outcomes %v, error %v", n, err)
	}
	if len(told) == 0 || !strings.Contains(told[0], want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func slowly(w http.ResponseWriter, r *http.Request) {
	time.Sleep(300 * time.Millisecond)
	io.WriteString(w, "text")
}

func TestTooManyOpenFiles(t *testing.T) {
	port := os.Getenv("MERCATOR_TEST_PORT")
	if port == "" {
		_, port, _ = net.SplitHostPort(newServer(t, slowly, false).Listener.Addr().String())
	}
	if short(t, "ulimit -n 40", "MERCATOR_TEST_PORT="+port) {
		atOnce(t, port, localfault.NoFile)
	}
}

func TestNoFreePorts(t *testing.T) {
	if short(t, `exec unshare --user --map-root-user --net sh -c 'ip link set lo up && echo 40000 40009 > /proc/sys/net/ipv4/ip_local_port_range && exec "$0" -test.v -test.run="^$1\$"' "$0" "$1"`) {
		l, err := net.Listen("tcp4", "127.0.0.1:8080")
		must.OK(t, err)
		defer l.Close()
		go http.Serve(l, http.HandlerFunc(slowly))
		atOnce(t, "8080", localfault.NoPort)
	}
}
