package crawl

import (
	"io"
	"testing"

	"mercator/pkg/base/must"
)

// TestInboxNumbers: a number that was taken in is not given again, whatever was moved away meanwhile.
func TestInboxNumbers(t *testing.T) {
	fsys := testCrawl(t)
	c, err := Open("/c", Options{FS: fsys})
	must.OK(t, err)
	put := func(want uint64) {
		t.Helper()
		number, err := c.PutInbox(ctx, func(w io.Writer) error { return nil })
		if err != nil || number != want {
			t.Errorf("number %d, %v, want %d", number, err, want)
		}
	}
	put(1)
	wholeRound(t, fsys, "seed")
	wholeRound(t, fsys, "r1")
	wholeRound(t, fsys, "r2")
	put(4)
	put(5)
	must.OK(t, c.DropInbox(1), c.DropInbox(4)) // by hand
	wholeRound(t, fsys, "add5")
	must.OK(t, c.DropInbox(5))
	put(6)
	must.OK(t, c.DropInbox(6))
	wholeRound(t, fsys, "again6")
	must.OK(t, gc(fsys, 1))
	put(7)
	must.OK(t, c.DropInbox(7))
	for i, dir := range []string{"add11", "undone/again12.3", "address99", "r40", "undone/r41.0"} {
		must.OK(t, fsys.MkdirAll("/c/rounds/"+dir, 0o777))
		put([]uint64{12, 13, 14, 15, 16}[i])
	}
}
