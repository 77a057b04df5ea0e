package bodies

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/must"
	"mercator/pkg/web/httpmsg"
)

// document is the n-th of a test: its row, and its head and body.
func document(n int) (row *record.Fetch, head, body []byte) {
	head = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Number: %d\r\n\r\n", n)
	body = bytes.Repeat(fmt.Appendf(nil, "<p>%d", n), 1+n%50)
	return &record.Fetch{URL: fmt.Sprintf("http://a.test/%d", n), FetchTime: record.Time(n), PayloadSHA1: fmt.Sprint("SHA", n), BodyLength: int64(len(body)),
		WARCFilename: "crawl-000002-1.warc.gz", WARCOffset: int64(n) * 100, WARCLength: 90}, head, body
}

func create(t *testing.T, dir string) *Writer {
	t.Helper()
	w := Create(durable.OS, dir, 1)
	if w == nil {
		t.Fatal("too little room for a file of 2 MiB, which takes an eighth of what is free")
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func add(w *Writer, n int) {
	row, head, body := document(n)
	w.Enter(row, w.Put(append(head, body...), len(head)))
}

// found reads a document, and fails where it is another one.
func found(t *testing.T, r *Reader, n int) bool {
	t.Helper()
	row, wantHead, wantBody := document(n)
	head, body, ok := r.Read(row, nil)
	if ok && (!bytes.Equal(head, wantHead) || !bytes.Equal(body, wantBody)) {
		t.Fatalf("document %d: %q and %q, want %q and %q", n, head, body, wantHead, wantBody)
	}
	return ok
}

// TestDamage: of a file that was cut at any length, or has a byte altered, each document is read as it was, or not at all.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	if Open(dir) != nil {
		t.Fatal("a file where there is none")
	}
	w := create(t, dir)
	const n = 8
	used := map[int64]bool{} // bytes that count
	for i := range n {
		before := w.next
		add(w, i)
		for at := before; at < w.next; at++ {
			used[tableLen+at] = true
		}
		row, _, _ := document(i)
		bucket := int64(keyOf(row)%buckets) * ways * entryLen
		for at := range int64(ways * entryLen) {
			used[bucket+at] = true
		}
	}
	r := Open(dir)
	defer r.Close()
	for i := range n {
		if !found(t, r, i) {
			t.Errorf("document %d is not there", i)
		}
	}
	// A row of another contact, or with another place in the archive.
	for name, change := range map[string]func(*record.Fetch){
		"URL": func(r *record.Fetch) { r.URL += "/" }, "time": func(r *record.Fetch) { r.FetchTime++ }, "payload": func(r *record.Fetch) { r.PayloadSHA1 = "" },
		"file": func(r *record.Fetch) { r.WARCFilename = "crawl-000003-1.warc.gz" }, "offset": func(r *record.Fetch) { r.WARCOffset++ },
		"length": func(r *record.Fetch) { r.WARCLength++ }, "body": func(r *record.Fetch) { r.BodyLength++ },
	} {
		t.Run(name, func(t *testing.T) {
			row, _, _ := document(1)
			if change(row); func() bool { _, _, ok := r.Read(row, nil); return ok }() {
				t.Errorf("found for a row with another %s", name)
			}
		})
	}
	if f, err := os.OpenFile(w.path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	} else {
		defer f.Close()
		lost := 0
		for at := range used {
			var was [1]byte
			_, err := f.ReadAt(was[:], at)
			must.OK(t, err)
			_, err = f.WriteAt([]byte{was[0] ^ 1<<rand.IntN(8)}, at)
			must.OK(t, err)
			for i := range n {
				if !found(t, r, i) {
					lost++
				}
			}
			_, err = f.WriteAt(was[:], at)
			must.OK(t, err)
		}
		if lost == 0 {
			t.Error("no damage was noticed")
		}
		end := tableLen + w.next
		for _, cut := range []int64{end - 1, end - w.next/2, tableLen, tableLen - 1, tableLen / 2, 1, 0} {
			must.OK(t, f.Truncate(cut))
			there := 0
			for i := range n {
				if found(t, r, i) {
					there++
				}
			}
			if there == n || cut == 0 && there > 0 {
				t.Errorf("%d documents in %d bytes", there, cut)
			}
		}
	}
}

