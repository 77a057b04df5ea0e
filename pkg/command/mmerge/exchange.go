package mmerge

import (
	"context"
	"fmt"
	"net/netip"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/folder/exchange"
	"mercator/pkg/folder/shard"
	"mercator/pkg/merge"
)

// exchangeFlags name an exchange between the shards of a crawl, and one of its sides.
type exchangeFlags struct {
	By       string `group:"Between the shards of a crawl:" placeholder:"KEY" help:"Send rows to the owner of their host, document or address."`
	Map      string `group:"Between the shards of a crawl:" placeholder:"CRAWL" help:"Crawl folder: its bucket map says who owns what."`
	Round    string `group:"Between the shards of a crawl:" placeholder:"NAME" help:"Round of the rows."`
	Exchange string `group:"Between the shards of a crawl:" placeholder:"NAME" help:"What is exchanged, such as links."`
	Shard    int    `group:"Between the shards of a crawl:" default:"-1" placeholder:"N" help:"This shard, from 0."`
}

// noShard is the default of --shard.
const noShard = -1

// open reads the map, and returns the exchange that the flags name.
func (f *exchangeFlags) open() (*shard.Map, exchange.ID, error) {
	var id exchange.ID
	for _, given := range []struct {
		flag string
		ok   bool
	}{{"--map", f.Map != ""}, {"--by", f.By != ""}, {"--round", f.Round != ""}, {"--exchange", f.Exchange != ""}, {"--shard", f.Shard != noShard}} {
		if !given.ok {
			return nil, id, &fault.Error{Class: fault.Usage, Found: "no " + given.flag, Want: "--by, --map, --round, --exchange and --shard"}
		}
	}
	if err := store.CheckTxn(f.Round); err != nil {
		return nil, id, err
	}
	id, m, err := exchange.Of(durable.OS, f.Map)
	if err != nil {
		return nil, id, err
	}
	if f.Shard < 0 || f.Shard >= m.Shards {
		return nil, id, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("--shard %d", f.Shard), Want: fmt.Sprintf("0 to %d", m.Shards-1)}
	}
	id.Exchange, id.Round, id.By = f.Exchange, f.Round, f.By
	return m, id, nil
}

// send cuts the rows by the bucket map.
func (c *splitCmd) send(ctx context.Context, std *cli.Std) error {
	if c.Buckets != nil || c.Text || c.Polynomial != 0 {
		return &fault.Error{Class: fault.Usage, Found: "--map with --buckets, --text or --polynomial", Want: "--map and a record stream"}
	}
	m, id, err := c.open()
	if err != nil {
		return err
	}
	guard, err := addrguard.New(c.AllowNet)
	if err != nil {
		return err
	}
	src, err := cli.OpenSource(std, []string{c.File}, cli.Outcomes)
	if err != nil {
		return err
	}
	s := exchange.Split{FS: durable.OS, Dir: c.Prefix, ID: id, From: c.Shard, Map: m, Memory: std.MemoryLimit() / 4,
		Refused: func(addr netip.Addr) bool { ok, _ := guard.Allowed(addr); return !ok }}
	return record.ByKind(src.Kind(), sendRows[record.URL], sendRows[record.Fetch], sendRows[record.Link], sendRows[record.Module])(ctx, std, src, s)
}

func sendRows[T record.Row](ctx context.Context, std *cli.Std, src *cli.Records, s exchange.Split) error {
	in, err := cli.RowsOf[T](src)
	if err != nil {
		return err
	}
	progress := std.StartProgress("rows", 0)
	defer progress.Done()
	s.Progress = progress.Add
	manifest, err := exchange.Run(ctx, s, merge.Rows[T](in))
	if err != nil {
		return err
	}
	var rows uint64
	for _, p := range manifest.Parts {
		rows += p.Rows
	}
	std.Stat("rows", rows)
	std.Stat("part_bytes", manifest.Bytes)
	return nil
}

type gatherCmd struct {
	Dir string `arg:"" help:"Folder of the exchange."`
	exchangeFlags
	cli.Output
}

// Help is part of --help.
func (gatherCmd) Help() string {
	return `The parts of all shards must be there, each of this exchange, round, epoch and
bucket map. Rows come in order of sender, then as they stood.

Examples:
  mmerge gather --by host --map crawl --round r12 --exchange links --shard 3 \
    crawl/rounds/r12/links | murlset new crawl/shard/003/urls`
}

func (c *gatherCmd) Run(ctx context.Context, std *cli.Std) error {
	_, id, err := c.open()
	if err != nil {
		return err
	}
	in, err := exchange.Receive(durable.OS, c.Dir, id, c.Shard)
	if err != nil {
		return err
	}
	return record.ByKind(in.Kind, gatherRows[record.URL], gatherRows[record.Fetch], gatherRows[record.Link], gatherRows[record.Module])(ctx, std, c, in)
}

func gatherRows[T record.Row](ctx context.Context, std *cli.Std, c *gatherCmd, in *exchange.Incoming) error {
	rows, err := exchange.Rows[T](in)
	if err != nil {
		return err
	}
	defer rows.Close() // was read only
	return passAll(ctx, std, "mmerge gather "+c.Exchange, rows, c.Output)
}
