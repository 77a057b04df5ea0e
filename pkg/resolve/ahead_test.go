package resolve

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// TestAskingRunsAhead: while the first row waits for a name that is not answered, the names of
// all other windows are asked for; rows come out as they would otherwise.
func TestAskingRunsAhead(t *testing.T) {
	const windows = 8
	for name, size := range map[string]int64{"with room": 0, "room for a window": 400 << 10, "without room": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			r, s := scripted(t, 64, "4")
			var hosts []string
			live := int32(0)
			for i := range windows * windowRows {
				if i%(windowRows/2) == 0 {
					hosts = append(hosts, fmt.Sprintf("dead%d.test", i/windowRows)) // in two places each
				} else if hosts = append(hosts, fmt.Sprintf("live%d.test", i)); i%3 == 0 {
					hosts[i] = "dead0.test" // in all windows
				} else {
					live++
				}
			}
			go func() {
				for t.Context().Err() == nil && s.answered.Load() < live && size == 0 {
					time.Sleep(time.Millisecond)
				}
				for len(r.late) == 0 {
					time.Sleep(time.Millisecond)
				}
				close(s.release)
			}()
			rows, stats, err := runBatch(t, newDNSStore(t), "r1", Options{Resolver: r, Now: r.cfg.Now, ahead: size}, hosts...)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(hosts) {
				t.Fatalf("%d rows, want %d", len(rows), len(hosts))
			}
			for i := range rows {
				want := "127.0.0.1"
				if strings.HasPrefix(hosts[i], "dead") {
					want = StatusTimeout
				}
				if n, ok := rows[i].Extra.Number("place"); n != uint64(i) || !ok {
					t.Fatalf("row %d has the further column of row %d", i, n)
				}
				if u := fmt.Sprintf("http://%s/%d", hosts[i], i); rows[i].URL != u || rows[i].Addr+rows[i].AddrError != want {
					t.Fatalf("row %d: %+v, want %s %s", i, rows[i], u, want)
				}
			}
			if want := (Stats{Names: uint64(live) + windows, Asked: uint64(live) + windows, Failed: windows, Silent: windows, Special: uint64(live)}); size == 0 && stats != want {
				t.Errorf("%+v, want %+v", stats, want)
			}
		})
	}
}

// TestAhead: the ring gives back what was written, whole, and takes no more than it may.
func TestAhead(t *testing.T) {
	const size = 1000
	f, err := merge.TempFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := ahead{size: size, file: f}
	defer a.Close()
	type piece struct {
		away
		text []byte
	}
	var waiting []piece
	for i := range 2000 {
		text := bytes.Repeat([]byte{byte(i)}, 1+rand.IntN(300))
		_, err := a.WriteAt(text, a.tail)
		if room := a.tail-a.head+int64(len(text)) <= size; room != (err == nil) {
			t.Fatalf("%d bytes beside %d: %v", len(text), a.tail-a.head, err)
		}
		if err == nil {
			waiting = append(waiting, piece{away{at: a.tail, length: int64(len(text))}, text})
			a.tail += int64(len(text))
			continue
		}
		got := make([]byte, waiting[0].length)
		if _, err := a.ReadAt(got, waiting[0].at); err != nil || !bytes.Equal(got, waiting[0].text) {
			t.Fatalf("%v: %v, want %v", err, got, waiting[0].text)
		}
		a.free(&waiting[0].away)
		waiting = waiting[1:]
	}
	if info, err := f.Stat(); err != nil || info.Size() > size {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

// TestAheadOnAFullDisk: the window stays in memory.
func TestAheadOnAFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs /dev/full, a disk that is always full: ", err)
	}
	r := &batch[record.URL]{ahead: ahead{size: maxAhead, file: f}}
	defer r.ahead.Close()
	w := &window[record.URL]{rows: make([]record.URL, 1), lookups: []*lookup{{}}}
	if err := r.putAway(w); err != nil || !r.ahead.full || w.away != nil || len(w.rows) != 1 {
		t.Errorf("%v, %+v", err, w)
	}
}
