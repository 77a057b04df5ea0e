package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// copied writes n url rows at a level, and copies the stream to another.
func copied(t *testing.T, n int, from, to WriterOptions, damage func([]byte) []byte) (in, out bytes.Buffer, ok bool, err error) {
	t.Helper()
	w, err := NewWriter[URL](&in, from)
	must.OK(t, err)
	for i := range n {
		must.OK(t, w.Write(&URL{URL: fmt.Sprintf("http://a.test/%d", i), Key: uint64(i), Host: "a.test", Discovered: Time(i)}))
	}
	_, err = w.Commit(Ledger{Stages: []Stage{{Name: "test", Out: uint64(n)}}})
	must.OK(t, err)
	data := in.Bytes()
	if damage != nil {
		data = damage(bytes.Clone(data))
	}
	src, err := Open(bytes.NewReader(data), ReaderOptions{Name: "in"})
	must.OK(t, err)
	c, err := NewWriter[URL](&out, to)
	must.OK(t, err)
	trailer, ok, err := c.CopyFrom(src)
	if err != nil || !ok {
		if _, cerr := c.Commit(Ledger{}); err != nil && cerr == nil {
			t.Error("a trailer after a copy that failed")
		}
		return in, out, ok, err
	}
	if len(trailer.Ledger.Stages) != 1 {
		t.Errorf("ledger %+v", trailer.Ledger)
	}
	c2, err := NewWriter[URL](io.Discard, to)
	must.OK(t, err)
	if _, ok, err := c2.CopyFrom(src); ok || err != nil {
		t.Errorf("a stream that was read is copied: %v, %v", ok, err)
	}
	_, err = c.Commit(trailer.Ledger)
	must.OK(t, err)
	if err := c.Write(&URL{}); err == nil {
		t.Error("a row behind a copied stream")
	}
	return in, out, ok, nil
}

// TestPackMin: short contents are stored, others compressed.
func TestPackMin(t *testing.T) {
	content := make([]byte, packMin)
	if got := appendPacked(nil, content[1:]); !bytes.Equal(got, appendStored(nil, content[1:])) {
		t.Errorf("%d bytes of %d, or not stored", len(got), len(content)-1)
	}
	if got := appendPacked(nil, content); len(got) > packMin/10 {
		t.Errorf("%d bytes of %d zeros", len(got), len(content))
	}
}

// TestCopyFrom: a copy has the bytes that writing the same rows at that level gives.
func TestCopyFrom(t *testing.T) {
	for _, n := range []int{0, 1, 20_000} {
		for _, from := range []Level{Stored, Fast} {
			for _, to := range []WriterOptions{{Level: Stored}, {Level: Fast}, {Level: Fast, Threads: 3}} {
				t.Run(fmt.Sprint(n, from, to.Level, to.Threads), func(t *testing.T) {
					_, out, ok, err := copied(t, n, WriterOptions{Level: from, Txn: "r1", Now: 7}, WriterOptions{Level: to.Level, Threads: to.Threads, Txn: "r1", Now: 7}, nil)
					if !ok || err != nil {
						t.Fatal(ok, err)
					}
					want, _, _, _ := copied(t, n, WriterOptions{Level: to.Level, Txn: "r1", Now: 7}, WriterOptions{}, nil)
					if !bytes.Equal(out.Bytes(), want.Bytes()) {
						t.Errorf("%d bytes, want %d, or other ones", out.Len(), want.Len())
					}
				})
			}
		}
	}
}

// TestCopyFromOther: streams that differ in more than their level are left to be
// read row by row.
func TestCopyFromOther(t *testing.T) {
	for _, to := range []WriterOptions{{Txn: "r2"}, {Txn: "r1", Now: 1}, {Level: Bare, Txn: "r1"}} {
		t.Run(fmt.Sprint(to.Level, " ", to.Txn), func(t *testing.T) {
			if _, _, ok, err := copied(t, 3, WriterOptions{Txn: "r1"}, to, nil); ok || err != nil {
				t.Errorf("%+v: %v, %v", to, ok, err)
			}
		})
	}
}

