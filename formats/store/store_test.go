package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

var ctx = context.Background()

// testStore makes a store that stands alone.
func testStore(t *testing.T) *Store {
	t.Helper()
	opt := Options{FS: crashtest.New()}
	must.OK(t, Create("/s", "urls", 1, nil, opt))
	s, err := Open("/s", "urls", 1, opt)
	must.OK(t, err)
	return s
}

// TestNames: a thousand rounds leave a small manifest and few files, and every
// name is still known.
func TestNames(t *testing.T) {
	fsys := crashtest.New()
	opt := Options{FS: fsys}
	must.OK(t, Create("/s", "module", 1, nil, opt))
	s, err := Open("/s", "module", 1, opt)
	must.OK(t, err)
	const rounds = 1000
	for i := range rounds {
		tx, _, err := s.Begin(ctx, "tags", fmt.Sprintf("r%d", i))
		must.OK(t, err)
		_, err = tx.Commit(0, "", record.Ledger{})
		must.OK(t, err)
	}
	m, err := s.Current()
	must.OK(t, err)
	data, err := m.Encode()
	must.OK(t, err)
	if len(data) > 8<<10 || len(m.Files) > 20 {
		t.Errorf("%d bytes of manifest, %d files", len(data), len(m.Files))
	}
	for _, i := range []int{0, 1, rounds / 2, rounds - 2} {
		if _, _, err := s.Lookup("tags", fmt.Sprintf("r%d", i)); !errors.Is(err, fault.Conflict) {
			t.Errorf("r%d: %v", i, err)
		}
	}
	if list, err := fsys.ReadDir("/s/names"); err != nil || len(list) > 40 {
		t.Errorf("%d files of names: %v", len(list), err)
	}
	if list, err := s.Generations(); err != nil || len(list) > 4 {
		t.Errorf("%d generations: %v", len(list), err)
	}
}

// TestShards: a store of a shard belongs to the crawl folder above shard/NNN, which counts its generations by that
// name. A crawl folder that happens to be called so is one itself.
func TestShards(t *testing.T) {
	opt := Options{FS: crashtest.New()}
	must.OK(t, durable.MkdirAll(opt.FS, "/d"), WriteCurrent(opt.FS, "/d", Current{Map: 1, Epoch: 3}))
	for _, name := range []string{"shard/007/urls", "shard/511/modules/tags", "urls"} {
		must.OK(t, Create("/d/"+name, "urls", 1, nil, opt))
		s, err := Open("/d/"+name, "urls", 1, opt)
		must.OK(t, err)
		v, err := s.Look()
		must.OK(t, err)
		if s.CrawlDir() != "/d" || s.NameInCrawl() != name || v.Outside || v.Current.Epoch != 3 {
			t.Errorf("%s: %q in %q, %+v", name, s.NameInCrawl(), s.CrawlDir(), v)
		}
	}
	must.OK(t, WriteCurrent(opt.FS, "/d/shard/007", Current{}))
	if s := Folder("/d/shard/007/urls", opt); s.CrawlDir() != "/d/shard/007" || s.NameInCrawl() != "urls" {
		t.Errorf("%q in %q", s.NameInCrawl(), s.CrawlDir())
	}
	if s := Folder("/d/shard/7/urls", opt); s.CrawlDir() != "" {
		t.Errorf("in %q", s.CrawlDir())
	}
	// The crawl itself has no store of a kind; which shard is meant, the user must say.
	if _, err := Open("/d", "dns", 1, opt); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "a crawl of several shards, want the folder of one") {
		t.Error(err)
	}
}

// TestLateWriter: of two that make the same generation, lock or not, one loses.
func TestLateWriter(t *testing.T) {
	s := testStore(t)
	change := func() (*Tx, error) {
		tx, _, err := s.Begin(ctx, "new", "r1")
		return tx, err
	}
	slow, err := change()
	must.OK(t, err)
	must.OK(t, slow.lock.Close()) // as a network file system may lose it
	tx, err := change()
	must.OK(t, err)
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	if _, err := slow.Commit(0, "", record.Ledger{}); !errors.Is(err, fault.Conflict) {
		t.Errorf("the late writer: %v", err)
	}
	tx, _, err = s.Begin(ctx, "more", "r1")
	must.OK(t, err)
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
}

