package mfocus

import (
	"bufio"
	"encoding/json"
	"errors"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/focus/words"
)

type wordsCmd struct {
	Text []string `arg:"" optional:"" help:"A text; default: lines of standard input, text or from mfocus query."`
	stopWords
	Explain bool `help:"Print what is taken out, too, and why."`
}

// stopWords is the flag of all verbs that read text.
type stopWords struct {
	StopWords string `placeholder:"FILE" help:"More stop words, one a line."`
}

// filter reads the file.
func (s stopWords) filter(std *cli.Std) (*words.Filter, error) {
	var more []string
	if s.StopWords != "" {
		err := eachLine(std, []string{s.StopWords}, func(line string) error {
			if !strings.HasPrefix(line, "#") {
				more = append(more, line)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return words.NewFilter(more), nil
}

// Help is part of --help.
func (wordsCmd) Help() string {
	return `Taken out are stop words and what belongs to citations: years, volumes, page
numbers, "et al.", abbreviations of journals, initials of authors. Text in double
quotes stays as it is.

Examples:
  mfocus words 'the mouse and its maze'
  mfocus query computer mouse | mfocus words
  pdftotext paper.pdf - | mfocus words --explain | jq -c 'select(.reason)'`
}

// important is a line of mfocus words.
type important struct {
	words.Piece
	Query string `json:"query,omitempty"` // that the word is of, if the input was a query
}

func (c *wordsCmd) Run(std *cli.Std) error {
	f, err := c.filter(std)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	e := encoder(out)
	split := func(text, query string) error {
		for _, p := range f.Split(text) {
			if p.Word == "" && !c.Explain {
				continue
			}
			if c.Explain { // for people; a query of its own is to be read once
				query = ""
			}
			if err := e.Encode(important{p, query}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(c.Text) > 0 && (len(c.Text) != 1 || c.Text[0] != "-") {
		text := joined(c.Text)
		return errors.Join(split(text, text), out.Flush())
	}
	urls := 0
	err = eachLine(std, nil, func(line string) error {
		if line[0] != '{' {
			return split(line, "")
		}
		var q words.Query
		if err := json.Unmarshal([]byte(line), &q); err != nil || q.Query == "" {
			return notOurs("a line of mfocus query, or text")
		}
		if q.Type == words.Location {
			urls++
			return nil
		}
		return split(q.Query, q.Query)
	})
	if urls > 0 {
		std.Warn("%s left out: it needs no words", cli.Count(urls, "URL"))
	}
	return errors.Join(err, out.Flush())
}

// notOurs is the error of a JSON line that another program wrote.
func notOurs(want string) error {
	return &fault.Error{Class: fault.Corrupt, File: "input", Found: "another JSON line", Want: want}
}
