package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// FileClass says when a copier copies a file: data first, pointers last, in the order of the list.
type FileClass string

// The classes.
const (
	Data     FileClass = "data"     // files of stores, of rounds and of people
	Binding  FileClass = "manifest" // manifests and checkpoints, which name data
	Pointing FileClass = "pointer"  // HEAD of each store, and CURRENT
)

// CrawlFile is a file that a copy of a crawl needs.
type CrawlFile struct {
	Path   string    `json:"path"`    // in the crawl folder, slash-separated; for a growing file as in the manifest
	OnDisk string    `json:"on_disk"` // where it is now: Path, or Path.open
	Class  FileClass `json:"class"`
	Length int64     `json:"length"`         // committed bytes; a growing file may be longer
	Sum    string    `json:"sum,omitempty"`  // xxh3-128 of the committed bytes; "" if no manifest or checkpoint has one
	Link   string    `json:"link,omitempty"` // last link of the store.Chain that Sum belongs to; "": Sum is plain
	Grows  bool      `json:"grows,omitempty"`
	Round  bool      `json:"-"` // file of a closed round: its checkpoint gives Length and Sum
}

// Inventory lists the files that a copy of a crawl needs.
type Inventory struct {
	Current store.Current
	Files   []CrawlFile // by class, then by path; CURRENT is the last
	Left    []string    // files with names that a copier may be unable to write
	Gone    []CrawlFile // by path: files of closed rounds that a kept checkpoint names, but that are missing or not regular
}

// What a copier of the crawl keeps in its folder.
const (
	PushDir  = "push" // folder of the copier, which is no part of the crawl
	PullFile = "PULL" // in PushDir: the rest of the crawl folder was copied here, and is not whole yet
)

// SearchFile is the full-text index that msearch makes of a crawl. Copies leave it out, and the files that SQLite keeps beside it.
const SearchFile = "search.db"

// unfinished refuses a folder into which a crawl is being copied.
func (c *Crawl) unfinished() error {
	if there, err := durable.Exists(c.fs, c.path(filepath.Join(PushDir, PullFile))); err != nil || !there {
		return err
	}
	return &fault.Error{Class: fault.Usage, File: c.dir, Found: "an unfinished pull", Want: "a crawl folder", Hint: "go on with it: " + fault.Quote("mckpt", "pull", "REMOTE", c.dir)}
}

// Inventory lists what a copy of the crawl as of its checkpoints needs: all checkpoints that are kept, their manifests and
// the files of these; the files of closed rounds; and everything else in the folder that is not a process's own (locks, PROGRESS) and no link.
// Kept outputs and what an open round has made are left out, and so are pointers.
//
// What the list names may be deleted by gc afterwards.
func (c *Crawl) Inventory(ctx context.Context) (*Inventory, error) {
	var inv *Inventory
	err := c.locked(ctx, "mckpt push", func(cur store.Current) (err error) {
		inv, err = c.inventory(cur, nil)
		return err
	})
	return inv, err
}

// FilesOf lists what a checkpoint alone needs: data and manifests. Without a number it is the Inventory, with what the
// newest generation of each store needs, and with the pointers: the whole crawl, if nothing changes it meanwhile.
func (c *Crawl) FilesOf(ctx context.Context, number uint64) (inv *Inventory, err error) {
	err = c.locked(ctx, "mckpt files", func(cur store.Current) error {
		if number > 0 {
			k, err := c.checkpoint(cur, number)
			if err == nil {
				inv, err = c.inventory(cur, k)
			}
			return err
		}
		if inv, err = c.inventory(cur, nil); err != nil {
			return err
		}
		return c.addNewest(inv)
	})
	return inv, err
}

// collector gathers files by path.
type collector struct {
	c     *Crawl
	files map[string]CrawlFile
}

