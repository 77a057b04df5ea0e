package mckpt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/snapshot"
)

type filesCmd struct {
	Crawl      string `arg:"" help:"The crawl folder."`
	Checkpoint uint64 `placeholder:"N" help:"Only what this checkpoint needs, without pointers."`
	JSON       bool   `name:"json" help:"Print JSON lines: path, where it is on disk, class, length, checksum."`
	lockFlag
}

// Help is part of --help.
func (*filesCmd) Help() string {
	return `The order is that of copying: data, manifests, pointers; CURRENT is last. A growing
file may be longer than its length says. Nothing may change the crawl while it is
copied by such a list; "mckpt push" works at any time.

Examples:
  mckpt files crawl > list    # rsync --files-from=list
  mckpt files crawl --json | jq -s 'map(.length) | add'`
}

func (c *filesCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, c.options())
	if err != nil {
		return err
	}
	inv, err := folder.FilesOf(ctx, c.Checkpoint)
	if err != nil {
		return err
	}
	warnOfLeft(std, inv.Left)
	secret := secrets{crawl: c.Crawl}
	var left []string
	out := json.NewEncoder(std.Out)
	for _, f := range inv.Files {
		if f.Class == crawl.Data && f.Sum == "" {
			what, err := secret.of(f.OnDisk)
			if err != nil {
				return err
			}
			if what != "" {
				left = append(left, f.Path+" ("+what+")")
				continue
			}
		}
		if c.JSON {
			err = out.Encode(f)
		} else {
			name := f.OnDisk
			if name[0] == '#' || name[0] == ';' { // to rsync a comment
				name = "./" + name
			}
			_, err = fmt.Fprintln(std.Out, name)
		}
		if err != nil {
			return err
		}
	}
	warnOfSecret(std, left, secret.copied)
	return nil
}

func warnOfSecret(std *cli.Std, secret, copied []string) {
	if len(secret) > 0 {
		std.Warn("not copied, since secrets are in it: %s", cli.Printable(strings.Join(secret, ", ")))
	}
	if len(copied) > 0 {
		std.Warn("copied with the passwords that are in it, since the crawl needs it: %s", cli.Printable(strings.Join(copied, ", ")))
	}
}

func warnOfLeft(std *cli.Std, left []string) {
	if len(left) > 0 {
		std.Warn("not copied: %s (a link, no regular file, or an odd name), such as %q", cli.Count(len(left), "file"), left[0])
	}
}

func (c *pushCmd) warnOfGone(warn func(format string, args ...any), which string, gone []string) {
	if len(gone) > 0 {
		warn("not in the crawl: %s of closed rounds, %s, such as %q; if you moved rounds away, forget them: %s",
			cli.Count(len(gone), "file"), which, gone[0], fault.Quote("mckpt", "gc", c.Crawl)+" --keep N")
	}
}

type pushCmd struct {
	Crawl  string `arg:"" help:"The crawl folder."`
	Remote string `arg:"" optional:"" help:"A folder, HOST:PATH, or rclone:NAME:PATH (default: push in crawl.toml)."`
	Check  bool   `help:"Read back what is there, and send again what is damaged."`
	JSON   bool   `name:"json" help:"Print what was done as JSON."`
	lockFlag
}

// Help is part of --help.
func (*pushCmd) Help() string {
	return `Only what the remote lacks is sent; rounds may go on meanwhile. If it is interrupted,
the snapshot before counts, and the same command goes on. HOST:PATH and rsync:// need
rsync, and ssh at both ends; rclone:NAME:PATH needs a remote of "rclone config". Links
are not copied, nor files with passwords, cookies or private keys.

Examples:
  mckpt push crawl /mnt/backup/crawl
  mckpt push crawl backup.example.org:crawl
  mckpt push crawl rclone:s3:bucket/crawl`
}

