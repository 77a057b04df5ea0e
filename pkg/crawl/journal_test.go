package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// TestDamagedJournal: one of a generation that has come is not read, by nobody; one of the
// generation to come is refused with what to do, and abandon makes it obsolete.
func TestDamagedJournal(t *testing.T) {
	fsys := testCrawl(t)
	s := openStore(t, fsys, "modules/tags")
	begin := func() (*store.Tx, error) {
		tx, _, err := s.Begin(ctx, "tags", "r1")
		return tx, err
	}
	crawl, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	tx, err := begin()
	must.OK(t, err)
	name, err := tx.Journal("warc/", ".warc")
	must.OK(t, err)
	open := fmt.Sprintf("JOURNAL-%06d", tx.Generation())
	tx.Put(store.Entry{Path: name, Role: "warc", Length: grow(t, s, name, "abc"), Sum: store.Sum([]byte("abc")), Growing: true})
	tx.Abort()

	damaged := []byte("mercator-store-journal 1 7 0\n{}")
	must.OK(t, durable.WriteFile(fsys, s.Path(open), damaged))
	_, err = begin()
	var f *fault.Error
	if !errors.Is(err, fault.Truncated) || !errors.As(err, &f) || f.Hint == "" {
		t.Fatalf("a damaged journal of the open transaction: %v, want it refused with a hint", err)
	}
	if v, err := crawl.Verify(ctx); err != nil || len(v.Problems) != 1 {
		t.Errorf("verify says %+v, %v; want one problem", v, err)
	}
	must.OK(t, abandon(fsys))
	if v, err := crawl.Verify(ctx); err != nil || len(v.Problems) != 0 {
		t.Errorf("after abandon verify says %+v, %v; want nothing", v, err)
	}
	tx, err = begin()
	must.OK(t, err)
	if _, err := fsys.Stat(s.Path(open)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the obsolete journal is still there: %v", err)
	}
	tx.Abort()

	// A crash right after the manifest leaves the journal, and gc takes it.
	m, err := s.Newest()
	must.OK(t, err)
	left := s.Path(fmt.Sprintf("JOURNAL-%06d", m.Generation))
	must.OK(t, durable.WriteFile(fsys, left, damaged))
	_, _, err = crawl.GC(ctx, 1)
	must.OK(t, err)
	if _, err := fsys.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after gc the obsolete journal is still there: %v", err)
	}
}
