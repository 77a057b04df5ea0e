package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Incoming is the parts that all shards sent to one.
type Incoming struct {
	Kind   record.Kind
	Others uint64 // rows that went to the other shards

	fs   durable.FS
	dir  string
	id   ID
	to   int
	sent []Sent // by sender
}

// Receive looks at all manifests of an exchange and at the lengths of the files with the parts. No part was read then.
func Receive(fsys durable.FS, dir string, id ID, to int) (*Incoming, error) {
	in := &Incoming{fs: fsys, dir: dir, id: id, to: to}
	for from := range id.Shards {
		b, err := ReadManifest(fsys, dir, id, from)
		if err != nil {
			return nil, err
		}
		if from > 0 && b.Kind != in.Kind {
			return nil, &fault.Error{Class: fault.WrongKind, File: ManifestPath(dir, from), Found: fmt.Sprintf("%s rows", b.Kind), Want: fmt.Sprintf("%s rows, as in %s", in.Kind, ManifestPath(dir, 0))}
		}
		if err := b.Present(fsys, dir); err != nil {
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

// Present is an error unless the sender's parts are in an exchange's folder, by the length of their file.
func (b *Manifest) Present(fsys durable.FS, dir string) error {
	file := PartsPath(dir, b.From)
	info, err := fsys.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Class: fault.Corrupt, File: file, Found: "missing", Want: fmt.Sprintf("parts of %d bytes, as %s says", b.Bytes, filepath.Base(ManifestPath(dir, b.From))), Err: err,
			Hint: "run the stage that sends them again in the sender's shard; see which: " + stagesOf(file)}
	}
	if err == nil && info.Size() != b.Bytes {
		err = damaged(file, &fault.Error{Class: fault.Corrupt, File: file, Found: fmt.Sprintf("%d bytes", info.Size()), Want: fmt.Sprintf("%d, as its manifest says", b.Bytes)})
	}
	return err
}

// stagesOf is the line that lists the stages of the crawl that a file of parts is in.
func stagesOf(parts string) string {
	crawl := parts
	for range 4 { // rounds/r12/links/007.run
		crawl = filepath.Dir(crawl)
	}
	return fault.Quote("mcrawl", "stages", crawl)
}

// damaged adds to an error of parts that are there how to have them sent again.
func damaged(file string, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	g := *f
	g.Hint = "remove it: " + fault.Quote("rm", file) + "; then see which stage sends them again: " + stagesOf(file)
	return &g
}

// Rows reads what was received. It has the methods of stage.Input, and Close.
func Rows[T record.Row](in *Incoming) (*Gathered[T], error) {
	g := &Gathered[T]{in: in}
	if err := g.open(0); err != nil {
		_ = g.Close() // was read only
		return nil, err
	}
	return g, nil
}

// Gathered is the rows of all senders, in their order.
type Gathered[T record.Row] struct {
	in     *Incoming
	schema *record.Schema // of the first sender's rows

	from   int
	file   durable.File // the parts file of sender from; nil: its part was read
	rows   *run.Scanner
	shape  *record.Schema // schema of the rows of sender from
	n      uint64         // rows that were read of that sender's part
	part   xxh3.Hasher    // sum of the rows that n counts
	all    xxh3.Hasher    // of all rows
	total  uint64
	sticky error
}

// Schema is of the first sender's rows.
func (g *Gathered[T]) Schema() *record.Schema { return g.schema }

func (g *Gathered[T]) fault(found, want string) error {
	name := PartsPath(g.in.dir, g.from)
	return damaged(name, &fault.Error{Class: fault.Corrupt, File: name, Place: fmt.Sprintf("part %d", g.in.to), Found: found, Want: want})
}

// open opens the parts file of a sender at the part of the receiver.
func (g *Gathered[T]) open(from int) (err error) {
	name := PartsPath(g.in.dir, from)
	g.from, g.n = from, 0
	g.part.Reset()
	file, err := g.in.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	g.file = file
	info, err := file.Stat()
	if err != nil {
		return err
	}
	parts, err := run.Open(g.file, info.Size(), name, runKind)
	if err != nil {
		return damaged(name, err)
	}
	g.rows = parts.Scan(run.Start)
	key, head, err := g.rows.Next()
	if err != nil && err != io.EOF {
		return damaged(name, err)
	}
	if err == io.EOF || key != 0 {
		return g.fault("no schema before the rows", "that of the sender's rows")
	}
	stream, err := record.Open(bytes.NewReader(head), record.ReaderOptions{Name: name})
	if err != nil {
		return damaged(name, err)
	}
	g.shape = stream.Schema()
	if round, epoch := g.in.id.Round, strconv.FormatUint(g.in.id.Epoch, 10); g.shape.Kind != g.in.Kind || g.shape.Txn != round || g.shape.Epoch != epoch {
		return g.fault(fmt.Sprintf("%s rows of round %.80q, epoch %.80q", g.shape.Kind, g.shape.Txn, g.shape.Epoch), fmt.Sprintf("%s rows of %q, epoch %s", g.in.Kind, round, epoch))
	}
	if from == 0 {
		g.schema = g.shape
	}
	if more := g.schema.Lacks(g.shape); len(more) > 0 {
		return &fault.Error{Class: fault.WrongKind, File: name, Found: fmt.Sprintf("column %q", more[0]), Want: "the columns of " + PartsPath(g.in.dir, 0),
			Hint: "run the same programs on all shards"}
	}
	if _, err := g.rows.Pass(uint64(g.in.to) + 1); err != nil && err != io.EOF {
		return damaged(name, err)
	}
	return nil
}

// Read gives the next row; io.EOF when every part has ended as its manifest says. Errors stick.
func (g *Gathered[T]) Read(row *T) error {
	if g.sticky == nil {
		g.sticky = g.read(row)
	}
	return g.sticky
}

func (g *Gathered[T]) read(row *T) error {
	for g.n == g.in.sent[g.from].Rows {
		if g.file != nil {
			if key, err := g.rows.Peek(); err == nil && key == uint64(g.in.to)+1 {
				return g.fault(fmt.Sprintf("more than %d rows", g.n), strconv.FormatUint(g.n, 10)+", as the manifest says")
			} else if err != nil && err != io.EOF {
				return damaged(PartsPath(g.in.dir, g.from), err)
			}
			err := g.Close()
			if hash := store.HexSum(&g.part); err == nil && hash != g.in.sent[g.from].Hash {
				err = g.fault(fmt.Sprintf("%d rows with hash %s", g.n, hash), g.in.sent[g.from].Hash+", as the manifest says")
			}
			if err != nil {
				return err
			}
		}
		if g.from+1 == g.in.id.Shards {
			return io.EOF
		}
		if err := g.open(g.from + 1); err != nil {
			return err
		}
	}
	key, form, err := g.rows.Next()
	if err != nil && err != io.EOF {
		return damaged(PartsPath(g.in.dir, g.from), err)
	}
	if err == io.EOF || key != uint64(g.in.to)+1 {
		return g.fault(fmt.Sprintf("%d rows", g.n), fmt.Sprintf("%d, as the manifest says", g.in.sent[g.from].Rows))
	}
	if n, err := record.ViewRow(form, row, g.shape); err != nil || n != len(form) {
		return g.fault(fmt.Sprintf("row %d is no row of kind %s", g.n, g.in.Kind), "its byte form")
	}
	_, _ = g.part.Write(form)
	_, _ = g.all.Write(form)
	g.n++
	g.total++
	return nil
}

// Close lets go of the file that is read. It is needed where Read has not come to the end.
func (g *Gathered[T]) Close() error {
	if g.file == nil {
		return nil
	}
	file := g.file
	g.file = nil
	return file.Close()
}

// Trailer is of all rows. Its ledger begins here.
func (g *Gathered[T]) Trailer() record.Trailer {
	rows, hash := g.total, record.Hash(g.all.Sum128().Bytes())
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
