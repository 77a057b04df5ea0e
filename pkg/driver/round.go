package driver

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A plan is what a round is made of: it depends on the crawl's settings and on its policy.
type plan struct {
	crawl     string // folder
	fromLinks bool   // the frontier reads links: a walk, which goes by both seen-tests
	modules   bool   // crawl.toml has processing modules
}

func (p plan) path(names ...string) string {
	path := filepath.Join(append([]string{p.crawl}, names...)...)
	if strings.HasPrefix(path, "-") { // no flag of a command
		path = "./" + path
	}
	return path
}

// seeds puts files of URLs into the crawl, in a transaction; copied takes the new URLs.
func (p plan) seeds(txn string, files []string, copied string) Pipe {
	return Pipe{
		append([]string{"murlset", "new", p.path("urls"), "--txn", txn, "--text", "--strict", "--copy", copied}, files...),
		{"mfrontier", "add", p.path("frontier"), "--txn", txn},
	}
}

// round is the pipe of a round. What a person may read afterwards is kept in its folder.
func (p plan) round(name string) Pipe {
	kept := func(file string) string { return p.path("rounds", name, file+".arrows.zst") }
	of := func(words ...string) []string { return append(words, "--txn", name) }
	next := append(of("mfrontier", "next", p.path("frontier")), "--refused", kept("dropped"))
	resolve := of("mresolve", p.path("dns"))
	fetch := of("mfetch", p.path("fetch"))
	extract := append(of("mextract", "--warc", p.path("fetch")), "--copy", kept("links"), "--refused", kept("refused"))
	if p.modules {
		extract = append(extract, "--modules", kept("modules"))
	}
	update := of("mfrontier", "update", p.path("frontier"))
	if p.fromLinks {
		return Pipe{next, resolve, append(fetch, "--copy", kept("fetched")), extract,
			append(update, "--outcomes", kept("fetched"))}
	}
	return Pipe{next, resolve, fetch,
		append(of("mfpset", "mark", p.path("content")), "--copy", kept("marked")),
		extract,
		of("murlset", "new", p.path("urls")),
		append(update, "--outcomes", kept("marked"), "--links", kept("links"))}
}

// flagged is a pipe as a driver runs it: mfetch tells how it goes on, as lines of JSON, and each command has
// so many threads, if it is not 0.
func flagged(pipe Pipe, threads int) Pipe {
	pipe = slices.Clone(pipe)
	for i, words := range pipe {
		if words[0] == "mfetch" {
			words = append(slices.Clip(words), "--progress", "json")
		}
		if threads > 0 {
			words = append(slices.Clip(words), "--threads", strconv.Itoa(threads))
		}
		pipe[i] = words
	}
	return pipe
}
