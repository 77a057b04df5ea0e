// Package sheet reads host sheets: a file that gives some hosts, domains or URLs other settings than the rest of a crawl has.
//
// SPEC.md beside this file has the form: filter rules (package filter), with settings of crawl.toml behind each condition.
//
// # Invariants
//
//   - What a sheet says of a URL depends on the URL and its host alone. Tests that look at more, such as kind, depth or exec, are refused.
//   - A setting of a host (delays, connecting) has a condition of hosts alone: all URLs of a host and port have one value.
//   - What its owner alone may allow is for hosts that the condition names: by their domains, too (connections), or one by one (robots.txt is ignored).
//   - All sheets that hold count, in their order: the later one wins, and lists such as headers add up.
//   - A value that crawl.toml would refuse is an error with its line.
//
// Many goroutines may use Sheets.
package sheet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/politeness"
	"mercator/pkg/base/setting"
	"mercator/pkg/config"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
)

// Sheet is a condition with settings.
type Sheet struct {
	Name, Condition string
	Line            int
	Values          []config.Value
}

// Sheets is a file of sheets. A nil one gives no settings.
type Sheets struct {
	All   []Sheet
	Files []string // the file, and the lists that it names

	rules   *filter.Filter
	ofHosts []int // sheets with settings of hosts
	hosts   index // the sheets of ofHosts
	every   index // all sheets
	judges  sync.Pool
}

// tests of a condition; the first of them are of hosts alone.
var (
	hostTests = []string{"any", "host", "domain", "registered-domain"}
	tests     = append(slices.Clone(hostTests), "scheme", "port", "url", "prefix", "path", "suffix", "contains", "regex", "extension", "query", "url-length", "path-depth", "repeated-segments", "repeated-parameters")
)

// listMemory bounds lists: each command of a round has them in memory.
const listMemory = 1 << 20

// Load reads the sheets at path for URLs of these schemes, or of those that are built in; none where it is "". Errors are fault.Usage with file and line.
func Load(path string, schemes *canon.Schemes) (*Sheets, error) {
	if path == "" {
		return nil, nil
	}
	want := `a file of sheets, such as "sheet slow: host www.example.org", and "politeness.min_delay 5s" behind spaces on the next line`
	in, err := os.Open(path)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: errors.Unwrap(err).Error(), Want: want, Err: err}
	}
	defer in.Close()
	if st, err := in.Stat(); err == nil && st.IsDir() {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a folder", Want: want}
	}
	return parse(path, in, schemes)
}

// OfCrawl loads the sheets that crawl.toml names; nil where it names none.
func OfCrawl(conf *config.Config) (*Sheets, error) {
	form, err := conf.Canon()
	if err != nil {
		return nil, err
	}
	file, err := conf.Setting("sheets")
	if err != nil || len(file) == 0 {
		return nil, err
	}
	return Load(file[0], form.Schemes)
}

func parse(path string, in io.Reader, schemes *canon.Schemes) (*Sheets, error) {
	rules, settings, err := filter.Sections(path, in, "sheet", tests, filter.Options{Memory: listMemory, Schemes: schemes})
	if err != nil {
		return nil, err
	}
	s := &Sheets{rules: rules, Files: append([]string{path}, rules.Files...)}
	s.judges.New = func() any { return rules.NewJudge() }
	for i := range rules.Rules {
		r := &rules.Rules[i]
		sheet := Sheet{Name: r.Name, Condition: r.Text, Line: r.Line}
		for _, of := range settings[i] {
			v, err := value(r, of)
			if err != nil {
				return nil, placed(path, of.Line, err)
			}
			sheet.Values = append(sheet.Values, v)
			if v.Key.Sheet != "url" && (len(s.ofHosts) == 0 || s.ofHosts[len(s.ofHosts)-1] != i) {
				s.ofHosts = append(s.ofHosts, i)
				s.hosts.add(r, i)
			}
		}
		s.All = append(s.All, sheet)
		s.every.add(r, i)
	}
	return s, nil
}

