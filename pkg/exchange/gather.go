package exchange

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// Incoming is what all shards sent to one.
type Incoming struct {
	Kind   record.Kind
	Others uint64 // rows that went to the other shards

	fs   durable.FS
	dir  string
	id   ID
	to   int
	sent []Sent // by sender
}

// Receive looks at all bills of an exchange and at the lengths of the parts for one receiver. No part was read then.
func Receive(fsys durable.FS, dir string, id ID, to int) (*Incoming, error) {
	in := &Incoming{fs: fsys, dir: dir, id: id, to: to}
	for from := range id.Shards {
		b, err := ReadBill(fsys, dir, id, from)
		if err != nil {
			return nil, err
		}
		if from > 0 && b.Kind != in.Kind {
			return nil, &fault.Error{Class: fault.WrongKind, File: BillPath(dir, from), Found: fmt.Sprintf("%s rows", b.Kind), Want: fmt.Sprintf("%s rows, as in %s", in.Kind, BillPath(dir, 0))}
		}
		if err := present(fsys, PartPath(dir, from, to), b.Parts[to]); err != nil {
			return nil, err
		}
		in.Kind = b.Kind
		for n, p := range b.Parts {
			if n != to {
				in.Others += p.Rows
			}
		}
		in.sent = append(in.sent, b.Parts[to])
	}
	return in, nil
}

func (in *Incoming) partOf(from int) string { return PartPath(in.dir, from, in.to) }

// present says whether a part is there, by its length.
func present(fsys durable.FS, file string, p Sent) error {
	info, err := fsys.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Class: fault.Corrupt, File: file, Found: "missing", Want: fmt.Sprintf("a part of %d rows, as its bill says", p.Rows), Err: err,
			Hint: fmt.Sprintf("%q says which stage sends it: run it again in the sender's shard", stagesOf(file))}
	}
	if err == nil && info.Size() != p.Bytes {
		err = damaged(file, &fault.Error{Class: fault.Corrupt, File: file, Found: fmt.Sprintf("%d bytes", info.Size()), Want: fmt.Sprintf("%d, as its bill says", p.Bytes)})
	}
	return err
}

// stagesOf is the line that lists the stages of the crawl that a part is in.
func stagesOf(part string) string {
	crawl := part
	for range 4 { // rounds/r12/links/007-003.arrows.zst
		crawl = filepath.Dir(crawl)
	}
	return fault.Quote("mcrawl", "stages", crawl)
}

// damaged adds to an error of a part that is there how to have it sent again.
func damaged(file string, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	g := *f
	g.Hint = fmt.Sprintf("remove it: %s; then %q says which stage sends it again", fault.Quote("rm", file), stagesOf(file))
	return &g
}

// Rows reads what was received. It has the methods of stage.Input.
func Rows[T record.Row](in *Incoming) (*Gathered[T], error) {
	g := &Gathered[T]{in: in}
	return g, g.open(0)
}

// Gathered is the rows of all senders, in their order.
type Gathered[T record.Row] struct {
	in     *Incoming
	from   int
	file   durable.File
	part   *record.Reader[T]
	schema *record.Schema // of the first part
	sum    record.RowHasher[T]
}

// Schema is the first part's.
func (g *Gathered[T]) Schema() *record.Schema { return g.schema }

// Buffered is how many rows Read gives without reading from a file.
func (g *Gathered[T]) Buffered() int { return g.part.Buffered() }

func (g *Gathered[T]) open(from int) (err error) {
	name := g.in.partOf(from)
	if g.file, err = g.in.fs.OpenFile(name, os.O_RDONLY, 0); err != nil {
		return err
	}
	if g.part, err = record.NewReader[T](g.file, record.ReaderOptions{Name: name}); err != nil {
		return damaged(name, err)
	}
	g.from = from
	if from == 0 {
		g.schema = g.part.Schema()
	}
	if more := g.schema.Lacks(g.part.Schema()); len(more) > 0 {
		return &fault.Error{Class: fault.WrongKind, File: name, Found: fmt.Sprintf("column %q", more[0]), Want: "the columns of " + g.in.partOf(0),
			Hint: "run the same programs on all shards"}
	}
	return nil
}

// Read gives the next row; io.EOF when every part has ended as its bill says.
func (g *Gathered[T]) Read(row *T) error {
	for {
		err := g.part.Read(row)
		if err == nil {
			g.sum.Add(row)
		}
		if err != io.EOF {
			return damaged(g.in.partOf(g.from), err)
		}
		if g.file != nil {
			if err := g.file.Close(); err != nil {
				return err
			}
			g.file = nil
			if err := checkPart(g.in.partOf(g.from), g.part.Trailer(), g.in.id.part(g.from, g.in.to), g.in.sent[g.from]); err != nil {
				return damaged(g.in.partOf(g.from), err)
			}
		}
		if g.from+1 == g.in.id.Shards {
			return io.EOF
		}
		if err := g.open(g.from + 1); err != nil {
			return err
		}
	}
}

// checkPart compares a part that was read with what it should be, and with its bill.
func checkPart(file string, t record.Trailer, want record.Part, p Sent) error {
	if t.Part == nil {
		return &fault.Error{Class: fault.WrongKind, File: file, Found: "a record stream that is no part of an exchange", Want: fmt.Sprintf("exchange %s of round %s", want.Exchange, want.Round)}
	}
	if found, wanted := differs(*t.Part, want); found != "" {
		return &fault.Error{Class: fault.Corrupt, File: file, Place: "trailer", Found: found, Want: wanted}
	}
	if hash := t.Hash.String(); t.Rows != p.Rows || hash != p.Hash {
		return &fault.Error{Class: fault.Corrupt, File: file, Found: fmt.Sprintf("%d rows with hash %s", t.Rows, hash), Want: fmt.Sprintf("%d with %s, as its bill says", p.Rows, p.Hash)}
	}
	return nil
}

// Trailer is of all rows. Its ledger begins here.
func (g *Gathered[T]) Trailer() record.Trailer {
	rows, hash := g.sum.Sum()
	return record.Trailer{Verified: true, Rows: rows, Hash: hash, Txn: g.in.id.Round, Epoch: g.schema.Epoch,
		Ledger: record.Ledger{Stages: []record.Stage{arrival(g.in.id, rows, hash.String(), digest(g.in.sent))}}}
}

// stagePrefix begins the name of the stage with which a ledger begins behind an exchange.
const stagePrefix = "exchange "

// arrival is that stage: rows came, which the ledgers of others account for up to here.
func arrival(id ID, rows uint64, hash, digest string) record.Stage {
	s := record.Stage{Name: stagePrefix + id.Exchange, Txn: id.Round, InHash: digest, Out: rows, OutHash: hash}
	if rows > 0 {
		s.Made = []record.Count{{Reason: "received", N: rows}}
	}
	return s
}

// digest stands for the rows of all parts of a receiver: the checksum of their hashes, as text, in order of sender.
func digest(sent []Sent) string {
	var all strings.Builder
	for _, p := range sent {
		all.WriteString(p.Hash)
	}
	return store.Sum([]byte(all.String()))
}
