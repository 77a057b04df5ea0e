package spectest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
)

// A toy format: the letter T, a count of one digit, as many letters, and a full stop.
func readToy(_ testing.TB, name string, b []byte) (string, error) {
	bad := func(c fault.Class, at int, found string) (string, error) {
		return "", &fault.Error{Class: c, File: name, Place: fmt.Sprintf("byte %d", at), Found: found}
	}
	for i, c := range b {
		switch {
		case i == 0 && c != 'T':
			return bad(fault.WrongKind, 0, "no T")
		case i == 1 && (c < '0' || c > '9'):
			return bad(fault.Corrupt, 1, "no digit")
		case i == 1 && len(b) > int(c-'0')+3:
			return bad(fault.Corrupt, int(c-'0')+3, "too long")
		case i > 1 && i == int(b[1]-'0')+2 && c != '.':
			return bad(fault.Corrupt, i, "no full stop")
		}
	}
	if len(b) < 2 || len(b) < int(b[1]-'0')+3 {
		return bad(fault.Truncated, len(b), "cut")
	}
	return string(b[2 : len(b)-1]), nil
}

const toyPage = `# Toy

- **R1** another beginning: ` + "`R1-letter`" + `
- **R2** a count that
  is no digit: ` + "`R2-letter`" + `
- **R3** a file that ends early: ` + "`R3-cut`" + `

<!-- example -->
    54 32  # T, 2
    61 62 2e
<!-- end -->
<!-- text -->
two
<!-- end -->
`

func toy() Format {
	return Format{
		Ext: ".toy",
		Vectors: []Vector{
			{Name: "good/two", Bytes: []byte("T2ab."), Gives: "ab"},
			{Name: "bad/R1-letter", Bytes: []byte("X2ab."), Class: fault.WrongKind, Says: "no T"},
			{Name: "bad/R2-letter", Bytes: []byte("Txab."), Class: fault.Corrupt, Says: "no digit"},
			{Name: "bad/R3-cut", Bytes: []byte("T2a"), Class: fault.Truncated, Says: "cut"},
		},
		Read: readToy,
		// Of the letters each bit may be flipped.
		Open:    func(_ string, _, _ []byte, at int) bool { return at == 2 || at == 3 },
		Example: []byte("T2ab."),
		Regions: map[string]string{"text": "two\n"},
	}
}

// recorder keeps what a check says, instead of failing.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.said = append(r.said, fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) run(f *Format) string {
	for _, check := range []func(testing.TB){f.vectors, f.rules, f.shown, f.damage} {
		done := make(chan bool)
		go func() { defer close(done); check(r) }()
		<-done
	}
	return strings.Join(r.said, "\n")
}

