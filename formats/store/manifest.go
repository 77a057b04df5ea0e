package store

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Roles that this package knows. All others are the store kind's own words.
const (
	RoleOutput = "output" // a transaction's kept output
	RoleNames  = "names"  // names of transactions of closed rounds
)

// Entry is one file of a generation.
type Entry struct {
	Path   string `json:"path"`           // relative to the store, slash-separated
	Role   string `json:"role"`           // the store kind's own word: "run", "queue", "warc", "output", …
	Length int64  `json:"length"`         // committed length in bytes; the file may be longer (Growing)
	Sum    string `json:"sum,omitempty"`  // xxh3-128 of the committed bytes, hex; "" for Growing files that their owner checks itself
	Link   string `json:"link,omitempty"` // last link of the Chain that Sum belongs to; "": Sum is plain
	// Growing files are appended to between generations; only Length bytes count.
	Growing bool `json:"growing,omitempty"`
	// Sticky files never go back: abandon and restore keep the newest (contact times).
	Sticky bool `json:"sticky,omitempty"`
	// Secret files are for their owner alone, and a copy goes on without them (cookies).
	Secret bool   `json:"secret,omitempty"`
	Born   uint64 `json:"born"`            // first generation that held the file; set by Commit
	Epoch  uint64 `json:"epoch,omitempty"` // the crawl's epoch at that time; set by Commit
}

// Done is a committed transaction.
type Done struct {
	Verb       string        `json:"verb"`
	Txn        string        `json:"txn"`
	Generation uint64        `json:"generation"`
	Epoch      uint64        `json:"epoch,omitempty"`
	InRows     uint64        `json:"in_rows"`
	InHash     string        `json:"in_hash,omitempty"` // rows hash of its input, hex; "" for a source
	Output     string        `json:"output,omitempty"`  // path of the kept output; "" for none
	Ledger     record.Ledger `json:"ledger"`            // ledger of the transaction's output, or for a sink of what it read; the transaction's own stage is the last
}

// Manifest is one generation, read-only.
type Manifest struct {
	Kind       string            `json:"kind"`    // what the store holds: its owner's word
	Version    int               `json:"version"` // of the kind's own format
	Generation uint64            `json:"generation"`
	Parent     uint64            `json:"parent"`
	Base       uint64            `json:"base"`             // generation of the checkpoint that it was built on; 1 if none holds the store
	Epoch      uint64            `json:"epoch,omitempty"`  // of the crawl; 0 outside a crawl folder
	Params     map[string]string `json:"params,omitempty"` // fixed at Create (polynomial, policy)
	State      map[string]string `json:"state,omitempty"`  // small values that change with a generation
	Files      []Entry           `json:"files,omitempty"`  // in order of path
	// Done holds the committed transactions of the open round and of the last closed one,
	// oldest first. Older names are in the files of role "names".
	Done []Done `json:"done,omitempty"`
}

// File returns the entry of a path, or nil.
func (m *Manifest) File(p string) *Entry {
	i := sort.Search(len(m.Files), func(i int) bool { return m.Files[i].Path >= p })
	if i < len(m.Files) && m.Files[i].Path == p {
		return &m.Files[i]
	}
	return nil
}

// Encode returns the bytes of the manifest's file.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.check("manifest"); err != nil {
		return nil, err
	}
	return Seal(magicManifest, m)
}

// DecodeManifest reads the bytes of a manifest's file. name is for messages.
func DecodeManifest(name string, data []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := Unseal(name, magicManifest, data, m); err != nil {
		return nil, err
	}
	return m, m.check(name)
}

// keptManifest is a manifest that was read, with its bytes: the commands of a small round read the same few again and again.
type keptManifest struct {
	data []byte
	m    Manifest
}

const maxKept = 64 << 10 // bytes

var lastManifests [16]atomic.Pointer[keptManifest] // by the hash of the file's name

func readManifest(fsys durable.FS, file string, generation uint64) (*Manifest, error) {
	data, err := durable.ReadFile(fsys, file, MaxFile)
	if err != nil {
		return nil, err
	}
	last := &lastManifests[xxh3.HashString(file)%uint64(len(lastManifests))]
	if kept := last.Load(); kept != nil && bytes.Equal(kept.data, data) && kept.m.Generation == generation {
		m := kept.m
		return &m, nil
	}
	m, err := DecodeManifest(file, data)
	if err == nil && len(data) <= maxKept {
		last.Store(&keptManifest{data, *m})
	}
	if err == nil && m.Generation != generation {
		err = &fault.Error{Class: fault.Corrupt, File: file, Place: "generation", Found: strconv.FormatUint(m.Generation, 10), Want: strconv.FormatUint(generation, 10)}
	}
	return m, err
}

const (
	MaxGeneration = 1 << 53 // what every JSON reader holds exactly
	maxWord       = 32
	maxTxn        = 64
	maxPath       = 512
)

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	plain  = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits + "_"
)

// isWord reports whether s can be a kind, a role or a verb.
func isWord(s string) bool { return shaped(s, maxWord, lower, lower+digits+"-") }

