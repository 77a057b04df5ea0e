// Package filter decides which URLs a crawl wants: Mercator's URL filter as a
// file of rules.
//
//	# what we want of two sites
//	include default without calendar
//	deny  listed:    domain @blocked.txt
//	allow docs:      domain example.org and not extension zip exe
//	allow tools:     host tools.example.com:8080
//	deny  big:       mime application/zip video/*
//	default deny
//
// A line is a rule: a verdict, a name, a colon and a condition; "#" begins a comment; a
// name left out is "line-N". Other lines are settings:
//
//	match first           the first rule with a condition that holds decides (the default)
//	match all             a URL must meet every allow and no deny; the first rule that fails this drops it
//	default allow|deny    the verdict when no rule of "match first" holds (default: allow)
//	include FILE          the rules of another file, here; "default" is the shipped rules (see Shipped)
//	include FILE without NAME…
//	timeout 30s           how long a program of an exec test may take to answer (default: 10s)
//
// An included file has only rules and includes, and at least one rule. File names are relative to the
// folder of the file that names them.
//
// A condition is made of tests with and, or, not and parentheses; not binds
// closest and or loosest. A test is a word and its arguments; it holds if one
// argument does. Arguments with spaces, parentheses or "#" stand in double quotes, in which
// \" is a quote, and \ before anything else is itself.
//
//	any                     every URL
//	scheme S…               http, https, ftp, gopher, or another that is crawled
//	host H…                 exactly, in canonical form (lower case, IDNA, no ":port" that is the scheme's default); without ":port" on any port
//	domain D…               the host is D or ends in ".D", on any port; ".D" is as good
//	registered-domain D…    D is the domain that the host is registered under
//	port N…                 default ports included
//	url U…                  the canonical URL
//	prefix P…, suffix S…    of the canonical URL
//	path P…                 the path, with the query behind it, begins with P
//	contains S…             somewhere in the canonical URL
//	regex R…                found anywhere in the canonical URL (RE2)
//	extension E…            of the last path segment; dot and case do not matter
//	query                   there is a query, the empty one included
//	same-host               the page that links to it is on the same host and port, or none links to it (a seed)
//	kind K…                 link kind, such as a, img, redirect (package linkkind has all); empty for seeds
//	                        (of a URL that waits the kind is not known: see Waiting). css covers css-import and
//	                        link-stylesheet, link covers link-*; kinds of your own begin with x-
//	requisite               a part of a page that the crawl keeps: a picture, style sheet, script, font, frame, sound or film,
//	                        what a style sheet names, and the target of a redirect of these; never a page that somebody links to
//	url-length OP N         bytes of the canonical URL
//	path-depth OP N         path segments that are not empty
//	linked-from R…          regex of the URL of the page that links to it; holds, too, if none is known (a seed)
//	repeated-segments OP N  path segments that stand in the path already, all counted together
//	repeated-parameters OP N  the same of the parameters of a query, with their values
//	repeated-menu           the link leads to a folder below the page's own, and the page has links to two such folders
//	                        that are named as folders of its own path: a menu on a page that answers under any path
//	depth OP N              links from a seed
//	mime T…                 media type of a fetched document: text/html, image/*, */*
//	exec COMMAND            a program answers yes
//
// OP is one of <, <=, =, >=, >.
//
// # Lists
//
// For host, domain, registered-domain, url and prefix an argument @FILE stands for the
// lines of a text file, which must be sorted by bytes (LC_ALL=C sort -u) and canonical;
// empty lines and lines that begin with "#" do not count. A list that fits into the
// memory that Load is given is kept there. Any other stays on disk, with some bits an entry
// in memory that spare most reads, 16 MiB of them for all lists together. Both are searched
// exactly: there are no false answers.
//
// # Documents
//
// A rule with a mime test judges documents, when they have been fetched, and no URL; all
// other rules judge URLs, and no document. A document that is denied is neither searched for
// links nor given to modules. One that no rule decides is allowed, whatever the default.
//
// # Programs
//
// A program is started by /bin/sh once for each Judge, when it is first needed. It reads a
// line for each question: URL, host, depth, link kind and media type, with tabs between,
// and writes a line for each, in that order: "yes" or "no", and behind a tab, if it likes,
// why, which explain shows. It must keep neither questions nor answers back
// (sed -u, grep --line-buffered, mawk -W interactive): questions come many at a time, and the next ones when
// all have their answers. It ends with status 0 when its input ends. Its answer must depend on
// its question alone, or the links of a batch would depend on the number of threads.
//
// Of a program that dies, the questions without an answer are asked again of a new one; three
// deaths without an answer between them, or a hundred in all, are an error. So are an answer that is late, that is
// neither yes nor no, or that nobody asked for. An error ends the batch: nothing that
// the program should have judged passes unjudged.
//
// # Invariants
//
//   - Verdicts depend on rules and candidates alone (and on programs).
//   - Time is linear in the URL and the rules, times the logarithm of a list; but for
//     repeated-segments and repeated-parameters, which sort, and prefix lists, which may be searched once for
//     each byte behind the host.
//   - Judging allocates nothing; programs aside, and registered-domain where the host changes.
package filter

