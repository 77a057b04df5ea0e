package main

import (
	"path/filepath"

	"mercator/formats/store"
	"mercator/pkg/fetch"
	"mercator/pkg/fpset"
	"mercator/pkg/frontier"
	"mercator/pkg/resolve"
	"mercator/pkg/urlset"
)

// makeStores makes the stores of a crawl folder, each by the package that owns it.
func makeStores(crawl, policy string, opt store.Options) error {
	for _, s := range []struct {
		name string
		make func(dir string, opt store.Options) error
	}{
		{"urls", func(dir string, opt store.Options) error { return urlset.Create(dir, fpset.CreateOptions{}, opt) }},
		{"frontier", func(dir string, opt store.Options) error {
			return frontier.Create(dir, frontier.Params{Policy: policy}, opt)
		}},
		{"dns", resolve.CreateStore},
		{"fetch", fetch.CreateStore},
		{"content", func(dir string, opt store.Options) error { return fpset.Create(dir, fpset.CreateOptions{}, opt) }},
	} {
		if err := s.make(filepath.Join(crawl, s.name), opt); err != nil {
			return err
		}
	}
	return nil
}
