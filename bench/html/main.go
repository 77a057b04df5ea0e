// Command html measures how fast links are found in HTML that lies in memory, beside
// other readers of HTML. It is a module of its own, so that Mercator does not depend
// on those.
//
//	html [-runs N] [-tree] [-mextract FILE] DIR ...
//
// All HTML files below the folders are read first. Then each contender reads all of
// them, on one core, in turns with the others; its least processor time counts. A Markdown table
// says MB/s, how many times faster extract.Find is, allocations a page, and links.
//
// The others do less than Find: they look at each tag's attributes and count those
// named href and src, but keep no link and no text, and compare none.
//
// With -mextract it also measures that command from WARC files, and from a fetch store, without and with what mfetch leaves, to
// link records.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tdewolff/parse/v2"
	tdewolff "github.com/tdewolff/parse/v2/html"
	"golang.org/x/net/html"

	"mercator/pkg/extract"
)

func main() {
	runs := flag.Int("runs", 5, "runs of each contender")
	tree := flag.Bool("tree", false, "with the engine xnet, a tree of each page")
	mextract := flag.String("mextract", "", "also run this command on WARC files of the pages")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	for _, dir := range flag.Args() {
		pages, err := read(dir)
		if err == nil && len(pages) == 0 {
			err = fmt.Errorf("%s: no HTML files", dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "html:", err)
			os.Exit(1)
		}
		perSecond := measure(os.Stdout, dir, pages, *runs, *tree)
		if *mextract == "" {
			continue
		}
		if err := command(os.Stdout, *mextract, pages, perSecond, *runs); err != nil {
			fmt.Fprintln(os.Stderr, "html:", err)
			os.Exit(1)
		}
	}
}

// read reads the HTML files below a folder. Each has room for one byte more, where
// tdewolff's lexer puts its end mark without copying.
func read(dir string) (pages [][]byte, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".html") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page := make([]byte, len(b), len(b)+1)
		copy(page, b)
		pages = append(pages, page)
		return nil
	})
	return pages, err
}

// contender reads a page and returns the number of links.
type contender struct {
	name string
	run  func(page []byte) int
}

var find = contender{"extract.Find", func(page []byte) int {
	return len(extract.Find(document(page), extract.Options{}).Links)
}}

var peers = []contender{
	{"extract.Find, each link resolved", func(page []byte) int {
		p := extract.Find(document(page), extract.Options{})
		var url, ref []byte
		for i := range p.Links {
			ref = append(ref[:0], p.Links[i].Ref...)
			url, _, _ = p.Base.AppendResolve(url[:0], ref)
		}
		return len(p.Links)
	}},
	{"x/net tokenizer, with attributes", func(page []byte) (links int) {
		z := html.NewTokenizer(newReader(page))
		for {
			switch z.Next() {
			case html.ErrorToken:
				return links
			case html.StartTagToken, html.SelfClosingTagToken:
				_, more := z.TagName()
				for more {
					var key []byte
					key, _, more = z.TagAttr()
					if string(key) == "href" || string(key) == "src" {
						links++
					}
				}
			}
		}
	}},
	{"tdewolff lexer, with attributes", func(page []byte) (links int) {
		l := tdewolff.NewLexer(parse.NewInputBytes(page))
		for {
			switch tok, _ := l.Next(); tok {
			case tdewolff.ErrorToken:
				return links
			case tdewolff.AttributeToken:
				if key := l.AttrKey(); (string(key) == "href" || string(key) == "src") && len(l.AttrVal()) > 0 {
					links++
				}
			}
		}
	}},
}

var tree = contender{"extract.Find, engine xnet", func(page []byte) int {
	return len(extract.Find(document(page), extract.Options{HTMLEngine: extract.EngineXNet}).Links)
}}

// cpuTime is the time that this process has spent on the processor, which other work on
// the machine blurs less than the clock's.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no reason to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func document(page []byte) *extract.Document {
	return &extract.Document{URL: "http://example.org/dir/page.html", MIME: "text/html", Charset: "utf-8", Body: page}
}

func newReader(page []byte) io.Reader { return strings.NewReader(string(page)) }

func measure(out io.Writer, name string, pages [][]byte, runs int, withTree bool) (perSecond float64) {
	all := append([]contender{find}, peers...)
	if withTree {
		all = append(all, tree)
	}
	best := make([]time.Duration, len(all))
	allocs := make([]uint64, len(all))
	links := make([]int, len(all))
	for range runs {
		for i, c := range all {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			links[i] = 0
			start := cpuTime()
			for _, p := range pages {
				links[i] += c.run(p)
			}
			took := cpuTime() - start
			runtime.ReadMemStats(&after)
			best[i] = least(best[i], took)
			allocs[i] = after.Mallocs - before.Mallocs
		}
	}
	size := 0
	for _, p := range pages {
		size += len(p)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(out, "%s: %d pages, %.1f MB; least of %d runs; load %s\n\n", name, len(pages), float64(size)/1e6, runs, strings.Fields(string(load))[0])
	fmt.Fprintln(out, "| | MB/s | pages/s | Find is times | allocations a page | links |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	for i, c := range all {
		s := best[i].Seconds()
		fmt.Fprintf(out, "| %s | %.0f | %.0f | %.2f | %.1f | %d |\n", c.name, float64(size)/1e6/s, float64(len(pages))/s, s/best[0].Seconds(), float64(allocs[i])/float64(len(pages)), links[i])
	}
	fmt.Fprintln(out)
	return float64(size) / best[0].Seconds()
}