// inventory returns the inventory of all checkpoints, or of only.
func (c *Crawl) inventory(cur store.Current, only *Checkpoint) (*Inventory, error) {
	inv := &Inventory{Current: cur}
	in := collector{c, map[string]CrawlFile{}}
	var numbers []uint64
	var err error
	if only != nil {
		numbers = []uint64{only.Number}
	} else if numbers, err = checkpointNumbers(c.fs, c.dir, cur); err != nil {
		return nil, err
	}
	stores, err := c.Stores()
	if err != nil {
		return nil, err
	}
	generations := map[string]map[uint64]bool{}
	if only == nil {
		for _, s := range stores { // the first is the empty crawl's
			generations[s.NameInCrawl()] = map[uint64]bool{1: true}
		}
	}
	for _, n := range numbers {
		k, err := readCheckpoint(c.fs, c.dir, n)
		if err != nil {
			return nil, err
		}
		if err := in.small(checkpointPath("", n)); err != nil {
			return nil, err
		}
		for _, ks := range k.Stores {
			if generations[ks.Name] == nil {
				generations[ks.Name] = map[uint64]bool{}
			}
			if _, err := bound(c.folder(ks.Name), ks, n); err != nil {
				return nil, err
			}
			generations[ks.Name][ks.Generation] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(generations)) {
		s := c.folder(name)
		for _, g := range slices.Sorted(maps.Keys(generations[name])) {
			if err := in.generation(s, name, g); err != nil {
				return nil, err
			}
		}
	}
	if only == nil {
		err = in.others(inv, stores)
	} else {
		err = in.roundsOf(only)
	}
	if err != nil {
		return nil, err
	}
	inv.Files = in.sorted()
	return inv, nil
}

func (in *collector) sorted() []CrawlFile {
	rank := map[FileClass]int{Data: 0, Binding: 1, Pointing: 2}
	return slices.SortedFunc(maps.Values(in.files), func(a, b CrawlFile) int {
		if r := rank[a.Class] - rank[b.Class]; r != 0 {
			return r
		}
		return strings.Compare(a.Path, b.Path)
	})
}

// generation adds a manifest of a store, and its files.
func (in *collector) generation(s *store.Store, name string, g uint64) error {
	m, err := s.At(g)
	if err != nil {
		return err
	}
	if err := in.small(path.Join(name, filepath.Base(s.ManifestPath(g)))); err != nil {
		return err
	}
	for _, e := range m.Files {
		if e.Role == store.RoleOutput || e.Secret {
			continue
		}
		p := path.Join(name, e.Path)
		if have, ok := in.files[p]; ok && have.Length >= e.Length {
			continue
		}
		if err := s.Present(e); err != nil {
			return err
		}
		f := CrawlFile{Path: p, OnDisk: p, Class: Data, Length: e.Length, Sum: e.Sum, Link: e.Link, Grows: e.Growing}
		if e.Growing {
			if there, err := durable.Exists(in.c.fs, s.Path(e.Path)); err != nil {
				return err
			} else if !there {
				f.OnDisk += store.OpenSuffix
			}
		}
		in.files[p] = f
	}
	return nil
}

// small adds a manifest or a checkpoint.
func (in *collector) small(p string) error {
	data, err := durable.ReadFile(in.c.fs, in.c.path(filepath.FromSlash(p)), store.MaxFile)
	if err != nil {
		return err
	}
	in.files[p] = CrawlFile{Path: p, OnDisk: p, Class: Binding, Length: int64(len(data)), Sum: store.Sum(data)}
	return nil
}

// others adds what no store holds: files of closed rounds as their checkpoints have them, if these are kept.
func (in *collector) others(inv *Inventory, stores []*store.Store) error {
	kept, err := in.c.Files()
	if err != nil {
		return err
	}
	closed := map[string]bool{undoneDir: true}
	named := map[string]CrawlFile{}
	for _, r := range kept.Closed().rounds {
		closed[r.name] = true
		for _, f := range r.files {
			p := path.Join(r.in.under, roundsDir, r.name, f.Name)
			named[p] = CrawlFile{Path: p, OnDisk: p, Class: Data, Length: f.Length, Sum: f.Sum, Round: true}
		}
	}
	skip := map[string]bool{store.LockFile: true, DriverFile: true, ProgressFile: true, LogsDir: true, store.CurrentFile: true, checkpointsDir: true, PushDir: true,
		SearchFile: true, SearchFile + "-wal": true, SearchFile + "-shm": true, SearchFile + "-journal": true}
	for _, s := range stores {
		skip[s.NameInCrawl()] = true
	}
	const deepest = 16
	var down func(dir string, depth int) error
	down = func(dir string, depth int) error {
		list, err := in.c.fs.ReadDir(in.c.path(filepath.FromSlash(dir)))
		if err != nil {
			return err
		}
		for _, e := range list {
			p := path.Join(dir, e.Name())
			ofRounds := path.Base(dir) == roundsDir && (dir == roundsDir || strings.HasPrefix(dir, store.ShardsDir+"/"))
			if skip[p] || durable.IsTemp(e.Name()) || ofRounds && !closed[e.Name()] {
				continue
			}
			st, err := in.c.fs.Stat(in.c.path(filepath.FromSlash(p)))
			if errors.Is(err, fs.ErrNotExist) { // a link to nowhere
				continue
			}
			if err != nil {
				return err
			}
			switch {
			case e.Type()&fs.ModeSymlink != 0 && (st.IsDir() || named[p].Path == ""): // it may lead out of the crawl, or around; what a checkpoint has a checksum of may be a link
				inv.Left = append(inv.Left, p)
			case st.IsDir() && depth < deepest:
				if err := down(p, depth+1); err != nil {
					return err
				}
			case !st.Mode().IsRegular() || strings.ContainsFunc(p, odd) || strings.ContainsAny(p, "\\\ufffd"):
				inv.Left = append(inv.Left, p)
			default:
				f, ok := named[p]
				if !ok {
					f = CrawlFile{Path: p, OnDisk: p, Class: Data, Length: st.Size()}
				}
				in.files[p] = f
				delete(named, p)
			}
		}
		return nil
	}
	if err := down("", 0); err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(named)) {
		inv.Gone = append(inv.Gone, named[p])
	}
	return nil
}

