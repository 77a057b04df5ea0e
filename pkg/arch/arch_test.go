// Package arch holds the test of the project's floors (pkg/README.md): imports
// point downward, or sideways where listed here.
package arch

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

const module = "mercator/"

// floor of each package, by its path below the module; a trailing /... covers
// all below. The longest match counts. A package that is not listed fails.
var floor = map[string]int{
	"pkg/base/...": 0,
	"formats/...":  1, "pkg/web/httpmsg": 1, "pkg/web/markup": 1, "pkg/web/linkkind": 1, "pkg/folder/bodies": 1,
	"pkg/web/...": 2, "pkg/folder/...": 2, "pkg/view/...": 2,
	"pkg/crawl": 2, "pkg/frontier": 2, "pkg/urlset": 2, "pkg/fpset/...": 2, "pkg/merge": 2, "pkg/extract": 2, "pkg/focus/...": 2, "pkg/search": 2,
	"pkg/cli/...": 3, "pkg/config/...": 3, "pkg/fetch/...": 3, "pkg/resolve": 3, "pkg/simweb": 3, "pkg/folder/snapshot": 3, "pkg/render/...": 3,
	"pkg/command/...": 4,
	"pkg/driver/...":  5,
	"cmd/...":         6, "bench/...": 6,
	"pkg/arch": 6, "pkg/e2e": 6,
}

// sideways lists the arrows that are allowed within a floor.
var sideways = map[string][]string{
	"pkg/base/durable": {"pkg/base/fault"}, "pkg/base/durable/crashtest": {"pkg/base/durable"},
	"pkg/base/coprocess": {"pkg/base/fault"}, "pkg/base/fingerprint": {"pkg/base/fault"},
	"pkg/base/setting": {"pkg/base/fault"},

	"formats/store": {"formats/record"},                    // a manifest keeps ledgers
	"formats/warc":  {"formats/record", "pkg/web/httpmsg"}, // outcomes are archived as metadata records; payload digests

	"pkg/crawl":           {"pkg/folder/shard", "pkg/folder/exchange"},
	"pkg/folder/exchange": {"pkg/merge", "pkg/folder/shard"},
	"pkg/frontier":        {"pkg/merge", "pkg/folder/stage", "pkg/folder/shard", "pkg/web/canon"}, // registered domains
	"pkg/urlset":          {"pkg/fpset", "pkg/merge", "pkg/folder/stage", "pkg/web/canon"},
	"pkg/fpset":           {"pkg/merge", "pkg/folder/stage", "pkg/folder/shard"},
	"pkg/fpset/bloom":     {"pkg/merge"},
	"pkg/web/filter":      {"pkg/web/canon"},
	"pkg/focus/words":     {"pkg/web/canon"},
	"pkg/focus/classify":  {"pkg/extract", "pkg/web/process"},
	"pkg/focus/distill":   {"pkg/focus/classify", "pkg/view/history", "pkg/merge"},
	"pkg/focus/urldb":     {"pkg/focus/classify", "pkg/focus/distill"},
	"pkg/extract":         {"pkg/web/canon", "pkg/web/filter", "pkg/web/pdf", "pkg/web/process", "pkg/web/rewind", "pkg/folder/stage"},
	"pkg/web/process":     {"pkg/web/pdf"},
	"pkg/folder/ownstage": {"pkg/fpset", "pkg/web/process", "pkg/folder/stage"},
	"pkg/search":          {"pkg/extract", "pkg/frontier", "pkg/view/history", "pkg/web/process"},
	"pkg/view/derive":     {"pkg/web/canon", "pkg/extract", "pkg/view/history", "pkg/merge", "pkg/web/process"},

	"formats/record/parquet":    {"formats/record"},
	"formats/record/recordtest": {"formats/record"},

	"pkg/folder/bodies": {"formats/record", "pkg/web/httpmsg"}, // rows are known by where they stand in the archive; how long a head may be

	"bench/sets/gen": {"bench/sets/keys"},

	"cmd/mcrawl": {"cmd"}, "cmd/mfrontier": {"cmd"}, // the manuals of all
	"pkg/cli":           {"pkg/config"},
	"pkg/config/sheet":  {"pkg/config"},
	"pkg/cli/clitest":   {"pkg/cli"},
	"pkg/view/history":  {"pkg/merge", "pkg/web/canon"},
	"pkg/view/stats":    {"pkg/merge"},
	"pkg/view/report":   {"pkg/view/history", "pkg/view/stats"},
	"pkg/fetch":         {"pkg/fetch/addrguard", "pkg/fetch/cookies"},
	"pkg/fetch/http1":   {"pkg/fetch", "pkg/fetch/addrguard", "pkg/fetch/cookies"},
	"pkg/fetch/replay":  {"pkg/fetch"},
	"pkg/fetch/ftp":     {"pkg/fetch", "pkg/fetch/addrguard"},
	"pkg/fetch/gopher":  {"pkg/fetch"},
	"pkg/fetch/program": {"pkg/fetch"},
	"pkg/resolve":       {"pkg/fetch/addrguard", "pkg/fetch/localfault"}, // special-purpose addresses are told before they are refused

	"pkg/render/browser": {"pkg/render"},

	"pkg/command/mfpset": {"pkg/command/sets"}, "pkg/command/murlset": {"pkg/command/sets"}, "pkg/command/mmerge": {"pkg/command/sets"},

	"pkg/driver/setup": {"pkg/driver/pipe"},                     // mckpt init, mfocus
	"pkg/driver/tell":  {"pkg/driver/setup", "pkg/driver/pipe"}, // how to crawl another site; the names of files as commands take them
}

