package fetch_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/view/derive"
)

// places is what a store says of the records that an index has.
func places(t testing.TB, st *store.Store) warc.Places {
	t.Helper()
	p, ok, err := fetch.Places([]string{st.Dir()}, store.Options{})
	if err != nil || !ok {
		t.Fatalf("%s: known %t, %v", st.Dir(), ok, err)
	}
	return p
}

// sameIndex fails where the rows of all that a store has archived do not give the index that the archive gives.
func sameIndex(t testing.TB, st *store.Store, rows ...[]record.Fetch) {
	t.Helper()
	parts, err := fetch.Saved([]string{st.Dir()}, store.Options{})
	must.OK(t, err)
	index := func(fill func(*derive.Index)) (lines []string) {
		x := derive.NewIndex(1<<20, t.TempDir())
		defer x.Close()
		fill(x)
		must.OK(t, x.Lines(func(line []byte) error { lines = append(lines, string(line)); return nil }))
		return lines
	}
	want := index(func(x *derive.Index) {
		for _, p := range parts {
			must.OK(t, x.Part(t.Context(), p, nil))
		}
	})
	got := index(func(x *derive.Index) {
		from := &derive.Rows{Places: places(t, st), Files: []string{recordtest.File(t, filepath.Join(t.TempDir(), "rows"), nil, slices.Concat(rows...)...)}}
		if all, err := x.Rows(t.Context(), from, parts, nil, nil); !all || err != nil {
			t.Errorf("the rows are not those of the archive, which has %v: %v", from.Places, err)
		}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the index of rows differs (-archive +rows):\n%s", diff)
	}
}
