package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ours is a command of the project with its first words.
const ours = `\bm(?:cat|ckpt|crawl|extract|fetch|focus|fpset|frontier|merge|render|resolve|search|urlset|web)(?: -?-?[a-z-]+)*`

var (
	inserts = regexp.MustCompile(ours + ` "?%(?:\[\d+\])?[sqv]`) // a word, raw or as Go quotes it
	goesOn  = regexp.MustCompile(ours + ` $`)
	within  = regexp.MustCompile("[\"`]" + ours)
	nameFor = regexp.MustCompile(ours + ` CRAWL\b`)
	stands  = regexp.MustCompile(`^(?:ADDR|FOLDER|KEY=VALUE|KIND|NAME|QUERY|URL)$|(?:` + ours + `|--server)\b[^;:]* (?:ADDR|FILE|FOLDER|KEY=VALUE|KIND|NAME|QUERY|URL|WALK)\b`)
	verb    = regexp.MustCompile(`"?%(\[\d+\])?[-+# 0-9.]*[a-zA-Z%]`)
)

// hintFaults lists what keeps a command of a file from being typed as it is printed. What is assigned to something with a name such as Hint is a
// hint, and what a function of such a name has in it.
func hintFaults(set *token.FileSet, file *ast.File) (faults []string) {
	hints := map[ast.Node]bool{}
	mark := func(name ast.Node, of ...ast.Node) {
		if s, ok := name.(*ast.SelectorExpr); ok {
			name = s.Sel
		}
		if id, ok := name.(*ast.Ident); ok && strings.Contains(strings.ToLower(id.Name), "hint") {
			for _, n := range of {
				ast.Inspect(n, func(n ast.Node) bool { hints[n] = true; return true })
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			mark(n.Name, n)
		case *ast.KeyValueExpr:
			mark(n.Key, n.Value)
		case *ast.AssignStmt:
			mark(n.Lhs[len(n.Lhs)-1], n.Rhs[len(n.Rhs)-1])
		case *ast.ValueSpec:
			for i, e := range n.Values {
				mark(n.Names[i], e)
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		bad := func(what string) { faults = append(faults, set.Position(n.Pos()).String()+": "+what) }
		switch n := n.(type) {
		case *ast.Field:
			return n.Tag == nil // help texts
		case *ast.BasicLit:
			switch s := text(n); {
			case inserts.MatchString(s):
				bad("a word of a command without fault.Quote: " + inserts.FindString(s))
			case hints[n] && within.MatchString(s):
				bad("quotes around a command: " + within.FindString(s))
			case hints[n] && nameFor.MatchString(s):
				bad("no name of the folder: " + nameFor.FindString(s))
			case hints[n] && stands.MatchString(s):
				bad("a word that stands for another: " + stands.FindString(s))
			}
		case *ast.BinaryExpr:
			x := n.X
			if b, ok := x.(*ast.BinaryExpr); ok {
				x = b.Y
			}
			if hints[n] && goesOn.MatchString(text(x)) && !isCommand(n.Y) {
				bad("a word of a command without fault.Quote: " + text(x))
			}
		case *ast.CallExpr:
			for i, format := range n.Args {
				args, at := n.Args[i+1:], 0
				for _, m := range verb.FindAllStringSubmatch(text(format), -1) {
					if m[1] != "" {
						at, _ = strconv.Atoi(strings.Trim(m[1], "[]"))
						at--
					}
					if at < len(args) && isCommand(args[at]) && (strings.HasSuffix(m[0], "q") || m[0][0] == '"') {
						bad("quotes around a command: " + m[0])
					}
					if !strings.HasSuffix(m[0], "%") {
						at++
					}
				}
			}
		}
		return true
	})
	return faults
}

// text is a literal's; "" of other expressions.
func text(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	return ""
}

// isCommand reports whether e begins with a command.
func isCommand(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return isCommand(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name == "Quote" || strings.HasSuffix(e.Sel.Name, "Command")
	case *ast.CallExpr:
		return isCommand(e.Fun)
	}
	return regexp.MustCompile(`^` + ours + ` `).MatchString(text(e))
}

// TestHintCommands: a hint has a command as a shell takes it (fault.Quote), with nothing around it, and with the name of its folder.
func TestHintCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	if err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if name := e.Name(); err == nil && e.IsDir() && file != root && (name == "bin" || name == "testdata" || name[0] == '.') {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return err
		}
		for _, is := range hintFaults(set, parsed) {
			t.Error(is)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string][]string{
		`"go on: " + fault.Quote("mcrawl", "run", dir)`:                nil,
		`fmt.Sprintf("100%%: %s", fault.Quote("mcrawl", "run"))`:       nil,
		`fmt.Sprintf("%q goes on", fault.Quote("mcrawl", "run", dir))`: {"quotes around a command: %q"},
		`fmt.Sprintf("\"%s\" goes on", d.resumeCommand())`:             {"quotes around a command: \"%s"},
		`fmt.Sprintf("%d: %[2]q goes on", n, fault.Quote("mckpt"))`:    {"quotes around a command: %[2]q"},
		`fmt.Sprintf("free them: mfrontier release %s", dir)`:          {"a word of a command without fault.Quote: mfrontier release %s"},
		`fmt.Sprintf("free them: mfrontier release --host %q", h)`:     {"a word of a command without fault.Quote: mfrontier release --host %q"},
		`"free them: mfrontier release " + dir + "/frontier"`:          {"a word of a command without fault.Quote: free them: mfrontier release "},
		`"free" + " them: mfrontier release " + dir`:                   {"a word of a command without fault.Quote:  them: mfrontier release "},
		`"give it up with \"mckpt abandon\""`:                          {"quotes around a command: \"mckpt abandon"},
		`"name one: mresolve dns --server ADDR"`:                       {"a word that stands for another: mresolve dns --server ADDR"},
		`"make it: " + fault.Quote("mfocus", "expand", db, "QUERY")`:   {"a word that stands for another: QUERY"},
		`"give it up: mckpt abandon CRAWL"`:                            {"no name of the folder: mckpt abandon CRAWL"},
	} {
		t.Run(expr, func(t *testing.T) {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, "a.go", "package a; var e = E{Hint: "+expr+"}", 0)
			if err != nil {
				t.Fatal(err)
			}
			got := hintFaults(set, parsed)
			for i, s := range got {
				_, got[i], _ = strings.Cut(s, ": ")
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
