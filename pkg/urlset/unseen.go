package urlset

import (
	"errors"
	"fmt"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fpset"
	"mercator/pkg/merge"
)

// Unseen counts the URLs of each, every checksum once, that are not in the set of st, and returns one of them.
// The set is read after each has returned, so that URLs which a round adds meanwhile, to the set first, are seen.
// each may be called twice. Checksums are sorted in about mem bytes, and temporary files.
func Unseen(st *store.Store, mem int64, each func(func(*record.URL) error) error) (n uint64, example string, err error) {
	poly, err := Polynomial(st)
	if err != nil {
		return 0, "", err
	}
	m, err := st.Current()
	if err != nil {
		return 0, "", err
	}
	form, err := rulesOf(st, m)
	if err != nil {
		return 0, "", err
	}
	keys := merge.NewSorter(mem, "")
	defer func() { err = errors.Join(err, keys.Close()) }()
	rows := uint64(0)
	err = each(func(u *record.URL) error {
		rows++
		return keys.Add(KeyOf(poly, form, u), nil)
	})
	if err != nil {
		return 0, "", err
	}
	set, err := fpset.LoadCurrent(st, fpset.Options{})
	if err != nil {
		return 0, "", err
	}
	defer set.Close()
	var first uint64 // that is missing
	_, err = unseen(set, rows, keys, func(key uint64, _ []byte) error {
		if n++; n == 1 {
			first = key
		}
		return nil
	})
	if err != nil || n == 0 {
		return n, "", err
	}
	example = fmt.Sprintf("that of checksum %016x", first) // if it has been finished meanwhile
	found := errors.New("found")
	err = each(func(u *record.URL) error {
		if KeyOf(poly, form, u) != first {
			return nil
		}
		example = u.URL
		return found
	})
	if err == found {
		err = nil
	}
	return n, example, err
}