import (
	"context"
	"io"
	"time"

	"mercator/pkg/base/coprocess"
)

// Candidate is a URL that is to be judged, or a document.
type Candidate struct {
	URL   string // canonical
	Host  string // of URL, with ":port" where it is not the default
	Depth uint16
	Kind  string // link kind; "" for a seed and for a document
	From  string // host of the page that links to it, as Host; "" for a seed
	Via   string // URL of that page; "" for a seed, and where it is not known
	MIME  string // media type of a document, lower-case, without parameters
	// Named: it was asked for by name, as seeds are, and sitemaps that the robots.txt of a host of the crawl names. A rule may deny it,
	// but neither "default deny" nor an allow that it does not meet ("match all") does.
	Named bool
	Menu  bool // as the test repeated-menu has it
	// Requisite: it is a part of a page, such as a picture, or of a part that has parts, such as a style sheet (package linkkind).
	Requisite bool
}

// Rule is one line of a filter.
type Rule struct {
	Name     string
	Allow    bool
	Document bool   // judges documents, not URLs
	File     string // it stands in
	Line     int
	Text     string // the condition as written
	cond     condition
	tests    []*leaf // in the order in which they stand
}

// Filter is a list of rules. The zero value allows everything. Many goroutines may use
// it, each with a Judge of its own.
type Filter struct {
	Rules       []Rule
	DefaultDeny bool
	Files       []string // its rule files and lists, as they were named or relative to those
	All         bool     // "match all"

	documents bool          // are judged, by a rule or more
	sets      int           // sets of words that rules have
	kinds     []string      // kinds that tests name
	files     []io.Closer   // lists on disk
	programs  []string      // commands of exec tests
	timeout   time.Duration // for a program's answer; 0: the default
}

