package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// manualsFlag is --manuals: it writes the manual pages of the command and of each verb as Markdown, which
// "make man" turns into roff, and ends the command. They are made of what --help is
// made of, and of manual.md, so flags and verbs cannot differ from the program's.
type manualsFlag string

// BeforeResolve writes the pages; no verb has to be given.
func (manualsFlag) BeforeResolve(app *kong.Kong, ctx *kong.Context, trace *kong.Path, std *Std) error {
	dir, _ := ctx.FlagValue(trace.Flag).(manualsFlag)
	pages, err := manuals(app.Model, std.manual)
	if err != nil {
		return err
	}
	for name, text := range pages {
		if err := durable.WriteOutput(filepath.Join(string(dir), name+".1.md"), text); err != nil {
			return err
		}
	}
	app.Exit(0)
	return nil
}

// sections are the parts of manual.md: the text before the first heading of level two, those that
// belong to a verb ("## mfpset mark"), and the others in their order.
type sections struct {
	about  string
	verbs  map[string]string
	others string
}

var (
	link = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
	})
	linkedPage = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`/(\w+)/(?:SPEC|(manual))\.md(?:#(m\w+-\w+))?`)
	})
	special = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("[\\\\`*_<>\\[\\]|]")
	})
)

// cut cuts the text of manual.md at its headings.
func cut(command, manual string) (s sections) {
	s.verbs = map[string]string{}
	_, manual, _ = strings.Cut(manual, "\n") // the title
	var verb string
	add := func(line string) {
		switch {
		case verb == "":
			s.about += line
		case strings.HasPrefix(verb, command+" "):
			s.verbs[strings.TrimPrefix(verb, command+" ")] += line
		default:
			s.others += line
		}
	}
	for line := range strings.Lines(manual) {
		if title, is := strings.CutPrefix(line, "## "); is {
			verb = strings.TrimSpace(title)
			if name, is := strings.CutPrefix(verb, command+" "); is {
				s.verbs[name] = ""
			} else {
				s.others += line
			}
			continue
		}
		if !strings.HasPrefix(line, "    ") {
			line = link().ReplaceAllStringFunc(line, printed)
		}
		add(line)
	}
	return s
}

// printed is a link of Markdown on paper: its text, and behind it the manual page, the address or the file that it leads to.
func printed(markdown string) string {
	m := link().FindStringSubmatch(markdown)
	text, to := m[1], m[2]
	page := linkedPage().FindStringSubmatch(to)
	switch {
	case strings.HasPrefix(to, "#"):
		return text
	case page == nil:
		file, _, _ := strings.Cut(strings.TrimLeft(to, "./"), "#")
		if file == text {
			return text
		}
		return text + " (" + file + ")"
	case page[1] == "config": // as cmd/manuals.sh has it
		to = "**crawl.toml**(5)"
	case page[2] == "":
		to = "**mercator-" + page[1] + "**(5)"
	default:
		to = "**" + cmp.Or(page[3], page[1]) + "**(1)"
	}
	if strings.Trim(text, "`") == page[1] {
		return to
	}
	return text + " (" + to + ")"
}

// exitStatus is the section EXIT STATUS of every command.
const exitStatus = `
**0**
: done

**1**
: failed

**2**
: usage: the command line or crawl.toml is wrong

**3**
: damaged, truncated or wrong input

**4**
: the pipe ended early: run it again

**5**
: the store is busy

**6**
: a check answered no

**7**
: a program that you named failed

**8**
: another process took the work over

**130**
: interrupted

**141**
: the reader of standard output went away
`

