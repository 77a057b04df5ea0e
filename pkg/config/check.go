package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/frontier"
)

// Size is a number of bytes; text with K, M, G, T (powers of 1024).
type Size int64

// Defaults of memory.fetch and memory.stages.
const (
	FetchMemory  Size = 128 << 20
	StagesMemory Size = frontier.Memory
)

// UnmarshalText parses "64M", "1GiB" or a plain number of bytes.
func (s *Size) UnmarshalText(text []byte) error {
	t := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(string(text)), "IB"), "B")
	shift := 0
	if n := len(t); n > 0 {
		switch t[n-1] {
		case 'K':
			shift = 10
		case 'M':
			shift = 20
		case 'G':
			shift = 30
		case 'T':
			shift = 40
		}
		if shift > 0 {
			t = t[:n-1]
		}
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("size %q, want a number of bytes such as 64M", text)
	}
	*s = Size(n << shift)
	return nil
}

// check refuses a value that no command takes, as far as one setting and its tag "is" tell: its
// text, or that of each member of a list.
func (k Key) check(values []string) error {
	kind, bounds, _ := strings.Cut(k.is, " ")
	least, most, _ := strings.Cut(bounds, " ")
	for _, v := range values {
		if want := refuse(kind, least, most, v); want != "" {
			return &fault.Error{Class: fault.Usage, Place: k.Name, Found: strconv.Quote(v), Want: want}
		}
	}
	switch kind {
	case "schemes":
		if _, err := canon.ParseSchemes(values); err != nil {
			return &fault.Error{Class: fault.Usage, Place: k.Name, Err: err}
		}
	case "host-connections":
		if _, err := HostConnections(values); err != nil {
			bad := err.(*fault.Error)
			bad.Place, bad.Hint = k.Name, k.Name+"="+bad.Hint
			return bad
		}
	case "rules":
		if _, err := canon.ParseRules(values); err != nil {
			return &fault.Error{Class: fault.Usage, Place: k.Name, Err: err}
		}
	}
	return nil
}

// refuse says what a value of a kind should be; "" if it is so.
func refuse(kind, least, most, v string) (want string) {
	good := true
	switch kind {
	case "time":
		d, err := time.ParseDuration(v)
		low, _ := time.ParseDuration(least)
		high, _ := time.ParseDuration(cmp.Or(most, "2000000h"))
		want, good = "a duration"+between(least, most)+`, such as "10s"`, err == nil && d >= low && d <= high
	case "size":
		var size, low Size
		_ = low.UnmarshalText([]byte(least))
		err := size.UnmarshalText([]byte(v))
		want, good = "a size"+between(least, most)+`, such as "64M"`, err == nil && size >= low
	case "whole", "number":
		n, err := strconv.ParseFloat(v, 64)
		low, _ := strconv.ParseFloat(least, 64)
		high, _ := strconv.ParseFloat(cmp.Or(most, fmt.Sprint(math.MaxInt64)), 64)
		want, good = "a "+kind+" number"+between(least, most), err == nil && n >= low && n <= high
		want = strings.Replace(want, "a number number", "a number", 1)
	case "rate":
		n, err := strconv.ParseFloat(v, 64)
		want, good = "0 for any number, or 0.001 to 1e9", err == nil && (n == 0 || n >= 0.001 && n <= 1e9)
	case "network":
		_, err := netip.ParsePrefix(v)
		want, good = `a network such as "127.0.0.0/8"`, err == nil
	case "server":
		_, err := netip.ParseAddr(strings.Trim(v, "[]"))
		addr, portErr := netip.ParseAddrPort(v)
		want, good = "an IP address, or ADDR:PORT", err == nil || portErr == nil && addr.Port() > 0
	case "polynomial":
		p, err := fingerprint.Parse(v)
		if err == nil {
			_, err = fingerprint.NewPoly(p)
		}
		want, good = `"random", or 16 hexadecimal digits that "murlset stat" printed`, err == nil || v == "random"
	case "contact":
		want, good = ContactWanted, IsContact(v)
	case "product":
		want, good = "a product name of letters, digits, '-' and '_', such as mercator or mercator/2", IsProduct(v)
	case "proxy":
		u, err := url.Parse(v)
		want, good = "http://HOST:PORT or socks5://HOST:PORT", err == nil && (u.Scheme == "http" || u.Scheme == "socks5") && u.Hostname() != "" && u.Port() != "" && u.User == nil
	case "remote":
		host, _, ok := strings.Cut(v, ":")
		want, good = "an absolute folder, HOST:PATH, or rclone:NAME:PATH", v == "" || filepath.IsAbs(v) || ok && host != "" && !strings.Contains(host, "/") && host[0] != '-'
	case "header":
		name, value, _ := strings.Cut(v, ":")
		want, good = `one line "Name: value"`, name != "" && strings.TrimSpace(value) != "" && !strings.ContainsAny(v, "\r\n")
	case "program":
		name, command, _ := strings.Cut(v, "=")
		want, good = "SCHEME=COMMAND", name != "" && strings.TrimSpace(command) != ""
	case "module":
		name, types, _ := strings.Cut(v, "=")
		_, command, program := strings.Cut(types, ":")
		want = "NAME, NAME=TYPE,TYPE or NAME=TYPE,TYPE:COMMAND"
		good = name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) && (!program || strings.TrimSpace(command) != "")
	default:
		if words := strings.Split(kind, "|"); len(words) > 1 {
			want, good = strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1], slices.Contains(words, v)
		}
	}
	if good {
		return ""
	}
	return want
}

