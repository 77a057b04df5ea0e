package words

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mercator/pkg/base/fault"
)

// wordNet reads WordNet's files (wndb(5WN)) in place: index.noun and the like by binary search, data.noun and
// the like by the offsets that the index gives. It holds a line of each at a time.
type wordNet struct{ parts []*part }

// part is a part of speech.
type part struct {
	letter byte // n, v, a or r
	index  sorted
	data   *os.File
	forms  *sorted // irregular forms, or nil
}

// sorted is a file of lines in the order of their bytes, each led by a word and a space.
type sorted struct {
	*os.File
	size int64
}

func openSorted(path string) (*sorted, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &sorted{f, st.Size()}, nil
}

// openWordNet needs nouns. Other parts of speech may be missing.
func openWordNet(dir string) (d *wordNet, err error) {
	d = &wordNet{}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	for _, name := range []string{"noun", "verb", "adj", "adv"} {
		index, err := openSorted(filepath.Join(dir, "index."+name))
		if errors.Is(err, fs.ErrNotExist) && len(d.parts) > 0 {
			continue
		}
		if err != nil {
			return d, err
		}
		p := &part{letter: name[0], index: *index}
		if name == "adv" {
			p.letter = 'r'
		}
		d.parts = append(d.parts, p)
		if p.data, err = os.Open(filepath.Join(dir, "data."+name)); err != nil {
			return d, err
		}
		if p.forms, err = openSorted(filepath.Join(dir, name+".exc")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
	}
	return d, nil
}

func (d *wordNet) Close() error {
	var errs []error
	for _, p := range d.parts {
		errs = append(errs, p.index.Close())
		if p.data != nil {
			errs = append(errs, p.data.Close())
		}
		if p.forms != nil {
			errs = append(errs, p.forms.Close())
		}
	}
	return errors.Join(errs...)
}

// find returns the fields of the line that key leads; nil if there is none.
func (s *sorted) find(key string) ([]string, error) {
	if key == "" { // leads the lines of the licence
		return nil, nil
	}
	lo, hi := int64(0), s.size
	for lo < hi {
		at := lo + (hi-lo)/2
		if at > lo { // to the first line that begins there or after
			rest, err := lineAt(s.File, at-1)
			if err != nil {
				return nil, err
			}
			at += int64(len(rest)) - 1
			if at >= hi {
				hi = lo + (hi-lo)/2
				continue
			}
		}
		text, err := lineAt(s.File, at)
		if err != nil {
			return nil, err
		}
		first, _, _ := bytes.Cut(bytes.TrimRight(text, "\r\n"), []byte(" "))
		switch c := strings.Compare(key, string(first)); {
		case c == 0:
			return strings.Fields(string(text)), nil
		case c < 0:
			hi = lo + (hi-lo)/2
		default:
			lo = at + int64(len(text))
		}
	}
	return nil, nil
}

// lineAt reads from an offset to the end of the line, with it.
func lineAt(f *os.File, at int64) ([]byte, error) {
	for size := 512; ; size *= 4 {
		buf := make([]byte, min(size, maxEntry))
		n, err := f.ReadAt(buf, at)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return buf[:i+1], nil
		}
		if err == io.EOF && n > 0 {
			return buf[:n], nil
		}
		if err == nil && len(buf) < maxEntry {
			continue
		}
		if err == nil || err == io.EOF {
			found := "a longer line"
			if err != nil {
				found = "the end of the file"
			}
			err = damaged(f, at, found, fmt.Sprintf("a line of at most %d bytes", maxEntry))
		}
		return nil, err
	}
}

func damaged(f *os.File, at int64, found, want string) error {
	return &fault.Error{Class: fault.Corrupt, File: f.Name(), Place: fmt.Sprintf("byte %d", at), Found: found, Want: want, Hint: "install the dictionary again; WordNet's: apt-get install --reinstall wordnet-base"}
}

