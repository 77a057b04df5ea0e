package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"mercator/pkg/base/must"
)

type toyGrammar struct {
	Count struct {
		Rows int      `short:"n" group:"Input:" placeholder:"N" help:"Rows of <x_NAME> at most."`
		From string   `placeholder:"ADDR" default:"a_b:1" help:"Where from."`
		To   string   `placeholder:"ADDR" default:"c:2" help:"Where to (default: there)."`
		Old  bool     `hidden:"" help:"Nobody needs it."`
		File []string `arg:"" optional:"" help:"What to count."`
	} `cmd:"" help:"Count rows."`
	Rest struct{} `cmd:"" help:"Rest."`
}

// A page has what the grammar has, and the section of the verb; what looks like markup in a help is text.
func TestManuals(t *testing.T) {
	parser, err := kong.New(&toyGrammar{}, kong.Name("toy"), kong.Description("Try things. And more.\n\n  toy count [x]  # an example"))
	must.OK(t, err)
	const manual = "# toy\n\nToys [count](../count.md), [eat](../eat/manual.md), [eat all](../eat/manual.md#eat-all), [here](#words), [rows](../../formats/record/SPEC.md#x), [settings](../../pkg/config/SPEC.md), [TOML](https://toml.io/en), [a.md](../../a.md).\n\n## Words\n\nA row is a row.\n\n## toy count\n\nCounts.\n\n### Fine print\n\n    toy count [x](y)\n"
	pages, err := manuals(parser.Model, manual)
	must.OK(t, err)
	for page, wants := range map[string][]string{
		"toy":       {"toy - Try things\n\n# SYNOPSIS", "Try things. And more.\n\n\n      toy count [x]  # an example\n", "Toys count (count.md), **eat**(1), eat all (**eat**(1)), here, rows (**mercator-record**(5)), settings (**crawl.toml**(5)), TOML (https://toml.io/en), a.md.\n", "**toy-count**(1)\n: Count rows.", "## Words\n\nA row is a row.", "# EXIT STATUS"},
		"toy-count": {"toy-count - Count rows\n", "### Input\n", "**-n**, **--rows**=*N*\n: Rows of \\<x\\_NAME\\> at most.\n", "**--from**=*ADDR*\n: Where from. Default: a\\_b:1.\n", "Where to (default: there).\n", "Counts.", "### Fine print\n", "    toy count [x](y)\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(pages[page]), want) {
				t.Errorf("%s lacks %q:\n%s", page, want, pages[page])
			}
		}
		if strings.Contains(string(pages[page]), "--old") {
			t.Errorf("%s has a hidden flag", page)
		}
	}
	if text := string(pages["toy-rest"]); strings.Contains(text, "# OPTIONS") || !strings.Contains(text, "The options of all verbs are in **toy**(1).") {
		t.Errorf("a verb without flags:\n%s", text)
	}
	if _, err := manuals(parser.Model, manual+"## toy cuont\n"); err == nil || !strings.Contains(err.Error(), "toy cuont") {
		t.Errorf("a section of no verb: %v", err)
	}
}
