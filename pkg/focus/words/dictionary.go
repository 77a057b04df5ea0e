package words

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"mercator/pkg/base/fault"
)

// Dictionary tells the senses of words. Words are folded: lower case, single spaces.
type Dictionary interface {
	// Senses are the names of a word's senses, the most usual first; none if it does not have the word.
	Senses(word string) ([]string, error)
	// Sense is the sense of a name; its Name is "" if there is none.
	Sense(name string) (Sense, error)
	// Words calls do for each word that has senses.
	Words(do func(word string) error) error
	// Forms are irregular forms that are no words themselves, each with its word: "mice", "mouse".
	Forms() (map[string]string, error)
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

// WordNet is where Debian's package has its files.
const WordNet = "/usr/share/wordnet"

// Forms returns the forms of a dictionary. Without a path they are WordNet's, or none if it is not installed.
func Forms(path string) (map[string]string, error) {
	if path == "" {
		if _, err := os.Stat(WordNet); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		path = WordNet
	}
	d, err := OpenDictionary(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Forms()
}

// maxEntry bounds a line of a dictionary, in bytes. WordNet's longest has 13 KB.
const maxEntry = 64 << 10

// table is a dictionary in one file. In memory are the places of its lines, by hashes of their words and senses.
type table struct {
	f             *os.File
	name          string
	seed          maphash.Seed
	words, senses []place // in the order of hashes, then of offsets
}

type place struct {
	hash uint64
	at   int64
}

// maxLines bounds a table: its places take 16 MB.
const maxLines = 500_000

func openTable(path string) (*table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &table{f: f, name: path, seed: maphash.MakeSeed()}
	err = t.each(func(e line) error {
		if len(t.words) == maxLines {
			return &fault.Error{Class: fault.Corrupt, File: path, Found: "more lines", Want: fmt.Sprintf("at most %d", maxLines)}
		}
		t.words = append(t.words, place{maphash.String(t.seed, e.word), e.at})
		t.senses = append(t.senses, place{maphash.String(t.seed, e.sense), e.at})
		return nil
	})
	if err == nil && len(t.words) == 0 {
		err = &fault.Error{Class: fault.Corrupt, File: path, Found: "no words", Want: "lines word<TAB>sense<TAB>similar words"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	for _, list := range [][]place{t.words, t.senses} {
		slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	}
	return t, nil
}

// line is an entry of a table.
type line struct {
	word, sense, similar, gloss string
	at                          int64 // where it begins, in bytes
}

// errEntry is an error in a line: the value found, and the value wanted.
type errEntry struct{ found, want string }

func (e errEntry) Error() string { return e.found }

// parse reads a line; its word is "" if it is empty or a comment.
func parse(text string) (e line, err error) {
	text = strings.TrimRight(text, "\r\n")
	if strings.TrimSpace(text) == "" || text[0] == '#' {
		return e, nil
	}
	fields := strings.Split(text, "\t")
	switch {
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return e, errEntry{"no text", "UTF-8"}
	case len(fields) != 3 && len(fields) != 4:
		return e, errEntry{fmt.Sprintf("%d columns", len(fields)), "word<TAB>sense<TAB>similar words, and a gloss if you like"}
	}
	e = line{word: fold(fields[0]), sense: fold(fields[1]), similar: fields[2]}
	if len(fields) == 4 {
		e.gloss = strings.TrimSpace(fields[3])
	}
	switch {
	case e.word == "":
		return e, errEntry{"no word", "word<TAB>sense<TAB>similar words"}
	case e.sense == "":
		e.sense = e.word
	case !strings.HasPrefix(e.sense, e.word+"."):
		e.sense = e.word + "." + e.sense
	}
	return e, nil
}

// each calls do for each entry.
func (t *table) each(do func(line) error) error {
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(t.f, maxEntry)
	at := int64(0)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		if err == io.EOF && len(text) == 0 {
			return nil
		}
		var e line
		if err == bufio.ErrBufferFull {
			err = errEntry{"a longer line", fmt.Sprintf("at most %d bytes", maxEntry)}
		} else if err == nil || err == io.EOF {
			e, err = parse(string(text))
		}
		if bad, ok := err.(errEntry); ok {
			return &fault.Error{Class: fault.Corrupt, File: t.name, Place: fmt.Sprintf("line %d", n), Found: bad.found, Want: bad.want, Hint: "such as: mouse<TAB>rodent<TAB>rat, vole"}
		}
		if err != nil {
			return err
		}
		e.at = at
		at += int64(len(text))
		if e.word == "" {
			continue
		}
		if err := do(e); err != nil {
			return err
		}
	}
}

// find calls do for each entry at the places of key; entries of other keys may be among them.
func (t *table) find(list []place, key string, do func(line)) error {
	hash := maphash.String(t.seed, key)
	i, _ := slices.BinarySearchFunc(list, hash, func(p place, h uint64) int { return cmp.Compare(p.hash, h) })
	for ; i < len(list) && list[i].hash == hash; i++ {
		text, err := lineAt(t.f, list[i].at)
		if err != nil {
			return err
		}
		e, err := parse(string(text))
		if err != nil {
			return damaged(t.f, list[i].at, "another line than before", "a file that nobody changes")
		}
		do(e)
	}
	return nil
}

func (t *table) Senses(word string) (names []string, err error) {
	err = t.find(t.words, word, func(e line) {
		if e.word == word && !slices.Contains(names, e.sense) {
			names = append(names, e.sense)
		}
	})
	return names, err
}

// Sense has the words of all lines that name it.
func (t *table) Sense(name string) (s Sense, err error) {
	err = t.find(t.senses, name, func(e line) {
		if e.sense != name {
			return
		}
		if s.Name == "" {
			s.Name, s.Gloss = name, e.gloss
			s.Similar = append(s.Similar, Similar{e.word, Synonym, name})
		}
		for w := range strings.SplitSeq(e.similar, ",") {
			if w = fold(w); w != "" && w != e.word {
				s.Similar = append(s.Similar, Similar{Word: w, Relation: Related})
			}
		}
	})
	return s, err
}

func (t *table) Words(do func(word string) error) error {
	return t.each(func(e line) error { return do(e.word) })
}

func (t *table) Close() error { return t.f.Close() }

// Forms are none: a table's lines are of the words that stand in texts.
func (t *table) Forms() (map[string]string, error) { return nil, nil }
