package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// benchURLs are rows as a frontier hands them out: about 190 bytes of Arrow each.
func benchURLs(n int) []URL {
	rows := make([]URL, n)
	for i := range rows {
		host := fmt.Sprintf("www%d.example%d.com", i%7, i%997)
		rows[i] = URL{
			URL: fmt.Sprintf("http://%s/section/%d/article-%d.html", host, i%31, i), Key: uint64(i) * 0x9E3779B97F4A7C15, Host: host,
			Priority: uint8(i % 3), Score: float32(i%100) / 100, Depth: uint16(i % 9), Via: "http://" + host + "/section/",
			Discovered: 1790000000000000 + Time(i), Addr: "192.0.2.17", AddrExpires: 1790000300000000,
		}
	}
	return rows
}

// widePipe is a pipe of 1 MiB, as commands make theirs.
func widePipe(b *testing.B) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	return r, w
}

// BenchmarkPipe writes rows at one end of a pipe and reads them at the other.
// One op is one row; compare Record with JSON.
func BenchmarkPipe(b *testing.B) {
	rows := benchURLs(20000)
	b.Run("Record", func(b *testing.B) {
		benchPipe(b, rows, func(out io.Writer) (func(*URL) error, func() error) {
			w, err := NewWriter[URL](out, WriterOptions{})
			if err != nil {
				b.Fatal(err)
			}
			return w.Write, func() error { _, err := w.Commit(Ledger{}); return err }
		}, func(in io.Reader) func(*URL) error {
			r, err := NewReader[URL](in, ReaderOptions{})
			if err != nil {
				return func(*URL) error { return err }
			}
			return r.Read
		})
	})
	b.Run("JSON", func(b *testing.B) {
		benchPipe(b, rows, func(out io.Writer) (func(*URL) error, func() error) {
			buf := bufio.NewWriterSize(out, 1<<16)
			enc := json.NewEncoder(buf)
			return func(row *URL) error { return enc.Encode(row) }, buf.Flush
		}, func(in io.Reader) func(*URL) error {
			dec := json.NewDecoder(bufio.NewReaderSize(in, 1<<16))
			return func(row *URL) error { return dec.Decode(row) }
		})
	})
}

func benchPipe(b *testing.B, rows []URL, writer func(io.Writer) (write func(*URL) error, end func() error), reader func(io.Reader) func(*URL) error) {
	pr, pw := widePipe(b)
	done := make(chan error)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		defer close(done)
		defer pw.Close()
		write, end := writer(pw)
		for i := range b.N {
			if err := write(&rows[i%len(rows)]); err != nil {
				done <- err
				return
			}
		}
		if err := end(); err != nil {
			done <- err
		}
	}()
	read := reader(pr)
	n, bytes := 0, 0
	for {
		var row URL
		err := read(&row)
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		n++
		bytes += len(row.URL) + len(row.Host)
	}
	if err := <-done; err != nil || n != b.N || bytes == 0 {
		b.Fatalf("%d of %d rows, %v", n, b.N, err)
	}
	pr.Close()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