// IsTxn reports whether a transaction can have the name.
func IsTxn(txn string) bool { return shaped(txn, maxTxn, plain, plain+".-") }

// shaped reports whether s has 1 to limit characters, the first one of first and all of all.
func shaped(s string, limit int, first, all string) bool {
	return s != "" && len(s) <= limit && strings.Contains(first, s[:1]) && strings.Trim(s, all) == ""
}

// numbers finds the generation and serial number in a name that Tx made: six digits or more, "-", digits; the last such, as prefixes may
// hold numbers too.
func numbers(name string) (generation, serial string) {
	for dash := strings.LastIndexByte(name, '-'); dash >= 0; dash = strings.LastIndexByte(name, '-') {
		tail := name[dash+1:]
		name = name[:dash]
		generation, serial = name[len(strings.TrimRight(name, digits)):], tail[:len(tail)-len(strings.TrimLeft(tail, digits))]
		if len(generation) >= 6 && serial != "" {
			return generation, serial
		}
	}
	return "", ""
}

// CheckTxn refuses a name that no transaction can have (fault.Usage).
func CheckTxn(txn string) error {
	if IsTxn(txn) {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Place: "--txn", Found: strconv.Quote(clip(txn)),
		Want: fmt.Sprintf("1 to %d letters, digits, '.', '_' or '-', not beginning with '.' or '-'", maxTxn)}
}

// IsSum reports whether s is written as a checksum is: 32 lower-case hex digits.
func IsSum(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// CheckPath reports whether p stays inside the store, in plain characters.
func CheckPath(p string) bool {
	return shaped(p, maxPath, plain, plain+"./-") && path.Clean(p) == p && !strings.Contains(p, "..")
}

// FreePrefix reports whether names that begin with prefix are none of a store's own.
func FreePrefix(prefix string) bool {
	return !slices.ContainsFunc([]string{attemptPrefix, journalPrefix, manifestPrefix}, func(own string) bool { return strings.HasPrefix(prefix, own) })
}

// check is the list of rules that SPEC.md gives for a manifest's body.
func (m *Manifest) check(name string) error {
	bad := func(place string, found any, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: clip(fmt.Sprint(found)), Want: want}
	}
	if !isWord(m.Kind) {
		return bad("kind", strconv.Quote(m.Kind), "a lower-case word")
	}
	if m.Version < 1 {
		return bad("version", m.Version, "1 or more")
	}
	if m.Generation == 0 || m.Generation > MaxGeneration {
		return bad("generation", m.Generation, fmt.Sprintf("1 to %d", uint64(MaxGeneration)))
	}
	if m.Parent >= m.Generation {
		return bad("parent", m.Parent, fmt.Sprintf("less than %d", m.Generation))
	}
	if m.Base == 0 || m.Base > m.Generation {
		return bad("base", m.Base, fmt.Sprintf("1 to %d", m.Generation))
	}
	for i, e := range m.Files {
		place := fmt.Sprintf("file %d", i)
		switch {
		case !CheckPath(e.Path):
			return bad(place, "path "+strconv.Quote(clip(e.Path)), "a path inside the store")
		case i > 0 && m.Files[i-1].Path >= e.Path:
			return bad(place, "path "+strconv.Quote(e.Path), "a path after "+strconv.Quote(m.Files[i-1].Path))
		case !isWord(e.Role):
			return bad(place, "role "+strconv.Quote(clip(e.Role)), "a lower-case word")
		case e.Length < 0:
			return bad(place, fmt.Sprintf("length %d", e.Length), "0 or more")
		case e.Sum == "" && !e.Growing || e.Sum != "" && !IsSum(e.Sum):
			return bad(place, "sum "+strconv.Quote(clip(e.Sum)), "32 hex digits")
		case e.Link != "" && (e.Sum == "" || !IsSum(e.Link)):
			return bad(place, "link "+strconv.Quote(clip(e.Link)), "32 hex digits, beside a sum")
		case e.Born == 0 || e.Born > m.Generation:
			return bad(place, fmt.Sprintf("born %d", e.Born), fmt.Sprintf("1 to %d", m.Generation))
		}
	}
	for i, d := range m.Done {
		place := fmt.Sprintf("transaction %d", i)
		switch {
		case !isWord(d.Verb):
			return bad(place, "verb "+strconv.Quote(clip(d.Verb)), "a lower-case word")
		case !IsTxn(d.Txn):
			return bad(place, "name "+strconv.Quote(clip(d.Txn)), "a transaction's name")
		case d.Generation == 0 || d.Generation > m.Generation || i > 0 && d.Generation <= m.Done[i-1].Generation:
			return bad(place, fmt.Sprintf("generation %d", d.Generation), fmt.Sprintf("at most %d, in order", m.Generation))
		case d.InHash != "" && !IsSum(d.InHash):
			return bad(place, "input hash "+strconv.Quote(clip(d.InHash)), "32 hex digits")
		case d.Output != "" && !CheckPath(d.Output):
			return bad(place, "output "+strconv.Quote(clip(d.Output)), "a path inside the store")
		}
	}
	return nil
}
