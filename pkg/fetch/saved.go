package fetch

import (
	"errors"
	"io/fs"
	"os"

	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
)

// Saved returns the WARC files that paths name. A folder is a fetch store and
// stands for what it has committed: no tail of a round that was interrupted,
// abandoned or undone by going back to a checkpoint. A crawl folder is its fetch store.
// A file counts as a whole.
func Saved(paths []string, opt store.Options) ([]warc.Part, error) {
	var parts []warc.Part
	for _, p := range paths {
		fi, err := os.Stat(p)
		if err != nil {
			return nil, &fault.Error{Class: fault.Usage, Err: err}
		}
		if !fi.IsDir() {
			parts = append(parts, warc.Part{Path: p, Length: -1})
			continue
		}
		st, err := store.Open(p, Kind, Version, opt)
		if err != nil {
			return nil, err
		}
		m, err := st.Current()
		if err != nil {
			return nil, err
		}
		for _, e := range m.Files {
			if e.Role != roleWARC {
				continue
			}
			path := st.Path(e.Path)
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				path += openSuffix
			}
			parts = append(parts, warc.Part{Path: path, Length: e.Length})
		}
	}
	return parts, nil
}

// Places says which records for an index the stores in dirs have committed, all together. ok is false where one does not
// say it, as one that an older version began.
func Places(dirs []string, opt store.Options) (all warc.Places, ok bool, err error) {
	for _, dir := range dirs {
		st, err := store.Open(dir, Kind, Version, opt)
		if err != nil {
			return all, false, err
		}
		m, err := st.Current()
		if err != nil {
			return all, false, err
		}
		p, ok := placesOf(m)
		if !ok {
			return all, false, nil
		}
		all.Join(p)
	}
	return all, true, nil
}