// TestCheckFails: whatever is wrong with a format, its page or its vectors is told.
func TestCheckFails(t *testing.T) {
	read := func(change func(name string, b []byte, gives string, err error) (string, error)) func(*Format) {
		return func(f *Format) {
			f.Read = func(t testing.TB, name string, b []byte) (string, error) {
				gives, err := readToy(t, name, b)
				return change(name, b, gives, err)
			}
		}
	}
	takes := func(file string) func(*Format) {
		return read(func(_ string, b []byte, gives string, err error) (string, error) {
			if string(b) == file {
				return "", nil
			}
			return gives, err
		})
	}
	page := func(old, new string) func(*Format) {
		return func(*Format) {
			if strings.Count(toyPage, old) != 1 {
				t.Fatal(old)
			}
			os.WriteFile("SPEC.md", []byte(strings.Replace(toyPage, old, new, 1)), 0o666)
		}
	}
	for name, c := range map[string]struct {
		spoil func(f *Format)
		says  string // "": nothing is wrong
	}{
		"nothing wrong":              {func(*Format) {}, ""},
		"a rule without a vector":    {page(": `R1-letter`", ""), "rule R1 has no vector"},
		"a vector of no rule":        {page(": `R1-letter`", ""), "no rule of SPEC.md names R1-letter"},
		"a vector that is not there": {page("`R1-letter`", "`R1-letter`, `R1-more`"), "R1 names R1-more"},
		"a rule names another's":     {page("`R1-letter`", "`R1-letter`, `R2-letter`"), "R1 names R2-letter"},
		"a rule twice":               {page("**R2**", "**R1**"), "rule 2 of SPEC.md is R1"},
		"a rule is left out":         {page("**R2**", "**R4**"), "rule 2 of SPEC.md is R4"},
		"no rules":                   {func(*Format) { os.WriteFile("SPEC.md", []byte("# Toy"), 0o666) }, "has no rules"},
		"a vector outside":           {page("# Toy", "# Toy `R1-letter`"), "outside of the rules"},
		"a bad vector is taken":      {takes("Txab."), "bad/R2-letter.toy: <nil>"},
		"a good one is refused":      {func(f *Format) { f.Vectors[0].Bytes[0] = 'X' }, "not what this version makes"},
		"a good one gives other":     {func(f *Format) { f.Vectors[0].Gives = "abc" }, "good/two.toy: error <nil>, read as (-want +got):"},
		"another class":              {func(f *Format) { f.Vectors[1].Class = fault.Corrupt }, "want corrupt with"},
		"another message":            {func(f *Format) { f.Vectors[1].Says = "no U" }, `want wrong kind with "no U"`},
		"no message":                 {func(f *Format) { f.Vectors[1].Says = "" }, "want good/NAME, or bad/NAME with a class"},
		"a reason that others have":  {func(f *Format) { f.Vectors[1].Says = "no " }, "does not tell its rule from that of bad/R2-letter"},
		"a reason without its file": {read(func(_ string, b []byte, g string, err error) (string, error) {
			return noFile(string(b) == "Txab.", g, err)
		}), "R2-letter.toy: byte 1"},
		"a reason without its place": {read(func(_ string, b []byte, g string, err error) (string, error) {
			return noPlace(string(b) == "Txab.", g, err)
		}), "R2-letter.toy: no digit, want a fault"},
		"a file that is no vector":     {func(*Format) { os.WriteFile("testdata/bad/R9-x.toy", nil, 0o666) }, "R9-x.toy is no vector"},
		"a file that is not there":     {func(*Format) { os.Remove("testdata/bad/R3-cut.toy") }, "no such file"},
		"a file that is another":       {func(*Format) { os.WriteFile("testdata/bad/R3-cut.toy", []byte("T"), 0o666) }, "not what this version makes"},
		"a vector twice":               {func(f *Format) { f.Vectors = append(f.Vectors, f.Vectors[1]) }, "twice"},
		"the example is another":       {page("61 62", "61 63"), "the encoder gives"},
		"the example is no hex":        {page("61 62", "61 6"), "odd length"},
		"a region is another":          {page("two\n", "three\n"), "region text in SPEC.md is not what the test makes; go test -update writes it"},
		"a region is not there":        {page("<!-- text -->\n", ""), `no region "text"`},
		"no example":                   {func(f *Format) { f.Example, f.Regions = nil, nil }, "no worked example"},
		"a cut is taken":               {takes("T2a"), "good/two.toy, cut at 3 of 5: <nil>"},
		"a flip is taken":              {takes("T2ab>"), "bit 4 of byte 4 of 5 flipped: <nil>"},
		"a cut without its file":       {read(func(_ string, b []byte, g string, err error) (string, error) { return noFile(len(b) == 4, g, err) }), "cut at 4"},
		"a cut without its place":      {read(func(_ string, b []byte, g string, err error) (string, error) { return noPlace(len(b) == 4, g, err) }), "cut at 4"},
		"whole files that are refused": {func(f *Format) { f.Whole = func(_ string, _ []byte, n int) bool { return n == 4 } }, "cut at 4 where it is whole"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			*update = true
			f := toy()
			os.WriteFile("SPEC.md", []byte(toyPage), 0o666)
			err := (&recorder{TB: t}).run(&f)
			*update = false
			if err != "" {
				t.Fatal(err)
			}
			c.spoil(&f)
			if said := (&recorder{TB: t}).run(&f); !strings.Contains(said, c.says) || (said == "") != (c.says == "") {
				t.Errorf("it says\n%s\nwant %q", said, c.says)
			}
		})
	}
}

func noFile(when bool, gives string, err error) (string, error) {
	if e, ok := err.(*fault.Error); ok && when {
		e.File = ""
	}
	return gives, err
}

func noPlace(when bool, gives string, err error) (string, error) {
	if e, ok := err.(*fault.Error); ok && when {
		e.Place = ""
	}
	return gives, err
}