// odd reports whether a character in a name is one that a listing would show as something else.
func odd(r rune) bool {
	return unicode.IsControl(r) || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// roundsOf adds the files of a checkpoint's round that are there.
func (in *collector) roundsOf(k *Checkpoint) error {
	for _, part := range in.c.partsOf(len(k.Shards)) {
		for _, f := range k.filesOf(part.under) {
			p := path.Join(part.under, roundsDir, k.Txn, f.Name)
			if there, err := durable.Exists(in.c.fs, in.c.path(filepath.FromSlash(p))); err != nil {
				return err
			} else if there {
				in.files[p] = CrawlFile{Path: p, OnDisk: p, Class: Data, Length: f.Length, Sum: f.Sum}
			}
		}
	}
	return nil
}

// addNewest adds what the newest generations need, and the pointers.
func (c *Crawl) addNewest(inv *Inventory) error {
	in := collector{c, map[string]CrawlFile{}}
	for _, f := range inv.Files {
		in.files[f.Path] = f
	}
	stores, err := c.Stores()
	if err != nil {
		return err
	}
	pointer := func(p string) error {
		err := in.small(p)
		if f, ok := in.files[p]; ok {
			f.Class = Pointing
			in.files[p] = f
		}
		return err
	}
	for _, s := range stores {
		m, err := s.Newest()
		if err != nil {
			return err
		}
		if err := in.generation(s, s.NameInCrawl(), m.Generation); err != nil {
			return err
		}
		for _, e := range m.WithRole(store.RoleOutput) { // the open round's
			if !s.Spent(m, e) {
				p := path.Join(s.NameInCrawl(), e.Path)
				in.files[p] = CrawlFile{Path: p, OnDisk: p, Class: Data, Length: e.Length, Sum: e.Sum}
			}
		}
		if err := pointer(path.Join(s.NameInCrawl(), store.HeadFile)); err != nil {
			return err
		}
	}
	if err := pointer(store.CurrentFile); err != nil {
		return err
	}
	inv.Files = in.sorted()
	i := slices.IndexFunc(inv.Files, func(f CrawlFile) bool { return f.Path == store.CurrentFile })
	current := inv.Files[i]
	inv.Files = append(slices.Delete(inv.Files, i, i+1), current)
	return nil
}

// TakeOver makes a crawl of a folder that holds all files of an inventory but the pointers, which it writes, CURRENT last. The crawl
// is of a new epoch: what the folder that was copied makes from now on is refused. prepare is called with the folder of each store
// and its newest generation, before there is a CURRENT.
func TakeOver(dir string, cur store.Current, prepare func(dir, name string, newest uint64) error, opt Options) (*Crawl, error) {
	c := &Crawl{fs: opt.fs(), dir: dir, opt: opt}
	under := []string{"", store.ModulesDir}
	if cur.Map > 0 {
		shards, err := c.shardFolders()
		if err != nil {
			return nil, err
		}
		for _, n := range shards {
			name := fmt.Sprintf("%s/%03d", store.ShardsDir, n)
			under = append(under, name, name+"/"+store.ModulesDir)
		}
	}
	for _, u := range under {
		list, err := c.fs.ReadDir(c.path(filepath.FromSlash(u)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			name := path.Join(u, e.Name())
			s := c.folder(name)
			if !e.IsDir() {
				continue
			}
			if there, err := durable.Exists(c.fs, s.ManifestPath(1)); err != nil {
				return nil, err
			} else if !there {
				continue
			}
			list, err := s.Generations()
			if err != nil {
				return nil, err
			}
			newest := list[len(list)-1] // above the one that counts, where the crawl has gone back
			if err := s.Point(newest); err != nil {
				return nil, err
			}
			if err := prepare(s.Dir(), e.Name(), newest); err != nil {
				return nil, err
			}
		}
	}
	for name := range cur.Stores {
		if made, err := c.folder(name).Made(); err != nil || !made {
			return nil, &fault.Error{Class: fault.Corrupt, File: c.path(filepath.FromSlash(name)), Found: "no store", Want: "the one that the checkpoint names", Err: err}
		}
	}
	if err := durable.MkdirAll(c.fs, c.path(checkpointsDir)); err != nil { // an empty crawl has none yet
		return nil, err
	}
	cur.Epoch++
	return c, store.WriteCurrent(c.fs, dir, cur)
}
