package filter

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// names makes n domains in order, of the lengths of those of the web.
func names(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	tld := []string{"com", "org", "net", "de", "co.uk", "info", "io"}
	set := make(map[string]bool, n)
	for len(set) < n {
		b := make([]byte, 5+r.IntN(10))
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		set[string(b)+"."+tld[r.IntN(len(tld))]] = true
	}
	all := make([]string, 0, n)
	for s := range set {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// million is a rule file with so many domains in a list and 1,000 prefixes, and URLs of which share in percent
// lie in one of the domains and one in a hundred under a prefix's host.
func million(t testing.TB, domains, urls, run, share int, memory int64) (*Filter, []string) {
	t.Helper()
	dir := t.TempDir()
	all := names(domains)
	must.OK(t, os.WriteFile(filepath.Join(dir, "domains.txt"), []byte(strings.Join(all, "\n")+"\n"), 0o666))
	var rules strings.Builder
	rules.WriteString("deny prefixes: prefix")
	for i := range 1000 {
		fmt.Fprintf(&rules, " http://www.prefix%d.example/section/%d/", i, i)
	}
	rules.WriteString("\ndeny domains: domain @domains.txt\n")
	must.OK(t, os.WriteFile(filepath.Join(dir, "rules.txt"), []byte(rules.String()), 0o666))
	f, err := Load(filepath.Join(dir, "rules.txt"), Options{Memory: memory})
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	r := rand.New(rand.NewPCG(3, 4))
	list := make([]string, urls)
	var host string
	for i := range list {
		if i%run > 0 {
			list[i] = fmt.Sprintf("http://%s/section/%d/page-%d.html?id=%d", host, r.IntN(1000), r.IntN(1e6), r.IntN(1e4))
			continue
		}
		host = fmt.Sprintf("www.unlisted%d.example.com", r.IntN(1e6))
		switch {
		case r.IntN(100) < share:
			host = "www." + all[r.IntN(len(all))]
		case r.IntN(100) == 0:
			host = fmt.Sprintf("www.prefix%d.example", r.IntN(1000))
		}
		list[i] = fmt.Sprintf("http://%s/section/%d/page-%d.html?id=%d", host, r.IntN(1000), r.IntN(1e6), r.IntN(1e4))
	}
	return f, list
}
