package mfocus

import (
	"bufio"
	"errors"
	"strings"

	"mercator/pkg/cli"
	"mercator/pkg/focus/words"
)

type sensesCmd struct {
	Words []string `arg:"" optional:"" name:"word" help:"Words; default: lines of standard input."`
	dictionary
}

// dictionary holds the flags of all verbs that ask one.
type dictionary struct {
	Dictionary string `default:"/usr/share/wordnet" placeholder:"PATH" help:"WordNet's folder, or a file word<TAB>sense<TAB>similar words (default: /usr/share/wordnet)."`
	Match      string `default:"stem" enum:"exact,stem,edit,trigram" placeholder:"HOW" help:"How a word that it lacks finds another: exact, stem, edit or trigram (default: stem)."`
}

// Help is part of --help.
func (sensesCmd) Help() string {
	return `A JSON line for each sense: its name, its gloss, and the words beside it.

Examples:
  mfocus senses mouse | jq -r '[.sense, .gloss] | @tsv'
  mfocus senses --match edit mouce
  mfocus senses --dictionary my.tsv 'state of the art'`
}

// meaning is a line of mfocus senses.
type meaning struct {
	Word  string `json:"word"`
	Found string `json:"found,omitempty"` // the word of the dictionary that matches, if it is another
	*words.Sense
	Unknown bool `json:"unknown,omitempty"`
}

func (c *sensesCmd) Run(std *cli.Std) error {
	d, err := words.OpenDictionary(c.Dictionary)
	if err != nil {
		return err
	}
	defer d.Close()
	out := bufio.NewWriter(std.Out)
	e := encoder(out)
	look := func(word string) error {
		found, names, err := words.Find(d, word, words.Matching(c.Match))
		if err != nil {
			return err
		}
		m := meaning{Word: word}
		if len(names) == 0 {
			m.Unknown = true
			return e.Encode(m)
		}
		if found != strings.ToLower(word) {
			m.Found = found
		}
		for _, name := range names {
			s, err := d.Sense(name)
			if err != nil {
				return err
			}
			m.Sense = &s
			if err := e.Encode(m); err != nil {
				return err
			}
		}
		return nil
	}
	if len(c.Words) == 0 || len(c.Words) == 1 && c.Words[0] == "-" {
		err = eachLine(std, nil, look)
	}
	for _, w := range c.Words {
		if w != "-" && err == nil {
			err = look(w)
		}
	}
	return errors.Join(err, out.Flush())
}