// TestCopyFromDamaged: no bit flips and no cut behind the schema goes unnoticed.
func TestCopyFromDamaged(t *testing.T) {
	for _, level := range []Level{Stored, Fast} {
		in, _, _, _ := copied(t, 50, WriterOptions{Level: level}, WriterOptions{Level: level}, nil)
		schema := 4 + bytes.Index(in.Bytes()[4:], in.Bytes()[:4]) // the next frame
		for at := schema; at < in.Len(); at += 5 {
			for name, damage := range map[string]func([]byte) []byte{
				"flip": func(b []byte) []byte { b[at] ^= 1 << (at % 8); return b },
				"cut":  func(b []byte) []byte { return b[:at] },
			} {
				if _, _, ok, err := copied(t, 50, WriterOptions{Level: level}, WriterOptions{Level: level}, damage); !ok || err == nil {
					t.Fatalf("level %d, %s at byte %d: %v, %v", level, name, at, ok, err)
				} else if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Truncated) && !errors.Is(err, fault.Version) {
					t.Fatalf("level %d, %s at byte %d: %v", level, name, at, err)
				}
			}
		}
	}
}

// ReadTrailer and Skip give what reading all rows gives, and refuse a stream that was cut or changed anywhere.
func TestReadTrailer(t *testing.T) {
	for name, file := range goodVectors(t) {
		want, _, err := readAny(bytes.NewReader(file), ReaderOptions{})
		must.OK(t, err)
		skipped, err := skipAny(bytes.NewReader(file))
		if name == "two-streams" {
			skipped.Hash = want.Hash // which it cannot know
		}
		if err != nil || !reflect.DeepEqual(skipped, want) {
			t.Errorf("%s: %v, skipped %+v, want %+v", name, err, skipped, want)
		}
		got, err := ReadTrailer(bytes.NewReader(file), ReaderOptions{Name: name})
		switch {
		case name == "bare":
			if fault.ClassOf(err) != fault.Truncated {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case err != nil || name != "two-streams" && (got.Rows != want.Rows || got.Hash != want.Hash):
			t.Errorf("%s: %v, %d rows, want %d", name, err, got.Rows, want.Rows)
		}
		if name == "two-streams" {
			continue
		}
		for n := range file {
			if _, err := ReadTrailer(bytes.NewReader(file[:n]), ReaderOptions{}); fault.ClassOf(err).ExitCode() != 3 {
				t.Fatalf("%s cut to %d bytes: %v", name, n, err)
			}
			if _, err := skipAny(bytes.NewReader(file[:n])); fault.ClassOf(err).ExitCode() != 3 {
				t.Fatalf("%s cut to %d bytes, skipped: %v", name, n, err)
			}
			bad := bytes.Clone(file)
			bad[n] ^= 4
			if _, err := ReadTrailer(bytes.NewReader(bad), ReaderOptions{}); fault.ClassOf(err).ExitCode() != 3 {
				t.Fatalf("%s damaged at byte %d: %v", name, n, err)
			}
		}
	}
}

// TestSkipEnds: Skip fails with the cause of its context.
func TestSkipEnds(t *testing.T) {
	stop := errors.New("stop")
	for _, level := range []Level{Stored, Fast, Bare} {
		in, _, _, _ := copied(t, 10, WriterOptions{Level: level}, WriterOptions{}, func(b []byte) []byte { return b })
		r, err := NewReader[URL](bytes.NewReader(in.Bytes()), ReaderOptions{})
		must.OK(t, err)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(stop)
		if err := r.Skip(ctx); err != stop {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

// skipAny skips a stream of whatever kind.
func skipAny(in io.Reader) (Trailer, error) {
	s, err := Open(in, ReaderOptions{})
	if err != nil {
		return Trailer{}, err
	}
	return ByKind(s.Kind(), skip[URL], skip[Fetch], skip[Link], skip[Module])(s)
}

func skip[T Row](s *Source) (Trailer, error) {
	r, err := Rows[T](s)
	if err == nil {
		err = r.Skip(context.Background())
	}
	if err != nil {
		return Trailer{}, err
	}
	return r.Trailer(), nil
}
