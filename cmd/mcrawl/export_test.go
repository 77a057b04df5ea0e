package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What is made of a crawl, without a name, stands beside the crawl folder, whatever names that.
func TestExportName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawl", "fetch")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, c := range []struct{ crawl, to, want string }{
		{"..", "", "../../crawl.wacz"}, {"../.", "", "../../crawl.wacz"}, {"../fetch/", "", "../fetch.wacz"},
		{".", "", "../fetch.wacz"}, {"a/..", "", "../fetch.wacz"}, {"a", "", "a.wacz"}, {"a", "b", "b"},
	} {
		t.Run(c.crawl+" "+c.to, func(t *testing.T) {
			if got, err := outputPath(c.crawl, c.to, ".wacz"); got != c.want || err != nil {
				t.Errorf("%s %s: %s, %v; want %s", c.crawl, c.to, got, err, c.want)
			}
		})
	}
}
