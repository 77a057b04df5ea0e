package fpset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// change makes one change to st by hand.
func change(t testing.TB, st *store.Store, fn func(tx *store.Tx)) {
	t.Helper()
	tx, _, err := st.Begin(context.Background(), "add", "")
	must.OK(t, err)
	defer tx.Abort()
	fn(tx)
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
}

// putRun puts a run of keys into tx.
func putRun(t testing.TB, tx *store.Tx, polynomial uint64, keys ...uint64) {
	t.Helper()
	f, err := tx.Create("runs/", ".fps", roleRun)
	must.OK(t, err)
	w := fpfile.NewWriter(f, polynomial)
	must.OK(t, w.AddKeys(keys), w.Finish(), f.Close())
}

// refusals are a case for each rule of SPEC.md.
func refusals() []spectest.Vector {
	const poly = fingerprint.Polynomial
	good := map[string]string{"polynomial": fingerprint.Format(poly)}
	refuse := func(name string, class fault.Class, says string, params map[string]string, spoil func(t testing.TB, st *store.Store)) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Class: class, Says: says, Case: func(t testing.TB) error {
			dir := t.TempDir() + "/content"
			must.OK(t, store.Create(dir, Kind, Version, params, store.Options{}))
			st, err := store.Open(dir, Kind, Version, store.Options{})
			must.OK(t, err)
			if spoil != nil {
				change(t, st, func(tx *store.Tx) { putRun(t, tx, poly, 1, 2, 3) })
				if err := checkAll(st); err != nil {
					t.Fatalf("the set is bad before it is spoilt: %v", err)
				}
				spoil(t, st)
			}
			err = checkAll(st)
			if e := (*fault.Error)(nil); !errors.As(err, &e) || !strings.HasPrefix(e.File, dir) {
				t.Errorf("%s: %v, want an error that names the file", name, err)
			}
			return err
		}}
	}
	onRun := func(by int64) func(testing.TB, *store.Store) {
		return func(t testing.TB, st *store.Store) {
			sum, err := Describe(st)
			must.OK(t, err)
			resize(t, st.Path(sum.Runs[0].Path), by)
		}
	}
	inTx := func(fn func(t testing.TB, tx *store.Tx)) func(testing.TB, *store.Store) {
		return func(t testing.TB, st *store.Store) { change(t, st, func(tx *store.Tx) { fn(t, tx) }) }
	}
	return []spectest.Vector{
		refuse("R1-polynomial", fault.Corrupt, "want 16 hexadecimal digits", map[string]string{"polynomial": "911498ae0e66bad"}, nil),
		refuse("R1-none", fault.Corrupt, "want 16 hexadecimal digits", nil, nil),
		refuse("R2-impl", fault.Version, `implementation "abacus"`, map[string]string{"polynomial": fingerprint.Format(poly), "impl": "abacus"}, nil),
		refuse("R3-batches", fault.Corrupt, "want a number below 2⁴⁰", good, inTx(func(_ testing.TB, tx *store.Tx) { tx.SetState(stateBatches, "1099511627776") })),
		refuse("R4-short", fault.Corrupt, "120 bytes, want 121, as in the manifest", good, onRun(-1)),
		refuse("R4-long", fault.Corrupt, "122 bytes, want 121, as in the manifest", good, onRun(+1)),
		refuse("R5-run-polynomial", fault.WrongKind, "as in the store", good, inTx(func(t testing.TB, tx *store.Tx) { putRun(t, tx, poly^1<<20, 9) })),
		refuse("R6-twice", fault.Corrupt, "are in two runs", good, inTx(func(t testing.TB, tx *store.Tx) { putRun(t, tx, poly, 2, 9) })),
	}
}

// TestSpec holds the reader to SPEC.md. (A run's own damage is the business of formats/fpfile.)
func TestSpec(t *testing.T) {
	var example strings.Builder
	for _, n := range []uint64{1, 8, 9, 10, 44, 45, 46} {
		fmt.Fprintf(&example, "    after batch %2d: %s\n", n, strings.Trim(fmt.Sprint(binomialRuns(n)), "[]"))
	}
	spectest.Check(t, spectest.Format{Vectors: refusals(), Regions: map[string]string{"example": example.String()}})
}

// checkAll does what the verb check does.
func checkAll(st *store.Store) error {
	s, err := LoadCurrent(st, Options{})
	if err != nil {
		return err
	}
	return errors.Join(s.Check(nil), s.Close())
}

// Checksums of URLs are no keys of documents.
func TestAddRefusesOtherKind(t *testing.T) {
	urls, content := t.TempDir()+"/urls", t.TempDir()+"/content"
	must.OK(t, CreateKind(urls, "urls", CreateOptions{}, store.Options{}), Create(content, CreateOptions{}, store.Options{}))
	in, err := OpenInputs([]string{urls}, false, 0, nil, 0)
	must.OK(t, err)
	defer CloseInputs(in)
	st, err := store.Open(content, Kind, Version, store.Options{})
	must.OK(t, err)
	if _, err := Add(t.Context(), st, "", in, Options{}); !errors.Is(err, fault.WrongKind) {
		t.Errorf("%v, want %v", err, fault.WrongKind)
	}
}

func resize(t testing.TB, path string, by int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()+by)
	}
	must.OK(t, err)
}
