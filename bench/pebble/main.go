// Command pebble asks Pebble, an LSM tree, the question of a fingerprint set: which
// of these keys are there? It is a module of its own, so that Mercator does not
// depend on Pebble.
//
//	pebble build DB a.bin        a new database of the ascending keys of a.bin
//	pebble get DB batch.bin      point reads of all keys; prints hits and seconds
//
// Keys are eight big-endian bytes without values. The database is one level of
// sorted tables with Bloom filters of 10 bits a key, not compressed (keys are
// random), and its block cache holds all of it. Each key is asked for once before
// the clock starts. The files are raw keys, eight little-endian bytes each.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const perTable = 1 << 22 // keys in a table

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "want: pebble build|get DB KEYS.bin")
		os.Exit(2)
	}
	run := map[string]func(db, keys string) error{"build": build, "get": get}[os.Args[1]]
	if run == nil {
		fmt.Fprintln(os.Stderr, "want: pebble build|get DB KEYS.bin")
		os.Exit(2)
	}
	if err := run(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "pebble:", err)
		os.Exit(1)
	}
}

func open(dir string) (*pebble.DB, error) { return pebble.Open(dir, options()) }

func options() *pebble.Options {
	o := &pebble.Options{CacheSize: 3 << 30, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
	o.Levels[0] = pebble.LevelOptions{
		FilterPolicy: bloom.FilterPolicy(10),
		Compression:  func() *sstable.CompressionProfile { return block.NoCompression },
	}
	for i := 1; i < len(o.Levels); i++ {
		o.Levels[i] = o.Levels[0]
	}
	return o
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, args ...any) {
	panic(fmt.Sprintf(f, args...))
}

// build writes tables and takes them in.
func build(dir, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	db, err := open(dir)
	if err != nil {
		return err
	}
	var tables []string
	for err == nil {
		path := filepath.Join(dir, fmt.Sprintf("load-%d", len(tables)))
		tables = append(tables, path)
		err = table(path, in, options().MakeWriterOptions(6, db.TableFormat()))
	}
	if err != io.EOF {
		return errors.Join(err, db.Close())
	}
	return errors.Join(db.Ingest(context.Background(), tables), db.Close())
}

// table writes the next keys of in; io.EOF after the last.
func table(path string, in io.Reader, o sstable.WriterOptions) error {
	f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), o)
	var key [8]byte
	for i := 0; i < perTable && err == nil; i++ {
		if _, err = io.ReadFull(in, key[:]); err == nil {
			binary.BigEndian.PutUint64(key[:], binary.LittleEndian.Uint64(key[:]))
			err = w.Set(key[:], nil)
		}
	}
	return cmp.Or(w.Close(), err)
}

// get asks for every key twice, and tells the hits and the time of the second pass.
func get(dir, name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	db, err := open(dir)
	if err != nil {
		return err
	}
	var hits int
	var took time.Duration
	for range 2 {
		hits = 0
		began := time.Now()
		var key [8]byte
		for at := 0; at < len(data); at += 8 {
			binary.BigEndian.PutUint64(key[:], binary.LittleEndian.Uint64(data[at:]))
			_, closer, err := db.Get(key[:])
			if err == nil {
				hits++
				err = closer.Close()
			}
			if err != nil && !errors.Is(err, pebble.ErrNotFound) {
				return errors.Join(err, db.Close())
			}
		}
		took = time.Since(began)
	}
	fmt.Println(hits, took.Seconds())
	return db.Close()
}
