// Package exchange carries rows between the shards of a crawl.
//
// In an exchange each of N shards sends every shard, itself too, one part: rows, or none. All files
// of an exchange are in one folder, such as rounds/r12/links of the crawl folder:
//
//	007.run    the parts of shard 7, one behind the other: a run with the receivers as keys
//	007.json   the manifest of shard 7: rows and hash of each part, length of the file, and its ledger up to here
//
// SPEC.md beside this file has the layout. Run writes the parts and the manifest of one sender. Receive and Rows read
// what all senders sent to one receiver. With one file a sender, 64 shards sync 64 files in an exchange, and not 4,096.
//
// # Invariants
//
//   - A manifest appears after its parts: parts without a manifest of their round, epoch and map do not count.
//   - Run gives the same bytes for the same rows. With a manifest in place, it writes nothing and refuses other rows.
//   - Rows gives no row unless all N manifests and files are there, of this exchange, round, epoch and map, and does
//     not end well unless every part holds the rows of its manifest. Rows come in order of sender, then as they stood.
//   - A ledger ends at the exchange and a new one begins behind it. Check reports whether both sides agree.
package exchange

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
	"mercator/pkg/folder/shard"
)

// Keys that rows are sent by.
const (
	ByHost     = "host"     // the row's url_key, of a link its target's
	ByDocument = "document" // content_fp; a row without one stays with its sender
	ByAddress  = "address"  // the chosen address; a row without one goes by host
)

// ID names an exchange of a crawl's round.
type ID struct {
	Exchange string `json:"exchange"` // "links"
	Round    string `json:"round"`
	Epoch    uint64 `json:"epoch"` // of the crawl folder
	Map      uint64 `json:"map"`   // version of the bucket map
	Shards   int    `json:"shards"`
	By       string `json:"by"`
}

// Of is the epoch and the map of a crawl as it stands, for the exchanges of its round.
func Of(fsys durable.FS, crawlDir string) (ID, *shard.Map, error) {
	cur, err := store.ReadCurrent(fsys, crawlDir) // one reading gives both
	if errors.Is(err, fs.ErrNotExist) {
		return ID{}, nil, &fault.Error{Class: fault.Usage, File: crawlDir, Found: "not a crawl folder", Want: "a folder with a file CURRENT", Err: err}
	}
	if err != nil {
		return ID{}, nil, err
	}
	if cur.Map == 0 {
		return ID{}, nil, &fault.Error{Class: fault.Usage, File: crawlDir, Found: "a crawl without shards", Want: "one that was made with --shards"}
	}
	m, err := shard.ReadVersion(fsys, crawlDir, cur.Map)
	if err != nil {
		return ID{}, nil, err
	}
	return ID{Epoch: cur.Epoch, Map: m.Version, Shards: m.Shards}, m, nil
}

// differs says in what the manifest differs from a sender's manifest in id; "" if in nothing.
func (b *Manifest) differs(id ID, from int) (found, wanted string) {
	for _, c := range []struct{ what, got, want string }{
		{"round", b.Round, id.Round},
		{"epoch", strconv.FormatUint(b.Epoch, 10), strconv.FormatUint(id.Epoch, 10)},
		{"exchange", b.Exchange, id.Exchange},
		{"bucket map", strconv.FormatUint(b.Map, 10), strconv.FormatUint(id.Map, 10)},
		{"shards", strconv.Itoa(b.Shards), strconv.Itoa(id.Shards)},
		{"key", b.By, id.By},
		{"sender", strconv.Itoa(b.From), strconv.Itoa(from)},
	} {
		if c.got != c.want {
			return fmt.Sprintf("%s %.80q", c.what, c.got), fmt.Sprintf("%q", c.want)
		}
	}
	return "", ""
}

// Manifest describes the parts that one shard sent in an exchange.
type Manifest struct {
	Version int `json:"version"` // of the format
	ID
	From   int           `json:"from"`
	Kind   record.Kind   `json:"kind"`
	Bytes  int64         `json:"bytes"`  // of the file with the parts
	Parts  []Sent        `json:"parts"`  // by receiver
	Ledger record.Ledger `json:"ledger"` // of the rows, up to this split
}

// Sent is one part.
type Sent struct {
	Rows uint64 `json:"rows"`
	Hash string `json:"hash"` // of the rows
}

// magic begins a manifest's file.
const magic = "mercator-bill"

// version is the version of the layout of manifests and parts.
const version = 2

// runKind is the kind of the runs that hold parts: the rows of key 0 are one record stream without rows, with the
// schema of the parts' rows. The rows of key n+1 are the part for shard n, each a row in its byte form.
const runKind = "exchange"

// PartsPath is the place of a sender's parts in an exchange's folder.
func PartsPath(dir string, from int) string {
	return filepath.Join(dir, fmt.Sprintf("%03d", from)+partsSuffix)
}