// manuals returns the pages of a command by name, such as "mfpset" and "mfpset-mark". It refuses a manual
// with a section for a verb that the command does not have.
func manuals(app *kong.Application, manual string) (map[string][]byte, error) {
	text := cut(app.Name, manual)
	pages := map[string][]byte{}
	own := slices.DeleteFunc(slices.Clone(app.Flags), hiddenFlag)
	var verbs []*kong.Node
	for _, verb := range app.Children {
		if verb.Hidden {
			continue
		}
		verbs = append(verbs, verb)
		var b bytes.Buffer
		name := app.Name + "-" + verb.Name
		detail, examples, _ := strings.Cut(verb.Detail, "Examples:\n")
		head(&b, name, verb.Help)
		fmt.Fprintf(&b, "# SYNOPSIS\n\n**%s** %s\n\n", plain(verb.FullPath()), arguments(verb))
		fmt.Fprintf(&b, "# DESCRIPTION\n\n%s\n\n%s\n\n", cmp.Or(paragraphs(detail), plain(verb.Help)), text.verbs[verb.Name])
		flags(&b, slices.DeleteFunc(slices.Clone(verb.Flags), hiddenFlag))
		fmt.Fprintf(&b, "The options of all verbs are in **%s**(1).\n\n", app.Name)
		if examples != "" {
			fmt.Fprintf(&b, "# EXAMPLES\n\n%s\n\n", indented(examples))
		}
		fmt.Fprintf(&b, "# SEE ALSO\n\n**%s**(1), **crawl.toml**(5)\n", app.Name)
		pages[name] = b.Bytes()
		delete(text.verbs, verb.Name)
	}
	for verb := range text.verbs {
		return nil, &fault.Error{File: "manual.md", Place: "## " + app.Name + " " + verb, Found: "no such verb", Want: "a verb of " + app.Name}
	}

	var b bytes.Buffer
	first, _, _ := strings.Cut(app.Help, "\n")
	head(&b, app.Name, strings.SplitAfter(first, ". ")[0])
	fmt.Fprintf(&b, "# SYNOPSIS\n\n")
	if len(verbs) == 0 {
		fmt.Fprintf(&b, "**%s** %s\n\n", app.Name, arguments(app.Node))
	} else {
		fmt.Fprintf(&b, "**%s** *verb* [*option* ...] [*argument* ...]\n\n", app.Name)
	}
	detail, examples, _ := strings.Cut(app.Detail, "Examples:\n")
	fmt.Fprintf(&b, "# DESCRIPTION\n\n%s\n\n%s\n\n%s\n\n", paragraphs(app.Help), paragraphs(detail), text.about)
	if len(verbs) > 0 {
		fmt.Fprintf(&b, "# VERBS\n\n")
		for _, verb := range verbs {
			fmt.Fprintf(&b, "**%s-%s**(1)\n: %s\n\n", app.Name, verb.Name, plain(verb.Help))
		}
	}
	b.WriteString(text.others + "\n\n")
	flags(&b, own)
	if examples != "" {
		fmt.Fprintf(&b, "# EXAMPLES\n\n%s\n\n", indented(examples))
	}
	fmt.Fprintf(&b, "# EXIT STATUS\n\n%s\n# SEE ALSO\n\n", exitStatus)
	for _, verb := range verbs {
		fmt.Fprintf(&b, "**%s-%s**(1), ", app.Name, verb.Name)
	}
	fmt.Fprintf(&b, "**crawl.toml**(5)\n")
	pages[app.Name] = b.Bytes()
	return pages, nil
}

func hiddenFlag(f *kong.Flag) bool { return f.Hidden }

// head writes a page's title and its line for apropos(1).
func head(b *bytes.Buffer, name, help string) {
	fmt.Fprintf(b, "%% %s 1 \"\" \"Mercator\" \"User Commands\"\n\n# NAME\n\n%s - %s\n\n", strings.ToUpper(name), name, plain(strings.TrimSuffix(strings.TrimSpace(help), ".")))
}

// arguments returns what stands behind a verb on a command line.
func arguments(n *kong.Node) string {
	list := []string{"[*option* ...]"}
	for _, arg := range n.Positional {
		list = append(list, plain(arg.Summary()))
	}
	return strings.Join(list, " ")
}

// flags writes options under the headings of their groups.
func flags(b *bytes.Buffer, all []*kong.Flag) {
	if len(all) > 0 {
		fmt.Fprintf(b, "# OPTIONS\n\n")
	}
	var groups []string
	title := func(f *kong.Flag) string {
		if f.Group == nil {
			return ""
		}
		return strings.TrimSuffix(f.Group.Title, ":")
	}
	for _, f := range all {
		if !slices.Contains(groups, title(f)) {
			groups = append(groups, title(f))
		}
	}
	slices.SortStableFunc(groups, func(x, y string) int { return min(len(x), 1) - min(len(y), 1) })
	for _, group := range groups {
		if group != "" {
			fmt.Fprintf(b, "### %s\n\n", plain(group)) // go-md2man makes a section of ##, as of #
		}
		for _, f := range all {
			if title(f) != group {
				continue
			}
			if f.Short != 0 {
				fmt.Fprintf(b, "**-%c**, ", f.Short)
			}
			if f.Tag.Negatable != "" {
				fmt.Fprintf(b, "**--[no-]%s**", f.Name)
			} else {
				fmt.Fprintf(b, "**--%s**", f.Name)
			}
			if !f.IsBool() {
				fmt.Fprintf(b, "=*%s*", plain(f.FormatPlaceHolder()))
			}
			fmt.Fprintf(b, "\n: %s", plain(f.Help))
			if nowhere(f) {
				fmt.Fprintf(b, " Default: %s.", plain(f.Default))
			}
			b.WriteString("\n\n")
		}
	}
}

// nowhere reports whether neither the placeholder of a flag nor its help names its default. -1 is none.
func nowhere(f *kong.Flag) bool {
	return f.PlaceHolder != "" && f.Default != f.PlaceHolder && f.Default != "" && f.Default != "-1" && !f.IsBool() &&
		!strings.Contains(f.Help, "default") && !strings.Contains(f.Help, "("+f.Default+")")
}

// plain returns text with what Markdown would read as markup escaped.
func plain(text string) string { return special().ReplaceAllString(text, `\$0`) }

// paragraphs returns the text of a help as Markdown: indented lines stay as they are.
func paragraphs(text string) string {
	var b strings.Builder
	var code bool
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") != code && strings.TrimSpace(line) != "" {
			code = !code
			b.WriteByte('\n')
		}
		if code {
			b.WriteString("    " + line)
		} else {
			b.WriteString(plain(line))
		}
	}
	return b.String()
}

// indented returns examples as a block of code.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimPrefix(line, "  "))
	}
	return b.String()
}
