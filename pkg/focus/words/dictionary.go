package words

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"mercator/pkg/fault"
)

// Dictionary tells the senses of words. Words are folded: lower case, single spaces.
type Dictionary interface {
	// Senses are the names of a word's senses, the most usual first; none if it does not have the word.
	Senses(word string) ([]string, error)
	// Sense is the sense of a name; its Name is "" if there is none.
	Sense(name string) (Sense, error)
	// Words calls do for each word that has senses.
	Words(do func(word string) error) error
	Close() error
}

// Sense is one meaning of a word.
type Sense struct {
	Name    string    `json:"sense"` // "mouse.n.01": the first mouse among nouns
	Gloss   string    `json:"gloss,omitempty"`
	Similar []Similar `json:"similar"` // synonyms first
}

// Similar is a word beside a sense.
type Similar struct {
	Word     string   `json:"word"`
	Relation Relation `json:"relation"`
	Sense    string   `json:"sense,omitempty"` // of Word; "": not known
}

// Relation says how a word stands to a sense.
type Relation string

// The relations.
const (
	Synonym Relation = "synonym"
	Broader Relation = "broader" // hypernym: a rodent is broader than a mouse
	Kind    Relation = "kind"    // hyponym: a kind of it
	Part    Relation = "part"    // meronym or holonym: part, member or substance, of either
	Related Relation = "related" // any other
	InGloss Relation = "gloss"   // stands in the gloss
)

// DefaultDictionary is where Debian's package wordnet-base puts WordNet.
const DefaultDictionary = "/usr/share/wordnet"

// OpenDictionary opens a folder of WordNet's files, or a file of lines word<TAB>sense<TAB>similar words[<TAB>gloss],
// the similar words separated by commas. A path that is neither is fault.Usage.
func OpenDictionary(path string) (Dictionary, error) {
	st, err := os.Stat(path)
	switch {
	case err == nil && !st.IsDir():
		return openTable(path)
	case err == nil:
		d, err := openWordNet(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no dictionary", Want: "WordNet's files (index.noun, data.noun), or a file of lines word<TAB>sense<TAB>similar words",
		Hint: "apt-get install wordnet-base, or give your own: --dictionary FILE"}
}

// maxEntry bounds a line of a dictionary, in bytes. WordNet's longest has 13 KB.
const maxEntry = 64 << 10

// table is a dictionary in one file. Each question reads the file: the word database keeps the answers.
type table struct {
	f    *os.File
	name string
}

func openTable(path string) (*table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &table{f, path}
	found := false
	err = t.each(func(line) error { found = true; return io.EOF })
	if err == nil && !found {
		err = &fault.Error{Class: fault.Corrupt, File: path, Found: "no words", Want: "lines word<TAB>sense<TAB>similar words"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

// line is an entry of a table.
type line struct{ word, sense, similar, gloss string }

// each calls do for each entry, until it returns an error; io.EOF is none.
func (t *table) each(do func(line) error) error {
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	s := bufio.NewScanner(t.f)
	s.Buffer(nil, maxEntry)
	n := 0
	bad := func(found, want string) error {
		return &fault.Error{Class: fault.Corrupt, File: t.name, Place: fmt.Sprintf("line %d", n), Found: found, Want: want}
	}
	for s.Scan() {
		n++
		text := strings.TrimRight(s.Text(), "\r")
		if strings.TrimSpace(text) == "" || text[0] == '#' {
			continue
		}
		fields := strings.Split(text, "\t")
		switch {
		case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
			return bad("no text", "UTF-8")
		case len(fields) != 3 && len(fields) != 4:
			return bad(fmt.Sprintf("%d columns", len(fields)), "word<TAB>sense<TAB>similar words, and a gloss if you like")
		}
		e := line{word: fold(fields[0]), sense: fold(fields[1]), similar: fields[2]}
		if len(fields) == 4 {
			e.gloss = strings.TrimSpace(fields[3])
		}
		if e.word == "" {
			return bad("no word", "word<TAB>sense<TAB>similar words")
		}
		if e.sense == "" {
			e.sense = e.word
		} else if !strings.HasPrefix(e.sense, e.word+".") {
			e.sense = e.word + "." + e.sense
		}
		if err := do(e); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		n++
		return bad("a longer line", fmt.Sprintf("at most %d bytes", maxEntry))
	}
	return s.Err()
}

func (t *table) Senses(word string) (names []string, err error) {
	err = t.each(func(e line) error {
		if e.word == word {
			names = append(names, e.sense)
		}
		return nil
	})
	return names, err
}

func (t *table) Sense(name string) (s Sense, err error) {
	err = t.each(func(e line) error {
		if e.sense != name {
			return nil
		}
		s.Name, s.Gloss = name, e.gloss
		s.Similar = append(s.Similar, Similar{e.word, Synonym, name})
		for w := range strings.SplitSeq(e.similar, ",") {
			if w = fold(w); w != "" && w != e.word {
				s.Similar = append(s.Similar, Similar{Word: w, Relation: Related})
			}
		}
		return io.EOF
	})
	return s, err
}

func (t *table) Words(do func(word string) error) error {
	return t.each(func(e line) error { return do(e.word) })
}

func (t *table) Close() error { return t.f.Close() }
