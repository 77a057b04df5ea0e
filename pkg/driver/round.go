package driver

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/tell"
)

// A plan says which commands make a round. It depends on the crawl's settings and its policy.
type plan struct {
	crawl     string // folder of the crawl, or of the shard
	credit    bool   // pages give credit to those that they link to
	fromLinks bool   // the frontier reads links: a walk, which goes by both seen-tests
	modules   bool   // crawl.toml has processing modules
	focused   bool   // crawl.toml has a model of topics
	canonical bool   // links to aliases of hosts lead to their canonical names
	rendered  bool   // scripts of some pages run

	filterLinks bool // a program of the user's filters links
	filterNew   bool // a program of the user's filters new URLs

	shards   int      // number of the crawl's shards; 0: it has none
	shard    int      // number of this shard
	whole    string   // folder of the crawl, where crawl is a shard's; "": the plan is of no shard
	allowNet []string // the setting network.allow_net
}

// path is a path in the plan's folder, as commands take it.
func (p plan) path(names ...string) string { return pipe.Path(append([]string{p.crawl}, names...)...) }

// seeds is the pipe that adds files of URLs to the crawl, in a transaction. The new URLs are written to the file copied, too.
func (p plan) seeds(txn string, files []string, copied string, strict bool) pipe.Pipe {
	unseen := []string{"murlset", "new", p.path("urls"), "--txn", txn, "--text", "--copy", copied}
	if strict && p.shards == 0 { // else cut has read each line, and a shard may own none
		unseen = append(unseen, "--strict")
	}
	for _, file := range files {
		if strings.HasPrefix(file, "-") { // of a crawl folder with such a name
			file = "./" + file
		}
		unseen = append(unseen, file)
	}
	return pipe.Pipe{
		unseen,
		{"mfrontier", "add", p.path("frontier"), "--txn", txn},
	}
}

// roundFile is a file of rows that stays after the round.
func (p plan) roundFile(round, file string) string {
	return p.path("rounds", round, file+".arrows.zst")
}

// ownList is the file of a list's lines that a shard owns.
func (p plan) ownList(round string, i int, file string) string {
	name := fmt.Sprintf("asked%d.txt", i+1)
	if filepath.Ext(file) == rowsExt {
		name = fmt.Sprintf("asked%d%s", i+1, rowsExt)
	}
	return p.path("rounds", round, name)
}

// commands are the commands of a round, without the files between them.
type commands struct{ next, resolve, fetch, mark, score, extract, render, canon, links, unseen, fresh, update []string } // score, render, canon, links and fresh may be nil

func (p plan) commands(round string) (c commands) {
	of := func(words ...string) []string { return slices.Clip(append(words, "--txn", round)) }
	c.next = append(of("mfrontier", "next", p.path("frontier")), "--refused", p.roundFile(round, "dropped"))
	c.resolve = of("mresolve", p.path("dns"))
	c.fetch = append(of("mfetch", p.path("fetch")), "--keep", p.path("rounds", round, "politeness.toml"))
	c.mark = of("mfpset", "mark", p.path("content"))
	if p.focused {
		c.score = of("mfocus", "score", "--warc", p.path("fetch"))
	}
	c.extract = append(of("mextract", "--warc", p.path("fetch")), "--refused", p.roundFile(round, "refused"))
	if p.modules {
		c.extract = append(c.extract, "--modules", p.roundFile(round, "modules"))
	}
	if p.rendered {
		outcomes := "marked"
		if p.fromLinks {
			outcomes = "fetched"
		}
		c.render = append(of("mrender", p.path("render")), "--warc", p.path("fetch"), "--outcomes", p.roundFile(round, outcomes), "--found", p.roundFile(round, "rendered"))
	}
	if p.canonical {
		c.canon = of("mresolve", "canon", p.path("dns"))
	}
	if p.filterLinks {
		c.links = of("mextract", "filter", p.path("modules", "links"))
	}
	c.unseen = of("murlset", "new", p.path("urls"))
	if p.filterNew {
		c.fresh = of("mextract", "filter", p.path("modules", "new"))
	}
	c.update = of("mfrontier", "update", p.path("frontier"))
	return c
}

// marked is the part of a pipe that marks duplicates and, in a focused crawl, scores documents. Its last command gets args.
func (c commands) marked(args ...string) pipe.Pipe {
	if c.score == nil {
		return pipe.Pipe{append(c.mark, args...)}
	}
	return pipe.Pipe{c.mark, append(c.score, args...)}
}

// linked is the part of a pipe that extracts links from the documents of files, or of its input. Its last command gets args.
func (c commands) linked(files []string, args ...string) pipe.Pipe {
	all := pipe.Pipe{slices.Concat(c.extract, files)}
	for _, words := range [][]string{c.render, c.canon, c.links} {
		if words != nil {
			all = append(all, slices.Clone(words))
		}
	}
	last := &all[len(all)-1]
	*last = append(*last, args...)
	return all
}

