package linkkind

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// All has each constant, once and in order, and says what it is.
func TestAllKinds(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "linkkind.go", nil, 0)
	must.OK(t, err)
	var declared []string
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && v.Names[0].Name != "Own" {
			if text, ok := v.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				name, _ := strconv.Unquote(text.Value)
				declared = append(declared, name)
			}
		}
		return true
	})
	slices.Sort(declared)
	if !slices.Equal(declared, Names()) {
		t.Errorf("constants %q\nAll       %q", declared, Names())
	}
	for _, k := range All {
		if k.What == "" || !strings.Contains(Table(), "\n"+k.Name+" ") && k.Name != All[0].Name {
			t.Errorf("%q is not explained", k.Name)
		}
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]int{"img": 1, "css": 3, "link-icon": 1, "link": 19, "x-mine": 1, "x-": 0, "imgg": 0, "": 0, "IMG": 0, "a": 1} {
		t.Run(name, func(t *testing.T) {
			if got := Named(name); len(got) != want {
				t.Errorf("%q stands for %q, want %d", name, got, want)
			}
		})
	}
}

// A page's parts, and theirs, as a chain of links from a page; the last number says whether the end is a part still.
func TestRequisite(t *testing.T) {
	for _, tt := range []struct {
		chain string
		want  []uint8
	}{
		{"img", []uint8{1}},
		{"a", []uint8{0}},
		{"img img", []uint8{1, 0}},
		{"img redirect redirect img", []uint8{1, 1, 1, 0}},
		{"a redirect", []uint8{0, 0}},
		{"img refresh", []uint8{1, 0}},
		{"img link-canonical", []uint8{1, 0}},
		{"link-stylesheet css", []uint8{3, 1}},
		{"link-stylesheet css-import css", []uint8{3, 2, 1}},
		{"link-stylesheet redirect css-import redirect css", []uint8{3, 3, 2, 2, 1}},
		{"css-import css-import css", []uint8{3, 2, 1}},
		{"link-stylesheet css-import css-import css", []uint8{3, 2, 1, 0}},
		{"iframe link-stylesheet css-import css", []uint8{4, 3, 2, 1}},
		{"iframe a", []uint8{4, 0}},
		{"iframe iframe iframe iframe iframe", []uint8{4, 3, 2, 1, 0}},
		{"svg-a", []uint8{0}},
		{"og", []uint8{0}},
		{"x-mine", []uint8{0}},
	} {
		t.Run(tt.chain, func(t *testing.T) {
			var got []uint8
			var at uint8
			for _, kind := range strings.Fields(tt.chain) {
				at = Requisite(kind, at)
				got = append(got, at)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	for _, k := range All {
		if n := Requisite(k.Name, 0); n > Levels {
			t.Errorf("%s: %d levels, want at most %d", k.Name, n, Levels)
		}
	}
}
