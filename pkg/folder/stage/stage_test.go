package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/crawl"
)

// bufferSink is a sink in memory that notes when it was published.
type bufferSink struct {
	bytes.Buffer
	opt       record.WriterOptions
	published bool
	onPublish func()
	failAfter int // bytes; 0: never
}

func (s *bufferSink) Write(p []byte) (int, error) {
	if s.failAfter > 0 && s.Len()+len(p) > s.failAfter {
		return 0, errors.New("sink is full")
	}
	return s.Buffer.Write(p)
}
func (s *bufferSink) Options() record.WriterOptions { return s.opt }
func (s *bufferSink) Abort()                        {}
func (s *bufferSink) Publish() error {
	s.published = true
	if s.onPublish != nil {
		s.onPublish()
	}
	return nil
}

func (s *bufferSink) rows(t *testing.T) (urls []string, tr record.Trailer) {
	t.Helper()
	r, err := record.NewReader[record.URL](bytes.NewReader(s.Bytes()), record.ReaderOptions{Name: "sink"})
	must.OK(t, err)
	var row record.URL
	for {
		err := r.Read(&row)
		if err == io.EOF {
			return urls, r.Trailer()
		}
		must.OK(t, err)
		urls = append(urls, row.URL)
	}
}

// stream is a record stream of n URLs, as another stage would write it.
func stream(t *testing.T, txn string, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.URL](&b, record.WriterOptions{Txn: txn, Now: 7})
	must.OK(t, err)
	for i := range n {
		must.OK(t, w.Write(&record.URL{URL: fmt.Sprintf("http://h/%d", i), Key: uint64(i), Host: "h"}))
	}
	rows, hash, err := w.Finish()
	must.OK(t, err)
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{{
		Name: "source", Txn: txn, Out: rows, OutHash: hash.String(), Made: []record.Count{{Reason: "due", N: rows}},
	}}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func input(t *testing.T, b []byte) Input[record.URL] {
	t.Helper()
	r, err := record.NewReader[record.URL](bytes.NewReader(b), record.ReaderOptions{Name: "in", Pipe: true})
	must.OK(t, err)
	return r
}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "st")
	must.OK(t, store.Create(dir, "test", 1, nil, store.Options{}))
	return open(t, dir)
}

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, "test", 1, store.Options{})
	must.OK(t, err)
	return s
}

func generation(t *testing.T, s *store.Store) uint64 {
	t.Helper()
	m, err := s.Current()
	must.OK(t, err)
	return m.Generation
}

// evens passes rows with an even key and drops the others.
func evens(ctx context.Context, b *Batch[record.URL, record.URL]) error {
	var row record.URL
	for {
		err := b.Read(&row)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if row.Key%2 == 1 {
			b.Drop("odd")
			continue
		}
		if err := b.Pass(&row); err != nil {
			return err
		}
	}
}