// arrowOwner lists packages from outside that one package alone, and those below it, may import.
var arrowOwner = map[string]string{
	"github.com/apache/arrow/": "formats/record",
}

// builtWith lists packages from outside that make a command large and slow to start, and the commands that may be built with them.
var builtWith = map[string][]string{
	"modernc.org/sqlite":                     {"cmd/mcrawl", "cmd/mfocus", "cmd/mfrontier", "cmd/msearch"}, // 7 MB
	"github.com/apache/arrow/go/v15/parquet": {"cmd/mcat", "cmd/mcrawl"},
	module + "pkg/render/browser":            {"cmd/mfrontier", "cmd/mrender"}, // not with mcrawl, which runs the rounds in its own process
	"github.com/abadojack/whatlanggo":        {"cmd/mcat", "cmd/mcrawl"},       // its tables are made at each start
}

// programs are what is installed: each is several commands, by links. What one of these does before main all pay for, in each round of each shard.
var programs = []string{"cmd/mcrawl", "cmd/mfrontier"}

// testsOnly are the packages that no command may be built with.
var testsOnly = []string{module + "formats/spectest", module + "formats/record/recordtest", module + "pkg/cli/clitest", module + "pkg/base/needs", module + "pkg/base/must", module + "pkg/base/costtest", module + "pkg/base/durable/crashtest"}

type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("go list found %d packages: it did not see the module", len(all))
	}
	return all
}

