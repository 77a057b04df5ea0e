package run

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// urls are payloads as a queue has them, over 1,000 hosts, three of one key.
func urls(n int) (rows []row) {
	for i := range n {
		host := fmt.Sprintf("www.h%d.example", i*7919%1000)
		rows = append(rows, row{uint64(i / 3), fmt.Sprintf("\x03http://%s/docs/part%d/%d.html\x01http://%s/docs/part%d/", host, i%7, i, host, i%7)})
	}
	return rows
}

func perRow(b *testing.B, rows int) {
	b.ReportAllocs()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func BenchmarkWrite(b *testing.B) {
	rows := urls(100_000)
	for name, plain := range map[string]bool{"packed": false, "plain": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var options []func(*Writer)
				if plain {
					options = append(options, (*Writer).Plain)
				}
				encode(b, rows, options...)
			}
			perRow(b, len(rows))
		})
	}
}

func BenchmarkRead(b *testing.B) {
	rows := urls(100_000)
	for name, options := range map[string][]func(*Writer){"packed": nil, "plain": {(*Writer).Plain}} {
		file := encode(b, rows, options...)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := open(b, file).Scan(Start)
				var err error
				for err == nil {
					_, _, err = s.Next()
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
			perRow(b, len(rows))
			b.ReportMetric(float64(len(file))/float64(len(rows)), "B/row")
		})
	}
}

// A table of which one row in ten is asked for.
func BenchmarkSeek(b *testing.B) {
	const n, every = 200_000, 10
	var rows []row
	for i := range uint64(n) {
		rows = append(rows, row{i*(1<<64/n) + i*7919%(1<<40), fmt.Sprintf("www.h%d.example\x01\x02\x03\x04\x05\x06 10.0.%d.%d:80", i*7919%n, i%100, i%256)})
	}
	file := encode(b, rows)
	for b.Loop() {
		s := open(b, file).Scan(Start)
		for i := 0; i < n; i += every {
			if key, payload, err := s.Seek(rows[i].key); err != nil || key != rows[i].key || !bytes.HasPrefix(payload, []byte("www")) {
				b.Fatal(err)
			}
		}
	}
	perRow(b, n)
}
