package resolve

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
)

func TestCanon(t *testing.T) {
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool {
		switch {
		case q.Name == "nowhere.test.":
			m.Rcode = dns.RcodeNameError
		case q.Qtype != dns.TypeA:
		case strings.HasPrefix(q.Name, "www."), q.Name == "shop.test.":
			m.Answer = []dns.RR{cname(m.Question[0].Name, "host.test."), a("host.test.", "192.0.2.1", 300)}
		default:
			good(m)
		}
		return true
	})
	now := func() time.Time { return testNow }
	r, err := New(Config{Servers: []string{up}, Timeout: patience, Now: now})
	must.OK(t, err)
	defer r.Close()
	st, err := store.Open(newDNSStore(t), StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
	const source = "http://host.test/moved" // redirects to each of them
	links := [][2]string{
		{"http://www.host.test/a?b#", "http://host.test/a?b"},
		{"http://www.host.test:8080/", "http://host.test:8080/"},
		{"https://www.host.test/", "https://host.test/"},
		{"http://host.test/a?b", "http://host.test/a?b"},
		{"http://www.host.test/moved", "http://www.host.test/moved"}, // else it led to itself
		{"http://shop.test/", "http://shop.test/"},                   // a name of another domain
		{"http://nowhere.test/", "http://nowhere.test/"},
		{"http://127.0.0.1/", "http://127.0.0.1/"},
	}
	var rows []record.Link
	for _, l := range links {
		u, host, err := canon.URL(l[0])
		must.OK(t, err)
		rows = append(rows, record.Link{URL: u, Host: host, Key: fingerprint.URLKey(host, u), LinkKind: "redirect", SrcURL: source})
	}
	in := recordtest.Reader[record.Link](t, recordtest.Stream(t, record.WriterOptions{Txn: "r1"}, rows...))
	var out recordtest.Output
	var stats CanonStats
	_, err = stage.Run(t.Context(), stage.Spec{Name: "mresolve canon", Verb: "canon", Store: st, Txn: "r1"}, Aliases(in), []stage.Output{&out},
		func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) (err error) {
			stats, err = Canon(ctx, st, b, Options{Resolver: r, Memory: 16 << 20, Now: now}, canon.Options{})
			return err
		})
	must.OK(t, err)
	got := recordtest.Reader[record.Link](t, &out)
	for _, want := range links {
		var l record.Link
		must.OK(t, got.Read(&l))
		if _, host, _ := canon.URL(want[1]); l.URL != want[1] || l.Host != host || l.Key != fingerprint.URLKey(host, l.URL) {
			t.Errorf("%s became %s of %s, want %s", want[0], l.URL, l.Host, want[1])
		} else if _, was, _ := canon.URL(want[0]); want[0] != want[1] && l.Extra.Text(AliasColumn) != was {
			t.Errorf("%s: alias %q, want %s", want[0], l.Extra.Text(AliasColumn), was)
		}
	}
	if err := got.Read(&record.Link{}); err != io.EOF {
		t.Error(err)
	}
	if stats.Folded != 3 || stats.Asked != 4 {
		t.Errorf("%+v", stats)
	}
}

// TestCanonBesideResolve: in the pipe of a round both change the store under one name, and
// neither waits for the other: canon's input is behind resolve's output.
func TestCanonBesideResolve(t *testing.T) {
	up := serve(t, func(m *dns.Msg, q dns.Question, _ bool) bool { good(m); return true })
	now := func() time.Time { return testNow }
	r, err := New(Config{Servers: []string{up}, Timeout: patience, Family: "4", Now: now})
	must.OK(t, err)
	defer r.Close()
	dir := newDNSStore(t)
	st, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
	must.OK(t, err)
	rows := recordtest.Reader[record.Link](t, recordtest.Stream(t, record.WriterOptions{Txn: "r1"}, record.Link{URL: "http://three.test/", Host: "three.test", LinkKind: "a"}))
	begun, resolved, ended := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		_, err := stage.Run(t.Context(), stage.Spec{Name: "mresolve canon", Verb: "canon", Store: st, Txn: "r1", Shape: stage.Gate}, Aliases(rows), []stage.Output{&recordtest.Output{}},
			func(ctx context.Context, b *stage.Batch[record.Link, record.Link]) error {
				close(begun)
				<-resolved // as if its rows came only now
				_, err := Canon(ctx, st, b, Options{Resolver: r, Memory: 16 << 20, Now: now}, canon.Options{})
				return err
			})
		ended <- err
	}()
	<-begun
	_, _, err = runBatch(t, dir, "r1", Options{Resolver: r, Now: now}, "one.test", "two.test")
	must.OK(t, err)
	close(resolved)
	must.OK(t, <-ended)
	if names := len(cached(t, st)); names != 3 {
		t.Errorf("%d names in the store", names)
	}
}