func between(least, most string) string {
	if most == "" {
		return " of " + least + " or more"
	}
	return " of " + least + " to " + most
}

// IsProduct says whether s is a product token, perhaps with a version, as a User-Agent begins.
func IsProduct(s string) bool {
	name, version, _ := strings.Cut(s, "/")
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return name != "" && inComment(version) && !strings.ContainsAny(version, " /")
}

// ContactWanted says what IsContact takes.
const ContactWanted = "an e-mail address or a URL, such as you@example.org or https://www.example.org/crawler"

// IsContact says whether an operator can be reached by s, and it can stand in a User-Agent in parentheses.
func IsContact(s string) bool {
	mailbox, domain, mail := strings.Cut(s, "@")
	scheme, rest, url := strings.Cut(s, "://")
	return inComment(s) && (mail && mailbox != "" && domain != "" || url && scheme != "" && rest != "")
}

// inComment says whether s can stand in a User-Agent in parentheses.
func inComment(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '(' || r == ')' })
}

// together refuses settings that exclude each other, as the commands would.
func (c *Config) together() error {
	f := &c.File
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Usage, Place: place, Found: found, Want: want}
	}
	for _, pair := range []struct{ least, low, most, high, otherwiseLow, otherwiseHigh string }{
		{"politeness.min_delay", f.Politeness.MinDelay, "politeness.max_delay", f.Politeness.MaxDelay, "1s", "30s"},
		{"resolve.min_ttl", f.Resolve.MinTTL, "resolve.max_ttl", f.Resolve.MaxTTL, "1m", "24h"},
	} {
		low, err := time.ParseDuration(cmp.Or(pair.low, pair.otherwiseLow))
		high, highErr := time.ParseDuration(cmp.Or(pair.high, pair.otherwiseHigh))
		if err == nil && highErr == nil && high < low && !(pair.least == "politeness.min_delay" && f.Politeness.DelayFactor != nil && *f.Politeness.DelayFactor == 0) {
			return bad(pair.most, high.String(), fmt.Sprintf("at least %s, %v", pair.least, low))
		}
	}
	memory, body := FetchMemory, Size(0)
	if (f.Memory.Fetch == "" || memory.UnmarshalText([]byte(f.Memory.Fetch)) == nil) && body.UnmarshalText([]byte(cmp.Or(f.Fetch.MaxBody, "10M"))) == nil && body > memory/8 {
		return bad("fetch.max_body", fmt.Sprintf("%d bytes", body), fmt.Sprintf("at most an eighth of memory.fetch, %d", memory/8))
	}
	if g := f.Frontier.DomainGrowth; g != nil && *g > 0 && f.Frontier.DomainBudget == 0 {
		return bad("frontier.domain_growth", fmt.Sprintf("%v without frontier.domain_budget", *g), "a budget of URLs a domain, or 0")
	}
	if policy := f.Frontier.Policy; f.Focus.Model != "" && (policy == "opic" || policy == "walk") {
		return bad("focus.model", fmt.Sprintf("%q with policy %s", f.Focus.Model, policy), "another policy: to this one the score of a page is its own, and no relevance")
	}
	params, err := f.Frontier.Params.Encode()
	if err != nil {
		return &fault.Error{Class: fault.Usage, Place: "frontier", Err: err}
	}
	if queues := params["queues"]; f.Focus.Distill > 0 && (queues == "" || queues == "1") {
		return bad("focus.distill", fmt.Sprintf("%d with policy %s and one front queue", f.Focus.Distill, params["policy"]), "frontier.policy priority or revisit, with frontier.queues of 2 or more")
	}
	if f.Focus.Patience > 0 && f.Focus.Model == "" {
		return bad("focus.patience", fmt.Sprintf("%d without focus.model", f.Focus.Patience), "a model (mfocus train), or 0")
	}
	if r := f.Frontier.Refetch; r != "" && r != "never" && !f.Extract.Duplicates { // it would have no links, and its credit be lost to them
		return bad("extract.duplicates", "false with frontier.refetch", "true: a page that is fetched again and has not changed is a duplicate")
	}
	return nil
}

