// Command canon measures canonical URLs beside their peers: links as they stand in the HTML
// of Debian's documentation, resolved against their pages, and the same links as absolute URLs.
//
//	go run ./bench/canon [-runs 15] [FOLDER…]
//
// One core. Each run does all candidates in turn; a ratio is of the medians, and of the least
// times. Nothing leaves the machine.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"log"
	neturl "net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/html"

	"mercator/pkg/web/canon"
)

// page is a document and its links.
type page struct {
	url  string
	refs []string
}

// pages reads the links of all HTML below the folders.
func pages(folders []string) (all []page, links int, err error) {
	for _, folder := range folders {
		err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".html" {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			p := page{url: "https://docs.example.org" + path}
			for z := html.NewTokenizer(f); z.Next() != html.ErrorToken; {
				for _, a := range z.Token().Attr {
					if a.Key == "href" || a.Key == "src" {
						p.refs = append(p.refs, a.Val)
					}
				}
			}
			links += len(p.refs)
			all = append(all, p)
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return all, links, nil
}

// absolute gives the pages absolute links.
func absolute(all []page) (out []page, links int) {
	for _, p := range all {
		base, err := canon.Options{}.Base(p.url)
		if err != nil {
			log.Fatal(err)
		}
		q := page{url: p.url}
		for _, ref := range p.refs {
			if u, _, err := base.Resolve(ref); err == nil {
				q.refs = append(q.refs, u)
			}
		}
		links += len(q.refs)
		out = append(out, q)
	}
	return out, links
}

// candidate does all links of all pages and returns a sum, so that nothing is left out.
type candidate struct {
	name string
	run  func([]page) int
}

var candidates = []candidate{
	{"canon, AppendResolve", func(all []page) (sum int) {
		var dst, in []byte
		for _, p := range all {
			base, _ := canon.Options{}.Base(p.url)
			for _, ref := range p.refs {
				in = append(in[:0], ref...)
				dst, _, _ = base.AppendResolve(dst[:0], in)
				sum += len(dst)
			}
		}
		return sum
	}},
	{"canon, Resolve (strings)", func(all []page) (sum int) {
		for _, p := range all {
			base, _ := canon.Options{}.Base(p.url)
			for _, ref := range p.refs {
				u, _, _ := base.Resolve(ref)
				sum += len(u)
			}
		}
		return sum
	}},
	{"nlnwa/whatwg-url", func(all []page) (sum int) {
		parser := url.NewParser()
		for _, p := range all {
			base, _ := parser.Parse(p.url)
			for _, ref := range p.refs {
				if u, err := parser.BasicParser(ref, base, nil, url.NoState); err == nil {
					sum += len(u.Href(true))
				}
			}
		}
		return sum
	}},
	{"net/url.Parse alone", func(all []page) (sum int) {
		for _, p := range all {
			for _, ref := range p.refs {
				if u, err := neturl.Parse(ref); err == nil {
					sum += len(u.Path)
				}
			}
		}
		return sum
	}},
	{"net/url, ResolveReference, String", func(all []page) (sum int) {
		for _, p := range all {
			base, _ := neturl.Parse(p.url)
			for _, ref := range p.refs {
				if u, err := neturl.Parse(ref); err == nil {
					sum += len(base.ResolveReference(u).String())
				}
			}
		}
		return sum
	}},
}

func main() {
	runs := flag.Int("runs", 15, "runs of each candidate")
	flag.Parse()
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"/usr/share/doc/python3.11", "/usr/share/doc/postgresql-doc-15"}
	}
	all, n := pagesOrExit(folders)
	runtime.GOMAXPROCS(1)
	fmt.Printf("%s, load %s\n", strings.Join(folders, ", "), load())
	measure("links as they stand", all, n, *runs)
	abs, m := absolute(all)
	measure("the same, absolute", abs, m, *runs)
}

func pagesOrExit(folders []string) ([]page, int) {
	all, n, err := pages(folders)
	if err == nil && n == 0 {
		err = fmt.Errorf("no links in %v: are python3.11-doc and postgresql-doc-15 installed?", folders)
	}
	if err != nil {
		log.Fatal(err)
	}
	return all, n
}

func measure(what string, all []page, n, runs int) {
	took := make([][]time.Duration, len(candidates))
	for range runs {
		for i, c := range candidates {
			runtime.GC()
			start := time.Now()
			if c.run(all) == 0 {
				log.Fatalf("%s: nothing done", c.name)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	fmt.Printf("\n%s: %d on %d pages\n", what, n, len(all))
	fmt.Printf("%-34s %12s %16s %14s\n", "", "M links/s", "AppendResolve is", "by least times")
	for _, t := range took {
		slices.Sort(t)
	}
	for i, c := range candidates {
		ratio := func(k int) float64 { return float64(took[i][k]) / float64(took[0][k]) }
		fmt.Printf("%-34s %12.2f %16.2f %14.2f\n", c.name, float64(n)/took[i][runs/2].Seconds()/1e6, ratio(runs/2), ratio(0))
	}
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(b))[0]
}
