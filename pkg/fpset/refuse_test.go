package fpset

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mercator/formats/fpfile"
	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

// change makes one change to st by hand.
func change(t *testing.T, st *store.Store, fn func(tx *store.Tx)) {
	t.Helper()
	tx, _, err := st.Begin(context.Background(), "add", "")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Abort()
	fn(tx)
	if _, err := tx.Commit(0, "", record.Ledger{}); err != nil {
		t.Fatal(err)
	}
}

// putRun puts a run of keys into tx.
func putRun(t *testing.T, tx *store.Tx, polynomial uint64, keys ...uint64) {
	t.Helper()
	f, err := tx.Create("runs/", ".fps", roleRun)
	if err != nil {
		t.Fatal(err)
	}
	w := fpfile.NewWriter(f, polynomial)
	if err := errors.Join(w.AddKeys(keys), w.Finish(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRefuses has a case for each rule of SPEC.md, and no others.
func TestRefuses(t *testing.T) {
	const poly = fingerprint.Polynomial
	onRun := func(fn func(t *testing.T, path string)) func(*testing.T, *store.Store) {
		return func(t *testing.T, st *store.Store) {
			sum, err := Describe(st)
			if err != nil {
				t.Fatal(err)
			}
			fn(t, st.Path(sum.Runs[0].Path))
		}
	}
	inTx := func(fn func(t *testing.T, tx *store.Tx)) func(*testing.T, *store.Store) {
		return func(t *testing.T, st *store.Store) { change(t, st, func(tx *store.Tx) { fn(t, tx) }) }
	}
	cases := map[string]struct {
		class  fault.Class
		params map[string]string // of the store, instead of a good set's
		spoil  func(t *testing.T, st *store.Store)
	}{
		"R1-polynomial": {class: fault.Corrupt, params: map[string]string{"polynomial": "911498ae0e66bad"}},
		"R2-impl":       {class: fault.Version, params: map[string]string{"polynomial": fingerprint.Format(poly), "impl": "abacus"}},
		"R3-batches":    {class: fault.Corrupt, spoil: inTx(func(t *testing.T, tx *store.Tx) { tx.SetState(stateBatches, "1099511627776") })},
		"R4-short":      {class: fault.Corrupt, spoil: onRun(func(t *testing.T, path string) { resize(t, path, -1) })},
		"R4-long":       {class: fault.Corrupt, spoil: onRun(func(t *testing.T, path string) { resize(t, path, +1) })},
		"R5-run-polynomial": {class: fault.WrongKind, spoil: inTx(func(t *testing.T, tx *store.Tx) {
			putRun(t, tx, poly^1<<20, 9)
		})},
		"R6-twice": {class: fault.Corrupt, spoil: inTx(func(t *testing.T, tx *store.Tx) { putRun(t, tx, poly, 2, 9) })},
	}
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("`(R[0-9]+-[a-z-]+)`").FindAllStringSubmatch(string(spec), -1) {
		named = append(named, m[1])
		if _, ok := cases[m[1]]; !ok {
			t.Errorf("SPEC.md names %s, which has no case", m[1])
		}
	}
	for name, c := range cases {
		if !slices.Contains(named, name) {
			t.Errorf("%s is the case of no rule in SPEC.md", name)
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/content"
			if c.params == nil {
				c.params = map[string]string{"polynomial": fingerprint.Format(poly)}
			}
			if err := store.Create(dir, Kind, Version, c.params, store.Options{}); err != nil {
				t.Fatal(err)
			}
			st, err := store.Open(dir, Kind, Version, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if c.spoil != nil {
				change(t, st, func(tx *store.Tx) { putRun(t, tx, poly, 1, 2, 3) })
				if err := checkAll(st); err != nil {
					t.Fatalf("the set is bad before it is spoilt: %v", err)
				}
				c.spoil(t, st)
			}
			err = checkAll(st)
			if e := (*fault.Error)(nil); !errors.Is(err, c.class) || !errors.As(err, &e) || !strings.HasPrefix(e.File, dir) {
				t.Errorf("%v, want an error of class %s that names the file", err, c.class)
			}
		})
	}
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
	if err := errors.Join(CreateKind(urls, "urls", CreateOptions{}, store.Options{}), Create(content, CreateOptions{}, store.Options{})); err != nil {
		t.Fatal(err)
	}
	in, err := OpenInputs([]string{urls}, false, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer CloseInputs(in)
	st, err := store.Open(content, Kind, Version, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Add(t.Context(), st, "", in, Options{}); !errors.Is(err, fault.WrongKind) {
		t.Errorf("%v, want %v", err, fault.WrongKind)
	}
}

func resize(t *testing.T, path string, by int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()+by)
	}
	if err != nil {
		t.Fatal(err)
	}
}