// Canon is the form of the crawl's URLs.
func (c *Config) Canon() (form canon.Options, err error) {
	urls := c.File.URLs
	form.MaxURL = urls.MaxURL
	if len(c.File.Schemes) > 0 {
		if form.Schemes, err = canon.ParseSchemes(c.File.Schemes); err != nil {
			return form, &fault.Error{Class: fault.Usage, File: c.Path, Place: "schemes", Err: err}
		}
	}
	for _, r := range []struct {
		names []string
		to    *canon.Rules
	}{{urls.KeyRules, &form.KeyRules}, {urls.URLRules, &form.URLRules}} {
		if *r.to, err = canon.ParseRules(r.names); err != nil {
			return form, &fault.Error{Class: fault.Usage, File: c.Path, Place: "urls", Err: err}
		}
	}
	return form, nil
}

// Shardable refuses settings that count over the whole crawl, where each of several shards would count for itself.
func (c *Config) Shardable() error {
	f := &c.File
	for _, s := range []struct {
		set   bool
		key   string
		found any
		want  string
	}{
		{f.Frontier.Policy == "opic", "frontier.policy", f.Frontier.Policy, "another policy: credit flows between all pages, and each shard sees its own alone"},
		{f.Frontier.Policy == "walk", "frontier.policy", f.Frontier.Policy, "another policy: a walk goes on from the page before, which another shard may have"},
		{f.Frontier.Policy == "revisit", "frontier.policy", f.Frontier.Policy, "another policy: new pages and repeated visits share the whole crawl, and each shard sees its own alone"},
		{f.Frontier.PerDomain > 0, "frontier.per_domain", f.Frontier.PerDomain, "none: the hosts of a domain are in several shards"},
		{f.Frontier.DomainBudget > 0, "frontier.domain_budget", f.Frontier.DomainBudget, "none: the hosts of a domain are in several shards"},
		{len(f.Extract.ModuleState) > 0, "extract.module_state", strings.Join(f.Extract.ModuleState, ","), "none: each shard would keep a state of its own pages alone"},
		{f.Fetch.Proxy != "", "fetch.proxy", f.Fetch.Proxy, "none: hosts are shared out by their addresses"},
		{len(f.Fetch.Exec) > 0, "fetch.exec", strings.Join(f.Fetch.Exec, ","), "none: hosts are shared out by their addresses"},
		{f.Focus.Patience > 0, "focus.patience", f.Focus.Patience, "0: each shard sees its own pages alone"},
		{f.Focus.Distill > 0, "focus.distill", f.Focus.Distill, "0: hubs link to pages of other shards"},
		{slices.ContainsFunc(f.Seeds, isTable), "seeds", strings.Join(f.Seeds, ","), "files of URLs or of JSON lines"},
	} {
		if s.set {
			return &fault.Error{Class: fault.Usage, File: c.Path, Place: s.key, Found: fmt.Sprintf("%v in a crawl of several shards", s.found), Want: s.want}
		}
	}
	return nil
}

// isTable reports whether a file of seeds has rows of another form than a line each.
func isTable(file string) bool { return filepath.Ext(file) == ".csv" || filepath.Ext(file) == ".tsv" }
