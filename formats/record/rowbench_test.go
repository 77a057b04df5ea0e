package record

import (
	"bytes"
	"fmt"
	"io"
	"testing"
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

func benchLinks(n int) []Link {
	var rows []Link
	for _, u := range benchURLs(n) {
		rows = append(rows, Link{SrcURL: u.Via, SrcKey: u.Key * 3, URL: u.URL, Key: u.Key, Host: u.Host, LinkKind: "a", Text: "an article", Depth: u.Depth, Discovered: u.Discovered})
	}
	return rows
}

func benchFetches(n int) []Fetch {
	var rows []Fetch
	for _, u := range benchURLs(n) {
		rows = append(rows, Fetch{URL: u.URL, Key: u.Key, Host: u.Host, Depth: u.Depth, Via: u.Via, Discovered: u.Discovered, Addr: u.Addr, Role: RolePage, FetchTime: u.Discovered + 7,
			DurationUS: 12345, RequiredDelayUS: 1000000, Outcome: OutcomeFetched, Status: 200, MIME: "text/html", Charset: "utf-8", BodyLength: 40000, ContentFP: u.Key * 5,
			PayloadSHA1: "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", WARCFilename: "warc/000001-0.warc.gz", WARCOffset: 300000, WARCLength: 20000})
	}
	return rows
}

// BenchmarkRow is one row read, written, hashed, and in its byte form.
func BenchmarkRow(b *testing.B) {
	b.Run("url", func(b *testing.B) { benchRow(b, benchURLs(8192)) })
	b.Run("fetch", func(b *testing.B) { benchRow(b, benchFetches(8192)) })
	b.Run("link", func(b *testing.B) { benchRow(b, benchLinks(8192)) })
}

func benchRow[T Row](b *testing.B, rows []T) {
	stream := encode(b, rows, WriterOptions{})
	b.Run("Read", func(b *testing.B) {
		for n := 0; n < b.N; {
			r, err := NewReader[T](bytes.NewReader(stream), ReaderOptions{})
			if err != nil {
				b.Fatal(err)
			}
			var row T
			for ; err == nil && n < b.N; n++ {
				err = r.Read(&row)
			}
			if err != nil && err != io.EOF {
				b.Fatal(err)
			}
		}
	})
	b.Run("Write", func(b *testing.B) {
		w, err := NewWriter[T](io.Discard, WriterOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range b.N {
			if err := w.Write(&rows[i%len(rows)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Hash", func(b *testing.B) {
		var h RowHasher[T]
		for i := range b.N {
			h.Add(&rows[i%len(rows)])
		}
		h.Sum()
	})
	var all []string
	size := 0
	for i := range rows {
		all = append(all, string(AppendRow(nil, &rows[i])))
		size += len(all[i])
	}
	b.Run("Append", func(b *testing.B) {
		var buf []byte
		for i := range b.N {
			buf = AppendRow(buf[:0], &rows[i%len(rows)])
		}
		b.ReportMetric(float64(size)/float64(len(rows)), "bytes/row")
	})
	b.Run("Parse", func(b *testing.B) {
		var row T
		b.ReportAllocs()
		for i := range b.N {
			if _, err := ParseRow(all[i%len(all)], &row, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
