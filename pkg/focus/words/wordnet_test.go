package words

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

var update = flag.Bool("update", false, "write testdata/wordnet")

// testDictionary makes WordNet's files of testdata/dictionary.txt (wndb(5WN)).
func testDictionary(t *testing.T) map[string]string {
	t.Helper()
	source, err := os.ReadFile("testdata/dictionary.txt")
	must.OK(t, err)
	type entry struct {
		part, gloss     string
		words, pointers []string
		at              int
	}
	entries := map[string]*entry{}
	var keys []string
	for row := range strings.Lines(string(source)) {
		f := strings.Split(row, "|")
		if row[0] == '#' {
			continue
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		keys = append(keys, f[0])
		entries[f[0]] = &entry{part: f[1], words: strings.Split(f[2], ","), pointers: strings.Fields(f[3]), gloss: f[4]}
	}
	const licence = "  1 A small dictionary of the tests, made of testdata/dictionary.txt.  \n  2 It has the layout of WordNet's files.  \n"
	files := map[string]string{"noun.exc": "geese goose\nmice mouse\n"}
	for _, p := range []struct{ letter, name string }{{"n", "noun"}, {"v", "verb"}, {"a", "adj"}} {
		data := licence
		for range 2 { // places first: they are as long as zeros
			data = licence
			for _, k := range keys {
				e := entries[k]
				if e.part != p.letter {
					continue
				}
				e.at = len(data)
				data += fmt.Sprintf("%08d 03 %s %02x", e.at, e.part, len(e.words))
				for _, w := range e.words {
					data += " " + w + " 0"
				}
				data += fmt.Sprintf(" %03d", len(e.pointers))
				for _, to := range e.pointers {
					symbol, key := to[:1], to[1:]
					if key[1] == ':' {
						symbol, key = to[:2], to[3:]
					}
					data += fmt.Sprintf(" %s %08d %s 0000", symbol, entries[key].at, entries[key].part)
				}
				data += " | " + e.gloss + "  \n"
			}
		}
		files["data."+p.name] = data
		senses := map[string][]string{}
		for _, k := range keys {
			for _, w := range entries[k].words {
				if w, _, _ = strings.Cut(w, "("); entries[k].part == p.letter {
					senses[w] = append(senses[w], fmt.Sprintf("%08d", entries[k].at))
				}
			}
		}
		var index []string
		for w, at := range senses {
			index = append(index, fmt.Sprintf("%s %s %d 1 @ %d 0 %s  \n", w, p.letter, len(at), len(at), strings.Join(at, " ")))
		}
		slices.Sort(index)
		files["index."+p.name] = licence + strings.Join(index, "")
	}
	return files
}

func TestDictionaryFiles(t *testing.T) {
	for name, want := range testDictionary(t) {
		path := filepath.Join("testdata/wordnet", name)
		if *update {
			must.OK(t, os.WriteFile(path, []byte(want), 0o666))
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not that of dictionary.txt (%v): go test ./pkg/focus/words -run DictionaryFiles -update", path, err)
		}
	}
}

func TestForms(t *testing.T) {
	dir := t.TempDir()
	for name, text := range testDictionary(t) {
		if name == "noun.exc" {
			text += "rodent mouse\n" // a word itself
		}
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	forms, err := Forms(dir)
	if want := map[string]string{"geese": "goose", "mice": "mouse"}; err != nil || !maps.Equal(forms, want) {
		t.Errorf("%v, want %v (%v)", forms, want, err)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "noun.exc"), make([]byte, maxForms+1), 0o666))
	if _, err := Forms(dir); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a long file: %v", err)
	}
	if _, err := Forms(filepath.Join(dir, "none")); !errors.Is(err, fault.Usage) {
		t.Errorf("no dictionary: %v", err)
	}
}