func value(r *filter.Rule, of filter.Setting) (config.Value, error) {
	v, err := config.SheetValue(of.Name, of.Value)
	if v.Line = of.Line; err != nil || v.Key.Sheet == "url" {
		return v, err
	}
	for _, test := range r.Tests() {
		if !slices.Contains(hostTests, test) {
			return v, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s in sheet %s, whose condition has the test %q", of.Name, r.Name, test),
				Want: setting.Or(hostTests) + ": it is a setting of a whole host"}
		}
	}
	want := ""
	switch {
	case v.Key.Sheet == "own" && !r.NamesHosts("host", "domain", "registered-domain"):
		want = "the names or domains of hosts of your own"
	case v.Key.Sheet == "named" && !r.NamesHosts("host"):
		want = "the names of hosts of your own, one by one"
	default:
		return v, nil
	}
	return v, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s in sheet %s, whose condition holds for hosts that it does not name", of.Name, r.Name), Want: want,
		Hint: fmt.Sprintf("\"sheet %s: host www.example.org\" names one", r.Name)}
}

func placed(path string, line int, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.File == "" {
		e.File, e.Place = path, fmt.Sprintf("line %d", line)
	}
	return err
}

// Check calls check for each value, and gives its errors their places.
func (s *Sheets) Check(check func(v config.Value) error) error {
	if s == nil {
		return nil
	}
	for _, sheet := range s.All {
		for _, v := range sheet.Values {
			if err := check(v); err != nil {
				return placed(s.Files[0], v.Line, err)
			}
		}
	}
	return nil
}

// Of are the sheets that hold for a canonical URL and its host, by their numbers.
func (s *Sheets) Of(url, host string) []int {
	if s == nil {
		return nil
	}
	return s.holding(filter.Candidate{URL: url, Host: host}, &s.every)
}

func (s *Sheets) holding(c filter.Candidate, in *index) []int {
	of := in.of(c.Host)
	if len(of) == 0 {
		return nil
	}
	j := s.judges.Get().(*filter.Judge)
	defer s.judges.Put(j)
	return j.Holding(&c, of)
}

// Host sets the settings of a host in the struct to, which has settings as fields. host has ":port" unless it is the default.
func (s *Sheets) Host(host string, to any) {
	if s == nil || len(s.ofHosts) == 0 {
		return
	}
	s.Apply(s.holding(filter.Candidate{URL: "http://" + host + "/", Host: host}, &s.hosts), to)
}

// index finds the sheets that may hold for a host: their conditions name it, or a domain of it, or no host.
type index struct {
	others []int
	named  map[string][]int
}

func (x *index) add(r *filter.Rule, sheet int) {
	names, ok := r.Names()
	if !ok {
		x.others = append(x.others, sheet)
		return
	}
	if x.named == nil {
		x.named = map[string][]int{}
	}
	for _, name := range names {
		x.named[name] = append(x.named[name], sheet)
	}
}