// TestEntryOfTwo: an entry with the key of one row and the rest of another row's entry is not valid, even if both bodies have the same length.
func TestEntryOfTwo(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	const a, b = 3, 4
	add(w, a)
	row, head, _ := document(b)
	_, _, body := document(a)
	body = bytes.ToUpper(body)
	row.BodyLength = int64(len(body))
	w.Enter(row, w.Put(append(head, body...), len(head)))
	first, _, _ := document(a)
	rest := make([]byte, entryLen-8)
	_, err := w.f.ReadAt(rest, int64(keyOf(row)%buckets)*ways*entryLen+8)
	must.OK(t, err)
	_, err = w.f.WriteAt(rest, int64(keyOf(first)%buckets)*ways*entryLen+8)
	must.OK(t, err)
	r := Open(dir)
	defer r.Close()
	if found(t, r, a) {
		t.Error("found by an entry that is half another's")
	}
	if _, got, ok := r.Read(row, nil); !ok || !bytes.Equal(got, body) {
		t.Errorf("%q, %v: want %q", got, ok, body)
	}
}

// TestRoomOfShards: table and ring take an eighth of what is free, all shards together.
func TestRoomOfShards(t *testing.T) {
	const free = 1 << 30
	for _, sharing := range []int64{1, 2, 8, 12} {
		if n := sharing * (tableLen + ringLen(free, int(sharing))); n > free/8 || n < free/8-sharing {
			t.Errorf("%d shards take %d bytes, want an eighth of %d", sharing, n, free)
		}
	}
	if n := ringLen(1<<40, 8); n != ringMax {
		t.Errorf("a ring of %d bytes where there is room", n)
	}
	if n := ringLen(free, 64); n >= ringMin {
		t.Errorf("a ring of %d bytes, want less than makes a file", n)
	}
}

// TestRing: a file that is full begins anew, while it is read. What is found is whole.
func TestRing(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	w.ring = 4 << 10
	const n = 3000
	var writers sync.WaitGroup
	for part := range 2 {
		writers.Go(func() {
			for i := part; i < n; i += 2 {
				add(w, i)
			}
		})
	}
	r := Open(dir)
	defer r.Close()
	for range 3 {
		for i := range n {
			found(t, r, i)
		}
	}
	writers.Wait()
	there := 0
	for i := range n {
		if found(t, r, i) {
			there++
		}
	}
	if there == 0 || there > 100 {
		t.Errorf("%d documents of some 100 bytes are in 4 KiB", there)
	}
	if p := w.Put(make([]byte, 5<<10), 0); p != (Place{}) {
		t.Error("a document longer than the ring has a place")
	}
	if p := w.Put(nil, 0); p != (Place{}) {
		t.Error("an empty document has a place")
	}
}

// failing is a disk that may be full, with one file.
type failing struct {
	durable.FS
	file durable.File
	full bool
}

func (d *failing) OpenFile(name string, flag int, perm os.FileMode) (f durable.File, err error) {
	d.file, err = d.FS.OpenFile(name, flag, perm)
	return failingFile{d.file, d}, err
}

type failingFile struct {
	durable.File
	disk *failing
}

func (f failingFile) WriteAt(b []byte, at int64) (int, error) {
	if f.disk.full {
		return 0, errors.New("no space left on device")
	}
	return f.File.WriteAt(b, at)
}

// TestFull: where the disk is full, the file gives its room back, and nobody is told.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	disk := &failing{FS: durable.OS}
	w := Create(disk, dir, 1)
	if w == nil {
		t.Fatal("too little room")
	}
	defer w.Close()
	add(w, 1)
	for _, long := range []struct{ len, head int }{{lengthMax + 1, 0}, {BodyMax + 1, 0}, {BodyMax + 11, 10}, {httpmsg.HeadMax + 10, httpmsg.HeadMax + 1}} {
		if w.Put(make([]byte, long.len), long.head) != (Place{}) {
			t.Errorf("a document of %d bytes, %d of them the head, has a place", long.len, long.head)
		}
	}
	r := Open(dir)
	defer r.Close()
	if !found(t, r, 1) {
		t.Error("not there")
	}
	disk.full = true
	add(w, 2)
	disk.full = false
	add(w, 3)
	for i := 1; i <= 3; i++ {
		if found(t, r, i) {
			t.Errorf("document %d is there", i)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, File)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	if info, err := disk.file.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("%v bytes, %v", info.Size(), err)
	}
	add(create(t, dir), 4)
	second := Open(dir)
	defer second.Close()
	if !found(t, second, 4) || Remove(durable.OS, dir) != nil || Remove(durable.OS, dir) != nil || Open(dir) != nil {
		t.Error("another file, and its end")
	}
}
