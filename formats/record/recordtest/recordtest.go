// Package recordtest writes and reads record files, and has inputs and outputs of stages in memory. Tests alone import it.
package recordtest

import (
	"bytes"
	"io"
	"os"
	"testing"

	"mercator/formats/record"
)

// File makes a record file of rows and returns its path. like may be nil.
func File[T record.Row](t testing.TB, path string, like *record.Schema, rows ...T) string {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	Write(t, out, record.WriterOptions{Name: path, Like: like}, rows...)
	return path
}

// Write writes a record stream of rows, without a ledger.
func Write[T record.Row](t testing.TB, out io.Writer, o record.WriterOptions, rows ...T) {
	t.Helper()
	if _, err := writer(t, out, o, rows).Commit(record.Ledger{}); err != nil {
		t.Fatal(err)
	}
}

func writer[T record.Row](t testing.TB, out io.Writer, o record.WriterOptions, rows []T) *record.Writer[T] {
	t.Helper()
	w, err := record.NewWriter[T](out, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Stream is a record stream of rows, as a stage writes it that made them.
func Stream[T record.Row](t testing.TB, o record.WriterOptions, rows ...T) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := writer(t, &b, o, rows)
	n, hash, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	made := record.Stage{Name: "test", Txn: o.Txn, Out: n, OutHash: hash.String()}
	if n > 0 {
		made.Made = []record.Count{{Reason: "test", N: n}}
	}
	if _, err := w.Commit(record.Ledger{Stages: []record.Stage{made}}); err != nil {
		t.Fatal(err)
	}
	return &b
}

// Reader opens a record stream.
func Reader[T record.Row](t testing.TB, in io.Reader) *record.Reader[T] {
	t.Helper()
	r, err := record.NewReader[T](in, record.ReaderOptions{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rows reads a record stream, to its end.
func Rows[T record.Row](t testing.TB, in io.Reader) (rows []T, end record.Trailer) {
	t.Helper()
	r := Reader[T](t, in)
	if err := record.Each(r, func(row *T) error { rows = append(rows, *row); return nil }); err != nil {
		t.Fatal(err)
	}
	return rows, r.Trailer()
}

// Input gives rows in memory to a stage.
type Input[T record.Row] struct {
	All        []T
	Of         record.Schema // the schema of the rows; its Txn is also the trailer's
	Unverified bool          // the trailer is not one of a stream that was read to its end
	at         int
}

// In is an input of a transaction.
func In[T record.Row](txn string, rows ...T) *Input[T] {
	return &Input[T]{All: rows, Of: record.Schema{Txn: txn}}
}

func (in *Input[T]) Schema() *record.Schema { return &in.Of }
func (in *Input[T]) Trailer() record.Trailer {
	return record.Trailer{Verified: !in.Unverified, Rows: uint64(len(in.All)), Txn: in.Of.Txn}
}
func (in *Input[T]) Read(row *T) error {
	if in.at == len(in.All) {
		return io.EOF
	}
	*row = in.All[in.at]
	in.at++
	return nil
}

// Output keeps a stage's output in memory.
type Output struct{ bytes.Buffer }

func (*Output) Options() record.WriterOptions { return record.WriterOptions{Name: "output"} }
func (*Output) Publish() error                { return nil }
func (*Output) Abort()                        {}
