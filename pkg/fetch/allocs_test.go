package fetch_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/warc"
)

// TestAllocations: what a page costs in a steady state, robots and WARC included,
// is the difference between a batch and one twice as long.
func TestAllocations(t *testing.T) {
	port := pageServer(t, strings.Repeat("<p>text\n", 1500))
	mallocs := func(pages int) uint64 {
		urls := make([]record.URL, pages)
		for i := range urls {
			urls[i] = url(fmt.Sprintf("http://h%d.test:%s/%d", i%16, port, i))
			urls[i].Addr = "127.0.0.1"
		}
		opt := options(newStore(t), loopback(t))
		opt.Codec, opt.Connections = warc.Gzip, 16
		in := stream(t, "r1", urls)
		opt.Txn, opt.Schema = "r1", in.Schema()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		drain(t, opt, in)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	const pages = 1500
	mallocs(pages) // fills the pools
	least := 1e9
	for range 5 { // a collection empties them
		least = min(least, (float64(mallocs(2*pages))-float64(mallocs(pages)))/pages)
		if least <= 20 {
			break
		}
	}
	t.Logf("%.1f allocations a page", least)
	if least > 20 {
		t.Errorf("%.1f allocations a page, want at most 20", least)
	}
}
