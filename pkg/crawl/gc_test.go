package crawl

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// TestGCLooksFirst: while a file is damaged of a checkpoint that would stay, gc forgets none, and says which go on being usable.
func TestGCLooksFirst(t *testing.T) {
	t.Parallel()
	whole := testCrawl(t)
	for i := 1; i <= 5; i++ {
		keep(t, whole, fmt.Sprintf("r%d", i), "0")
		wholeRound(t, whole, fmt.Sprintf("r%d", i))
	}
	must.OK(t, change(whole, "/c/urls", "merge", "")) // the present state has a file of its own
	fileOf := func(fsys durable.FS, number uint64, role string) string {
		t.Helper()
		k, err := readCheckpoint(fsys, "/c", number)
		must.OK(t, err)
		s := openStore(t, fsys, "urls")
		m, err := s.At(k.of("urls").Generation)
		must.OK(t, err)
		if role == "manifest" {
			return s.ManifestPath(m.Generation)
		}
		list := m.WithRole(role)
		return s.Path(list[len(list)-1].Path)
	}
	for _, test := range []struct {
		name, path string
		keep       int
		hint       string // "": it is not refused
	}{
		{"a file of the current checkpoint", fileOf(whole, 5, "run"), 1, "mckpt verify /c"},
		{"contact times of the current checkpoint", fileOf(whole, 5, "contacts"), 2, "mckpt verify /c"},
		{"the current manifest", fileOf(whole, 5, "manifest"), 1, "mckpt verify /c"},
		{"the current checkpoint", checkpointPath("/c", 5), 1, "mckpt verify /c"},
		{"an earlier manifest", fileOf(whole, 4, "manifest"), 2, "mckpt gc /c --keep 1"},
		{"an earlier checkpoint", checkpointPath("/c", 3), 3, "mckpt gc /c --keep 2"},
		{"an earlier checkpoint that goes", checkpointPath("/c", 3), 2, ""},
		{"a record file of the current round", "/c/rounds/r5/links.arrows.zst", 1, "mckpt verify /c"},
		{"a record file of an earlier round that stays", "/c/rounds/r4/links.arrows.zst", 2, "mckpt gc /c --keep 1"},
		{"a record file of a round that goes", "/c/rounds/r3/links.arrows.zst", 2, ""},
		{"a file that only goes", fileOf(whole, 1, "contacts"), 2, ""},
	} {
		for _, how := range []string{"flipped", "cut", "gone"} {
			t.Run(test.name+" "+how, func(t *testing.T) {
				fsys := clone(whole)
				b := []byte(content(t, fsys, test.path))
				switch how {
				case "flipped":
					b[len(b)-2] ^= 1
					must.OK(t, durable.WriteFile(fsys, test.path, b))
				case "cut":
					must.OK(t, durable.WriteFile(fsys, test.path, b[:len(b)-2]))
				case "gone":
					must.OK(t, fsys.Remove(test.path))
				}
				if test.name == "an earlier checkpoint" && how == "gone" {
					t.Skip("none that stays")
				}
				before := content(t, fsys, "/c/CURRENT")
				err := gc(fsys, test.keep)
				if test.hint == "" {
					must.OK(t, err)
					return
				}
				if fault.ClassOf(err).ExitCode() != 3 || !strings.Contains(err.Error(), test.path) || !strings.Contains(fault.HintOf(err), test.hint) {
					t.Fatalf("%v, hint %q; want %s, %s", err, fault.HintOf(err), test.path, test.hint)
				}
				if content(t, fsys, "/c/CURRENT") != before {
					t.Error("CURRENT has changed")
				}
				if keep := 0; test.hint != "mckpt verify /c" {
					_, _ = fmt.Sscanf(test.hint, "mckpt gc /c --keep %d", &keep)
					must.OK(t, gc(fsys, keep))
				}
			})
		}
	}
}

// TestGCRoundsAway: rounds that are gone as a whole were moved elsewhere, and files of another epoch belong to no checkpoint that counts: gc goes on.
func TestGCRoundsAway(t *testing.T) {
	t.Parallel()
	whole := testCrawl(t)
	for i := 1; i <= 3; i++ {
		keep(t, whole, fmt.Sprintf("r%d", i), "0")
		wholeRound(t, whole, fmt.Sprintf("r%d", i))
	}
	away := clone(whole)
	for i := 1; i <= 3; i++ {
		must.OK(t, away.Rename(fmt.Sprintf("/c/rounds/r%d", i), fmt.Sprintf("/c/away%d", i)))
	}
	must.OK(t, gc(away, 2))
	keep(t, whole, "r3", "7")
	must.OK(t, gc(whole, 2))
}

// TestGCChangedMeanwhile: what is to stay has been read; if the crawl has another checkpoint since, nothing is forgotten.
func TestGCChangedMeanwhile(t *testing.T) {
	fsys := testCrawl(t)
	for i := 1; i <= 3; i++ {
		wholeRound(t, fsys, fmt.Sprintf("r%d", i))
	}
	once := false
	c, err := Open("/c", Options{FS: fsys, Progress: func(int64) {
		if !once {
			once = true
			wholeRound(t, fsys, "r4")
		}
	}})
	must.OK(t, err)
	if _, _, err := c.GC(ctx, 1); !errors.Is(err, fault.Busy) {
		t.Errorf("%v", err)
	}
	cur, err := c.current()
	if must.OK(t, err); cur.Forgotten != "" {
		t.Errorf("forgotten %s", cur.Forgotten)
	}
	_, _, err = c.GC(ctx, 1)
	must.OK(t, err)
}

// TestUnreadable: a file that may not be read is no damage: Verify and GC end with its error, and say nothing of others.
func TestUnreadable(t *testing.T) {
	whole := testCrawl(t)
	wholeRound(t, whole, "r1")
	wholeRound(t, whole, "r2")
	s := openStore(t, whole, "urls")
	m, err := s.Current()
	must.OK(t, err)
	for _, path := range []string{s.Path(m.WithRole("run")[0].Path), s.ManifestPath(m.Generation), s.Path(store.HeadFile), checkpointPath("/c", 1), checkpointPath("/c", 2), "/c/CURRENT"} {
		open := func() *Crawl { return Folder("/c", Options{FS: refusing{clone(whole), path}}) }
		_, verified := open().Verify(ctx)
		_, _, collected := open().GC(ctx, 1)
		_, repaired := open().Repair(ctx, nil)
		for what, err := range map[string]error{"verify": verified, "gc": collected, "repair": repaired} {
			if what == "repair" && strings.HasPrefix(path, "/c/urls/runs") {
				continue // it looks at no data
			}
			if what == "gc" && path == checkpointPath("/c", 1) {
				continue // it goes
			}
			if !errors.Is(err, os.ErrPermission) || fault.ClassOf(err).ExitCode() != 1 || fault.HintOf(err) != "" {
				t.Errorf("%s, %s: %v, class %q, hint %q", path, what, err, fault.ClassOf(err), fault.HintOf(err))
			}
		}
	}
}

// refusing is a file system on which one file may not be read.
type refusing struct {
	*crashtest.FS
	path string
}

func (f refusing) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	if name == f.path {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrPermission}
	}
	return f.FS.OpenFile(name, flag, perm)
}
