package urlset_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/folder/stage"
	"mercator/pkg/urlset"
)

// nowhere is a pipe whose reader takes all at once.
type nowhere struct{ io.Writer }

func (nowhere) Options() record.WriterOptions { return record.WriterOptions{Name: "pipe"} }
func (nowhere) Publish() error                { return nil }
func (nowhere) Abort()                        {}

// crawlLinks makes the links of pages: runs of 30 of one page, mostly to its own
// host, a third of them to URLs that many pages name.
func crawlLinks(n int) []record.Link {
	rnd := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rnd, 1.1, 10, uint64(n))
	links := make([]record.Link, n)
	for i := range links {
		page := i / 30
		host := fmt.Sprintf("h%d.example.test", page%1000)
		url := fmt.Sprintf("http://%s/folder/%d/page-%d.html", host, page%77, i)
		if i%3 == 0 {
			host = fmt.Sprintf("h%d.example.test", zipf.Uint64()%1000)
			url = fmt.Sprintf("http://%s/popular/%d.html", host, zipf.Uint64())
		}
		links[i] = link(url, i)
		links[i].Host = host
		links[i].SrcURL = fmt.Sprintf("http://h%d.example.test/folder/%d/index.html", page%1000, page)
		links[i].Discovered = record.Time(page + 1)
		links[i].Depth, links[i].Score = uint16(page%7), 0
	}
	return links
}

// BenchmarkNew is the whole stage, from encoded links to encoded url rows; the
// set is empty, so that two rows of three go on. BenchmarkRecords reads and
// writes the same streams and does nothing else.
func BenchmarkNew(b *testing.B) {
	in := stream(b, crawlLinks(200_000)).Bytes()
	b.SetBytes(int64(len(in)))
	for range b.N {
		st := newStore(b)
		r, err := record.NewReader[record.Link](bytes.NewReader(in), record.ReaderOptions{Name: "links"})
		if err != nil {
			b.Fatal(err)
		}
		spec := stage.Spec{Name: "murlset new", Verb: "new", Store: st, Shape: stage.Gate}
		_, err = stage.Run(context.Background(), spec, r, []stage.Output{nowhere{io.Discard}}, func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
			_, err := urlset.New(ctx, st, b, urlset.Options[record.Link]{Convert: urlset.FromLink, Cache: urlset.CacheSize, Memory: 32 << 20, Progress: func(int64) {}})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(200_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkRecords(b *testing.B) {
	in := stream(b, crawlLinks(200_000)).Bytes()
	b.SetBytes(int64(len(in)))
	for range b.N {
		r, err := record.NewReader[record.Link](bytes.NewReader(in), record.ReaderOptions{Name: "links"})
		if err != nil {
			b.Fatal(err)
		}
		spec := stage.Spec{Name: "murlset new"}
		_, err = stage.Run(context.Background(), spec, r, []stage.Output{nowhere{io.Discard}}, func(ctx context.Context, b *stage.Batch[record.Link, record.URL]) error {
			var in record.Link
			var row record.URL
			known := map[uint64]bool{}
			for {
				if err := b.Read(&in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if known[in.Key] {
					b.Drop("seen")
					continue
				}
				known[in.Key] = true
				urlset.FromLink(&in, &row)
				if err := b.Pass(&row); err != nil {
					return err
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(200_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