// ManifestPath is the place of a manifest in an exchange's folder.
func ManifestPath(dir string, from int) string {
	return filepath.Join(dir, fmt.Sprintf("%03d", from)+manifestSuffix)
}

const (
	partsSuffix    = ".run"
	manifestSuffix = ".json"
)

// check is the list of rules that SPEC.md gives for a manifest.
func (b *Manifest) check(name string) error {
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	if b.Version != version {
		found := max(b.Version, 1) // manifests of version 1 do not say it
		hint := release.Reader(release.Exchange, uint64(found))
		if found < version {
			hint = "made by an older version; see which stage of an open round sends it again: " + stagesOf(name)
		}
		return &fault.Error{Class: fault.Version, File: name, Place: "version", Found: strconv.Itoa(found), Want: strconv.Itoa(version), Hint: hint}
	}
	if b.Shards < 1 || b.Shards > store.MaxShards || b.From < 0 || b.From >= b.Shards {
		return bad("from", fmt.Sprintf("shard %d of %d", b.From, b.Shards), fmt.Sprintf("at most %d shards", store.MaxShards))
	}
	if !isName(b.Exchange) || !store.IsTxn(b.Round) || b.Epoch > store.MaxGeneration || b.Map == 0 {
		return bad("round", fmt.Sprintf("exchange %.80q of round %.80q, epoch %d, map %d", b.Exchange, b.Round, b.Epoch, b.Map), "the names of both, and a map from 1 on")
	}
	if err := checkBy(b.Kind, b.By); err != nil {
		return bad("by", fmt.Sprintf("%.80q of rows of kind %.80q", b.By, b.Kind), "a key that such rows have")
	}
	if len(b.Parts) != b.Shards {
		return bad("parts", strconv.Itoa(len(b.Parts)), fmt.Sprintf("%d, one a shard", b.Shards))
	}
	if b.Bytes < 1 {
		return bad("bytes", strconv.FormatInt(b.Bytes, 10), "1 or more")
	}
	var rows uint64
	for to, p := range b.Parts {
		if !store.IsSum(p.Hash) {
			return bad(fmt.Sprintf("part %d", to), fmt.Sprintf("hash %.80q", p.Hash), "a checksum")
		}
		rows += p.Rows
	}
	n := len(b.Ledger.Stages)
	if n == 0 || b.Ledger.Stages[n-1].Consumed != rows {
		return bad("ledger", "another number of rows", fmt.Sprintf("%d rows at the end, as in all parts", rows))
	}
	return nil
}

// inHash is of the rows that were sent.
func (b *Manifest) inHash() string { return b.Ledger.Stages[len(b.Ledger.Stages)-1].InHash }

// ReadManifest reads the manifest of one sender, which must be of this exchange, round, epoch and map; fs.ErrNotExist if the sender
// has not finished.
func ReadManifest(fsys durable.FS, dir string, id ID, from int) (*Manifest, error) {
	b, _, err := readManifest(fsys, dir, id, from)
	if err == nil || b != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.Version) {
		return b, err
	}
	return nil, damaged(ManifestPath(dir, from), err)
}

// readManifest returns the checksum of the manifest's file too. Where id names no key, any will do.
func readManifest(fsys durable.FS, dir string, id ID, from int) (b *Manifest, sum string, err error) {
	file := ManifestPath(dir, from)
	data, err := durable.ReadFile(fsys, file, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &fault.Error{Class: fault.Corrupt, File: file, Found: "missing", Want: fmt.Sprintf("the manifest of shard %d for exchange %s of round %s", from, id.Exchange, id.Round), Err: err,
			Hint: "run that shard's stage of the round first"}
	}
	if err != nil {
		return nil, "", err
	}
	if b, err = decodeManifest(file, data); err != nil {
		return nil, "", err
	}
	if id.By == "" {
		id.By = b.By
	}
	if found, want := b.differs(id, from); found != "" {
		return b, "", &fault.Error{Class: fault.Corrupt, File: file, Place: "body", Found: found, Want: want, Err: errOther}
	}
	return b, store.Sum(data), nil
}

// errOther marks a manifest that is whole, but of another exchange.
var errOther = errors.New("of another exchange")

func decodeManifest(file string, data []byte) (*Manifest, error) {
	b := new(Manifest)
	if err := store.Unseal(file, magic, data, b); err != nil {
		return nil, err
	}
	return b, b.check(file)
}

// checkBy refuses a key that rows of a kind do not have.
func checkBy(kind record.Kind, by string) error {
	switch {
	case by == ByHost,
		by == ByDocument && kind == record.KindFetch,
		by == ByAddress && (kind == record.KindURL || kind == record.KindFetch):
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s rows by %s", kind, by), Want: "host of any rows, document of fetch rows, or address of url or fetch rows"}
}
