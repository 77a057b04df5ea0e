package fpset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/fpset/bloom"
)

// Sorted is the implementation by sorted runs: the one that a set has unless it
// was made with another.
const Sorted = "sorted"

// Bloom is the lossy implementation.
const Bloom = bloom.Name

// paramImpl names a set's implementation; a store without it is Sorted.
const paramImpl = "impl"

// implementations lists them by name, Sorted first.
var implementations = []struct {
	name string
	open func(st *store.Store, m *store.Manifest, poly uint64, opt Options) (Set, error)
}{
	{Sorted, func(st *store.Store, m *store.Manifest, poly uint64, opt Options) (Set, error) {
		s, err := openRuns(st, m, poly, opt)
		if err != nil {
			return nil, err // not s, which is nil but not a nil Set
		}
		return s, nil
	}},
	{Bloom, func(st *store.Store, m *store.Manifest, poly uint64, _ Options) (Set, error) {
		s, err := bloom.Open(st, m, poly)
		if err != nil {
			return nil, err
		}
		return s, nil
	}},
}

// Impls lists the names of all implementations, the default first.
func Impls() []string {
	var names []string
	for _, i := range implementations {
		names = append(names, i.name)
	}
	return names
}

// checkImpl refuses a name that no implementation has (fault.Usage).
func checkImpl(name string) error {
	if slices.Contains(Impls(), name) {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Place: "--impl", Found: strconv.Quote(name), Want: "one of " + strings.Join(Impls(), ", ")}
}

// openImpl opens the set of a manifest by its implementation.
func openImpl(st *store.Store, m *store.Manifest, poly uint64, opt Options) (Set, error) {
	name := m.Params[paramImpl]
	if name == "" {
		name = Sorted
	}
	for _, i := range implementations {
		if i.name == name {
			return i.open(st, m, poly, opt)
		}
	}
	return nil, &fault.Error{Class: fault.Version, File: st.Dir(), Place: "parameter impl", Found: fmt.Sprintf("implementation %q", name),
		Want: "one of " + strings.Join(Impls(), ", ")}
}
