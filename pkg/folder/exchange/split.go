package exchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/shard"
	"mercator/pkg/merge"
)

// Split describes the rows that one shard sends in an exchange.
type Split struct {
	FS       durable.FS
	Dir      string // of the exchange
	ID       ID
	From     int
	Map      *shard.Map
	Refused  func(netip.Addr) bool // says which addresses nobody may contact; nil: none
	Memory   int64                 // in bytes, about
	Progress func(n int64)         // gets the number of rows; may be nil
}

// Run reads all of in, and publishes its parts and then the manifest. If a whole manifest of this exchange is there, nothing is
// written: the rows must be those that were sent (fault.Conflict). One of an older map is of a round that is closed: buckets
// move between rounds alone. Nothing is sent in its place. When ctx ends, so does Run, without a manifest.
func Run[T record.Row](ctx context.Context, s Split, in merge.Rows[T]) (*Manifest, error) {
	schema := in.Schema()
	if err := checkBy(schema.Kind, s.ID.By); err != nil {
		return nil, err
	}
	if err := s.ofRound(schema.Txn, schema.Epoch); err != nil {
		return nil, err
	}
	sent, err := ReadManifest(s.FS, s.Dir, s.ID, s.From)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errOther) && !errors.Is(err, fault.Version) {
		return nil, err
	}
	whole := err == nil
	if !whole && sent != nil && sent.Round == s.ID.Round && sent.Epoch == s.ID.Epoch && sent.Map < s.ID.Map {
		return nil, &fault.Error{Class: fault.Conflict, File: ManifestPath(s.Dir, s.From), Found: fmt.Sprintf("round %s, sent by bucket map %d", s.ID.Round, sent.Map),
			Want: fmt.Sprintf("a round of map %d", s.ID.Map), Hint: "the round is closed, and its rows have arrived: there is nothing to send"}
	}
	rows := merge.NewSorter(s.Memory, "")
	defer rows.Close()
	manifest := &Manifest{Version: version, ID: s.ID, From: s.From, Kind: schema.Kind, Parts: make([]Sent, s.ID.Shards)}
	if err := sortRows(ctx, s, in, rows, manifest.Parts); err != nil {
		return nil, err
	}
	t := in.Trailer()
	if err := s.ofRound(t.Txn, t.Epoch); err != nil {
		return nil, err
	}
	if whole {
		if there, err := s.again(t, sent); there || err != nil {
			return sent, err
		}
	}
	manifest.Ledger = t.Ledger
	manifest.Ledger.Stages = append(append([]record.Stage(nil), t.Ledger.Stages...),
		record.Stage{Name: "mmerge split", Txn: s.ID.Round, In: t.Rows, InHash: t.Hash.String(), Consumed: t.Rows})
	return manifest, writeParts[T](ctx, s, schema, rows, manifest)
}

// Send is Run for the rows of a stream.
func (s Split) Send(ctx context.Context, in *record.Source) (*Manifest, error) {
	return record.ByKind(in.Kind(), send[record.URL], send[record.Fetch], send[record.Link], send[record.Module])(ctx, s, in)
}

func send[T record.Row](ctx context.Context, s Split, in *record.Source) (*Manifest, error) {
	rows, err := record.Rows[T](in)
	if err != nil {
		return nil, err
	}
	return Run(ctx, s, merge.Rows[T](rows))
}

