package driver

import (
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/tell"
)

// TestAskTakenIn: another driver takes a request in while the one who asks waits for it.
func TestAskTakenIn(t *testing.T) {
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
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