// offsets are where the senses of a lemma (with underscores) stand in the data file.
func (p *part) offsets(lemma string) ([]int64, error) {
	fields, err := p.index.find(lemma)
	if fields == nil || err != nil {
		return nil, err
	}
	bad := damaged(p.index.File, 0, fmt.Sprintf("no entry %q", lemma), "lemma, part, number of senses, number of symbols, …, offsets")
	if len(fields) < 3 {
		return nil, bad
	}
	n, err := strconv.Atoi(fields[2])
	if err != nil || n < 0 || n > len(fields)-3 {
		return nil, bad
	}
	list := make([]int64, n)
	for i, text := range fields[len(fields)-n:] {
		if list[i], err = strconv.ParseInt(text, 10, 64); err != nil || list[i] < 0 {
			return nil, bad
		}
	}
	return list, nil
}

func lemmaOf(word string) string { return strings.ReplaceAll(word, " ", "_") }

// Senses returns the senses from the first part of speech that has the word: nouns, verbs, adjectives, adverbs. A word in
// none may be an irregular form: "mice" has the senses of "mouse".
func (d *wordNet) Senses(word string) ([]string, error) {
	lemma := lemmaOf(word)
	for _, p := range d.parts {
		if names, err := d.names(p, lemma); len(names) > 0 || err != nil {
			return names, err
		}
	}
	for _, p := range d.parts {
		if p.forms == nil {
			continue
		}
		base, err := p.forms.find(lemma)
		if err != nil {
			return nil, err
		}
		if len(base) > 1 {
			if names, err := d.names(p, base[1]); len(names) > 0 || err != nil {
				return names, err
			}
		}
	}
	return nil, nil
}

// names returns the names of a lemma's senses in a part of speech.
func (d *wordNet) names(p *part, lemma string) ([]string, error) {
	list, err := p.offsets(lemma)
	names := make([]string, len(list))
	for i, at := range list {
		if err == nil {
			names[i], err = d.nameAt(p, at)
		}
	}
	return names, err
}

// synset is a line of a data file.
type synset struct {
	words    []string // folded
	lemma    string   // of the first word, as the index has it
	pointers []pointer
	gloss    string
}

type pointer struct {
	symbol string
	at     int64
	part   byte
}

func (d *wordNet) read(p *part, at int64) (s synset, err error) {
	text, err := lineAt(p.data, at)
	if err != nil {
		return s, err
	}
	bad := damaged(p.data, at, "no entry", "offset, file, type, number of words, words, number of pointers, pointers | gloss")
	head, gloss, _ := strings.Cut(strings.TrimRight(string(text), "\r\n "), "|")
	f := strings.Fields(head)
	if len(f) < 6 || f[0] != fmt.Sprintf("%08d", at) {
		return s, bad
	}
	n, err := strconv.ParseUint(f[3], 16, 8)
	if err != nil || n == 0 || len(f) < 5+2*int(n) {
		return s, bad
	}
	for i := range int(n) {
		w, _, _ := strings.Cut(f[4+2*i], "(") // "able(p)": where an adjective may stand
		if i == 0 {
			s.lemma = strings.ToLower(w)
		}
		s.words = append(s.words, fold(w))
	}
	f = f[4+2*n:]
	count, err := strconv.Atoi(f[0])
	if err != nil || count < 0 || len(f) < 1+4*count {
		return s, bad
	}
	for i := range count {
		q := f[1+4*i:]
		to, err := strconv.ParseInt(q[1], 10, 64)
		if err != nil || to < 0 || len(q[2]) != 1 {
			return s, bad
		}
		s.pointers = append(s.pointers, pointer{q[0], to, q[2][0]})
	}
	s.gloss = strings.TrimSpace(gloss)
	return s, nil
}

// part returns the part of speech of a letter; nil if it has no files. Satellites are adjectives.
func (d *wordNet) part(letter byte) *part {
	if letter == 's' {
		letter = 'a'
	}
	for _, p := range d.parts {
		if p.letter == letter {
			return p
		}
	}
	return nil
}

// name is the first word of a synset, its part of speech, and which of the word's senses it is: "mouse.n.01".
func (d *wordNet) name(p *part, at int64, s synset) (string, error) {
	list, err := p.offsets(s.lemma)
	if err != nil {
		return "", err
	}
	for i, o := range list {
		if o == at {
			return fmt.Sprintf("%s.%c.%02d", s.lemma, p.letter, i+1), nil
		}
	}
	return "", damaged(p.data, at, fmt.Sprintf("word %q", s.lemma), "one that the index has here")
}