// updated is the part of a pipe that adds new URLs to the frontier, from the links of files or of its input. Its last command gets args.
func (c commands) updated(files []string, args ...string) pipe.Pipe {
	all := pipe.Pipe{slices.Concat(c.unseen, files)}
	if c.fresh != nil {
		all = append(all, c.fresh)
	}
	return append(all, append(c.update, args...))
}

// round is the pipe of a round.
func (p plan) round(name string) pipe.Pipe {
	c := p.commands(name)
	fetched, marked, links := p.roundFile(name, "fetched"), p.roundFile(name, "marked"), p.roundFile(name, "links")
	linked := c.linked(nil, "--copy", links)
	if p.fromLinks {
		return slices.Concat(pipe.Pipe{c.next, c.resolve, append(c.fetch, "--copy", fetched)}, linked, pipe.Pipe{append(c.update, "--outcomes", fetched)})
	}
	return slices.Concat(pipe.Pipe{c.next, c.resolve, c.fetch}, c.marked("--copy", marked), linked, c.updated(nil, "--outcomes", marked, "--links", links))
}

// A stage is a part of a round that can be run by itself. It begins when the stage before it is done.
type stage struct {
	name  string
	steps []step
}

// A step of a stage either makes a file or commits a verb. It is done when the file is there and all of it was sent, or when the frontier has
// committed the verb.
type step struct {
	from  *exchanged // an exchange: the rows that it gathers are the input of the pipe or, without a pipe, the file; nil: none
	pipe  pipe.Pipe
	file  string     // the file that the step makes; "": verb
	verb  string     // the verb of mfrontier that it commits; "": file
	sent  *exchanged // gets the rows of the file; nil: none does
	lists []string   // files of URLs: the pipe reads the shard's part of them
}

// shown returns the step as a user would type it.
func (s step) shown() pipe.Pipe {
	switch {
	case s.sent != nil:
		return pipe.Pipe{s.sent.command("split", "-o", s.sent.dir(), s.file)}
	case s.from != nil && s.pipe == nil:
		return pipe.Pipe{s.from.command("gather", s.from.dir(), "-o", s.file)}
	case s.from != nil:
		return append(pipe.Pipe{s.from.command("gather", s.from.dir())}, s.pipe...)
	}
	return s.pipe
}

// stages are the parts of a round's pipe, without the commit. A round that adds URLs, from the files lists, has one
// stage.
func (p plan) stages(round string, lists []string) []stage {
	if len(lists) > 0 {
		add := step{pipe: p.seeds(round, lists, p.roundFile(round, "new"), true), verb: "add"}
		if p.shards > 0 {
			add.lists = lists
			var own []string
			for i, file := range lists {
				own = append(own, p.ownList(round, i, file))
			}
			add.pipe = p.seeds(round, own, p.roundFile(round, "new"), true)
		}
		return []stage{{"seed", []step{add}}}
	}
	if p.shards > 0 {
		return p.shardStages(round)
	}
	c := p.commands(round)
	batch, fetched, marked, links := p.roundFile(round, "batch"), p.roundFile(round, "fetched"), p.roundFile(round, "marked"), p.roundFile(round, "links")
	list := []stage{
		{"batch", []step{{pipe: pipe.Pipe{c.next, append(c.resolve, "-o", batch)}, file: batch}}},
		{fetchStage, []step{{pipe: pipe.Pipe{append(c.fetch, batch, "-o", fetched)}, file: fetched}}},
	}
	if p.fromLinks {
		return append(list,
			stage{"extract", []step{{pipe: c.linked([]string{fetched}, "-o", links), file: links}}},
			stage{"update", []step{{pipe: pipe.Pipe{append(c.update, "--outcomes", fetched, links)}, verb: "update"}}})
	}
	c.mark = append(c.mark, fetched)
	return append(list,
		stage{"mark", []step{{pipe: c.marked("-o", marked), file: marked}}},
		stage{"extract", []step{{pipe: c.linked([]string{marked}, "-o", links), file: links}}},
		stage{"update", []step{{pipe: c.updated([]string{links}, "--outcomes", marked, "--links", links), verb: "update"}}})
}

// flagged is a pipe with the flags of this run: threads, and how many bytes mfetch may receive until Options.UntilSize.
func (d *Driver) flagged(all pipe.Pipe) pipe.Pipe {
	all = slices.Clone(all)
	for i, words := range all {
		words = slices.Clip(words)
		if d.opt.Threads > 0 {
			words = append(words, "--threads", strconv.Itoa(d.opt.Threads))
		}
		if d.opt.UntilSize > 0 && words[0] == "mfetch" {
			words = append(words, "--max-bytes", strconv.FormatInt(bytesLeft(d.opt.UntilSize, tell.OnDisk(d.Crawl.Dir()), d.plan.tasks()), 10))
		}
		all[i] = words
	}
	return all
}

// bytesLeft is how many bytes each task may receive so that the files, of have bytes now, grow to until. WARC files are smaller than what was received,
// so this takes several rounds; none is very small.
func bytesLeft(until, have int64, tasks int) int64 {
	const least = 1 << 20
	return max((until-have)/int64(tasks), until/16/int64(tasks), least)
}
