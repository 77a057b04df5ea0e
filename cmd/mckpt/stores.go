package main

import (
	"path/filepath"

	"mercator/formats/store"
	"mercator/pkg/resolve"
)

// makeStores makes the stores of a crawl folder, each by the package that owns it.
func makeStores(crawl, policy string, opt store.Options) error {
	for _, s := range []struct {
		name string
		make func(dir string) error
	}{
		{"urls", func(dir string) error { return store.Create(dir, "urls", "1.0", nil, opt) }},
		{"frontier", func(dir string) error {
			return store.Create(dir, "frontier", "1.0", map[string]string{"policy": policy}, opt)
		}},
		{"dns", func(dir string) error { return resolve.CreateStore(dir, opt) }},
		{"fetch", func(dir string) error { return store.Create(dir, "fetch", "1.0", nil, opt) }},
		{"content", func(dir string) error { return store.Create(dir, "content", "1.0", nil, opt) }},
	} {
		if err := s.make(filepath.Join(crawl, s.name)); err != nil {
			return err
		}
	}
	return nil
}
