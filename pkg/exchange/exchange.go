// Package exchange carries rows between the shards of a crawl.
//
// In an exchange each of N shards sends every shard, itself too, one part: a record stream, which may be
// empty. All files of an exchange are in one folder, such as rounds/r12/links of the crawl folder:
//
//	007-003.arrows.zst   what shard 7 sent to shard 3; its trailer says so
//	007.json             the bill of shard 7: rows, hash and length of each of its parts, and its ledger up to here
//
// SPEC.md beside this file has the layout of a bill. Split writes the parts and the bill of one sender. Gather reads
// what all senders sent to one receiver.
//
// # Invariants
//
//   - A bill appears after all of its parts: parts without a bill of their round, epoch and map do not count.
//   - Split gives the same bytes for the same rows. With a bill in place, it writes nothing and refuses other rows.
//   - Gather gives no row unless all N bills and parts are there, of this exchange, round, epoch and map, and does
//     not end well unless every part holds the rows of its bill. Rows come in order of sender, then as they stood.
//   - A ledger ends at the exchange and a new one begins behind it. Check says whether both sides agree.
package exchange

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/shard"
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

// part is what the trailer of a part says.
func (id ID) part(from, to int) record.Part {
	return record.Part{Exchange: id.Exchange, Round: id.Round, Epoch: id.Epoch, Map: id.Map, Shards: id.Shards, By: id.By, From: from, To: to}
}

// differs says in what got is not want; "" if in nothing.
func differs(got, want record.Part) (found, wanted string) {
	for _, c := range []struct{ what, got, want string }{
		{"round", got.Round, want.Round},
		{"epoch", strconv.FormatUint(got.Epoch, 10), strconv.FormatUint(want.Epoch, 10)},
		{"exchange", got.Exchange, want.Exchange},
		{"bucket map", strconv.FormatUint(got.Map, 10), strconv.FormatUint(want.Map, 10)},
		{"shards", strconv.Itoa(got.Shards), strconv.Itoa(want.Shards)},
		{"key", got.By, want.By},
		{"sender", strconv.Itoa(got.From), strconv.Itoa(want.From)},
		{"receiver", strconv.Itoa(got.To), strconv.Itoa(want.To)},
	} {
		if c.got != c.want {
			return fmt.Sprintf("%s %.80q", c.what, c.got), fmt.Sprintf("%q", c.want)
		}
	}
	return "", ""
}

// Bill says what one shard sent in an exchange.
type Bill struct {
	ID
	From   int           `json:"from"`
	Kind   record.Kind   `json:"kind"`
	Parts  []Sent        `json:"parts"`  // by receiver
	Ledger record.Ledger `json:"ledger"` // of the rows, up to this split
}

// Sent is one part.
type Sent struct {
	Rows  uint64 `json:"rows"`
	Hash  string `json:"hash"`  // of the rows
	Bytes int64  `json:"bytes"` // of the file
}

// magic begins a bill's file.
const magic = "mercator-bill"

// PartPath is the place of a part in an exchange's folder.
func PartPath(dir string, from, to int) string {
	return filepath.Join(dir, fmt.Sprintf("%03d-%03d", from, to)+partSuffix)
}

// BillPath is the place of a bill in an exchange's folder.
func BillPath(dir string, from int) string {
	return filepath.Join(dir, fmt.Sprintf("%03d", from)+billSuffix)
}

const (
	partSuffix = ".arrows.zst"
	billSuffix = ".json"
)

// check is the list of rules that SPEC.md gives for a bill.
func (b *Bill) check(name string) error {
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	if b.Shards < 1 || b.Shards > store.MaxShards || b.From < 0 || b.From >= b.Shards {
		return bad("from", fmt.Sprintf("shard %d of %d", b.From, b.Shards), fmt.Sprintf("at most %d shards", store.MaxShards))
	}
	if !isName(b.Exchange) || !store.IsTxn(b.Round) || b.Epoch > store.MaxGeneration || b.Map == 0 {
		return bad("round", fmt.Sprintf("exchange %.80q of round %.80q, epoch %d, map %d", b.Exchange, b.Round, b.Epoch, b.Map), "the names of both, and a map from 1 on")
	}
	if err := CheckBy(b.Kind, b.By); err != nil {
		return bad("by", fmt.Sprintf("%.80q of rows of kind %.80q", b.By, b.Kind), "a key that such rows have")
	}
	if len(b.Parts) != b.Shards {
		return bad("parts", strconv.Itoa(len(b.Parts)), fmt.Sprintf("%d, one a shard", b.Shards))
	}
	var rows uint64
	for to, p := range b.Parts {
		if !store.IsSum(p.Hash) || p.Bytes < 1 {
			return bad(fmt.Sprintf("part %d", to), fmt.Sprintf("%d bytes, hash %.80q", p.Bytes, p.Hash), "1 or more, and a checksum")
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
func (b *Bill) inHash() string { return b.Ledger.Stages[len(b.Ledger.Stages)-1].InHash }

// ReadBill reads the bill of one sender, which must be of this exchange, round, epoch and map; fs.ErrNotExist if the sender
// has not finished.
func ReadBill(fsys durable.FS, dir string, id ID, from int) (*Bill, error) {
	b, _, err := readBill(fsys, dir, id, from)
	return b, err
}

// readBill returns the checksum of the bill's file too. Where id names no key, any will do.
func readBill(fsys durable.FS, dir string, id ID, from int) (b *Bill, sum string, err error) {
	file := BillPath(dir, from)
	data, err := durable.ReadFile(fsys, file, store.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &fault.Error{Class: fault.Corrupt, File: file, Found: "missing", Want: fmt.Sprintf("the bill of shard %d for exchange %s of round %s", from, id.Exchange, id.Round), Err: err,
			Hint: "run that shard's stage of the round first"}
	}
	if err != nil {
		return nil, "", err
	}
	if b, err = decodeBill(file, data); err != nil {
		return nil, "", err
	}
	if id.By == "" {
		id.By = b.By
	}
	if found, want := differs(b.part(b.From, 0), id.part(from, 0)); found != "" {
		return b, "", &fault.Error{Class: fault.Corrupt, File: file, Place: "body", Found: found, Want: want, Err: errOther}
	}
	return b, store.Sum(data), nil
}

// errOther marks a bill that is whole, but of another exchange.
var errOther = errors.New("of another exchange")

func decodeBill(file string, data []byte) (*Bill, error) {
	b := new(Bill)
	if err := store.Unseal(file, magic, data, b); err != nil {
		return nil, err
	}
	return b, b.check(file)
}

// CheckBy refuses a key that rows of a kind do not have.
func CheckBy(kind record.Kind, by string) error {
	switch {
	case by == ByHost,
		by == ByDocument && kind == record.KindFetch,
		by == ByAddress && (kind == record.KindURL || kind == record.KindFetch):
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s rows by %s", kind, by), Want: "host of any rows, document of fetch rows, or address of url or fetch rows"}
}
