package derive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// The files of a kept index.
const (
	indexFile  = "index.cdxj"
	listFile   = "files.json"
	configFile = "config.yaml"
)

// linesMax bounds a line of a kept index, in bytes, and listMax its list of files.
const (
	linesMax = 16 << 20
	listMax  = 256 << 20
)

// KeepIndex brings the index of WARC files in the folder dir up to date: index.cdxj, sorted;
// files.json, the names and lengths of the WARC files that it indexes; and config.yaml, by
// which pywb serves them from the folders archives, paths relative to dir. It adds only
// WARC files that are not in the index yet, or with another length, and does nothing if
// there are none. Lines come from rows, which may be nil, and from the WARC files where rows do not
// tell of just these: they are the same. Killed at any moment, it goes on where it is run again.
func KeepIndex(ctx context.Context, fsys durable.FS, dir, name string, archives []string, parts []warc.Part, rows *Rows, mem int64, progress func(int64)) error {
	now := map[string]int64{}
	for _, p := range parts {
		f, length, err := p.Open()
		if err != nil {
			return err
		}
		f.Close() // was read only
		now[partName(p)] = length
	}
	path := func(file string) string { return filepath.Join(dir, file) }
	before, err := readList(fsys, path(listFile))
	if err != nil {
		return err
	}
	if _, gone := fsys.Stat(path(indexFile)); gone != nil {
		before = nil // all is indexed anew
	}
	same := map[string]bool{}
	for file, length := range before {
		if n, ok := now[file]; ok && n == length {
			same[file] = true
		}
	}
	if len(same) == len(now) && len(before) == len(now) {
		return nil
	}
	x := NewIndex(mem, "")
	defer func() { x.Close() }()
	keep := func() error {
		if len(same) == 0 {
			return nil
		}
		return x.kept(ctx, fsys, path(indexFile), same)
	}
	if err := keep(); err != nil {
		return err
	}
	all := false
	if rows != nil {
		if all, err = x.Rows(ctx, rows, parts, same, progress); err != nil {
			return err
		}
		if !all { // from the beginning
			x.Close()
			x = NewIndex(mem, "")
			if err := keep(); err != nil {
				return err
			}
		}
	}
	for _, p := range parts {
		if all || same[partName(p)] {
			continue
		}
		if err := x.Part(ctx, p, progress); err != nil {
			return err
		}
	}
	config := "# wayback -d THIS-FOLDER serves the crawl (pywb).\ncollections:\n  " + Collection(name) + ":\n    index_paths: " + indexFile + "\n    archive_paths: " + yamlPaths(archives) + "\n"
	out, err := durable.CreateAll(fsys, path(indexFile))
	if err != nil {
		return err
	}
	defer out.Abort()
	to := bufio.NewWriterSize(out, 64<<10)
	if err := x.Lines(func(line []byte) error { _, err := to.Write(line); return err }); err != nil {
		return err
	}
	if err := to.Flush(); err != nil {
		return err
	}
	list, err := json.Marshal(now) // in order of name
	if err != nil {
		return err
	}
	// From here on the list is of another index, until it is written again.
	if err := fsys.Remove(path(listFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	if err := durable.WriteFile(fsys, path(configFile), []byte(config)); err != nil {
		return err
	}
	return durable.WriteFile(fsys, path(listFile), append(list, '\n'))
}

// yamlPaths are folders as pywb takes them, one or several.
func yamlPaths(dirs []string) string {
	if len(dirs) == 1 {
		return filepath.ToSlash(dirs[0]) + "/"
	}
	var list strings.Builder
	for _, dir := range dirs {
		list.WriteString("\n      - " + filepath.ToSlash(dir) + "/")
	}
	return list.String()
}

// Collection is the name of a crawl as pywb takes it, in its configuration and in URLs.
func Collection(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
}

// readList reads files.json. One that is damaged or not there lists nothing: then all is indexed anew.
func readList(fsys durable.FS, path string) (map[string]int64, error) {
	b, err := durable.ReadFile(fsys, path, listMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list map[string]int64
	if json.Unmarshal(b, &list) != nil {
		return nil, nil
	}
	return list, nil
}

// kept adds the lines of an index that are about some files.
func (x *Index) kept(ctx context.Context, fsys durable.FS, path string, files map[string]bool) error {
	f, err := fsys.OpenFile(path, 0, 0)
	if err != nil {
		return err
	}
	defer f.Close() // was read only
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, linesMax)
	for lines.Scan() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var c cdx
		i := bytes.Index(lines.Bytes(), []byte(" {"))
		if i < 0 || json.Unmarshal(lines.Bytes()[i+1:], &c) != nil {
			return &fault.Error{Class: fault.Corrupt, File: path, Found: "a line that is no CDXJ", Hint: "delete the file; the next seal makes it again"}
		}
		if files[c.Filename] {
			if err := x.Add(lines.Bytes()); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}
