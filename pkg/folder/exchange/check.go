package exchange

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Bound is an exchange of a round as a checkpoint binds it.
type Bound struct {
	Name      string   `json:"name"`  // name of the exchange's folder in the round's folder
	Manifests []string `json:"bills"` // checksum of each sender's, in order
}

// CheckBound checks a checkpoint's list of exchanges by the rules of the format.
func CheckBound(file string, all []Bound, shards int) error {
	for i, b := range all {
		bad := &fault.Error{Class: fault.Corrupt, File: file, Place: fmt.Sprintf("exchange %d", i)}
		switch {
		case !isName(b.Name) || i > 0 && all[i-1].Name >= b.Name:
			bad.Found, bad.Want = fmt.Sprintf("name %.80q", b.Name), "a folder in the round's, in order of name"
		case len(b.Manifests) != shards || slices.ContainsFunc(b.Manifests, func(s string) bool { return !store.IsSum(s) }):
			bad.Found, bad.Want = fmt.Sprintf("%d manifests", len(b.Manifests)), fmt.Sprintf("the checksums of %d", shards)
		default:
			continue
		}
		return bad
	}
	return nil
}

func isName(name string) bool { return store.CheckPath(name) && !strings.Contains(name, "/") }

// Round is a round of a crawl with the exchanges to check.
type Round struct {
	FS      durable.FS
	Dir     string // rounds/r12 of the crawl folder
	Txn     string
	Epoch   uint64
	Map     uint64 // version of the bucket map
	Shards  int
	Ledgers []record.Ledger // with which each shard closed the round
}

// Bind looks at all exchanges of a round that is to be closed: the folders below the round's that have a manifest. It refuses unless
// all manifests are there, and all parts by the length of their files, and all that was sent was received, and the reverse.
func Bind(r Round) ([]Bound, error) {
	list, err := r.FS.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Bound
	for _, e := range list {
		dir := filepath.Join(r.Dir, e.Name())
		if !e.IsDir() {
			continue
		}
		files, err := r.FS.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(files, func(f fs.DirEntry) bool { return strings.HasSuffix(f.Name(), manifestSuffix) }) {
			all = append(all, Bound{Name: e.Name(), Manifests: make([]string, r.Shards)})
		}
	}
	slices.SortFunc(all, func(a, b Bound) int { return strings.Compare(a.Name, b.Name) })
	var first error
	r.eachManifest(all, func(err error) {
		if first == nil {
			first = err
		}
	}, func(name string, manifest *Manifest) error { return manifest.Present(r.FS, filepath.Join(r.Dir, name)) })
	return all, first
}

// Verify looks at the exchanges that a checkpoint bound: every manifest is the one that was bound, and all that was sent was
// received. It reports each problem and goes on. Parts may be gone (RemoveParts).
func Verify(r Round, all []Bound, problem func(error)) {
	r.eachManifest(all, problem, func(string, *Manifest) error { return nil })
}

// RemoveParts deletes the parts of exchanges that a checkpoint bound: nobody reads them any more. The manifests stay.
func RemoveParts(fsys durable.FS, roundDir string, all []Bound) error {
	for _, b := range all {
		dir := filepath.Join(roundDir, b.Name)
		files, err := fsys.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), partsSuffix) {
				continue
			}
			if err := fsys.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// eachManifest reads all manifests of the exchanges, one at a time, and calls parts for each. A manifest must have its checksum in all;
// where that is "", it is put there.
func (r Round) eachManifest(all []Bound, problem func(error), parts func(name string, manifest *Manifest) error) {
	got := make([]map[string][]arrived, r.Shards)
	for n := range got {
		got[n] = map[string][]arrived{}
		if n < len(r.Ledgers) {
			arrivals(r.Ledgers[n], r.Txn, got[n])
		}
	}
	sent := map[string][]column{}
	for _, b := range all {
		columns := make([]column, r.Shards)
		whole := true
		id := ID{Exchange: b.Name, Round: r.Txn, Epoch: r.Epoch, Map: r.Map, Shards: r.Shards}
		for from := range r.Shards {
			manifest, sum, err := readManifest(r.FS, filepath.Join(r.Dir, b.Name), id, from)
			if err == nil && b.Manifests[from] != "" && b.Manifests[from] != sum {
				err = &fault.Error{Class: fault.Corrupt, File: ManifestPath(filepath.Join(r.Dir, b.Name), from), Found: "checksum " + sum, Want: b.Manifests[from] + ", as the checkpoint says"}
			}
			if err != nil {
				problem(err)
				whole = false
				continue
			}
			b.Manifests[from], id.By = sum, manifest.By
			if err := manifest.Ledger.Balance(); err != nil {
				problem(&fault.Error{File: ManifestPath(filepath.Join(r.Dir, b.Name), from), Err: err})
			}
			arrivals(manifest.Ledger, r.Txn, got[from])
			for to, p := range manifest.Parts {
				columns[to].rows += p.Rows
				_, _ = columns[to].hash.WriteString(p.Hash)
			}
			if err := parts(b.Name, manifest); err != nil {
				problem(err)
			}
		}
		if whole {
			sent[b.Name] = columns
		}
	}
	gone := map[string]bool{}
	for _, names := range got {
		for name := range names {
			gone[name] = true
		}
	}
	for _, b := range all {
		delete(gone, b.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		problem(&fault.Error{Class: fault.Corrupt, File: filepath.Join(r.Dir, name), Found: "no manifests", Want: "those of an exchange whose rows were received, as ledgers say"})
	}
	for _, b := range all {
		for to := range sent[b.Name] {
			c := &sent[b.Name][to]
			if err := c.compare(got[to][b.Name]); err != nil {
				problem(&fault.Error{Class: fault.No, File: filepath.Join(r.Dir, b.Name), Place: fmt.Sprintf("shard %d", to), Err: err})
			}
		}
	}
}

// column counts the rows that all shards sent to one shard in an exchange.
type column struct {
	rows uint64
	hash xxh3.Hasher // of the parts' hashes
}

// arrived counts the rows of a column by the receiver's ledger.
type arrived struct {
	rows   uint64
	digest string
}

// arrivals collects, by exchange, what came into a ledger from other shards in a round.
func arrivals(l record.Ledger, txn string, into map[string][]arrived) {
	for _, s := range l.Stages {
		if name, ok := strings.CutPrefix(s.Name, stagePrefix); ok && s.Txn == txn {
			into[name] = append(into[name], arrived{s.Out, s.InHash})
		}
	}
	for _, j := range l.Joined {
		arrivals(j, txn, into)
	}
}

// compare is an error unless what was sent arrived: once or, where its rows went several ways, the same in each.
func (c *column) compare(got []arrived) error {
	if len(got) == 0 {
		return fmt.Errorf("%d rows sent, and no ledger of a stage that received them", c.rows)
	}
	for _, a := range got {
		if want := store.HexSum(&c.hash); a.rows != c.rows || a.digest != want {
			return fmt.Errorf("%d rows received (%s), want %d (%s) that were sent", a.rows, a.digest, c.rows, want)
		}
	}
	return nil
}
