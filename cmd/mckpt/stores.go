package main

import (
	"path/filepath"

	"mercator/formats/store"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
	"mercator/pkg/fpset"
	"mercator/pkg/frontier"
	"mercator/pkg/resolve"
	"mercator/pkg/urlset"
)

// polynomialOf is the polynomial of the sets of a crawl: of one that is there
// already, which a random choice must not contradict, or the one chosen.
func polynomialOf(crawl string, choice cli.NewPolynomial, opt store.Options) (uint64, error) {
	if choice == cli.RandomPolynomial {
		for _, kind := range []string{urlset.Kind, fpset.Kind} { // their folders have the same names
			if st, err := store.Open(filepath.Join(crawl, kind), kind, fpset.Version, opt); err == nil {
				return fpset.PolynomialOf(st)
			}
		}
	}
	return choice.Choose()
}

// makeStores makes the stores of a crawl folder, each by the package that owns it.
func makeStores(crawl, policy string, polynomial uint64, opt store.Options) error {
	set := fpset.CreateOptions{Polynomial: polynomial}
	for _, s := range []struct {
		name string
		make func(dir string, opt store.Options) error
	}{
		{"urls", func(dir string, opt store.Options) error { return urlset.Create(dir, set, opt) }},
		{"frontier", func(dir string, opt store.Options) error {
			return frontier.Create(dir, frontier.Params{Policy: policy}, opt)
		}},
		{"dns", resolve.CreateStore},
		{"fetch", fetch.CreateStore},
		{"content", func(dir string, opt store.Options) error { return fpset.Create(dir, set, opt) }},
	} {
		if err := s.make(filepath.Join(crawl, s.name), opt); err != nil {
			return err
		}
	}
	return nil
}
