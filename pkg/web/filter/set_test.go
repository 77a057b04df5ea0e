package filter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// load reads rules from a folder of files.
func load(t testing.TB, memory int64, rules string, files map[string]string) (*Filter, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	path := filepath.Join(dir, "rules")
	must.OK(t, os.WriteFile(path, []byte(rules), 0o666))
	f, err := Load(path, Options{Memory: memory})
	if err == nil {
		t.Cleanup(func() { f.Close() })
	}
	return f, err
}

// Sets give the answers of a plain loop, however they are kept: as a few words, as many, as a list in
// memory and as one on disk.
func TestSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	word := func() string { return string([]byte{byte('a' + r.IntN(3)), byte('a' + r.IntN(2))}[:1+r.IntN(2)]) }
	host := func() string {
		labels := make([]string, 1+r.IntN(4))
		for i := range labels {
			labels[i] = word()
		}
		return strings.Join(labels, ".")
	}
	url := func() string {
		u := "http://" + host() + []string{"", "", ":8080"}[r.IntN(3)] + "/"
		for range r.IntN(4) {
			u += word() + "/"
		}
		return u + []string{"", "x", "?q"}[r.IntN(3)]
	}
	kinds := []struct {
		word  string
		entry func() string
		holds func(c *Candidate, entry string) bool
	}{
		{"domain", host, func(c *Candidate, e string) bool {
			name, _, _ := strings.Cut(c.Host, ":")
			return name == e || strings.HasSuffix(name, "."+e)
		}},
		{"host", func() string { return host() + []string{"", ":8080"}[r.IntN(2)] }, func(c *Candidate, e string) bool {
			name, _, _ := strings.Cut(c.Host, ":")
			return c.Host == e || name == e
		}},
		{"url", url, func(c *Candidate, e string) bool { return c.URL == e }},
		{"prefix", url, func(c *Candidate, e string) bool { return strings.HasPrefix(c.URL, e) }},
	}
	for _, kind := range kinds {
		t.Run(kind.word, func(t *testing.T) {
			for _, n := range []int{1, 5, 50, 2000} {
				var entries []string
				for range n {
					entries = append(entries, kind.entry())
				}
				slices.Sort(entries)
				entries = slices.Compact(entries)
				list := strings.Join(entries, "\n")
				var judges []*Judge
				for _, where := range []struct {
					rule   string
					memory int64
				}{
					{strings.Join(entries, " "), 1}, {"@list", 1 << 20}, {"@list", 1}, {"@list @list2", 1 << 20}, {entries[0] + " @list", 1},
				} {
					f, err := load(t, where.memory, "allow x: "+kind.word+" "+where.rule+"\ndefault deny", map[string]string{"list": list, "list2": "# more\n" + list + "\n"})
					must.OK(t, err)
					judges = append(judges, f.NewJudge())
				}
				var candidates []Candidate
				for range 1000 {
					candidates = append(candidates, *candidate(t, url()))
				}
				for k, j := range judges {
					got := make([]Verdict, len(candidates))
					must.OK(t, j.URLs(context.Background(), candidates, got))
					for i := range candidates {
						want := slices.ContainsFunc(entries, func(e string) bool { return kind.holds(&candidates[i], e) })
						if got[i].Allow != want {
							t.Fatalf("%s of %d, way %d: %s: %v, want %v", kind.word, n, k, candidates[i].URL, got[i].Allow, want)
						}
					}
				}
			}
		})
	}
}

// Prefixes that end within a host are prefixes of bytes.
func TestLoosePrefixes(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("http://m%d.", i), fmt.Sprintf("http://n%d.test/a", i))
	}
	f, err := Parse("rules", strings.NewReader("allow x: prefix https: http://m http://m7 "+strings.Join(many, " ")+"\ndefault deny"))
	must.OK(t, err)
	for u, want := range map[string]bool{"http://m/": true, "https://a/": true, "http://n7.test/ab": true, "http://n7.test/b": false, "http://n/": false} {
		t.Run(u, func(t *testing.T) {
			if got := decide(t, f, candidate(t, u)).Allow; got != want {
				t.Errorf("%s: %v", u, got)
			}
		})
	}
}

