package classify

import (
	"mercator/formats/store"
	"mercator/pkg/web/process"
	"os"
	"path/filepath"
)

// LearnedIn is the store of what the crawl of a fetch store has learned; "" if there is none.
func LearnedIn(warc string) string {
	if store.Folder(warc, store.Options{}).CrawlDir() == "" {
		return ""
	}
	dir := filepath.Join(filepath.Dir(filepath.Clean(warc)), store.ModulesDir, LearnedName)
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// OpenLearned reads a store of what a crawl has learned.
func OpenLearned(dir string) (*store.Store, *Learned, error) {
	st, err := store.Open(dir, process.Kind, process.Version, store.Options{})
	if err != nil {
		return nil, nil, err
	}
	now, err := st.Current()
	if err != nil {
		return nil, nil, err
	}
	in, end, err := process.OpenState(st, now)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	l, err := ReadLearned(in, dir)
	return st, l, err
}

// FitIn fits a model to what the crawl of a fetch store has learned, if it has; stores is the folder of its stores of modules, or "".
func FitIn(m *Model, warc, stores string) (*Fitted, error) {
	l, err := ReadLearned(nil, "")
	dir := LearnedIn(warc)
	if stores != "" {
		dir = filepath.Join(stores, LearnedName)
		if _, err := os.Stat(dir); err != nil {
			dir = ""
		}
	}
	if dir != "" {
		_, l, err = OpenLearned(dir)
	}
	if err != nil {
		return nil, err
	}
	return m.Fit(l), nil
}
