package driver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/must"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
)

// TestAskTakenIn: another driver takes a request in while the one who asks waits for it.
func TestAskTakenIn(t *testing.T) {
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	frontier := plan{crawl: dir}.path("frontier")
	c, err := crawl.Init(dir, nil, nil, func(string) error { return store.Create(frontier, "frontier", 1, nil, store.Options{}) }, crawl.Options{})
	check(err)
	s, err := store.Open(frontier, "frontier", 1, store.Options{})
	check(err)
	tx, _, err := s.Begin(t.Context(), "add", "seed")
	check(err)
	_, err = tx.Commit(0, "", record.Ledger{})
	check(err)
	_, _, err = c.Commit(t.Context(), "seed", time.Unix(0, 0), 0)
	check(err)

	other, err := c.Hold(t.Context(), "another driver", 0)
	check(err)
	taken := make(chan error, 1)
	go func() {
		for {
			if waiting, err := c.Inbox(); err != nil || len(waiting) > 0 {
				for _, n := range waiting {
					_ = c.DropInbox(n)
				}
				taken <- err
				_ = other.Close()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	d := &Driver{Crawl: &tell.Crawl{Crawl: c}, plan: plan{crawl: dir}}
	told, err := d.Ask(t.Context(), Request{Verb: "add"}, nil)
	if err != nil || told != "add2: was taken in" {
		t.Errorf("told %q, %v", told, err)
	}
	check(<-taken)
}

// TestAddWhileARunWaits: a run that waits for the first URL that is due takes in what is added meanwhile.
func TestAddWhileARunWaits(t *testing.T) {
	for _, shards := range []int{0, 2} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := make(chan struct{})
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/p1":
					w.Header().Set("Retry-After", "3600")
					w.WriteHeader(http.StatusServiceUnavailable)
				case "/p2":
					close(asked)
				default:
					http.NotFound(w, r)
				}
			})
			server, other := httptest.NewServer(handler), httptest.NewServer(handler)
			defer server.Close()
			defer other.Close()
			dir := filepath.Join(t.TempDir(), "crawl")
			spec := setup.Spec{In: strings.NewReader(""), URLs: []string{server.URL + "/p1"}, Shards: shards, Set: []config.Pair{{Key: "fetch.contact", Value: "test@example.org"}, {Key: "network.allow_net", Value: "127.0.0.0/8"}}}
			if _, err := setup.Make(ctx, dir, spec, t.Logf); err != nil {
				t.Fatal(err)
			}
			open := func(told io.Writer) *Driver {
				d, err := Open(dir, Options{Now: time.Now, Warn: t.Logf, Reporter: &tell.Reporter{Out: io.Discard, Err: told}})
				must.OK(t, err)
				return d
			}
			waits := make(chan struct{})
			run := open(&onceSaid{what: "waiting for http", then: func() { close(waits) }})
			ended := make(chan error, 1)
			go func() { ended <- run.Run(ctx) }()
			select {
			case <-waits:
			case err := <-ended:
				t.Fatal(err)
			}
			if _, err := open(io.Discard).Ask(ctx, Request{Verb: "add", Listed: true}, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, other.URL+"/p2")
				return err
			}); err != nil {
				t.Error(err)
			}
			select {
			case <-asked:
			case <-ctx.Done():
				t.Error("what was added is not fetched")
			}
			cancel()
			<-ended
		})
	}
}

// onceSaid calls then when it is written what, once.
type onceSaid struct {
	what string
	then func()
	said bytes.Buffer
}

func (o *onceSaid) Write(b []byte) (int, error) {
	o.said.Write(b)
	if o.then != nil && strings.Contains(o.said.String(), o.what) {
		o.then()
		o.then = nil
	}
	return len(b), nil
}