func TestListErrors(t *testing.T) {
	long := strings.Repeat("a", listLineMax)
	for list, want := range map[string]string{
		"b.test\na.test\n":           `line 2: "a.test" behind "b.test", want lines in the order of bytes, each once`,
		"a.test\na.test\n":           "line 2: ",
		"a.test\n\nb.test\n":         "line 2: ",
		"# x\n\na.test\n# y\n":       "line 4: ",
		"A.test\n":                   `line 1: "A.test", want "a.test", its canonical form`,
		"a.test.\n":                  `want "a.test", its canonical form`,
		"a..test\n":                  "want a host in canonical form",
		"bücher.test\n":              `want "xn--bcher-kva.test"`,
		"a.test\r\n":                 `"a.test\r", want "a.test", its canonical form`,
		"a.test:81\n":                `"a.test:81", want "a.test": a domain is meant on any port`,
		"1.2\n":                      `want "1.0.0.2"`,
		"0.0.0.0 ads.test\n":         "want a host in canonical form",
		"a.test\n" + long + "\n":     "line 2: 8193 bytes or more, want at most 8192",
		"a.test\n" + long + long[1:]: "line 2: 16383 bytes or more",
	} {
		t.Run(list, func(t *testing.T) {
			_, err := load(t, 1, "deny x: domain @list", map[string]string{"list": list})
			if fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %q", list, err, want)
			}
		})
	}
	for list, want := range map[string]string{"http://a\n": "at least up to the slash", "http://a/ b\n": "a canonical URL", "http://a/b\r\n": "a canonical URL",
		"http://A/b\n": `"http://a/", its canonical form, as its beginning`, "\ufeffhttp://a/\n": "a canonical URL: invalid"} {
		t.Run(list, func(t *testing.T) {
			_, err := load(t, 1, "deny x: prefix @list", map[string]string{"list": list})
			if fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %q", list, err, want)
			}
		})
	}
	for list, want := range map[string]string{"http://a/%7e\n": `"http://a/~", its canonical form`, "http://a/b\r\n": `"http://a/b", its canonical form`, "gemini://a/\n": "scheme: gemini"} {
		t.Run(list, func(t *testing.T) {
			_, err := load(t, 1, "deny x: url @list", map[string]string{"list": list})
			if fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %q", list, err, want)
			}
		})
	}
	if f, err := load(t, 1, "deny x: domain @list", map[string]string{"list": ""}); err != nil || !decide(t, f, candidate(t, "http://a/")).Allow {
		t.Errorf("an empty list: %v", err)
	}
	if _, err := load(t, 1, "deny x: domain @.", nil); fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// A list on disk that changes under a judge is noticed, and is not an answer.
func TestListChanges(t *testing.T) {
	for _, text := range []string{"", "a.test", "b.test\na.test\n", "a.tesu\nb.test\n"} {
		f, err := load(t, 1, "deny x: domain @list", map[string]string{"list": "a.test\nb.test\n"})
		must.OK(t, err)
		must.OK(t, os.WriteFile(f.files[0].(*os.File).Name(), []byte(text), 0o666))
		err = f.NewJudge().URLs(context.Background(), []Candidate{*candidate(t, "http://b.test/")}, make([]Verdict, 1))
		if fault.ClassOf(err) != fault.Corrupt || !strings.Contains(err.Error(), "list: other text than when it was opened") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Of a list on disk, memory holds a bit or two a byte.
func TestListOnDisk(t *testing.T) {
	f, urls := million(t, 100_000, 1000, 1, 50, 1)
	l := f.files
	if len(l) != 1 {
		t.Fatalf("%d files open", len(l))
	}
	g, _ := million(t, 100_000, 1, 1, 50, 16<<20)
	if len(g.files) != 0 {
		t.Fatal("a list that fits into memory stays on disk")
	}
	a, b := f.NewJudge(), g.NewJudge()
	va, vb := make([]Verdict, len(urls)), make([]Verdict, len(urls))
	var candidates []Candidate
	for _, u := range urls {
		candidates = append(candidates, *candidate(t, u))
	}
	must.OK(t, a.URLs(context.Background(), candidates, va), b.URLs(context.Background(), candidates, vb))
	denied := 0
	for i := range va {
		if va[i].Allow != vb[i].Allow {
			t.Fatalf("%s: on disk %v, in memory %v", urls[i], va[i].Allow, vb[i].Allow)
		}
		if !va[i].Allow {
			denied++
		}
	}
	if denied < 400 || denied > 600 {
		t.Errorf("%d of 1000 denied, want about half", denied)
	}
}

// The sieves of all lists on disk share their memory.
func TestSievesShare(t *testing.T) {
	all := names(10_000)
	slices.Sort(all)
	path := filepath.Join(t.TempDir(), "list")
	must.OK(t, os.WriteFile(path, []byte(strings.Join(slices.Compact(all), "\n")), 0o666))
	const sieves = 4 << 10
	l := &loader{Filter: &Filter{}, memory: 1, sieves: sieves, lists: make(map[listKey]*list)}
	defer l.Close()
	p := &parser{place: &place{loader: l}}
	total := 0
	for _, kind := range []entryKind{entryHost, entryDomain} {
		one, err := p.list(path, kind)
		must.OK(t, err)
		total += 8 * len(one.disk.words)
	}
	if total < sieves/2 || total > sieves {
		t.Errorf("%d bytes of sieves, want at most %d", total, sieves)
	}
}

// Judging allocates nothing, whatever is tested.
func TestJudgingAllocatesNothing(t *testing.T) {
	list := strings.Join(names(1000), "\n")
	for _, memory := range []int64{1, 1 << 20} {
		f, err := load(t, memory, `include default
deny a: domain @list or host @list x.test
deny b: prefix @prefixes http://a/b http://c/d http://e/ http://f/ http://g/ http://h/ http://i/ http://j/ http://k/ or suffix zip or url http://a/
deny c: extension JPG gif or port 81 or depth > 300 or kind img or scheme ftp or regex "^https://x"
default deny`, map[string]string{"list": list, "prefixes": "http://a.test/x\nhttp://www.a1.co.uk/y\n"})
		must.OK(t, err)
		var candidates []Candidate
		for i := range 100 {
			candidates = append(candidates, *candidate(t, fmt.Sprintf("http://www.a%d.co.uk/x/y/x/y/%d/z.html?q=%d", i/3, i, i)))
		}
		verdicts := make([]Verdict, len(candidates))
		j := f.NewJudge()
		if n := testing.AllocsPerRun(20, func() {
			must.OK(t, j.URLs(context.Background(), candidates, verdicts))
		}); n != 0 {
			t.Errorf("memory %d: %v allocations for 100 URLs", memory, n)
		}
	}
}
