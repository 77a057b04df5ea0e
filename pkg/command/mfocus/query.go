package mfocus

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"mercator/pkg/cli"
	"mercator/pkg/focus/words"
)

type queryCmd struct {
	Text []string `arg:"" optional:"" help:"The query; - reads standard input, a query a line."`
}

// Help is part of --help.
func (queryCmd) Help() string {
	return `A JSON line says the type (word, words or url) and what comes next: the verb words, or the seeds.
Text in double quotes is one word: '"state of the art"'.

Examples:
  mfocus query computer mouse
  mfocus query www.example.org/mice | jq -r .url`
}

func (c *queryCmd) Run(std *cli.Std) error {
	out := bufio.NewWriter(std.Out)
	e := encoder(out)
	err := c.each(std, func(q words.Query) error { return e.Encode(q) })
	return errors.Join(err, out.Flush())
}

// each calls do for each query.
func (c *queryCmd) each(std *cli.Std, do func(words.Query) error) error {
	if len(c.Text) != 1 || c.Text[0] != "-" {
		q, err := words.Identify(joined(c.Text))
		if err != nil {
			return err
		}
		return do(q)
	}
	n := 0
	err := eachLine(std, nil, func(line string) error {
		q, err := words.Identify(line)
		if err != nil {
			return err
		}
		n++
		return do(q)
	})
	if err == nil && n == 0 {
		_, err = words.Identify("")
	}
	return err
}

// encoder writes JSON lines, with < and & as they are.
func encoder(out io.Writer) *json.Encoder {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e
}