// of are the sheets in their order.
func (x *index) of(host string) []int {
	if len(x.named) == 0 {
		return x.others
	}
	all := append(slices.Clone(x.others), x.named[host]...)
	name, port := canon.SplitPort(host)
	if port != "" {
		all = append(all, x.named[name]...)
	}
	for {
		_, below, found := strings.Cut(name, ".")
		if !found {
			break
		}
		name = below
		all = append(all, x.named[name]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Apply sets the values of sheets in the struct to, which has settings as fields.
func (s *Sheets) Apply(sheets []int, to any) {
	for _, i := range sheets {
		config.Into(to, s.All[i].Values)
	}
}

// Gives reports whether any sheet gives one of these settings.
func (s *Sheets) Gives(keys ...string) bool {
	return s != nil && slices.ContainsFunc(s.All, func(sheet Sheet) bool {
		return slices.ContainsFunc(sheet.Values, func(v config.Value) bool { return slices.Contains(keys, v.Key.Name) })
	})
}

// list is an argument of a test that names a file.
var list = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"@[^"]*"|@[^\s()"]+`) })

// Audited returns a file of sheets with the settings that an audit looks at; nil where there are none. keep takes the text of each list, from number 1
// on, and returns the name that the file is to have for it.
func (s *Sheets) Audited(keep func(n int, text []byte) (name string, err error)) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	var b bytes.Buffer
	kept, all := map[string]string{}, error(nil)
	for _, sheet := range s.All {
		var values strings.Builder
		for _, v := range sheet.Values {
			if strings.HasPrefix(v.Key.Name, "politeness.") || v.Key.Name == "robots.policy" {
				fmt.Fprintf(&values, "    %s %q\n", v.Key.Name, v.Text)
			}
		}
		if values.Len() == 0 {
			continue
		}
		condition := list().ReplaceAllStringFunc(sheet.Condition, func(arg string) string {
			file := strings.Trim(arg, `"`)[1:]
			if kept[file] == "" {
				path := file
				if !filepath.IsAbs(path) {
					path = filepath.Join(filepath.Dir(s.Files[0]), path)
				}
				text, err := os.ReadFile(path)
				if err == nil {
					kept[file], err = keep(len(kept)+1, text)
				}
				all = cmp.Or(all, err)
			}
			return "@" + kept[file]
		})
		fmt.Fprintf(&b, "sheet %s: %s\n%s", sheet.Name, condition, values.String())
	}
	return b.Bytes(), all
}

// Attempts are how often a URL is tried and the first wait after a failure, of a crawl that has these for all; nil where no sheet says so.
func (s *Sheets) Attempts(all config.Failures) func(url, host string) (most int, delay time.Duration) {
	if !s.Gives("frontier.max_attempts", "frontier.retry_delay") {
		return nil
	}
	return func(url, host string) (int, time.Duration) {
		own := all
		s.Apply(s.Of(url, host), &own)
		return own.MaxAttempts, own.RetryDelay
	}
}

// Limits are the greatest depth of a URL and the most URLs of a host, of a crawl that has these for all; nil where no sheet says so.
func (s *Sheets) Limits(all config.NewURLs) (depth func(url, host string) int, urls func(host string) uint64) {
	if s.Gives("frontier.max_depth") {
		depth = func(url, host string) int {
			own := all
			s.Apply(s.Of(url, host), &own)
			return own.MaxDepth
		}
	}
	if s.Gives("frontier.max_host_urls") {
		urls = func(host string) uint64 {
			own := all
			s.Host(host, &own)
			return own.MaxHostURLs
		}
	}
	return depth, urls
}

// HostBytes are the most bytes of a host, of a crawl that has these for all; nil where no host has a limit.
func (s *Sheets) HostBytes(all config.Batch) func(host string) uint64 {
	if all.MaxHostBytes == 0 && !s.Gives("frontier.max_host_bytes") {
		return nil
	}
	return func(host string) uint64 {
		own := all
		s.Host(host, &own)
		return uint64(own.MaxHostBytes)
	}
}

// Politeness returns the politeness of a crawl that has these delays for all hosts.
func (s *Sheets) Politeness(all config.Delays) politeness.Policy {
	p := politeness.Policy{Rules: all.Rules()}
	if s == nil || len(s.ofHosts) == 0 {
		return p
	}
	for _, i := range s.ofHosts {
		d := all
		s.Apply([]int{i}, &d)
		p.HostsLongest = max(p.HostsLongest, d.Rules().Longest(), d.MaxDelay)
	}
	windows := map[string]*politeness.Window{}
	for _, sheet := range s.All {
		for _, v := range sheet.Values {
			if v.Key.Name == "politeness.window" {
				windows[v.Text], _ = politeness.ParseWindow(v.Text) // which was checked
			}
		}
	}
	p.Hosts = func(host string, r *politeness.Rules) {
		own := struct {
			config.Delays
			config.OfSheets
		}{Delays: all}
		s.Host(host, &own)
		*r = own.Rules()
		r.HostConnections, r.Window, r.NoRobots = own.Connections, windows[own.Window], own.IgnoresRobots()
	}
	return p
}