// lateEvens is evens for a stage that locks after its input.
func lateEvens(ctx context.Context, b *Batch[record.URL, record.URL]) error {
	var row record.URL
	var kept []record.URL
	for {
		err := b.Read(&row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if row.Key%2 == 1 {
			b.Drop("odd")
			continue
		}
		kept = append(kept, row)
	}
	if _, err := b.Begin(ctx); err != nil {
		return err
	}
	for i := range kept {
		if err := b.Pass(&kept[i]); err != nil {
			return err
		}
	}
	return nil
}

// evensThenLock is evens for a stage that locks when its rows have been passed.
func evensThenLock(ctx context.Context, b *Batch[record.URL, record.URL]) error {
	if err := evens(ctx, b); err != nil {
		return err
	}
	_, err := b.Begin(ctx)
	return err
}

// shapes are the ways in which stages run.
var shapes = map[string]struct {
	shape Shape
	body  func(context.Context, *Batch[record.URL, record.URL]) error
}{
	"filter":                         {Filter, evens},
	"gate":                           {Gate, lateEvens},
	"gate, passing rows before lock": {Gate, evensThenLock},
}

func TestCommitThenRepeat(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			st := newStore(t)
			spec := Spec{Name: "evens", Verb: "pick", Store: st, Txn: "r1", Shape: shape.shape}
			in := stream(t, "r1", 9)
			before := generation(t, st)
			var order []string
			file := &bufferSink{opt: record.WriterOptions{Level: record.Fast}, onPublish: func() { order = append(order, fmt.Sprintf("file after %d", generation(t, st)-before)) }}
			pipe := &bufferSink{onPublish: func() { order = append(order, "pipe") }}
			first, err := Run(t.Context(), spec, input(t, in), []Output{file, pipe}, shape.body)
			must.OK(t, err)
			if got := strings.Join(order, ", "); got != "file after 1, pipe" {
				t.Errorf("published %q", got)
			}
			urls, tr := pipe.rows(t)
			if len(urls) != 5 || tr.Txn != "r1" || tr.Rows != 5 {
				t.Errorf("%d rows, trailer %+v", len(urls), tr)
			}
			if err := tr.Ledger.Balance(); err != nil {
				t.Error(err)
			}
			if s := first.Stage; s.In != 9 || s.Passed != 5 || len(s.Drops) != 1 || s.Drops[0].N != 4 || s.Out != 5 || s.Store != "st" {
				t.Errorf("ledger %+v", s)
			}
			after := generation(t, st)

			again := &bufferSink{}
			spec.Store = open(t, st.Dir())
			second, err := Run(t.Context(), spec, input(t, in), []Output{again}, func(context.Context, *Batch[record.URL, record.URL]) error {
				t.Error("the body ran again")
				return nil
			})
			must.OK(t, err)
			if !second.Repeated || generation(t, st) != after {
				t.Errorf("repeated %v, generation %d, want %d", second.Repeated, generation(t, st), after)
			}
			urls2, tr2 := again.rows(t)
			if strings.Join(urls, " ") != strings.Join(urls2, " ") || tr.Hash != tr2.Hash {
				t.Errorf("repeated output differs: %v, %v", urls, urls2)
			}
			if err := tr2.Ledger.Balance(); err != nil {
				t.Error(err)
			}

			_, err = Run(t.Context(), spec, input(t, stream(t, "r1", 8)), []Output{&bufferSink{}}, shape.body)
			if !errors.Is(err, fault.Conflict) {
				t.Errorf("other input under the same name: %v", err)
			}
		})
	}
}

// TestCommittedMeanwhile: another process commits the transaction while this one reads its input.
func TestCommittedMeanwhile(t *testing.T) {
	st := newStore(t)
	in := stream(t, "r1", 9)
	spec := Spec{Name: "evens", Verb: "pick", Store: st, Txn: "r1", Shape: Gate}
	first, again := &bufferSink{}, &bufferSink{}
	r, err := Run(t.Context(), spec, input(t, in), []Output{again}, func(ctx context.Context, b *Batch[record.URL, record.URL]) error {
		if _, err := Run(ctx, spec, input(t, in), []Output{first}, evensThenLock); err != nil {
			t.Fatal(err)
		}
		err := evensThenLock(ctx, b)
		if !errors.Is(err, fault.Busy) {
			t.Errorf("%v, want what lets a driver run the command again", err)
		}
		return errors.Join(err, nil)
	})
	if err != nil || !r.Repeated || !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Errorf("repeated %v, error %v, %d and %d bytes", r.Repeated, err, first.Len(), again.Len())
	}
}