func (d *wordNet) nameAt(p *part, at int64) (string, error) {
	s, err := d.read(p, at)
	if err != nil {
		return "", err
	}
	return d.name(p, at, s)
}

// relations maps WordNet's pointer symbols (wninput(5WN)) to relations; only the first character of a symbol counts.
var relations = map[byte]Relation{
	'@': Broader, '~': Kind, '#': Part, '%': Part,
	'+': Related, '&': Related, '^': Related, '$': Related, '*': Related, '>': Related, '=': Related, '\\': Related, '<': Related, ';': Related, '-': Related,
}

func (d *wordNet) Sense(name string) (sense Sense, err error) {
	p, at, err := d.locate(name)
	if p == nil || err != nil {
		return sense, err
	}
	s, err := d.read(p, at)
	if err != nil {
		return sense, err
	}
	sense = Sense{Name: name, Gloss: s.gloss}
	for _, w := range s.words {
		sense.Similar = append(sense.Similar, Similar{w, Synonym, name})
	}
	for _, to := range s.pointers {
		relation, q := relations[to.symbol[0]], d.part(to.part)
		if relation == "" || q == nil { // antonyms are words of other topics
			continue
		}
		other, err := d.read(q, to.at)
		if err != nil {
			return sense, err
		}
		of, err := d.name(q, to.at, other)
		if err != nil {
			return sense, err
		}
		for _, w := range other.words {
			sense.Similar = append(sense.Similar, Similar{w, relation, of})
		}
	}
	return sense, nil
}

// locate finds a sense by its name; no part if there is none.
func (d *wordNet) locate(name string) (*part, int64, error) {
	lemma, number, ok := cutLast(name, '.')
	lemma, letter, ok2 := cutLast(lemma, '.')
	n, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil || len(letter) != 1 || n < 1 {
		return nil, 0, nil
	}
	p := d.part(letter[0])
	if p == nil {
		return nil, 0, nil
	}
	list, err := p.offsets(lemma)
	if err != nil || n > len(list) {
		return nil, 0, err
	}
	return p, list[n-1], nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func (d *wordNet) Words(do func(word string) error) error {
	for _, p := range d.parts {
		for at := int64(0); at < p.index.size; {
			// Many lines at a time: there are 117,000 nouns.
			buf := make([]byte, maxEntry)
			n, err := p.index.ReadAt(buf, at)
			if err != nil && err != io.EOF {
				return err
			}
			end := bytes.LastIndexByte(buf[:n], '\n') + 1
			if end == 0 {
				if end = n; n == maxEntry {
					return damaged(p.index.File, at, "a longer line", fmt.Sprintf("at most %d bytes", maxEntry))
				}
			}
			for text := range bytes.Lines(buf[:end]) {
				first, _, _ := bytes.Cut(text, []byte(" "))
				if len(first) == 0 {
					continue
				}
				if err := do(fold(string(first))); err != nil {
					return err
				}
			}
			at += int64(end)
		}
	}
	return nil
}

// maxForms bounds a file of irregular forms, in bytes. WordNet's have at most 40 KB.
const maxForms = 1 << 20

// Forms leave out what is a word, too: "rose" is a flower, and "found" a verb.
func (d *wordNet) Forms() (map[string]string, error) {
	forms := make(map[string]string)
	for _, p := range d.parts {
		if p.forms == nil {
			continue
		}
		if p.forms.size > maxForms {
			return nil, damaged(p.forms.File, maxForms, "a longer file", fmt.Sprintf("at most %d bytes", maxForms))
		}
		text := make([]byte, p.forms.size)
		if _, err := p.forms.ReadAt(text, 0); err != nil && err != io.EOF {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && forms[f[0]] == "" {
				forms[fold(f[0])] = fold(f[1])
			}
		}
	}
	return forms, d.Words(func(word string) error {
		delete(forms, word)
		return nil
	})
}
