// Package recordtest writes and reads record files. Tests alone import it.
package recordtest

import (
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

// Write writes a record stream of rows.
func Write[T record.Row](t testing.TB, out io.Writer, o record.WriterOptions, rows ...T) {
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
	if _, err := w.Commit(record.Ledger{}); err != nil {
		t.Fatal(err)
	}
}

// Rows reads a record stream, to its end.
func Rows[T record.Row](t testing.TB, in io.Reader) (rows []T, end record.Trailer) {
	t.Helper()
	r, err := record.NewReader[T](in, record.ReaderOptions{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Each(r, func(row *T) error { rows = append(rows, *row); return nil }); err != nil {
		t.Fatal(err)
	}
	return rows, r.Trailer()
}