func floorOf(path string) (int, bool) {
	if f, ok := floor[path]; ok {
		return f, true
	}
	for p := path; p != ""; {
		if f, ok := floor[p+"/..."]; ok {
			return f, true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	return 0, false
}

func allowedSideways(from, to string) bool {
	for _, s := range sideways[from] {
		if s == to {
			return true
		}
	}
	return strings.HasPrefix(to, from+"/") // a package may use its own subpackages
}

func TestImportsPointDownward(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		at, ok := floorOf(from)
		if !ok {
			t.Errorf("%s stands on no floor: give it one", from)
			continue
		}
		for _, imp := range p.Imports {
			for prefix, owner := range arrowOwner {
				if strings.HasPrefix(imp, prefix) && from != owner && !strings.HasPrefix(from, owner+"/") {
					t.Errorf("%s imports %s, which %s alone may", from, imp, owner)
				}
			}
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if slices.Contains(testsOnly, imp) && !strings.HasPrefix(from, "bench/") {
				t.Errorf("%s imports %s, which tests alone may", from, imp)
			}
			to := strings.TrimPrefix(imp, module)
			below, ok := floorOf(to)
			if !ok || below < at || below == at && allowedSideways(from, to) {
				continue // an unlisted target is reported as itself
			}
			t.Errorf("%s (floor %d) imports %s (floor %d)", from, at, to, below)
		}
	}
}

// A command is built with what its verbs need.
func TestBuiltWith(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		imports[p.ImportPath] = p.Imports
	}
	for prefix, may := range builtWith {
		var have []string
		for path := range imports {
			name := strings.TrimPrefix(path, module)
			if strings.HasPrefix(name, "cmd/") && reaches(imports, path, func(p string) bool { return strings.HasPrefix(p, prefix) }) {
				have = append(have, name)
			}
		}
		slices.Sort(have)
		if !slices.Equal(have, may) {
			t.Errorf("built with %s: %v, want %v", prefix, have, may)
		}
	}
}

// reaches reports whether a package, or one that it imports, is one that is looked for.
func reaches(imports map[string][]string, path string, is func(string) bool) bool {
	seen := map[string]bool{}
	var from func(path string) bool
	from = func(path string) bool {
		if is(path) {
			return true
		}
		if seen[path] {
			return false
		}
		seen[path] = true
		return slices.ContainsFunc(imports[path], from)
	}
	return from(path)
}

// TestNoPatternAtStart: commands compile no regular expression before main, where most of them are for errors.
func TestNoPatternAtStart(t *testing.T) {
	imports, folders := map[string][]string{}, map[string]listed{}
	for _, p := range packages(t) {
		imports[p.ImportPath], folders[p.ImportPath] = p.Imports, p
	}
	files := 0
	for path, p := range folders {
		if !slices.ContainsFunc(programs, func(name string) bool {
			return reaches(imports, module+name, func(p string) bool { return p == path })
		}) {
			continue
		}
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			must.OK(t, err)
			files++
			for _, d := range file.Decls {
				ast.Inspect(d, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.FuncDecl, *ast.FuncLit: // runs later
						return false
					case *ast.SelectorExpr:
						if pkg, is := n.X.(*ast.Ident); is && pkg.Name == "regexp" && strings.HasSuffix(n.Sel.Name, "Compile") {
							t.Errorf("%s: compiled at each start; use sync.OnceValue", set.Position(n.Pos()))
						}
					}
					return true
				})
			}
		}
	}
	if files < 100 {
		t.Errorf("%d files were read", files)
	}
}

// A package that is gone must not leave its floor and its arrows behind.
func TestNoFloorIsEmpty(t *testing.T) {
	all := packages(t)
	stands := func(name string) bool {
		prefix, below := strings.CutSuffix(name, "/...")
		for _, p := range all {
			path := strings.TrimPrefix(p.ImportPath, module)
			if path == prefix || below && strings.HasPrefix(path, prefix+"/") {
				return true
			}
		}
		return false
	}
	for name := range floor {
		if !stands(name) {
			t.Errorf("floor of %s: there is no such package", name)
		}
	}
	for from, to := range sideways {
		for _, name := range append(to, from) {
			if !stands(name) {
				t.Errorf("arrow from %s: there is no package %s", from, name)
			}
		}
	}
}

func TestNoDrawerPackages(t *testing.T) {
	for _, p := range packages(t) {
		switch name := p.ImportPath[strings.LastIndexByte(p.ImportPath, '/')+1:]; name {
		case "util", "utils", "common", "helpers", "types", "misc":
			t.Errorf("%s: name a package for what it holds", p.ImportPath)
		}
	}
}
