package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/merge"
	"mercator/pkg/shard"
)

// Split is what one shard sends in an exchange.
type Split struct {
	FS       durable.FS
	Dir      string // of the exchange
	ID       ID
	From     int
	Map      *shard.Map
	Refused  func(netip.Addr) bool // says which addresses nobody may contact; nil: none
	Memory   int64                 // in bytes, about
	Progress func(n int64)         // is told the number of rows; may be nil
}

// errSent tells Run that a bill says the same rows were sent.
var errSent = errors.New("sent before")

// Run reads all of in, and publishes its parts and then the bill. If a whole bill of this exchange is there, nothing is
// written: the rows must be those that were sent (fault.Conflict).
func Run[T record.Row](s Split, in merge.Rows[T]) (*Bill, error) {
	schema := in.Schema()
	if err := CheckBy(schema.Kind, s.ID.By); err != nil {
		return nil, err
	}
	if err := s.ofRound(schema.Txn, schema.Epoch); err != nil {
		return nil, err
	}
	sent, err := ReadBill(s.FS, s.Dir, s.ID, s.From)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errOther) {
		return nil, err
	}
	whole := err == nil
	bill := &Bill{ID: s.ID, From: s.From, Kind: schema.Kind}
	var files []*durable.Atomic
	defer func() {
		for _, a := range files {
			a.Abort()
		}
	}()
	err = merge.EachPart(in, s.ID.Shards, owner[T](s), s.Memory, s.Progress, func(to int, rows func(*T) error) error {
		if to == 0 {
			if err := s.begin(in.Trailer(), whole, sent); err != nil {
				return err
			}
		}
		a, err := durable.CreateAll(s.FS, PartPath(s.Dir, s.From, to))
		if err != nil {
			return err
		}
		files = append(files, a)
		p, err := writePart(s, a, to, schema, rows)
		bill.Parts = append(bill.Parts, p)
		return err
	})
	if err == errSent {
		return sent, nil
	}
	if err != nil {
		return nil, err
	}
	t := in.Trailer()
	bill.Ledger = t.Ledger
	bill.Ledger.Stages = append(append([]record.Stage(nil), t.Ledger.Stages...),
		record.Stage{Name: "mmerge split", Txn: s.ID.Round, In: t.Rows, InHash: t.Hash.String(), Consumed: t.Rows})
	return bill, s.publish(files, bill)
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

// begin is called when all rows were read, and before a part is written. With whole, a bill says what was sent.
func (s Split) begin(t record.Trailer, whole bool, sent *Bill) error {
	if err := s.ofRound(t.Txn, t.Epoch); err != nil {
		return err
	}
	if whole {
		if got := t.Hash.String(); got != sent.inHash() {
			return &fault.Error{Class: fault.Conflict, File: "input", Found: fmt.Sprintf("%d rows with hash %s", t.Rows, got),
				Want: fmt.Sprintf("%s, as %s says were sent", sent.inHash(), BillPath(s.Dir, s.From)),
				Hint: "a receiver may have taken the parts already: to send other rows, abandon the round (mckpt abandon)"}
		}
		missing := false
		for to, p := range sent.Parts {
			missing = missing || present(s.FS, PartPath(s.Dir, s.From, to), p) != nil
		}
		if !missing {
			return errSent
		}
	}
	mine, _, _ := strings.Cut(filepath.Base(PartPath(s.Dir, s.From, 0)), "-")
	durable.RemoveLeftovers(PartPath(s.Dir, s.From, 0), func(name string) bool { return strings.HasPrefix(name, mine) })
	return nil
}

// writePart writes and seals one part.
func writePart[T record.Row](s Split, a *durable.Atomic, to int, schema *record.Schema, rows func(*T) error) (Sent, error) {
	part := s.ID.part(s.From, to)
	out := counter{Atomic: a}
	w, err := record.NewWriter[T](&out, record.WriterOptions{Name: a.Name(), Level: record.Fast, Like: schema, Txn: s.ID.Round, Now: schema.Now,
		Epoch: strconv.FormatUint(s.ID.Epoch, 10), Resolver: schema.Resolver, Part: &part})
	if err != nil {
		return Sent{}, err
	}
	if err := merge.WriteRows(w, rows); err != nil {
		return Sent{}, err
	}
	n, hash, err := w.Finish()
	if err != nil {
		return Sent{}, err
	}
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{arrival(s.ID, n, hash.String(), "")}}); err != nil {
		return Sent{}, err
	}
	return Sent{Rows: n, Hash: hash.String(), Bytes: out.n}, a.Seal()
}

// counter counts the bytes of a file.
type counter struct {
	*durable.Atomic
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Atomic.Write(p)
	c.n += int64(n)
	return n, err
}

// publish places the parts, and then the bill.
func (s Split) publish(files []*durable.Atomic, b *Bill) error {
	data, err := store.Seal(magic, b)
	if err != nil {
		return err
	}
	for _, a := range files {
		if err := a.Place(); err != nil {
			return err
		}
	}
	if err := s.FS.SyncDir(s.Dir); err != nil {
		return err
	}
	return durable.WriteFile(s.FS, BillPath(s.Dir, s.From), data)
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
	rest, ok := strings.CutPrefix(row.WARCFilename, "crawl-s")
	number, _, _ := strings.Cut(rest, "-")
	i, err := strconv.ParseUint(number, 10, 16)
	return int(i), ok && err == nil
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

// ContactOf is that of a host's addresses by whose owner it is contacted in a round, whatever their order. In a round all
// rows of a host go to one shard, since two would contact it at once; another round has another choice, so that a dead
// address does not end the retries.
func ContactOf(round, host string, addrs []string) string {
	return slices.MinFunc(addrs, func(a, b string) int {
		return cmp.Compare(xxh3.HashString(round+" "+host+" "+a), xxh3.HashString(round+" "+host+" "+b))
	})
}
