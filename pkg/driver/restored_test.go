package driver

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/tell"
)

// TestRestored: a run whose round mckpt restore gave up ends with 8, whatever its commands met, and says where to go on.
func TestRestored(t *testing.T) {
	dir := t.TempDir()
	frontier := plan{crawl: dir}.path("frontier")
	c, err := crawl.Init(dir, nil, nil, func(string) error { return store.Create(frontier, "frontier", 1, nil, store.Options{}) }, crawl.Options{})
	must.OK(t, err)
	s, err := store.Open(frontier, "frontier", 1, store.Options{})
	must.OK(t, err)
	tx, _, err := s.Begin(t.Context(), "add", "seed")
	must.OK(t, err)
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	_, _, err = c.Commit(t.Context(), "seed", time.Unix(0, 0), 0)
	must.OK(t, err)
	d := &Driver{Crawl: &tell.Crawl{Crawl: c}, plan: plan{crawl: dir}}
	d.began, err = store.ReadCurrent(durable.OS, dir)
	must.OK(t, err)
	failed := &fault.Error{Class: fault.Conflict, Found: "records of epoch 0 of the crawl", Want: "epoch 1", Hint: "make the file again"}
	if err := d.wrapRoundError("r1", failed); !errors.Is(err, fault.Conflict) {
		t.Error(err)
	}
	must.OK(t, c.Restore(t.Context(), d.began.Last))
	err = d.wrapRoundError("r1", failed)
	if e := (*fault.Error)(nil); !errors.As(err, &e) || e.Class.ExitCode() != 8 || !strings.Contains(e.Hint, "mckpt restore") {
		t.Errorf("%v: %+v", err, e)
	}
}