func TestNothingStaysOfAFailure(t *testing.T) {
	broken := errors.New("body broke")
	whole := stream(t, "r1", 9)
	for name, shape := range shapes {
		for _, c := range []struct {
			name string
			in   []byte
			sink *bufferSink
			body func(context.Context, *Batch[record.URL, record.URL]) error
			want error
		}{
			{"input cut", whole[:len(whole)-1], &bufferSink{}, shape.body, fault.Upstream},
			{"input of another round", stream(t, "r2", 9), &bufferSink{}, shape.body, fault.Conflict},
			{"body fails at its end", whole, &bufferSink{}, func(ctx context.Context, b *Batch[record.URL, record.URL]) error {
				if err := shape.body(ctx, b); err != nil {
					return err
				}
				return broken
			}, broken},
			{"body stops early", whole, &bufferSink{}, func(ctx context.Context, b *Batch[record.URL, record.URL]) error {
				var row record.URL
				if err := b.Read(&row); err != nil {
					return err
				}
				b.Consume()
				return nil
			}, nil},
			{"row not accounted for", whole, &bufferSink{}, func(ctx context.Context, b *Batch[record.URL, record.URL]) error {
				var row record.URL
				for b.Read(&row) == nil {
				}
				return nil
			}, nil},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				st := newStore(t)
				before := generation(t, st)
				spec := Spec{Name: "evens", Verb: "pick", Store: st, Txn: "r1", Shape: shape.shape}
				_, err := Run(t.Context(), spec, input(t, c.in), []Output{c.sink}, c.body)
				if err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Fatalf("error %v, want %v", err, c.want)
				}
				if c.sink.published || generation(t, st) != before {
					t.Errorf("published %v, generation %d, want %d", c.sink.published, generation(t, st), before)
				}
				// The same transaction can run at once, so the lock is free.
				ok := &bufferSink{}
				spec.Store = open(t, st.Dir())
				_, err = Run(t.Context(), spec, input(t, whole), []Output{ok}, shape.body)
				must.OK(t, err)
				if urls, _ := ok.rows(t); len(urls) != 5 {
					t.Errorf("%d rows", len(urls))
				}
			})
		}
	}
}

// A sink that breaks before the commit stops it; after the commit of a spooled
// stage the rows are safe, and a repeat gives them.
func TestSinkFails(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			st := newStore(t)
			spec := Spec{Name: "evens", Verb: "pick", Store: st, Txn: "r1", Shape: shape.shape}
			if _, err := Run(t.Context(), spec, input(t, stream(t, "r1", 50000)), []Output{&bufferSink{failAfter: 20000}}, shape.body); err == nil {
				t.Fatal("no error")
			}
			ok := &bufferSink{}
			spec.Store = open(t, st.Dir())
			_, err := Run(t.Context(), spec, input(t, stream(t, "r1", 50000)), []Output{ok}, shape.body)
			must.OK(t, err)
			if urls, _ := ok.rows(t); len(urls) != 25000 {
				t.Errorf("%d rows", len(urls))
			}
		})
	}
}

func TestUnchangedCommitsNothing(t *testing.T) {
	st := newStore(t)
	before := generation(t, st)
	out := &bufferSink{}
	spec := Spec{Name: "next", Verb: "next", Store: st, Txn: "r1", Shape: Source, Now: 99}
	if _, err := Run[record.URL, record.URL](t.Context(), spec, nil, []Output{out}, func(context.Context, *Batch[record.URL, record.URL]) error {
		return Unchanged
	}); err != nil {
		t.Fatal(err)
	}
	urls, tr := out.rows(t)
	if len(urls) != 0 || !tr.Verified || !out.published || generation(t, st) != before {
		t.Errorf("%d rows, trailer %+v, published %v", len(urls), tr, out.published)
	}
	if err := tr.Ledger.Balance(); err != nil {
		t.Error(err)
	}
}

func TestWithoutStoreTheRoundPassesThrough(t *testing.T) {
	out := &bufferSink{}
	_, err := Run(t.Context(), Spec{Name: "evens"}, input(t, stream(t, "r9", 3)), []Output{out}, evens)
	must.OK(t, err)
	r, err := record.NewReader[record.URL](bytes.NewReader(out.Bytes()), record.ReaderOptions{})
	must.OK(t, err)
	if s := r.Schema(); s.Txn != "r9" || s.Now != 7 {
		t.Errorf("schema %+v", s)
	}
}