// Close closes the files of lists. Judges must not be used after it.
func (f *Filter) Close() error {
	var first error
	for _, c := range f.files {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	f.files = nil
	return first
}

// JudgesDocuments reports whether there is a rule for documents.
func (f *Filter) JudgesDocuments() bool { return f.documents }

// Verdict is a filter's decision.
type Verdict struct {
	Allow bool
	Rule  *Rule // rule that decided; nil for the default
	Page  bool  // of a part (Candidate.Requisite): it is allowed as a page, too, and so may have parts of its own
}

// Reason is how a stage's ledger name a refusal: "filter:NAME" of the rule, or
// "filter:default".
func (v Verdict) Reason() string { return "filter:" + v.Name() }

// Name returns the name of the rule that decided, or "default".
func (v Verdict) Name() string {
	if v.Rule == nil {
		return "default"
	}
	return v.Rule.Name
}

// maxDeaths is how often a program may end early while a judge asks it.
const maxDeaths = 100

// Judge applies a filter, with memory of its own, for one goroutine.
type Judge struct {
	filter   *Filter
	view     view
	programs []*coprocess.Program
	pending  []int
	lines    []byte
	waiting  struct { // of Waiting, for the next call
		of         []int
		candidates []Candidate
		verdicts   []Verdict
	}
}

// NewJudge returns a judge. It starts programs when it needs them; Close ends them.
func (f *Filter) NewJudge() *Judge {
	j := &Judge{filter: f, view: view{memo: make([]memo, f.sets)}}
	for _, command := range f.programs {
		j.programs = append(j.programs, &coprocess.Program{Command: command, Timeout: f.timeout, Deaths: maxDeaths})
	}
	return j
}

// Close ends the judge's programs. An error says that one of them failed in the end, or wrote
// more answers than it was asked for: what it said is not to be trusted.
func (j *Judge) Close() error {
	var first error
	for _, p := range j.programs {
		if err := p.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// URLs judges URLs and stores a verdict for each; both slices have one length. It
// fails if a list cannot be read or a program fails.
func (j *Judge) URLs(ctx context.Context, candidates []Candidate, verdicts []Verdict) error {
	return j.all(ctx, candidates, verdicts, false)
}

// Document judges a document that was fetched.
func (j *Judge) Document(ctx context.Context, c Candidate) (Verdict, error) {
	cs, vs := [1]Candidate{c}, [1]Verdict{}
	err := j.all(ctx, cs[:], vs[:], true)
	return vs[0], err
}

// all judges candidates. Those that need a program's answer wait until all have come so far,
// so that it is asked once for many of them.
func (j *Judge) all(ctx context.Context, candidates []Candidate, verdicts []Verdict, document bool) error {
	v := &j.view
	v.resetAnswers(len(candidates), len(j.programs))
	j.pending = j.pending[:0]
	for i := range candidates {
		v.reset(i, &candidates[i], document)
		verdicts[i] = j.verdict()
		if v.err != nil {
			return v.err
		}
		if v.asks >= 0 {
			j.pending = append(j.pending, i)
		}
	}
	for len(j.pending) > 0 {
		if err := j.ask(ctx, candidates); err != nil {
			return err
		}
		waiting := j.pending[:0]
		for _, i := range j.pending {
			v.reset(i, &candidates[i], document)
			verdicts[i] = j.verdict()
			if v.err != nil {
				return v.err
			}
			if v.asks >= 0 {
				waiting = append(waiting, i)
			}
		}
		j.pending = waiting
	}
	return nil
}

// verdict judges what is in view, and a part also as if it were none. It counts if nothing is to be asked.
func (j *Judge) verdict() Verdict {
	says, v := j.decide(), &j.view
	if !says.Allow || !v.part || v.trace != nil {
		return says
	}
	if says.Page = true; v.askedPart {
		v.part = false
		says.Page = j.decide().Allow
	}
	return says
}

// decide judges what is in view. The verdict counts if nothing is to be asked.
func (j *Judge) decide() Verdict {
	f, v := j.filter, &j.view
	for i := range f.Rules {
		r := &f.Rules[i]
		if r.Document != v.document {
			continue
		}
		holds := r.cond.holds(v)
		if v.asks >= 0 || v.err != nil {
			return Verdict{}
		}
		if holds && !f.All {
			return Verdict{Allow: r.Allow, Rule: r}
		}
		if f.All && holds != r.Allow && !(r.Allow && v.Named) {
			return Verdict{Rule: r}
		}
	}
	return Verdict{Allow: v.document || f.All || !f.DefaultDeny || v.Named}
}

// ask asks the first program that candidates wait for.
func (j *Judge) ask(ctx context.Context, candidates []Candidate) error {
	v := &j.view
	n := len(j.programs)
	for p, prog := range j.programs {
		j.lines = j.lines[:0]
		var asked []int
		for _, i := range j.pending {
			if v.answers[i*n+p] == answerWanted {
				j.lines = appendQuestion(j.lines, &candidates[i])
				asked = append(asked, i)
			}
		}
		if len(asked) == 0 {
			continue
		}
		name := func(k int) string { return candidates[asked[k]].URL }
		err := prog.Ask(ctx, j.lines, len(asked), name, func(k int, answer string) error {
			yes, why, err := parseAnswer(answer)
			if err != nil {
				return err
			}
			v.answers[asked[k]*n+p] = answerNo
			if yes {
				v.answers[asked[k]*n+p] = answerYes
			}
			if v.trace != nil {
				v.whys[p] = why
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
