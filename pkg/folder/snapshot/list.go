package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

const (
	magic      = "mercator-snapshot"
	listPrefix = "SNAPSHOT-"
)

// List is a snapshot: what a crawl is made of, and where its bytes are at the remote.
type List struct {
	Number  uint64        `json:"number"`
	Crawl   string        `json:"crawl"`          // identity of the folder that pushed it
	From    string        `json:"from,omitempty"` // of the folder that this one took over
	Made    string        `json:"made"`           // RFC 3339, UTC
	Current store.Current `json:"current"`
	Files   []File        `json:"files"` // in order of path

	sum string // xxh3-128 of the list's bytes
}

// File is one of the crawl's.
type File struct {
	Path     string `json:"path"`
	Open     bool   `json:"open,omitempty"` // it still grew, as PATH.open
	Length   int64  `json:"length"`
	Sum      string `json:"sum"`                // xxh3-128; of a file with a link the sum of a store.Chain
	Link     string `json:"link,omitempty"`     // the chain's last link
	Modified int64  `json:"modified,omitempty"` // ns since 1970 at the crawl, of a file that neither a store holds nor a checkpoint names
	Mode     uint32 `json:"mode,omitempty"`     // permissions, of such a file
	Parts    []Part `json:"parts,omitempty"`    // of a file with a link; any other is one part, or none if it is empty
}

// Part is a file at the remote, PATH@SUM.
type Part struct {
	Length int64  `json:"length"`
	Sum    string `json:"sum"` // xxh3-128
}

func (f *File) parts() []Part {
	if f.Link == "" && f.Length > 0 {
		return []Part{{f.Length, f.Sum}}
	}
	return f.Parts
}

// object is the name at the remote of a part of a file.
func object(path string, p Part) string { return path + "@" + p.Sum }

var (
	listShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + listPrefix + `([0-9]{6,})$`) })
	// ours are names that a push gives, or a program that it runs for what is not whole.
	ours = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(@[0-9a-f]{32}|^\.?` + listPrefix + `[0-9]{6,})(\.[A-Za-z0-9.-]+)?$`)
	})
)

func listName(number uint64) string { return fmt.Sprintf("%s%06d", listPrefix, number) }

func (l *List) byPath() map[string]*File {
	m := map[string]*File{}
	if l != nil {
		for i := range l.Files {
			m[l.Files[i].Path] = &l.Files[i]
		}
	}
	return m
}

// objects are all files that the snapshot needs at the remote, with their lengths.
func (l *List) objects() map[string]int64 {
	m := map[string]int64{}
	for i := range l.Files {
		for _, p := range l.Files[i].parts() {
			m[object(l.Files[i].Path, p)] = p.Length
		}
	}
	return m
}

// same reports whether two snapshots are the same but for number and time.
func (l *List) same(other *List) (bool, error) {
	if other == nil {
		return false, nil
	}
	a, b := *l, *other
	b.Number, b.Made = a.Number, a.Made
	one, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	two, err := json.Marshal(b)
	return bytes.Equal(one, two), err
}

func decode(name string, data []byte) (*List, error) {
	l := new(List)
	if err := store.Unseal(name, magic, data, l); err != nil {
		return nil, err
	}
	return l, l.check(name)
}

// check is the list of rules that SPEC.md gives.
func (l *List) check(name string) error {
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	text := func(s string) string { return fmt.Sprintf("%.80q", s) }
	if l.Number == 0 || l.Number > store.MaxGeneration {
		return bad("number", strconv.FormatUint(l.Number, 10), fmt.Sprintf("1 to %d", uint64(store.MaxGeneration)))
	}
	if !store.IsSum(l.Crawl) || l.From != "" && !store.IsSum(l.From) {
		return bad("crawl", text(l.Crawl)+" from "+text(l.From), "32 hex digits")
	}
	if _, err := time.Parse(time.RFC3339, l.Made); err != nil || !strings.HasSuffix(l.Made, "Z") {
		return bad("made", text(l.Made), "a time in UTC")
	}
	if c := l.Current; c.Epoch >= store.MaxGeneration || c.Checkpoint > c.Last || c.Last > store.MaxGeneration {
		return bad("current", fmt.Sprintf("epoch %d, checkpoint %d of %d", c.Epoch, c.Checkpoint, c.Last), "a checkpoint that there was")
	}
	for i := range l.Files {
		f := &l.Files[i]
		place := fmt.Sprintf("file %d", i)
		if !validPath(f.Path) {
			return bad(place, "path "+text(f.Path), "a path inside the crawl, of a file that is copied")
		}
		if i > 0 && l.Files[i-1].Path >= f.Path {
			return bad(place, "path "+text(f.Path), "one after "+text(l.Files[i-1].Path))
		}
		if f.Length < 0 || !store.IsSum(f.Sum) || f.Link != "" && !store.IsSum(f.Link) {
			return bad(place, fmt.Sprintf("length %d, sum %s", f.Length, text(f.Sum)), "0 or more, and a checksum")
		}
		if f.Mode > 0o777 {
			return bad(place, fmt.Sprintf("mode %#o", f.Mode), "permissions, at most 0777")
		}
		if f.Link == "" && len(f.Parts) > 0 {
			return bad(place, fmt.Sprintf("%d parts, without a link", len(f.Parts)), "none: it is one part")
		}
		var sum int64
		for _, p := range f.Parts {
			if p.Length <= 0 || p.Length > f.Length-sum || !store.IsSum(p.Sum) {
				return bad(place, fmt.Sprintf("part of length %d, sum %s", p.Length, text(p.Sum)), "1 or more, within the file, and a checksum")
			}
			sum += p.Length
		}
		if f.Link != "" && sum != f.Length {
			return bad(place, fmt.Sprintf("parts of %d bytes", sum), strconv.FormatInt(f.Length, 10))
		}
	}
	return nil
}

// validPath reports whether a file of a crawl has such a path and is copied: it is no pointer, no lock, and not the copier's own.
func validPath(p string) bool {
	if p == "" || len(p) > 4096 || !filepath.IsLocal(p) || strings.ContainsAny(p, "\\\n\r\x00") || filepath.ToSlash(filepath.Clean(p)) != p {
		return false
	}
	return p != store.CurrentFile && p != store.LockFile && p != ownDir && !strings.HasPrefix(p, ownDir+"/")
}
