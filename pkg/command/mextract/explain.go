package mextract

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/linkkind"
)

// explainer writes what becomes of URLs.
type explainer struct {
	*explainCmd
	opt        canon.Options
	base       *canon.Base // nil without --base
	via, from  string      // the base, and its host
	judge      *filter.Judge
	out        *bufio.Writer
	n, refused int
}

// all explains the URLs of the command line, or the lines of standard input.
func (x *explainer) all(ctx context.Context, std *cli.Std) error {
	if len(x.URLs) > 0 && (len(x.URLs) > 1 || x.URLs[0] != "-") {
		for _, ref := range x.URLs {
			if err := x.explain(ctx, ref); err != nil {
				return err
			}
		}
		return nil
	}
	in, err := std.OpenLines(nil)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		if err := x.explain(ctx, lines.Text()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &fault.Error{Class: fault.Usage, File: "standard input", Found: err.Error(), Want: "lines of at most 1 MiB", Err: err}
	}
	return nil
}

// explanation is the output of --json.
type explanation struct {
	Input            string       `json:"input"`
	Canonical        string       `json:"canonical,omitempty"`
	Host             string       `json:"host,omitempty"`
	RegisteredDomain string       `json:"registered_domain,omitempty"`
	SURT             string       `json:"surt,omitempty"`
	Key              string       `json:"url_key,omitempty"`
	Length           int          `json:"url_length,omitempty"`
	Rules            []ruleOutput `json:"rules,omitempty"`
	Wanted           bool         `json:"wanted"`
	Reason           string       `json:"reason,omitempty"` // why not, as the ledger counts it
	Detail           string       `json:"detail,omitempty"` // of a reason that is no rule's
}

type ruleOutput struct {
	File      string             `json:"file,omitempty"` // none: the default
	Line      int                `json:"line,omitempty"`
	Name      string             `json:"name"`
	Verdict   string             `json:"verdict"`
	Judges    string             `json:"judges"` // "url" or "document"
	Condition string             `json:"condition,omitempty"`
	Holds     bool               `json:"holds"`
	Decides   bool               `json:"decides"`
	Tests     []filter.TestTrace `json:"tests,omitempty"`
}

func (x *explainer) explain(ctx context.Context, ref string) error {
	e, err := x.judgeURL(ctx, ref)
	if err != nil {
		return err
	}
	x.n++
	if !e.Wanted {
		x.refused++
	}
	if !x.JSON {
		x.print(e)
		return nil
	}
	enc := json.NewEncoder(x.out)
	enc.SetEscapeHTML(false) // & is common in URLs
	return enc.Encode(e)
}

// judgeURL explains a URL, and its document where --mime says what it is.
func (x *explainer) judgeURL(ctx context.Context, ref string) (*explanation, error) {
	e := &explanation{Input: ref}
	resolve := x.opt.URL
	if x.base != nil {
		resolve = x.base.Resolve
	}
	u, host, err := resolve(ref)
	if err != nil {
		e.Reason, e.Detail = string(canon.ReasonOf(err)), err.Error()
		return e, nil
	}
	e.Canonical, e.Host, e.RegisteredDomain, e.SURT = u, host, canon.RegisteredDomain(host), canon.SURT(u)
	e.Key, e.Length, e.Wanted = fmt.Sprintf("%016x", x.opt.URLKey(host, u)), len(u), true
	candidate := filter.Candidate{URL: u, Host: host, Depth: x.Depth, Kind: x.Kind, From: x.from, Via: x.via, Named: x.Kind == linkkind.Sitemap, Requisite: linkkind.Requisite(x.Kind, 0) > 0}
	if err := x.rules(ctx, e, candidate, false); err != nil || !e.Wanted || x.MIME == "" {
		return e, err
	}
	candidate.Kind, candidate.MIME = "", x.MIME
	return e, x.rules(ctx, e, candidate, true)
}

var verdicts = map[bool]string{true: "allow", false: "deny"}

func (x *explainer) rules(ctx context.Context, e *explanation, c filter.Candidate, document bool) error {
	traces, v, err := x.judge.Explain(ctx, c, document)
	if err != nil {
		return err
	}
	judges := "url"
	if document {
		judges = "document"
	}
	for _, t := range traces {
		r := t.Rule
		e.Rules = append(e.Rules, ruleOutput{r.File, r.Line, r.Name, verdicts[r.Allow], judges, r.Text, t.Holds, t.Decides, t.Tests})
	}
	if v.Rule == nil {
		e.Rules = append(e.Rules, ruleOutput{Name: "default", Verdict: verdicts[v.Allow], Judges: judges, Holds: true, Decides: true})
	}
	if !v.Allow {
		e.Wanted, e.Reason = false, v.Reason()
	}
	return nil
}

// print writes an explanation for people.
func (x *explainer) print(e *explanation) {
	line := func(name, value string) { fmt.Fprintf(x.out, "%-18s %s\n", name, cli.Printable(value)) }
	line("input", e.Input)
	if e.Canonical == "" {
		line("refused", e.Detail)
		return
	}
	line("canonical", e.Canonical)
	line("host", e.Host)
	line("registered-domain", e.RegisteredDomain)
	line("surt", e.SURT)
	line("url_key", e.Key)
	line("url-length", fmt.Sprint(e.Length))
	answer := map[bool]string{true: "yes", false: "no"}
	shipped := 0
	for _, r := range e.Rules {
		if r.File == "default" && !r.Decides {
			shipped++
		}
	}
	if shipped > 0 {
		line("default", fmt.Sprintf("no   %s (each: --json)", cli.Count(shipped, "rule")))
	}
	for _, r := range e.Rules {
		if r.File == "default" && !r.Decides {
			continue
		}
		name := fmt.Sprintf("%s:%d", r.File, r.Line)
		if r.File == "" {
			name = "default"
		}
		if r.Judges == "document" {
			name += " (" + x.MIME + ")"
		}
		if r.Condition == "" {
			line(name, fmt.Sprintf("%-4s %s", answer[r.Holds], r.Verdict))
			continue
		}
		text := fmt.Sprintf("%-4s %s %s: %s", answer[r.Holds], r.Verdict, r.Name, r.Condition)
		if len(r.Tests) == 1 {
			line(name, text+bracketed(r.Tests[0].Value))
			continue
		}
		line(name, text)
		for _, t := range r.Tests {
			line("", fmt.Sprintf("     %-10s  %s%s", t.Outcome, t.Test, bracketed(t.Value)))
		}
	}
	if e.Wanted {
		line("wanted", "yes")
	} else {
		line("refused", e.Reason)
	}
}

func bracketed(value string) string {
	if value == "" {
		return ""
	}
	return " [" + value + "]"
}

// listFiles writes the names of a filter's files, a line each: relative to the folder of the
// first where they lie below it, absolute otherwise.
func listFiles(w io.Writer, f *filter.Filter) error {
	for _, name := range f.Files {
		rel, err := filepath.Rel(filepath.Dir(f.Files[0]), name)
		if err != nil || !filepath.IsLocal(rel) {
			if rel, err = filepath.Abs(name); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, rel); err != nil {
			return err
		}
	}
	return nil
}