// The ledger is bounded, whatever reasons the rows of other programs bring.
func TestManyReasons(t *testing.T) {
	const n = 3 * maxReasons
	out := &bufferSink{}
	_, err := Run(t.Context(), Spec{Name: "dropper"}, input(t, stream(t, "r9", n)), []Output{out}, func(_ context.Context, b *Batch[record.URL, record.URL]) error {
		var row record.URL
		for i := 0; ; i++ {
			if err := b.Read(&row); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			switch b.Refuse(row.URL, 2); i {
			case n - 1:
				b.Drop(strings.Repeat("x", maxReason+1))
			default:
				b.Drop(row.URL)
			}
		}
	})
	must.OK(t, err)
	_, end := out.rows(t)
	s := end.Ledger.Stages[len(end.Ledger.Stages)-1]
	for name, counts := range map[string][]record.Count{"drops": s.Drops, "refused": s.Refused} {
		var all, other uint64
		for _, c := range counts {
			if all += c.N; c.Reason == ReasonOther {
				other = c.N
			} else if len(c.Reason) > maxReason {
				t.Errorf("%s: a reason of %d bytes", name, len(c.Reason))
			}
		}
		if want := map[string]uint64{"drops": n, "refused": 2 * n}[name]; len(counts) != maxReasons+1 || all != want || other == 0 {
			t.Errorf("%s: %d reasons for %d rows, %d of them other ones; want %d for %d", name, len(counts), all, other, maxReasons+1, want)
		}
	}
}

func TestSourceWithoutTxnSpools(t *testing.T) {
	st := newStore(t)
	out := &bufferSink{}
	spec := Spec{Name: "next", Verb: "next", Store: st, Shape: Source, Now: 5}
	res, err := Run[record.URL, record.URL](t.Context(), spec, nil, []Output{out}, func(_ context.Context, b *Batch[record.URL, record.URL]) error {
		if b.Now() != 5 {
			t.Errorf("now %d", b.Now())
		}
		return b.Make("due", &record.URL{URL: "http://h/", Host: "h"})
	})
	must.OK(t, err)
	if urls, tr := out.rows(t); len(urls) != 1 || tr.Ledger.Balance() != nil || res.Stage.Out != 1 {
		t.Errorf("%v %+v", urls, tr)
	}
}

func TestCancelledRunCommitsNothing(t *testing.T) {
	st := newStore(t)
	before := generation(t, st)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	out := &bufferSink{}
	_, err := Run(ctx, Spec{Name: "evens", Verb: "pick", Store: st, Txn: "r1"}, input(t, stream(t, "r1", 9)), []Output{out},
		func(ctx context.Context, b *Batch[record.URL, record.URL]) error {
			err := evens(ctx, b)
			cancel(why)
			return err
		})
	if !errors.Is(err, why) || out.published || generation(t, st) != before {
		t.Errorf("error %v, published %v", err, out.published)
	}
}

// "cat a b" of two rounds passes for neither: the schema names the first only.
func TestStreamsOfSeveralTransactionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ first, second string }{
		"another round behind it":       {"r1", "r2"},
		"a nameless one behind it":      {"r1", ""},
		"a round behind a nameless one": {"", "r2"},
	} {
		for shape, sh := range shapes {
			t.Run(name+", "+shape, func(t *testing.T) {
				st := newStore(t)
				in := input(t, append(stream(t, c.first, 3), stream(t, c.second, 2)...))
				var sink bufferSink
				_, err := Run(t.Context(), Spec{Name: "evens", Verb: "even", Store: st, Txn: "r1", Shape: sh.shape}, in, []Output{&sink}, sh.body)
				if !errors.Is(err, fault.Conflict) || sink.published || generation(t, st) != 1 {
					t.Errorf("%v, published %v, generation %d", err, sink.published, generation(t, st))
				}
			})
		}
	}
	// Without a store they are copied, and a store does not take the copy for either round.
	var mixed bufferSink
	in := input(t, append(stream(t, "r1", 3), stream(t, "r2", 2)...))
	_, err := Run(t.Context(), Spec{Name: "evens"}, in, []Output{&mixed}, evens)
	must.OK(t, err)
	if _, tr := mixed.rows(t); tr.Txn != "" || tr.Ledger.Balance() != nil {
		t.Errorf("trailer of the copy: %+v", tr)
	}
	if _, err := Run(t.Context(), Spec{Name: "evens", Verb: "even", Store: newStore(t), Txn: "r1"}, input(t, mixed.Bytes()), nil, evens); !errors.Is(err, fault.Conflict) {
		t.Errorf("a copy of two rounds as one of them: %v", err)
	}
	in = input(t, append(stream(t, "r1", 3), stream(t, "r1", 2)...))
	if _, err := Run(t.Context(), Spec{Name: "evens", Verb: "even", Store: newStore(t), Txn: "r1"}, in, nil, evens); err != nil {
		t.Errorf("two streams of one round: %v", err)
	}
}

