package fetch

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
)

// TestPayloadsAreFoundAgain: over many rounds with little memory each payload is
// found where it was noted first, and the runs stay few. A round that is given up
// leaves nothing.
func TestPayloadsAreFoundAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fetch")
	must.OK(t, CreateStore(dir, "", store.Options{}))
	rnd := rand.New(rand.NewPCG(1, 2))
	row := func(n int) *record.Fetch {
		return &record.Fetch{URL: fmt.Sprintf("http://h%d.test/", n), FetchTime: record.Time(1000 + n), PayloadSHA1: warc.Base32SHA1(sha1.Sum(fmt.Append(nil, n))),
			WARCFilename: fmt.Sprintf("crawl-%06d-0.warc.gz", n%7), WARCOffset: int64(n)}
	}
	known := map[int]string{} // URL that was first
	for round := range 25 {
		st, err := store.Open(dir, Kind, Version, store.Options{})
		must.OK(t, err)
		tx, _, err := st.Begin(t.Context(), "fetch", fmt.Sprint("r", round))
		must.OK(t, err)
		p, err := openPayloads(st, tx)
		must.OK(t, err)
		p.max = 16
		if n := len(p.known.runs); n > 8 {
			t.Errorf("round %d: %d runs for %d payloads", round, n, len(known))
		}
		givenUp := round%5 == 4
		var added []int
		for range 100 {
			n := rnd.IntN(4000)
			digest, _ := payloadDigest(row(n))
			got, found, err := p.find(digest)
			if err != nil || found != (known[n] != "") || got.url != known[n] {
				t.Fatalf("round %d, payload %d: %+v, %v; want %q", round, n, got, err, known[n])
			}
			if want := row(n); found && (got.date != want.FetchTime || got.file != want.WARCFilename || got.offset != want.WARCOffset) {
				t.Fatalf("payload %d is at %+v", n, got)
			}
			if !found {
				known[n] = row(n).URL
				added = append(added, n)
				must.OK(t, p.addPayload(row(n)))
				again := *row(n)
				again.URL = "http://later.test/" // a later one does not count
				must.OK(t, p.addPayload(&again))
			}
			if len(p.fresh) >= p.max {
				t.Fatalf("%d payloads in memory, want fewer than %d", len(p.fresh), p.max)
			}
		}
		if givenUp {
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := p.commit(cancelled); !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled commit: %v", err)
			}
			p.close()
			tx.Abort()
			for _, n := range added {
				delete(known, n)
			}
			continue
		}
		must.OK(t, p.commit(t.Context()))
		_, err = tx.Commit(0, "", record.Ledger{})
		must.OK(t, err)
		p.close()
	}
}
