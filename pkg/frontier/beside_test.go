package frontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// What is read beside the taking comes in order, ends as its input ends, and has ended when eachRead returns.
func TestEachRead(t *testing.T) {
	bad, full := errors.New("bad input"), errors.New("full")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(full)
	for _, c := range []struct {
		name  string
		ctx   context.Context
		rows  int   // of the input
		end   error // of the input
		limit int   // rows that are taken
		taken int
		want  error
	}{
		{"nothing", context.Background(), 0, io.EOF, 1e6, 0, nil},
		{"a buffer", context.Background(), readRows, io.EOF, 1e6, readRows, nil},
		{"all", context.Background(), 10*readRows + 1, io.EOF, 1e6, 10*readRows + 1, nil},
		{"a bad end", context.Background(), 3*readRows + 5, bad, 1e6, 3*readRows + 5, bad},
		{"a bad beginning", context.Background(), 0, bad, 1e6, 0, bad},
		{"no more taken", context.Background(), 1e6, io.EOF, 5, 5, full},
		{"no more taken at the end", context.Background(), readRows, io.EOF, readRows - 1, readRows - 1, full},
		{"cancelled", cancelled, 1e6, io.EOF, 1e6, 4095, full},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reading atomic.Int32
			read, taken := 0, 0
			err := eachRead(c.ctx, func(row *int) error {
				reading.Add(1)
				defer reading.Add(-1)
				if read == c.rows {
					return c.end
				}
				*row = read
				read++
				return nil
			}, func(row *int) error {
				if *row != taken {
					t.Fatalf("row %d, want %d", *row, taken)
				}
				if taken == c.limit {
					return full
				}
				taken++
				return nil
			})
			if err != c.want || taken != c.taken {
				t.Errorf("%d rows, %v, want %d, %v", taken, err, c.taken, c.want)
			}
			if reading.Load() != 0 || read > taken+3*readRows {
				t.Errorf("%d rows were read, and the reading goes on: %d", read, reading.Load())
			}
		})
	}
}

// However large rows are, few bytes of them are read before they are taken.
func TestEachReadHoldsFewBytes(t *testing.T) {
	const rows = 200
	text := strings.Repeat("x", maxString)
	var read atomic.Int64
	taken := int64(0)
	err := eachRead(context.Background(), func(u *record.Fetch) error {
		if read.Load() == rows {
			return io.EOF
		}
		read.Add(1)
		u.Error = text
		return nil
	}, func(*record.Fetch) error {
		if taken == 0 {
			time.Sleep(20 * time.Millisecond) // the reading goes on as far as it may
		}
		taken++
		if ahead := read.Load() - taken; ahead > 3*(readBytes/maxString+1) {
			t.Fatalf("%d rows were read ahead", ahead)
		}
		return nil
	})
	if err != nil || taken != rows {
		t.Error(taken, err)
	}
}

// slowFS stops reads of waiting URLs between begun and go on.
type slowFS struct {
	durable.FS
	slow        atomic.Bool
	begun, goOn chan struct{}
}

type slowFile struct {
	durable.File
	fs *slowFS
}

func (s *slowFS) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	file, err := s.FS.OpenFile(name, flag, perm)
	if err == nil && s.slow.Load() && flag == os.O_RDONLY && strings.Contains(name, "/ready/") {
		return slowFile{file, s}, nil
	}
	return file, err
}

func (f slowFile) ReadAt(b []byte, off int64) (int, error) {
	select {
	case f.fs.begun <- struct{}{}:
	default:
	}
	<-f.fs.goOn
	return f.File.ReadAt(b, off)
}

// An update that fails while a merge goes on beside it waits for the merge's end: nothing goes on when
// it has returned.
func TestFailedUpdateEndsItsMerges(t *testing.T) {
	fs := &slowFS{FS: crashtest.New(), begun: make(chan struct{}, 1), goOn: make(chan struct{})}
	b := open(t, fs, Params{Policy: dynamic})
	for i := range 4 {
		var urls []record.URL
		for k := range 100 {
			urls = append(urls, newURL(fmt.Sprintf("h%d.test", k%50), fmt.Sprint(i, k), 0))
		}
		must.OK(t, b.add("", urls...))
	}
	batch, err := b.next(1, NextOptions{N: 1, Txn: "r1"})
	must.OK(t, err)
	s, _, err := b.f.current()
	must.OK(t, err)
	for _, r := range s.Hosts {
		file, err := fs.OpenFile(b.f.st.Path(r.Path), os.O_RDWR, 0)
		must.OK(t, err)
		_, err = file.WriteAt([]byte("damage"), int64(runfile.Start.Offset))
		must.OK(t, err)
		file.Close()
	}
	fs.slow.Store(true)
	done := make(chan error)
	go func() {
		done <- b.update("r1", 1, []record.Fetch{fetchOf(batch[0], record.OutcomeFetched, 200, 1)}, newURL("h0.test", "new", 0))
	}()
	<-fs.begun
	select {
	case err := <-done:
		t.Fatalf("the update ended before its merge: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(fs.goOn)
	if err := <-done; !errors.Is(err, fault.Corrupt) {
		t.Error(err)
	}
}
