package main

import (
	"context"
	"encoding/json"
	"fmt"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/driver"
	"mercator/pkg/folder/shard"
)

type moveCmd struct {
	Crawl   string   `arg:"" help:"The crawl folder."`
	Buckets string   `arg:"" optional:"" placeholder:"BUCKETS" help:"Buckets and ranges of them, such as 17,100-140."`
	Host    []string `placeholder:"HOST" help:"The bucket of this host (with its port) or URL; may be given several times."`
	To      int      `required:"" placeholder:"N" help:"The shard that they go to."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*moveCmd) Help() string {
	return `A bucket is a 4,096th of the hosts. It moves whole, with the URLs that wait, what is known
of its hosts, and its part of the set of URLs. Between rounds only. If the command is
killed, run it again; "mcrawl run" finishes the move too.

Examples:
  mcrawl move crawl 17,100-140 --to 3
  mcrawl move crawl --host www.example.org --to 0`
}

func (c *moveCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := driver.OpenShards(c.Crawl, "mcrawl move", driverOptions(std))
	if err != nil {
		return err
	}
	var buckets []int
	if c.Buckets != "" {
		if buckets, err = shard.ParseBuckets(c.Buckets); err != nil {
			return err
		}
	}
	for _, host := range c.Host {
		b, err := d.HostBucket(ctx, host)
		if err != nil {
			return err
		}
		buckets = append(buckets, b)
	}
	if len(buckets) == 0 {
		return &fault.Error{Class: fault.Usage, Found: "no bucket", Want: "buckets, or --host", Hint: "see some that are proposed: " + fault.Quote("mcrawl", "balance", c.Crawl)}
	}
	moved, err := d.Move(ctx, buckets, c.To)
	if err != nil {
		return err
	}
	if moved == nil && !c.JSON {
		_, err := fmt.Fprintf(std.Out, "nothing to do: shard %d has these buckets\n", c.To)
		return err
	}
	return printMoved(std, moved, c.JSON)
}

type balanceCmd struct {
	Crawl string `arg:"" help:"The crawl folder."`
	Do    bool   `help:"Make the moves, all in one."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*balanceCmd) Help() string {
	return `It counts the URLs that wait. A host stays whole: if one has more than a shard's part,
the others move away from it.

Examples:
  mcrawl balance crawl
  mcrawl balance crawl --do`
}

func (c *balanceCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := driver.OpenShards(c.Crawl, "mcrawl balance", driverOptions(std))
	if err != nil {
		return err
	}
	if c.Do {
		moved, err := d.DoBalance(ctx)
		if err == nil && moved == nil && !c.JSON {
			_, err = fmt.Fprintln(std.Out, "nothing to do: no move would make the shards more even")
			return err
		}
		if err != nil {
			return err
		}
		return printMoved(std, moved, c.JSON)
	}
	b, err := d.Balance(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(b)
	}
	return b.Print(std.Screen(), c.Crawl)
}

type reshardCmd struct {
	Crawl  string `arg:"" help:"The crawl folder."`
	Shards int    `arg:"" placeholder:"N" help:"How many shards it then has."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Help is part of --help.
func (*reshardCmd) Help() string {
	return `The new shards get an equal share of the buckets, as by "mcrawl move". Between rounds
only. If the command is killed, run it again; "mcrawl run" finishes it too.

Examples:
  mcrawl reshard crawl 3
  mcrawl reshard crawl 3 && mcrawl balance crawl --do`
}

func (c *reshardCmd) Run(ctx context.Context, std *cli.Std) error {
	d, err := driver.OpenShards(c.Crawl, "mcrawl reshard", driverOptions(std))
	if err != nil {
		return err
	}
	moved, err := d.Reshard(ctx, c.Shards)
	if err == nil && moved == nil && !c.JSON {
		_, err = fmt.Fprintf(std.Out, "nothing to do: the crawl has %d shards\n", c.Shards)
		return err
	}
	if err != nil {
		return err
	}
	return printMoved(std, moved, c.JSON)
}

func printMoved(std *cli.Std, moved *driver.Moved, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(std.Out).Encode(moved)
	}
	_, err := fmt.Fprint(std.Out, moved)
	return err
}
