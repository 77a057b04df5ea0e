package segment

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/fingerprint"
)

// Reading a queue back, row by row, and a row by itself.
func BenchmarkRead(b *testing.B) {
	const n = 100_000
	var out bytes.Buffer
	w := NewWriter[Entry](&out, "bench", 0)
	var e Entry
	for i := range n {
		host := fmt.Sprintf("www.h%d.example", i*7919%1000)
		via := fmt.Sprintf("http://%s/docs/part%d/", host, i%7)
		u := fmt.Sprintf("%s%d.html", via, i)
		e = Entry{Key: uint64(i / 3), URL: record.URL{URL: u, Host: host, Key: fingerprint.URLKey(host, u), Via: via, Depth: 3, Discovered: 1_700_000_000_000_000 + record.Time(i)}}
		if err := w.Add(&e); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	b.Run("segment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := Open[Entry](bytes.NewReader(out.Bytes()), int64(out.Len()), "bench")
			if err != nil {
				b.Fatal(err)
			}
			s := r.Scan(Start)
			for err = s.Next(&e); err == nil; err = s.Next(&e) {
			}
			if err != io.EOF {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
	})
	b.Run("row", func(b *testing.B) {
		b.ReportAllocs()
		var c RowCoder[Entry]
		row := c.Append(nil, &e)
		for b.Loop() {
			if err := c.Decode(row, &e); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A table of hosts, half of which were contacted, of which one in ten is asked for.
func BenchmarkPass(b *testing.B) {
	const n, every = 200_000, 10
	var out bytes.Buffer
	w := NewWriter[Host](&out, "bench", Spreads)
	var orders []uint64
	for i := range uint64(n) {
		h := Host{Key: i*(1<<64/n) + i*7919%(1<<40), Host: fmt.Sprintf("www.h%d.example", i*7919%n), Discovered: i * i % 300, Last: []LevelPlace{{0, i * i % 3000}}}
		if i%2 == 0 {
			h.Finished, h.Fetched, h.Contacts = 1+i%7, i%7, 1+i%8
			h.DurationUS, h.SpreadUS, h.DelayUS = 100_000+i%1000, 5_000+i%777, 1_000_000
			h.LastContact, h.Addr = record.Time(1_700_000_000_000_000+i*i%(1<<40)), fmt.Sprintf("10.0.%d.%d:80", i%100, i%256)
		}
		if err := w.Add(&h); err != nil {
			b.Fatal(err)
		}
		if i%every == 0 {
			orders = append(orders, h.Key)
		}
	}
	if _, err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var h Host
	for b.Loop() {
		r, err := Open[Host](bytes.NewReader(out.Bytes()), int64(out.Len()), "bench")
		if err != nil {
			b.Fatal(err)
		}
		s := r.Scan(Start)
		for _, order := range orders {
			if err := s.Seek(order, &h); err != nil || h.Key != order {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
}