// TestFullDisk: a commit that fails for want of space, before its new files have their names or after, leaves none of them.
func TestFullDisk(t *testing.T) {
	s := testStore(t)
	disk := s.fs.(*crashtest.FS)
	names := func() (list []string) {
		must.OK(t, s.walk(nil, func(rel string) error {
			if rel != LockFile {
				list = append(list, rel)
			}
			return nil
		}))
		return list
	}
	before := names()
	failed := 0
	for room := int64(0); ; room += 40 {
		tx, _, err := s.Begin(ctx, "new", "r1")
		must.OK(t, err)
		for range 2 {
			f, err := tx.Create("runs/", ".fps", "run")
			must.OK(t, err)
			_, err = f.Write(make([]byte, 100))
			must.OK(t, err)
		}
		disk.SetSpace(room)
		_, err = tx.Commit(0, "", record.Ledger{})
		disk.SetSpace(-1)
		if err == nil {
			break
		}
		failed++
		if have := names(); !slices.Equal(have, before) {
			t.Fatalf("%d bytes of room: %v, and then there is %v; want %v", room, err, have, before)
		}
	}
	if failed < 8 {
		t.Errorf("the disk was full %d times only", failed)
	}
	// A HEAD that is too long is damaged.
	must.OK(t, durable.WriteFile(disk, s.Path(HeadFile), make([]byte, MaxFile+1)))
	if _, err := s.Newest(); !errors.Is(err, fault.Corrupt) || fault.HintOf(err) != s.HintMissing() || !strings.Contains(err.Error(), fmt.Sprintf("HEAD: %d bytes, want at most %d", MaxFile+1, MaxFile)) {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// TestPatch: bytes overwritten after they were written are in the sum.
func TestPatch(t *testing.T) {
	s := testStore(t)
	tx, _, err := s.Begin(ctx, "new", "")
	must.OK(t, err)
	f, err := tx.Create("runs/", ".fps", "run")
	must.OK(t, err)
	_, err = f.Write([]byte("0000 body"))
	must.OK(t, err)
	_, err = f.WriteAt([]byte("1234"), 0)
	must.OK(t, err)
	if _, err := f.WriteAt([]byte("x"), 9); err == nil {
		t.Error("written beyond the end")
	}
	m, err := tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	if e := m.File(f.Path()); e == nil || e.Sum != Sum([]byte("1234 body")) {
		t.Errorf("%+v", e)
	}
}

func TestSpans(t *testing.T) {
	s := Spans("")
	for _, n := range []uint64{3, 1, 7, 2, 7, 9, 8} {
		s = s.With(n)
	}
	if s != "1-3,7-9" || s != SpansOf([]uint64{1, 2, 3, 7, 8, 9}) || !s.Has(2) || s.Has(4) || !s.Has(9) || s.Has(10) || s.Has(0) {
		t.Errorf("%q", s)
	}
	for _, bad := range []Spans{",", "0", "1-", "2-1", "1-1", "3,1", "1,2", "1-2,3", "01", "1 ", "a"} {
		if bad.Each(func(_, _ uint64) bool { return true }) {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestHeadless: a store in a crawl that has lost CURRENT, and has checkpoints, is changed by nothing: the checkpoints bind what its next
// changes would delete. Files of others in a folder of that name do no harm.
func TestHeadless(t *testing.T) {
	for _, name := range []string{"urls", "modules/tags", "shard/007/urls"} {
		opt := Options{FS: crashtest.New()}
		dir := "/c/" + name
		must.OK(t, durable.MkdirAll(opt.FS, "/c/checkpoints"), durable.WriteFile(opt.FS, "/c/checkpoints/step-12", nil), durable.WriteFile(opt.FS, "/c/checkpoints/000100", []byte("\x80\x02 weights of a model")),
			durable.WriteFile(opt.FS, "/c/checkpoints/000101", nil), durable.MkdirAll(opt.FS, "/c/checkpoints/000102"), Create(dir, "urls", 1, nil, opt))
		s, err := Open(dir, "urls", 1, opt)
		must.OK(t, err)
		tx, _, err := s.Begin(ctx, "new", "r1")
		must.OK(t, err, durable.WriteFile(opt.FS, "/c/checkpoints/000001", []byte(MagicCheckpoint+" 1 ")))
		_, committed := tx.Commit(0, "", record.Ledger{})
		_, _, begun := s.Begin(ctx, "new", "r2")
		_, opened := Open("/c", "urls", 1, opt)
		for _, err := range []error{committed, begun, opened, Create("/c/dns", "dns", 1, nil, opt)} {
			if !errors.Is(err, fault.Corrupt) || err.Error() != "/c/CURRENT: missing, but checkpoint 1 is there" || fault.HintOf(err) != HintCurrent("/c") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for name, want := range map[string][2]string{
		"crawl-s007-000002-1000001.warc.gz":  {"000002", "1000001"},
		"x-000001-2-1234567-3.warc.gz.open":  {"1234567", "3"},
		"docs-20261130T160938-000002-1.warc": {"000002", "1"},
		"x-00002-1.warc":                     {}, "x-000002-.warc": {}, "000002": {}, "-": {}, "": {},
	} {
		t.Run(name, func(t *testing.T) {
			if generation, serial := numbers(name); generation != want[0] || serial != want[1] {
				t.Errorf("%q, %q; want %q", generation, serial, want)
			}
		})
	}
	if !MadeBefore("b-20261130-000002-1.warc", "a-000003-0.warc") || MadeBefore("b-000003-0.warc", "a-999999-000002-1.warc") {
		t.Error("files are not in the order in which they were made")
	}
}

// TestOwnNames: no file is called like one of the store's own.
func TestOwnNames(t *testing.T) {
	tx, _, err := testStore(t).Begin(ctx, "add", "")
	must.OK(t, err)
	defer tx.Abort()
	for _, prefix := range []string{"MANIFEST-", "JOURNAL-x-", "ATTEMPT-", "x", "../x-", "12"} {
		if name, err := tx.Journal(prefix, ".warc"); (err == nil) != (prefix == "x") {
			t.Errorf("%s: %s, %v", prefix, name, err)
		}
	}
}
