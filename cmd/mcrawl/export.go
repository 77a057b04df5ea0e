package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver/tell"
	"mercator/pkg/view/derive"
)

type exportCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	To    string `arg:"" optional:"" help:"File or folder to make, or - (default: as below)."`

	Filter string `placeholder:"FILE" help:"Leave out what a rule of this file denies, such as \"deny blog: path /blog/\"."`

	WACZ    bool `group:"What to make, one of:" name:"wacz" xor:"format" help:"CRAWL.wacz: the archive, its index and its pages."`
	Parquet bool `group:"What to make, one of:" xor:"format" help:"CRAWL-parquet, a folder: outcomes, robots, links and so on."`
	CDXJ    bool `group:"What to make, one of:" name:"cdxj" xor:"format" help:"CRAWL.cdxj: the sorted index of all WARC files."`
	WET     bool `group:"What to make, one of:" name:"wet" xor:"format" help:"CRAWL-wet, a folder of WET files: the text of pages."`
	WAT     bool `group:"What to make, one of:" name:"wat" xor:"format" help:"CRAWL-wat, a folder of WAT files: metadata, links."`
}

// Help is part of --help.
func (*exportCmd) Help() string {
	return `One of the formats must be named. What the crawl has committed is
exported; it may go on meanwhile. The file or folder appears when it is whole,
with the folders above it. A file of that name is replaced; a folder only if it
is an older export. A crawl without any reply is refused. --parquet takes it as
soon as a round has ended: its outcomes say what went wrong.

Examples:
  mcrawl export crawl --wacz                # crawl.wacz
  mcrawl export crawl --parquet tables      # tables/outcomes.parquet and so on
  mcrawl export crawl --cdxj - | head
  mcrawl export crawl --wacz --filter no-blog.txt`
}

// exports are the formats, in the order of Run: each is written to a file, which begins so, or to a folder.
var exports = [...]struct {
	suffix string // of its name
	begin  func() *regexp.Regexp
	file   func(tell.Export, context.Context, io.Writer) error
	folder func(tell.Export, context.Context, string) error
}{
	{".wacz", sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^PK\x03\x04`) }), tell.Export.WACZ, nil},
	{".cdxj", sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^ \n]+ [0-9]{14} \{`) }), tell.Export.CDXJ, nil},
	{"-parquet", nil, nil, tell.Export.Parquet},
	{"-wet", nil, nil, func(e tell.Export, ctx context.Context, to string) error { return e.Derived(ctx, to, derive.WET) }},
	{"-wat", nil, nil, func(e tell.Export, ctx context.Context, to string) error { return e.Derived(ctx, to, derive.WAT) }},
}

func (c *exportCmd) Run(ctx context.Context, std *cli.Std) error {
	i := slices.Index([]bool{c.WACZ, c.CDXJ, c.Parquet, c.WET, c.WAT}, true)
	if i < 0 {
		return &fault.Error{Class: fault.Usage, Found: "no format", Want: "--wacz, --parquet, --cdxj, --wet or --wat", Hint: "make what pywb and ReplayWeb.page read: " + fault.Quote("mcrawl", "export", c.Crawl, "--wacz")}
	}
	progress := std.StartLong("records")
	defer progress.Done()
	e := tell.Export{Dir: c.Crawl, Warn: func(err error) { std.Warn("%v", err) }, Memory: std.MemoryLimit() / 4, Threads: std.Threads(), Progress: progress.Add, Filter: c.Filter}
	e.Unfinished(ctx)
	of := exports[i]
	if of.file != nil {
		return c.writeFile(ctx, std, of.suffix, of.begin(), func(ctx context.Context, out io.Writer) error { return of.file(e, ctx, out) })
	}
	to, err := outputPath(c.Crawl, c.To, of.suffix)
	if err != nil {
		return err
	}
	if to == "-" {
		return &fault.Error{Class: fault.Usage, File: to, Found: "standard output", Want: "a folder, new or empty", Hint: "--wacz and --cdxj make one file, which can go there"}
	}
	if err := of.folder(e, ctx, to); err != nil {
		return err
	}
	return c.printPath(std, to)
}

// outputPath is the path of an exported file: to or, if that is empty, a name beside the crawl folder.
func outputPath(crawl, to, suffix string) (string, error) {
	if to != "" {
		return to, nil
	}
	dir := filepath.Clean(crawl)
	if base := filepath.Base(dir); base == "." || base == ".." { // the folder's name is not in it
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		dir = filepath.Join(dir, "..", filepath.Base(abs))
	}
	return dir + suffix, nil
}

// maxBegin is how much of a file must show what it is: the line of an index with the longest URL.
const maxBegin = 64 << 10

// replacesOwn reports whether there is a file at path. A file with another beginning is refused: this command
// did not make it.
func replacesOwn(path string, begin *regexp.Regexp) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, nil // making the file tells what is wrong
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close() // was read only
	head, err := io.ReadAll(io.LimitReader(file, maxBegin))
	if err == nil && len(head) > 0 && !begin.Match(head) {
		err = &fault.Error{Class: fault.Usage, File: path, Found: "a file of another kind", Want: "a new name, or an older file to replace", Hint: "give another name, or remove it"}
	}
	return true, err
}

func (c *exportCmd) writeFile(ctx context.Context, std *cli.Std, suffix string, begin *regexp.Regexp, write func(context.Context, io.Writer) error) error {
	if c.To == "-" {
		if suffix != ".cdxj" {
			if err := std.RefuseTerminal("WACZ files are"); err != nil {
				return err
			}
		}
		out := bufio.NewWriterSize(std.Out, 64<<10)
		if err := write(ctx, out); err != nil {
			return err
		}
		return out.Flush()
	}
	to, err := outputPath(c.Crawl, c.To, suffix)
	if err != nil {
		return err
	}
	there, err := replacesOwn(to, begin)
	if err != nil {
		return err
	}
	if err := durable.WriteOutputBy(to, func(out io.Writer) error { return write(ctx, out) }); err != nil {
		return err
	}
	if there {
		std.Warn("replaced %s", to)
	}
	return c.printPath(std, to)
}

func (c *exportCmd) printPath(std *cli.Std, path string) error {
	_, err := fmt.Fprintln(std.Out, path)
	return err
}
