package words

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var matchings = []Matching{Exact, Stem, Edit, Trigram}

// TestMatchIsSymmetric: match(a, b) = match(b, a), for words near each other and far apart.
func TestMatchIsSymmetric(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	letters := []rune("abceimnorst sé")
	near := func(w []rune) []rune {
		w = append([]rune(nil), w...)
		for range r.IntN(4) {
			i := r.IntN(len(w))
			switch r.IntN(3) {
			case 0:
				w[i] = letters[r.IntN(len(letters))]
			case 1:
				w = append(w[:i:i], w[min(i+1, len(w)-1):]...)
			default:
				w = append(w, []rune("s ing ed ly er")[r.IntN(14)])
			}
		}
		return w
	}
	matched := map[Matching]int{}
	for range 5000 {
		a := make([]rune, 1+r.IntN(12))
		for i := range a {
			a[i] = letters[r.IntN(len(letters))]
		}
		x, y := string(a), string(near(a))
		for _, m := range matchings {
			there, back := m.Similarity(x, y), m.Similarity(y, x)
			if there != back || there < 0 || there > 1 || m.Similarity(x, x) != 1 || there == 1 && fold(x) != fold(y) {
				t.Fatalf("%s: %q and %q: %v, back %v", m, x, y, there, back)
			}
			if there > 0 && there < 1 {
				matched[m]++
			}
		}
	}
	for _, m := range matchings[1:] {
		if matched[m] < 30 {
			t.Errorf("%s: %d pairs matched", m, matched[m])
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("mouse", "mice")
	f.Add("", "\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, m := range matchings {
			if there, back := m.Similarity(a, b), m.Similarity(b, a); there != back || !(there >= 0 && there <= 1) {
				t.Errorf("%s: %v, back %v", m, there, back)
			}
		}
	})
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		a, b string
		by   string // techniques
	}{
		{"mouse", "Mouse", "exact stem edit trigram"},
		{"computer mouse", "computer_mouse", "exact stem edit trigram"},
		{"crawling", "crawled", "stem trigram"},
		{"crawler", "crawlers", "stem edit trigram"},
		{"mouce", "mouse", "edit trigram"},
		{"cat", "cut", "edit"},
		{"ab", "ac", ""},
		{"mouse", "keyboard", ""},
		{strings.Repeat("a", 80), strings.Repeat("a", 80), "exact stem edit trigram"},
		{strings.Repeat("a", 80), strings.Repeat("a", 81), ""},
	} {
		t.Run(fmt.Sprintf("%.20s %.20s %d", c.a, c.b, len(c.b)), func(t *testing.T) {
			var by []string
			for _, m := range matchings {
				if m.Similarity(c.a, c.b) > 0 {
					by = append(by, string(m))
				}
			}
			if got := strings.Join(by, " "); got != c.by {
				t.Errorf("%q and %q match by %q, want %q", c.a, c.b, got, c.by)
			}
		})
	}
	d := open(t, "testdata/wordnet")
	for _, c := range []struct {
		word string
		by   Matching
		want string
	}{{"mouses", Stem, "mouse"}, {"mouze", Edit, "mouse"}, {"mouce", Edit, "mouse"}, {"squirel", Edit, "squirrel"}, {"computers", Trigram, "computer"}, {"mouses", Exact, ""}, {"zzz", Edit, ""}, {"", Edit, ""}} {
		t.Run(fmt.Sprint(c.word, " ", c.by), func(t *testing.T) {
			if found, names, err := Find(d, c.word, c.by); err != nil || len(names) > 0 && found != c.want || (len(names) > 0) != (c.want != "") {
				t.Errorf("%q by %s: %q %v %v, want %q", c.word, c.by, found, names, err, c.want)
			}
		})
	}
}