// What no command is: a source that reads, a sink that writes, and a body that ends without the lock.
func TestShapes(t *testing.T) {
	var out bufferSink
	for name, spec := range map[string]Spec{"source with an input": {Shape: Source}, "sink with an output": {Shape: Sink}, "gate without Begin": {Shape: Gate}} {
		t.Run(name, func(t *testing.T) {
			st := newStore(t)
			spec.Name, spec.Verb, spec.Store, spec.Txn = "evens", "even", st, "r1"
			_, err := Run(t.Context(), spec, input(t, stream(t, "r1", 3)), []Output{&out}, evens)
			if err == nil || out.Len() > 0 || generation(t, st) != 1 {
				t.Errorf("%s: %v, %d bytes out, generation %d", name, err, out.Len(), generation(t, st))
			}
		})
	}
}

// A store in a crawl folder takes no rows of another epoch of the crawl; what it
// makes says of which epoch it is. Rows of none are taken anywhere, and elsewhere
// all are.
func TestRowsOfAnotherEpoch(t *testing.T) {
	ofEpoch := func(epoch string, n int) []byte {
		var b bytes.Buffer
		w, err := record.NewWriter[record.URL](&b, record.WriterOptions{Txn: "r1", Epoch: epoch})
		for i := range n {
			if err == nil {
				err = w.Write(&record.URL{URL: fmt.Sprintf("http://h/%d", i), Key: uint64(i), Host: "h"})
			}
		}
		if err == nil {
			_, err = w.Commit(record.Ledger{})
		}
		must.OK(t, err)
		return b.Bytes()
	}
	for name, shape := range shapes {
		for _, c := range []struct {
			name, out string // out "": refused
			in        []byte
		}{
			{"this epoch", "1", ofEpoch("1", 3)},
			{"no epoch", "1", ofEpoch("", 3)},
			{"an older epoch", "", ofEpoch("0", 3)},
			{"one behind another", "", append(ofEpoch("1", 3), ofEpoch("0", 3)...)},
			{"one behind none", "", append(ofEpoch("", 3), ofEpoch("0", 3)...)},
			{"this one behind none", "1", append(ofEpoch("", 3), ofEpoch("1", 3)...)},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "crawl")
				crawl, err := crawl.Init(dir, nil, []byte("# none\n"), func(string) error {
					return store.Create(filepath.Join(dir, "urls"), "urls", 1, nil, store.Options{})
				}, crawl.Options{})
				must.OK(t, err)
				if _, err := crawl.Abandon(t.Context()); err != nil { // epoch 1
					t.Fatal(err)
				}
				st, err := store.Open(filepath.Join(dir, "urls"), "urls", 1, store.Options{})
				must.OK(t, err)
				for place, st := range map[string]*store.Store{"in the crawl": st, "elsewhere": newStore(t)} {
					out := &bufferSink{}
					spec := Spec{Name: "evens", Verb: "pick", Store: st, Txn: "r1", Shape: shape.shape}
					_, err = Run(t.Context(), spec, input(t, c.in), []Output{out}, shape.body)
					if c.out == "" && place == "in the crawl" {
						if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "of the crawl, want epoch 1") || out.published {
							t.Errorf("%v, published %v", err, out.published)
						}
						continue
					}
					if err != nil {
						t.Fatalf("%s: %v", place, err)
					}
					r, err := record.NewReader[record.URL](bytes.NewReader(out.Bytes()), record.ReaderOptions{})
					must.OK(t, err)
					if got := r.Schema().Epoch; place == "in the crawl" && got != c.out {
						t.Errorf("the output is of epoch %q, want %q", got, c.out)
					}
				}
			})
		}
	}
}
