package words

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAgainstWN compares senses, synonyms, glosses and kinds of words from all over WordNet with what its own program
// says (make focus).
func TestAgainstWN(t *testing.T) {
	dir := os.Getenv("MERCATOR_WORDNET")
	if dir == "" {
		t.Skip("MERCATOR_WORDNET names no folder of WordNet's files")
	}
	d := open(t, dir)
	wn := func(args ...string) string {
		out, err := exec.Command("wn", args...).Output() // its exit status is the number of senses
		if _, ok := err.(*exec.ExitError); err != nil && !ok {
			t.Fatal(err)
		}
		return string(out)
	}
	var sample []string
	n := 0
	if err := d.Words(func(w string) error {
		if n++; n%350 == 0 && w[0] != '-' {
			sample = append(sample, w)
		}
		return nil
	}); err != nil || n < 150_000 {
		t.Fatal(n, err)
	}
	numbered := regexp.MustCompile(`^\d+\. (?:\(\d+\) )?(.*?) -- \((.*)\)\s*$`)
	listed := regexp.MustCompile(`(?m)^ +(?:HAS INSTANCE)?=> (.*?)\s*$`)
	marker := regexp.MustCompile(` ?\([^()]*\)`)
	compared := 0
	for _, w := range append(sample, "mouse", "computer mouse", "dog", "city", "10", "a.k.a.", "a", "zymurgy") {
		names, err := d.Senses(w)
		if err != nil || len(names) == 0 {
			t.Fatal(w, names, err)
		}
		before, _, _ := cutLast(names[0], '.')
		speech := map[byte]string{'n': "noun", 'v': "verb", 'a': "adj", 'r': "adv"}[before[len(before)-1]]
		// wn shows base forms too, each under a heading
		under := func(heading, text string) string {
			_, block, _ := strings.Cut(text, "\n"+heading+speech+" "+lemmaOf(w)+"\n")
			block, _, _ = strings.Cut(block, "\n"+heading)
			return block
		}
		var want, got []string
		block := under("Overview of ", wn(lemmaOf(w), "-over"))
		for row := range strings.Lines(block) {
			if m := numbered.FindStringSubmatch(strings.TrimRight(row, "\n")); m != nil {
				want = append(want, fold(marker.ReplaceAllString(m[1], ""))+" | "+m[2])
			}
		}
		for i, name := range names {
			s, err := d.Sense(name)
			if err != nil || s.Name != name {
				t.Fatal(name, s.Name, err)
			}
			var synonyms, kinds []string
			for _, x := range s.Similar {
				switch x.Relation {
				case Synonym:
					synonyms = append(synonyms, x.Word)
				case Kind:
					kinds = append(kinds, x.Word)
				}
			}
			got = append(got, strings.Join(synonyms, ", ")+" | "+s.Gloss)
			if i == 0 && speech == "noun" {
				var theirs []string
				for _, m := range listed.FindAllStringSubmatch(under("Hyponyms of ", wn(lemmaOf(w), "-n1", "-hypon")), -1) {
					for x := range strings.SplitSeq(m[1], ", ") {
						theirs = append(theirs, fold(x))
					}
				}
				slices.Sort(kinds)
				slices.Sort(theirs)
				if !slices.Equal(kinds, theirs) {
					t.Errorf("kinds of %s: %q, wn has %q", name, kinds, theirs)
				}
			}
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwn has\n%s", w, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		compared += len(got)
	}
	if compared < 250 {
		t.Errorf("%d senses compared", compared)
	}
	t.Logf("%d words, %d senses", len(sample), compared)
}
