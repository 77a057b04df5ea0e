package urlset_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
	"mercator/pkg/fpset"
	"mercator/pkg/urlset"
)

// step runs a named batch on a file system that may crash.
func step(t *testing.T, fsys durable.FS, w way, in []byte) ([]record.URL, error) {
	st, err := store.Open("/urls", urlset.Kind, urlset.Version, store.Options{FS: fsys})
	if err != nil {
		return nil, err
	}
	r := recordtest.Reader[record.Link](t, bytes.NewReader(in))
	var out recordtest.Output
	var stats urlset.Stats
	_, err = stage.Run(context.Background(), w.spec(st, "new", "r1"), r, []stage.Output{&out}, body(w, st, urlset.Options[record.Link]{Convert: urlset.FromLink}, &stats))
	if err != nil {
		return nil, err
	}
	return urlsOf(t, &out.Buffer), nil
}

// seenOf is which of the links' URLs the set holds, after a check of all of it.
func seenOf(t *testing.T, fsys durable.FS, links []record.Link) []bool {
	t.Helper()
	st, err := store.Open("/urls", urlset.Kind, urlset.Version, store.Options{FS: fsys})
	must.OK(t, err)
	set, err := fpset.LoadCurrent(st, fpset.Options{})
	must.OK(t, err)
	defer set.Close()
	must.OK(t, set.Check(nil))
	keys, seen := make([]uint64, len(links)), make([]bool, len(links))
	for i := range links {
		keys[i] = links[i].Key
	}
	must.OK(t, set.ContainsAll(keys, seen))
	return seen
}

// TestCrashAtEveryCall stops the machine at every call of the file system while a
// batch is tested, in both modes, with runs and with a filter: what is found then is
// the old set or the new one, and the same batch again gives the same rows.
func TestCrashAtEveryCall(t *testing.T) {
	var old, links []record.Link
	for i := range 300 {
		old = append(old, link(fmt.Sprintf("http://a.test/%d", i), i))
		links = append(links, link(fmt.Sprintf("http://a.test/%d", 200+i%250), i))
	}
	first, in := recordtest.Stream(t, record.WriterOptions{}, old...).Bytes(), recordtest.Stream(t, record.WriterOptions{}, links...).Bytes()
	for _, with := range []fpset.CreateOptions{{}, {Impl: fpset.Bloom, Size: 8 << 10}} {
		for _, w := range []way{{cache: 10}, {cache: 10, online: true}} {
			t.Run(fmt.Sprintf("%s/online=%v", with.Impl, w.online), func(t *testing.T) {
				base := crashtest.New()
				must.OK(t, urlset.Create("/urls", with, store.Options{FS: base}))
				// A batch of another name, which "r1" then closes.
				st, err := store.Open("/urls", urlset.Kind, urlset.Version, store.Options{FS: base})
				must.OK(t, err)
				r := recordtest.Reader[record.Link](t, bytes.NewReader(first))
				var out recordtest.Output
				var stats urlset.Stats
				_, err = stage.Run(context.Background(), w.spec(st, "new", "r0"), r, []stage.Output{&out}, body(w, st, urlset.Options[record.Link]{Convert: urlset.FromLink}, &stats))
				must.OK(t, err)
				before := seenOf(t, base, links)

				whole := base.AfterCrash(crashtest.KeepAll)
				whole.CrashAt(0)
				want, err := step(t, whole, w, in)
				must.OK(t, err)
				calls := whole.Calls()
				after := seenOf(t, whole, links)
				if len(want) == 0 || slices.Equal(before, after) {
					t.Fatal("the batch changes nothing")
				}
				for n := 1; n <= calls; n++ {
					trial := base.AfterCrash(crashtest.KeepAll)
					trial.CrashAt(n)
					_, crashed := step(t, trial, w, in)
					for _, loss := range []crashtest.Loss{crashtest.LoseAll, crashtest.KeepAll, crashtest.Loss(1000 + n)} {
						fsys := trial.AfterCrash(loss)
						switch got := seenOf(t, fsys, links); {
						case slices.Equal(got, after):
						case !slices.Equal(got, before):
							t.Fatalf("call %d of %d, loss %d: neither the old set nor the new one", n, calls, loss)
						case crashed == nil:
							t.Fatalf("call %d of %d, loss %d: reported done, and lost", n, calls, loss)
						}
						rows, err := step(t, fsys, w, in)
						if err != nil || !slices.Equal(rows, want) || !slices.Equal(seenOf(t, fsys, links), after) {
							t.Fatalf("call %d of %d, loss %d: again: %d rows, want %d; %v", n, calls, loss, len(rows), len(want), err)
						}
					}
				}
			})
		}
	}
}

// TestDiskFull: a store without room stays as it was; with room again the same
// batch completes.
func TestDiskFull(t *testing.T) {
	var links []record.Link
	for i := range 3000 {
		links = append(links, link(fmt.Sprintf("http://a.test/%d", i), i))
	}
	in := recordtest.Stream(t, record.WriterOptions{}, links...).Bytes()
	for _, w := range []way{{}, {online: true}} {
		fsys := crashtest.New()
		must.OK(t, urlset.Create("/urls", fpset.CreateOptions{}, store.Options{FS: fsys}))
		for _, room := range []int64{0, 100, 5000, 20_000} {
			fsys.SetSpace(room)
			if _, err := step(t, fsys, w, in); err == nil {
				t.Fatalf("a batch in %d bytes", room)
			}
			fsys.SetSpace(-1)
			if slices.Contains(seenOf(t, fsys, links), true) {
				t.Fatalf("with room for %d bytes the set has changed", room)
			}
		}
		if rows, err := step(t, fsys, w, in); err != nil || len(rows) != len(links) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
	}
}
