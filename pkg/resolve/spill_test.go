package resolve

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
)

// TestAskingRunsAhead: while the first row waits for a name that is not answered, the names of
// all other blocks are asked for; rows come out as they would otherwise.
func TestAskingRunsAhead(t *testing.T) {
	const blocks = 8
	for name, size := range map[string]int64{"with room": 0, "room for a block": 400 << 10, "without room": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			r, s := scripted(t, 64, "4")
			var hosts []string
			live := int32(0)
			for i := range blocks * blockRows {
				if i%(blockRows/2) == 0 {
					hosts = append(hosts, fmt.Sprintf("dead%d.test", i/blockRows)) // in two places each
				} else if hosts = append(hosts, fmt.Sprintf("live%d.test", i)); i%3 == 0 {
					hosts[i] = "dead0.test" // in all blocks
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
			rows, stats, err := runBatch(t, newDNSStore(t), "r1", Options{Resolver: r, Now: r.cfg.Now, spill: size}, hosts...)
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
			if want := (Stats{Names: uint64(live) + blocks, Asked: uint64(live) + blocks, Failed: blocks, Silent: blocks, Special: uint64(live)}); size == 0 && stats != want {
				t.Errorf("%+v, want %+v", stats, want)
			}
		})
	}
}

// TestSpillOnAFullDisk: the block stays in memory, until another has gone out.
func TestSpillOnAFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs /dev/full, a disk that is always full: ", err)
	}
	r := &batch[record.URL]{learnt: newLearnt(nil), opt: Options{Memory: 1 << 30}, spill: spill{size: maxSpill, file: f}}
	defer r.spill.Close()
	for range 2 {
		r.queue = append(r.queue, &block{rows: strings.Repeat("x", memoryRows)})
		r.memory += memoryRows
	}
	if room, err := r.room(); room || err != nil || !r.spill.full || r.queue[1].rows == "" {
		t.Errorf("room: %t, %v, %+v", room, err, r.spill)
	}
}

// TestSpillIsBegunAgain: the file is no longer than its bound, and a block, and what waits there
// comes back as it was.
func TestSpillIsBegunAgain(t *testing.T) {
	s := spill{size: 64 << 10}
	defer s.Close()
	put := 0
	for range 10 {
		var queue []*block
		for {
			w := &block{rows: strings.Repeat(string([]byte{byte(put)}), 1000)}
			if err := s.put(w); err != nil {
				t.Fatal(err)
			}
			if w.rows != "" {
				break
			}
			queue = append(queue, w)
			put++
		}
		if info, err := s.file.Stat(); err != nil || info.Size() > s.size+1000 || len(queue) < 50 {
			t.Fatalf("%d bytes, %d blocks, %v", info.Size(), len(queue), err)
		}
		for i, w := range queue {
			err := s.back(w)
			if n := put - len(queue) + i; err != nil || len(w.rows) != 1000 || w.rows[0] != byte(n) || w.rows[999] != byte(n) {
				t.Fatalf("block %d: %v", n, err)
			}
		}
	}
}