// sortRows reads all of in. It puts each row's byte form behind its receiver, and counts and hashes the parts.
func sortRows[T record.Row](ctx context.Context, s Split, in merge.Rows[T], rows *merge.Sorter, parts []Sent) error {
	to, hashes := owner[T](s), make([]xxh3.Hasher, len(parts))
	has, ok := in.(interface{ Form() []byte })
	ok = ok && !(s.ID.By == ByAddress && in.Schema().Kind == record.KindURL) // owner changes such rows, so their form would be old
	var row T
	var form []byte
	for {
		err := in.Read(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		n := to(&row)
		if ok {
			form = has.Form()
		} else {
			form = record.AppendRow(form[:0], &row)
		}
		if err := rows.Add(uint64(n)+1, form); err != nil {
			return err
		}
		parts[n].Rows++
		_, _ = hashes[n].Write(form)
		if s.Progress != nil {
			s.Progress(1)
		}
	}
	for n := range parts {
		parts[n].Hash = store.HexSum(&hashes[n])
	}
	return nil
}

// again reports whether all that a manifest says was sent is there; the rows of t must be these.
func (s Split) again(t record.Trailer, sent *Manifest) (there bool, err error) {
	if got := t.Hash.String(); got != sent.inHash() {
		return false, &fault.Error{Class: fault.Conflict, File: "input", Found: fmt.Sprintf("%d rows with hash %s", t.Rows, got),
			Want: fmt.Sprintf("%s, as %s says were sent", sent.inHash(), ManifestPath(s.Dir, s.From)),
			Hint: "a receiver may have taken the parts already: to send other rows, abandon the round (mckpt abandon)"}
	}
	return sent.Present(s.FS, s.Dir) == nil, nil
}

// blockBytes is how many bytes of rows are packed together: what a receiver has in memory of one sender's, about.
const blockBytes = 256 << 10

// writeParts publishes the parts, and then the manifest.
func writeParts[T record.Row](ctx context.Context, s Split, schema *record.Schema, rows *merge.Sorter, b *Manifest) error {
	var head bytes.Buffer
	stream, err := record.NewWriter[T](&head, record.WriterOptions{Like: schema, Txn: s.ID.Round, Now: schema.Now,
		Epoch: strconv.FormatUint(s.ID.Epoch, 10), Resolver: schema.Resolver})
	if err != nil {
		return err
	}
	if _, err := stream.Commit(record.Ledger{}); err != nil {
		return err
	}
	all, err := rows.Sort()
	if err != nil {
		return err
	}
	path := PartsPath(s.Dir, s.From)
	mine := filepath.Base(path)
	durable.RemoveLeftovers(path, func(name string) bool { return name == mine })
	a, err := durable.CreateAll(s.FS, path)
	if err != nil {
		return err
	}
	defer a.Abort()
	w := run.NewWriter(a, runKind)
	w.Blocks(blockBytes, math.MaxInt)
	for key, payload := uint64(0), head.Bytes(); err == nil; key, payload, err = all.Next() {
		if err := w.Add(key, payload); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	if err != io.EOF {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	b.Bytes = w.Size()
	data, err := store.Seal(magic, b)
	if err != nil {
		return err
	}
	if err := a.Commit(); err != nil {
		return err
	}
	return durable.WriteFile(s.FS, ManifestPath(s.Dir, s.From), data)
}

// ofRound refuses rows of another round or epoch.
func (s Split) ofRound(txn, epoch string) error {
	if txn != "" && txn != s.ID.Round {
		return &fault.Error{Class: fault.Conflict, File: "input", Found: fmt.Sprintf("records of transaction %q", txn), Want: fmt.Sprintf("%q", s.ID.Round)}
	}
	if want := strconv.FormatUint(s.ID.Epoch, 10); epoch != "" && epoch != want {
		return &fault.Error{Class: fault.Conflict, File: "input", Found: "records of epoch " + epoch + " of the crawl", Want: "epoch " + want,
			Hint: "abandon or restore has undone the round that made them: make the file again"}
	}
	return nil
}

// owner says which shard a row is sent to. By address it takes the addresses of other shards out of a url row, so that only
// their owner contacts them.
func owner[T record.Row](s Split) func(row *T) int {
	byHost := func(row *T) int {
		switch r := any(row).(type) {
		case *record.URL:
			return s.Map.Of(r.Key)
		case *record.Fetch:
			return s.Map.Of(r.Key)
		case *record.Link:
			return s.Map.Of(r.Key)
		case *record.Module:
			return s.Map.Of(r.Key)
		}
		panic("no such row")
	}
	return func(row *T) int {
		switch r := any(row).(type) {
		case *record.Fetch:
			switch {
			case s.ID.By == ByDocument && r.ContentFP == 0:
				return s.From
			case s.ID.By == ByDocument:
				return s.Map.OfDocument(r.ContentFP)
			case s.ID.By == ByAddress:
				if n, ok := archivedBy(r); ok && n < s.Map.Shards {
					return n
				}
				if r.Addr != "" {
					return s.Map.OfAddress(r.Addr)
				}
			}
		case *record.URL:
			if s.ID.By == ByAddress && r.Addr != "" {
				return s.choose(r)
			}
		}
		return byHost(row)
	}
}

// archivedBy is the shard that has a row's records, by the name of their file (pkg/fetch/SPEC.md).
func archivedBy(row *record.Fetch) (n int, ok bool) {
	_, shard := warc.ParseName(row.WARCFilename)
	n, err := strconv.Atoi(shard)
	return n, err == nil
}

// choose picks the address to contact (ContactOf), and leaves on the row those of its owner: the chosen one first, then the
// others in order of preference. Refused addresses count only where a host has no other.
func (s Split) choose(row *record.URL) (to int) {
	list := strings.Split(row.Addr, ",")
	if allowed := slices.DeleteFunc(slices.Clone(list), s.refuses); len(allowed) > 0 {
		list = allowed
	}
	chosen := ContactOf(s.ID.Round, row.Host, list)
	to = s.Map.OfAddress(chosen)
	keep := []string{chosen}
	for _, addr := range list {
		if addr != chosen && s.Map.OfAddress(addr) == to {
			keep = append(keep, addr)
		}
	}
	row.Addr = strings.Join(keep, ",")
	return to
}

func (s Split) refuses(addr string) bool {
	a, err := netip.ParseAddr(addr)
	return err == nil && s.Refused != nil && s.Refused(a)
}

// ContactOf chooses the address of a host that decides which shard contacts it in a round. The order of addrs does not matter.
// In a round all rows of a host go to one shard, since two would contact it at once; another round has another choice, so
// that a dead address does not end the retries.
func ContactOf(round, host string, addrs []string) string {
	return slices.MinFunc(addrs, func(a, b string) int {
		return cmp.Compare(xxh3.HashString(round+" "+host+" "+a), xxh3.HashString(round+" "+host+" "+b))
	})
}
