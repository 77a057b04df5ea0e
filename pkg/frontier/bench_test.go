package frontier

import (
	"fmt"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable/crashtest"
)

// A round of 10,000 URLs and as many new ones, on frontiers of growing size:
// its time must not follow the frontier's.
func BenchmarkRound(b *testing.B) {
	const batch = 10_000
	for _, size := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := open(b, crashtest.New(), Params{})
			serial := 0
			fresh := func(n int) (urls []record.URL) {
				for range n {
					urls = append(urls, newURL(fmt.Sprintf("h%d.test", serial*serial%(size/100)), fmt.Sprint(serial), 0))
					serial++
				}
				return urls
			}
			for range 10 {
				if err := f.add("", fresh(size/10)...); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				txn := fmt.Sprintf("r%d", serial)
				urls, err := f.next(1, NextOptions{N: batch, Txn: txn})
				if err != nil {
					b.Fatal(err)
				}
				outcomes := make([]record.Fetch, len(urls))
				for i, u := range urls {
					outcomes[i] = fetchOf(u, record.OutcomeFetched, 200, 1)
				}
				if err := f.update(txn, 1, outcomes, fresh(batch)...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "URLs/s")
		})
	}
}

// A URL's payload, there and back.
func BenchmarkEntry(b *testing.B) {
	u := newURL("www.h17.example", "docs/part3/123456.html", 0)
	u.Via, u.Depth, u.Discovered = "http://www.h17.example/docs/part3/", 3, 1_700_000_000_000_000
	e := Entry{Key: 5, URL: u}
	payload := e.Append(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			payload = e.Append(payload[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := e.Parse(5, payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