func open(t *testing.T, path string) Dictionary {
	t.Helper()
	d, err := OpenDictionary(path)
	must.OK(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestWordNet(t *testing.T) {
	d := open(t, "testdata/wordnet")
	for word, want := range map[string]string{
		"mouse": "mouse.n.01 mouse.n.02 mouse.n.03", "mice": "mouse.n.01 mouse.n.02 mouse.n.03", "computer mouse": "mouse.n.03",
		"animal": "animal.n.01", "squirrel": "squirrel.n.01", "creep": "crawl.v.01", "mousy": "mousy.a.01",
		"": "", "a": "", "zebra": "", "geese": "", "1": "", "mous": "", "mouses": "",
	} {
		t.Run(word, func(t *testing.T) {
			if got, err := d.Senses(word); err != nil || strings.Join(got, " ") != want {
				t.Errorf("%q: %v, %v, want %s", word, got, err, want)
			}
		})
	}
	n := 0
	if err := d.Words(func(w string) error { // each is found by binary search
		n++
		if got, err := d.Senses(w); err != nil || len(got) == 0 {
			t.Errorf("%q: %v, %v", w, got, err)
		}
		return nil
	}); err != nil || n != 17 {
		t.Error(n, err)
	}
	s, err := d.Sense("mouse.n.03")
	want := []Similar{{"mouse", Synonym, "mouse.n.03"}, {"computer mouse", Synonym, "mouse.n.03"}, {"electronic device", Broader, "electronic_device.n.01"}, {"mouse button", Part, "mouse_button.n.01"}}
	if err != nil || !slices.Equal(s.Similar, want) || !strings.HasPrefix(s.Gloss, "a device that") {
		t.Error(s, err)
	}
	// an antonym is left out
	if s, err = d.Sense("crawl.v.01"); err != nil || len(s.Similar) != 2 {
		t.Error(s, err)
	}
	for _, name := range []string{"", "mouse", "mouse.n.09", "mouse.n.0", "mouse.x.01", "zebra.n.01", "mouse.r.01"} {
		if s, err = d.Sense(name); err != nil || s.Name != "" {
			t.Error(name, s, err)
		}
	}
}

// Damage is an error, not a panic and not another word.
func TestWordNetDamage(t *testing.T) {
	dir := t.TempDir()
	files := testDictionary(t)
	look := func() error {
		d, err := OpenDictionary(dir)
		if err != nil {
			return err
		}
		defer d.Close()
		err = d.Words(func(w string) error {
			names, err := d.Senses(w)
			for _, n := range names {
				if err == nil {
					_, err = d.Sense(n)
				}
			}
			return err
		})
		return err
	}
	write := func(name, text string) {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	for name, text := range files {
		write(name, text)
	}
	must.OK(t, look())
	for _, name := range []string{"index.noun", "data.noun"} {
		whole := files[name]
		for at := 120; at < len(whole); at += 61 {
			for _, damaged := range [][]byte{bytes.Clone([]byte(whole[:at])), []byte(whole[:at] + "9 " + whole[at+2:]), []byte(whole[:at] + strings.Repeat("x", maxEntry) + whole[at:])} {
				write(name, string(damaged))
				if err := look(); err != nil && !errors.Is(err, fault.Corrupt) {
					t.Errorf("%s: byte %d: %v", name, at, err)
				}
			}
		}
		write(name, whole)
	}
	write("data.noun", files["data.noun"][:500])
	if err := look(); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "data.noun: byte ") {
		t.Error(err)
	}
	os.Remove(filepath.Join(dir, "index.noun"))
	if err := look(); !errors.Is(err, fault.Usage) || !strings.Contains(fault.HintOf(err), "wordnet-base") {
		t.Error(err)
	}
}

func TestTable(t *testing.T) {
	d := open(t, "testdata/table.tsv")
	if got, err := d.Senses("mouse"); err != nil || !slices.Equal(got, []string{"mouse.rodent", "mouse.device"}) {
		t.Error(got, err)
	}
	s, err := d.Sense("mouse.device")
	want := []Similar{{"mouse", Synonym, "mouse.device"}, {"trackball", Related, ""}, {"pointing device", Related, ""}}
	if err != nil || !slices.Equal(s.Similar, want) || s.Gloss != "moves the cursor" {
		t.Error(s, err)
	}
	for text, want := range map[string]string{
		"":                                      "no words, want lines",
		"# nothing\n\n":                         "no words, want lines",
		"mouse\trodent\n":                       "line 1: 2 columns, want word<TAB>sense<TAB>similar words",
		"# x\nmouse\trodent\trat\tgloss\tx\n":   "line 2: 5 columns",
		"\trodent\trat\n":                       "line 1: no word",
		"mouse\trodent\t\xff\n":                 "line 1: no text, want UTF-8",
		strings.Repeat("x", maxEntry+1):         "line 1: a longer line",
		strings.Repeat("a\tb\tc\n", maxLines+1): "more lines, want at most 500000",
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.tsv")
			must.OK(t, os.WriteFile(path, []byte(text), 0o666))
			d, err := OpenDictionary(path)
			if err == nil {
				d.Close()
			}
			if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %s", text, err, want)
			}
		})
	}
}