func (c *pushCmd) Run(ctx context.Context, std *cli.Std) error {
	folder, err := crawl.Open(c.Crawl, c.options())
	if err != nil {
		return err
	}
	conf, err := config.Load(filepath.Join(c.Crawl, config.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	remote := c.Remote
	if remote == "" && conf != nil {
		remote = conf.File.Push
	}
	if remote == "" {
		return &fault.Error{Class: fault.Usage, Place: "REMOTE", Found: "none, and no push in crawl.toml", Want: "a folder, HOST:PATH, or rclone:NAME:PATH",
			Hint: "name it, or set it, such as: " + fault.Quote("mcrawl", "set", c.Crawl, "push=/mnt/copy")}
	}
	if c.Remote == "" && snapshot.IsFolder(remote) && !filepath.IsAbs(remote) {
		return &fault.Error{Class: fault.Usage, File: conf.Path, Place: "push", Found: fmt.Sprintf("%q", remote), Want: "an absolute folder, HOST:PATH, or rclone:NAME:PATH",
			Hint: "change it: " + fault.Quote("mcrawl", "set", c.Crawl) + " push=/FOLDER"}
	}
	progress := std.StartProgress("bytes", 0)
	defer progress.Done()
	secret := &secrets{crawl: c.Crawl}
	done, err := snapshot.Push(ctx, folder, remote, snapshot.Options{LockWait: c.LockWait, Now: std.Now(), Check: c.Check, Progress: progress.Add, Secret: secret.of})
	progress.Done()
	if err != nil {
		return err
	}
	std.Stat("pushed", done)
	warnOfLeft(std, done.Left)
	warnOfSecret(std, done.Secret, secret.copied)
	c.warnOfGone(std.Warn, "which the copy keeps", done.Kept)
	c.warnOfGone(std.WarnAlways, "which the copy has not", done.Lost)
	if conf != nil {
		warnOfHeader(std, config.Name, conf.File.Fetch.Header)
		outside, absolute, err := conf.Outside(c.Crawl)
		if err != nil {
			return err
		}
		if conf.CheckPaths(c.Crawl, "sheets") == nil {
			warnOfHeader(std, conf.File.Sheets, sheetHeaders(conf))
		}
		if len(outside) > 0 {
			std.Warn("%s names files outside the crawl folder, which are not copied: %s", conf.Path, strings.Join(outside, ", "))
		}
		if lists, err := listsOutside(conf, c.Crawl); err != nil {
			return err
		} else if len(lists) > 0 {
			std.Warn("filter rules or sheets of %s name files outside the crawl folder, which are not copied: %s", conf.Path, strings.Join(lists, ", "))
		}
		if len(absolute) > 0 {
			std.Warn("%s names files of the crawl folder by absolute names, which after a pull are still those of this folder: %s", conf.Path, strings.Join(absolute, ", "))
		}
	}
	if c.JSON {
		return printJSON(std, done)
	}
	damaged := ""
	if done.Damaged > 0 {
		damaged = fmt.Sprintf(", %s there sent again", cli.Count(done.Damaged, "damaged file"))
	}
	std.Warn("snapshot %d is of checkpoint %d%s: %s, %s; sent: %s, %s%s", done.Snapshot, done.Checkpoint, ofRound(done.Round),
		cli.Count(done.Files, "file"), cli.Count(done.Bytes, "byte"), cli.Count(done.Copied, "file"), cli.Count(done.CopiedSize, "byte"), damaged)
	return nil
}

func ofRound(txn string) string {
	if txn == "" {
		return ""
	}
	return " (" + txn + ")"
}

type pullCmd struct {
	Remote string `arg:"" help:"A folder, HOST:PATH, or rclone:NAME:PATH."`
	Crawl  string `arg:"" help:"Folder to make, or that of an unfinished pull."`
	Trust  bool   `name:"trust-programs" help:"Take settings and filter rules that run programs, too."`
	JSON   bool   `name:"json" help:"Print what was done as JSON."`
	lockFlag
}

// Help is part of --help.
func (*pullCmd) Help() string {
	return `For one machine to go on where another was lost. See to it that the other does not go
on. What it did since the snapshot is fetched again. If the command is interrupted, the
same command goes on. Settings and filter rules that run programs are left off, and listed,
unless you trust whoever can write to the remote, by --trust-programs.

Examples:
  mckpt pull backup.example.org:crawl crawl && mcrawl run crawl`
}

func (c *pullCmd) Run(ctx context.Context, std *cli.Std) error {
	progress := std.StartProgress("bytes", 0)
	defer progress.Done()
	var off disarmed
	arrived := func() (err error) {
		if !c.Trust {
			off, err = disarm(c.Crawl)
		}
		return err
	}
	done, err := snapshot.Pull(ctx, c.Remote, c.Crawl, func(dir, name string, newest uint64) error {
		if name != fetch.Kind {
			return nil
		}
		return fetch.TakenOver(dir, newest, std.Now())
	}, snapshot.Options{LockWait: c.LockWait, Now: std.Now(), Progress: progress.Add, Arrived: arrived})
	progress.Done()
	if err != nil {
		return err
	}
	std.Stat("pulled", done)
	if err := (&verifyCmd{Crawl: c.Crawl}).Run(ctx, std); err != nil {
		return err
	}
	off.warn(std)
	if conf, err := config.Load(filepath.Join(c.Crawl, config.Name)); err == nil {
		if login, err := conf.Setting("fetch.login"); err == nil && len(login) > 0 && login[0] != "" && conf.CheckPaths(c.Crawl, "fetch.login") != nil {
			std.WarnAlways("fetch.login names %s, which copies leave out: put it there again, for its user alone (chmod 600)", cli.Printable(login[0]))
		}
	}
	std.Warn("the crawl goes on from checkpoint %d%s, in a new epoch; it must not go on anywhere else, and waits before it contacts any host", done.Checkpoint, ofRound(done.Round))
	if c.JSON {
		return printJSON(std, done)
	}
	return nil
}
