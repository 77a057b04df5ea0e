package mfetch

import (
	"bufio"
	"cmp"
	"context"
	"fmt"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/fetch"
)

type copyCmd struct {
	Files  []string `arg:"" optional:"" help:"Fetch records; default: standard input."`
	From   []string `required:"" placeholder:"STORE" help:"Fetch store of the records; or one for each file."`
	Output string   `short:"o" placeholder:"FILE" help:"Write to this file instead of standard output."`

	WARCCodec  string `name:"warc-codec" default:"gzip" placeholder:"gzip" enum:"gzip,zstd,none" help:"gzip, zstd or none: how the records are compressed."`
	Dictionary string `type:"existingfile" placeholder:"FILE" help:"With zstd: a dictionary that zstd --train made, with which the file begins."`
	Robots     bool   `help:"Copy robots.txt files too."`
}

// Help is part of --help.
func (*copyCmd) Help() string {
	return `Of each URL the reply is copied: response, revisit or resource records, without requests.

Examples:
  mfetch copy --from crawl crawl/rounds/r7/marked.arrows.zst -o r7.warc.gz
  mcat crawl | grep '"host":"a.example"' | mcat --from json --kind fetch |
    mfetch copy --from crawl -o a.warc.gz
  mfetch copy --from crawl --warc-codec zstd --dictionary pages.dict \
    marked.arrows.zst -o r7.warc.zst`
}

func (c *copyCmd) Run(ctx context.Context, std *cli.Std) error {
	if len(c.From) > 1 && len(c.From) != len(c.Files) {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--from with %s for %s", cli.Count(len(c.From), "store"), cli.Count(len(c.Files), "file")), Want: "one store, or one for each file"}
	}
	for i, dir := range c.From {
		c.From[i] = store.Within(dir, "fetch", store.Options{})
		if _, err := store.Open(c.From[i], fetch.Kind, fetch.Version, store.Options{}); err != nil {
			return err
		}
	}
	var dictionary *warc.Dictionary
	if c.Dictionary != "" {
		if warc.Codec(c.WARCCodec) != warc.Zstd {
			return &fault.Error{Class: fault.Usage, Found: "--dictionary with --warc-codec " + c.WARCCodec, Want: "--warc-codec zstd"}
		}
		var err error
		if dictionary, err = warc.ReadDictionary(c.Dictionary); err != nil {
			return err
		}
	}
	to, commit := std.Out, func() error { return nil }
	if c.Output == "" || c.Output == "-" {
		if err := std.RefuseTerminal("WARC files are"); err != nil {
			return err
		}
	} else {
		file, err := durable.CreateOutput(c.Output)
		if err != nil {
			return err
		}
		defer file.Abort()
		to, commit = file, file.Commit
	}
	out := bufio.NewWriterSize(to, 64<<10)
	copier := fetch.Copier{Encoder: warc.Encoder{Codec: warc.Codec(c.WARCCodec), Dictionary: dictionary}, Out: out, RecordMax: std.MemoryLimit() / 4}
	defer copier.Close()
	progress := std.StartProgress("records", 0)
	defer progress.Done()
	each := func(dir string, files []string) error {
		in, err := cli.OpenRecords[record.Fetch](std, files)
		if err != nil {
			return err
		}
		if err := copier.Begin(cmp.Or(in.Schema().Now, record.TimeOf(std.Now()))); err != nil {
			return err
		}
		return record.Each(in, func(row *record.Fetch) error {
			if row.Role == record.RoleRobots && !c.Robots {
				return nil
			}
			progress.Add(1)
			return copier.Copy(ctx, dir, row)
		})
	}
	for i, dir := range c.From {
		files := c.Files
		if len(c.From) > 1 {
			files = files[i : i+1]
		}
		if err := each(dir, files); err != nil {
			return err
		}
	}
	std.Stat("copied", map[string]uint64{"records": copier.Records, "block_bytes": copier.Bytes})
	if err := out.Flush(); err != nil {
		return err
	}
	return commit()
}
