package mfetch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/fetch"
	"mercator/pkg/web/canon"
)

// keptName is the file of a round that says how polite it was to be, in the form of crawl.toml. Sheets and their lists stand beside it.
const keptName = "politeness.toml"

// keepPoliteness writes the file --keep.
func (c *fetchCmd) keepPoliteness() error {
	if c.Keep == "" {
		return nil
	}
	schemes, err := canon.ParseSchemes(c.Scheme)
	if err != nil {
		return err
	}
	sheets, err := sheet.Load(c.Sheets, schemes)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(filepath.Base(c.Keep), filepath.Ext(c.Keep))
	write := func(name string, text []byte) error {
		return durable.WriteFile(durable.OS, filepath.Join(filepath.Dir(c.Keep), name), text)
	}
	pairs := []config.Pair{
		{Key: "schemes", Value: strings.Join(c.Scheme, ",")},
		{Key: "politeness.min_delay", Value: c.MinDelay.String()},
		{Key: "politeness.delay_factor", Value: strconv.FormatFloat(c.DelayFactor, 'f', -1, 64)},
		{Key: "politeness.max_delay", Value: c.MaxDelay.String()},
		{Key: "politeness.addr_delay", Value: c.AddrDelay.String()},
		{Key: "politeness.longest_wait", Value: c.LongestWait.String()},
	}
	text, err := sheets.Audited(func(n int, list []byte) (string, error) {
		name := fmt.Sprintf("%s.list-%d", base, n)
		return name, write(name, list)
	})
	if err != nil {
		return err
	}
	if len(text) > 0 {
		if err := write(base+".sheets", text); err != nil {
			return err
		}
		pairs = append(pairs, config.Pair{Key: "sheets", Value: base + ".sheets"})
	}
	if text, err = config.SetAll(nil, pairs); err != nil {
		return err
	}
	return write(filepath.Base(c.Keep), text)
}

// demandsMax bounds the kinds of politeness that an audit has in memory.
const demandsMax = 100

// demands returns the audit options that the flags give.
func (c *auditCmd) demands() (opt fetch.AuditOptions, err error) {
	schemes, err := canon.ParseSchemes(c.Scheme)
	if err != nil {
		return opt, err
	}
	sheets, err := sheet.Load(c.Sheets, schemes)
	return fetch.AuditOptions{Policy: sheets.Politeness(c.Delays), AddrDelay: c.AddrDelay, LongestWait: c.LongestWait}, err
}

// rounds has the politeness that an audit holds the rows of rounds to, each kind once.
type rounds struct {
	auditCmd
	std   *cli.Std
	texts [][]byte // the files of each kind, one behind the other; the first is nil: the flags alone
}

// hold is called before the rows of a file. A flag counts for all; in place of crawl.toml counts what is kept beside the file.
func (d *rounds) hold(file string, a *fetch.Auditor) error {
	own := d.auditCmd
	var text []byte
	kept := filepath.Join(filepath.Dir(file), keptName)
	if _, err := os.Stat(kept); err == nil && file != "-" {
		conf, err := config.Load(kept)
		if err != nil {
			return err
		}
		p, all := conf.File.Politeness, []string{kept}
		set(d.std, "min-delay", &own.MinDelay, p.MinDelay)
		set(d.std, "delay-factor", &own.DelayFactor, p.DelayFactor)
		set(d.std, "max-delay", &own.MaxDelay, p.MaxDelay)
		set(d.std, "addr-delay", &own.AddrDelay, p.AddrDelay)
		set(d.std, "longest-wait", &own.LongestWait, p.LongestWait)
		if !d.std.Given("sheets") {
			sheets, err := sheet.OfCrawl(conf)
			if err != nil {
				return err
			}
			if own.Sheets, own.Scheme = "", conf.File.URLs.Scheme; sheets != nil {
				own.Sheets = sheets.Files[0]
				all = append(all, sheets.Files...)
			}
		}
		for _, name := range all {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = append(text, b...)
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := slices.IndexFunc(d.texts, func(t []byte) bool { return bytes.Equal(t, text) })
	if known >= 0 {
		a.Hold(known)
		return nil
	}
	if len(d.texts) > demandsMax {
		return &fault.Error{Class: fault.Usage, File: kept, Found: fmt.Sprintf("politeness of more than %d kinds", demandsMax), Want: "records of fewer rounds at a time, such as rounds/r1/marked.arrows.zst"}
	}
	opt, err := own.demands()
	if err != nil {
		return err
	}
	d.texts = append(d.texts, text)
	a.Demand(opt)
	return nil
}

func set[T any](std *cli.Std, flag string, to *T, kept T) {
	if !std.Given(flag) {
		*to = kept
	}
}
