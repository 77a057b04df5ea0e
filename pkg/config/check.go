package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/politeness"
	"mercator/pkg/base/setting"
	"mercator/pkg/web/canon"
)

// Check refuses a value of a flag or a setting that no command takes, as far as one alone tells. tags are the tags of its
// field. If the field has a setting's key, the setting's tags count instead.
func Check(name string, tags setting.Tags, v reflect.Value) error {
	if k, found := keyAt(tags.Get("key")); found {
		tags = k.tag
	}
	if err := setting.Check(name, tags, v); err != nil {
		return err
	}
	texts, isList := v.Interface().([]string)
	if !isList && v.Kind() == reflect.String && v.String() != "" {
		texts = []string{v.String()}
	}
	kind := tags.Get("is")
	switch kind {
	case "schemes":
		_, err := canon.ParseSchemes(texts)
		return withName(name, err)
	case "rules":
		_, err := canon.ParseRules(texts)
		return withName(name, err)
	}
	if of, found := kinds[kind]; found {
		for _, text := range texts {
			if at := strings.LastIndexByte(text, '@'); kind == "proxy" && at >= 0 {
				return withoutPassword(name, text, at, of.want)
			}
			if !of.is(text) {
				return setting.Wrong(name, text, of.want)
			}
		}
	}
	return nil
}

// withoutPassword refuses the URL of a proxy with a name and a password before at. They are not repeated.
func withoutPassword(name, text string, at int, want string) error {
	scheme, _, _ := strings.Cut(text, "://")
	proxy := scheme + "://" + text[at+1:]
	file := "fetch.login"
	if strings.HasPrefix(name, "--") {
		file = "--login"
	}
	return &fault.Error{Class: fault.Usage, Found: name + " with a name or a password", Want: want, Hint: fmt.Sprintf("they go into the file of %s, which you alone may read, as a line \"%s USER:PASSWORD\"", file, proxy)}
}

// withName adds the name of a flag or a setting to an error.
func withName(name string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: name + " " + strings.TrimPrefix(err.Error(), "scheme: ")}
}

// decodeValue sets a field to a value of TOML, and refuses what Check refuses.
func (k Key) decodeValue(v any, to reflect.Value) error {
	if k.typ.Kind() == reflect.Pointer {
		to.Set(reflect.New(k.typ.Elem()))
		to = to.Elem()
	}
	switch v := v.(type) {
	case []any:
		to.Set(reflect.ValueOf(texts(v)))
	case bool:
		to.SetBool(v)
	case float64:
		to.SetFloat(v)
	case int64:
		switch {
		case to.CanFloat():
			to.SetFloat(float64(v))
		case to.CanUint() && v < 0:
			return setting.Wrong(k.Name, v, "0 or more")
		case to.CanUint():
			to.SetUint(uint64(v))
		default:
			to.SetInt(v)
		}
	case string:
		like := "a duration"
		var err error
		switch p := to.Addr().Interface().(type) {
		case *time.Duration:
			*p, err = time.ParseDuration(v)
		case *Size:
			like, err = "a size", p.UnmarshalText([]byte(v))
		default:
			to.SetString(v)
		}
		if err != nil {
			return setting.Wrong(k.Name, v, like+" of "+setting.Want(k.tag)+", such as "+strings.Trim(k.Like, `"`))
		}
	}
	return Check(k.Name, k.tag, to)
}

// parsed is a text as TOML has the value; nil if it is none.
func (k Key) parsed(text string) any {
	switch {
	case k.typ.Kind() == reflect.Slice:
		list, found := listOf(text)
		if !found {
			list = k.ListMembers(text)
		}
		all := []any{}
		for _, m := range list {
			all = append(all, m)
		}
		return all
	case k.isText():
		if text != "" && strings.ContainsRune(`"'`, rune(text[0])) {
			if list, found := listOf("[" + text + "]"); found && len(list) == 1 {
				return list[0]
			}
		}
		return text
	case k.IsSwitch():
		if text == "true" || text == "false" {
			return text == "true"
		}
	case k.isNumber():
		if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(n, 0) {
			return n
		}
	default:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return nil
}

// kinds are the texts that the tag is names.
var kinds = map[string]struct {
	want string
	is   func(v string) bool
}{
	"network": {`a network such as 127.0.0.0/8`, func(v string) bool { _, err := netip.ParsePrefix(v); return err == nil }},
	"server": {"an IP address, or ADDR:PORT", func(v string) bool {
		_, err := netip.ParseAddr(strings.Trim(v, "[]"))
		addr, portErr := netip.ParseAddrPort(v)
		return err == nil || portErr == nil && addr.Port() > 0
	}},
	"polynomial": {`random, or 16 hexadecimal digits that "murlset stat" printed`, func(v string) bool {
		p, err := fingerprint.Parse(v)
		if err == nil {
			_, err = fingerprint.NewPoly(p)
		}
		return err == nil || v == "random"
	}},
	"contact": {ContactWanted, isContact},
	"product": {"a product name of letters, digits, '-' and '_', such as mercator or mercator/2", isProduct},
	"prefix": {"at most 64 letters, digits, '.', '_' and '-', such as docs-2026, without '..', without -s007 at the end (a shard), and not a name of the store's own such as MANIFEST", func(v string) bool {
		return warc.IsPrefix(v) && store.FreePrefix(v+"-")
	}},
	"proxy": {"http://HOST:PORT or socks5://HOST:PORT", func(v string) bool {
		u, err := url.Parse(v)
		return err == nil && (u.Scheme == "http" || u.Scheme == "socks5") && u.Hostname() != "" && u.Port() != "" && u.User == nil
	}},
	"window": {"times of day, such as 22:00-06:00, and perhaps a time zone that this machine knows, such as Europe/Berlin or Local", func(v string) bool {
		_, err := politeness.ParseWindow(v)
		return err == nil
	}},
	"remote": {"an absolute folder, HOST:PATH, or rclone:NAME:PATH", func(v string) bool {
		host, _, ok := strings.Cut(v, ":")
		return filepath.IsAbs(v) || ok && host != "" && !strings.Contains(host, "/") && host[0] != '-'
	}},
	"header": {`one line "Name: value"`, func(v string) bool {
		name, value, _ := strings.Cut(v, ":")
		return name != "" && strings.TrimSpace(value) != "" && !strings.ContainsAny(v, "\r\n")
	}},
	"program": {"SCHEME=COMMAND", func(v string) bool {
		name, command, _ := strings.Cut(v, "=")
		return name != "" && strings.TrimSpace(command) != ""
	}},
	"module": {"NAME, NAME=TYPE,TYPE or NAME=TYPE,TYPE:COMMAND", func(v string) bool {
		name, types, _ := strings.Cut(v, "=")
		_, command, program := strings.Cut(types, ":")
		return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) && (!program || strings.TrimSpace(command) != "")
	}},
}

// isProduct reports whether s is a product token, perhaps with a version, as a User-Agent begins.
func isProduct(s string) bool {
	name, version, _ := strings.Cut(s, "/")
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return name != "" && inComment(version) && !strings.ContainsAny(version, " /")
}

// ContactWanted says what isContact takes.
const ContactWanted = "an e-mail address or a URL, such as you@example.org or https://www.example.org/crawler"

// isContact reports whether an operator can be reached by s, and it can stand in a User-Agent in parentheses.
func isContact(s string) bool {
	mailbox, domain, mail := strings.Cut(s, "@")
	scheme, rest, url := strings.Cut(s, "://")
	return inComment(s) && (mail && mailbox != "" && domain != "" || url && scheme != "" && rest != "")
}

// inComment reports whether s can stand in a User-Agent in parentheses.
func inComment(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '(' || r == ')' })
}

// Naming gives a flag or a setting its name in an error.
type Naming func(key, flag string) string

// Flags names flags, and settings are named by Settings.
func Flags(_, flag string) string   { return "--" + flag }
func Settings(key, _ string) string { return key }

// Rules are the gaps after a contact.
func (d Delays) Rules() politeness.Rules {
	return politeness.Rules{MinDelay: d.MinDelay, DelayFactor: d.DelayFactor, MaxDelay: d.MaxDelay}
}

// Check refuses delays that exclude each other.
func (d Delays) Check(name Naming) error {
	if d.MaxDelay < d.MinDelay && d.DelayFactor > 0 {
		return setting.Wrong(name("politeness.max_delay", "max-delay"), d.MaxDelay, "at least "+setting.Named(name("politeness.min_delay", "min-delay"), d.MinDelay))
	}
	return nil
}

// Check refuses lifetimes that exclude each other.
func (l Lifetimes) Check(name Naming) error {
	if l.MaxTTL < l.MinTTL {
		return setting.Wrong(name("resolve.max_ttl", "max-ttl"), l.MaxTTL, "at least "+setting.Named(name("resolve.min_ttl", "min-ttl"), l.MinTTL))
	}
	return nil
}

// Check refuses documents that memory has no room for: a record is encoded in it.
func (m MaxBodyFlag) Check(name Naming, memory int64) error {
	if int64(m.MaxBody) > memory/8 {
		return setting.Wrong(name("fetch.max_body", "max-body"), m.MaxBody, fmt.Sprintf("at most an eighth of %s, %d bytes", name("memory.fetch", "memory"), memory/8))
	}
	return nil
}

// checkTogether refuses settings that exclude each other, as the commands would.
func (c *Config) checkTogether() error {
	f := &c.File
	bad := func(place, found, want string) error {
		return &fault.Error{Class: fault.Usage, Place: place, Found: found, Want: want}
	}
	if err := cmp.Or(f.Politeness.Delays.Check(Settings), f.Resolve.Lifetimes.Check(Settings), f.Fetch.MaxBodyFlag.Check(Settings, int64(f.Memory.Fetch))); err != nil {
		return err
	}
	if g := f.Frontier.DomainGrowth; g != nil && *g > 0 && f.Frontier.DomainBudget == 0 {
		return bad("frontier.domain_growth", fmt.Sprintf("%v without frontier.domain_budget", *g), "a budget of URLs a domain, or 0")
	}
	if policy := f.Frontier.Policy; f.Focus.Model != "" && (policy == "opic" || policy == "walk") {
		return bad("focus.model", fmt.Sprintf("%q with policy %s", f.Focus.Model, policy), "another policy: to this one the score of a page is its own, and no relevance")
	}
	for _, s := range [][2]string{{"stages.seen", f.Stages.Seen}, {"stages.content", f.Stages.Content}, {"stages.new", f.Stages.New}} {
		if s[1] != "" && f.Frontier.Policy == "walk" {
			return bad(s[0], "a program with policy walk", "another policy, or none: a walk has no such stage")
		}
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
func (c *Config) Canon() (canon.Options, error) { return c.File.URLs.Canon() }

// Shardable refuses settings that count over the whole crawl, where each of several shards would count for itself.
func (c *Config) Shardable() error {
	f := &c.File
	for _, s := range []struct {
		set   bool
		key   string
		found any
		want  string
	}{
		{f.Frontier.Policy == "walk", "frontier.policy", f.Frontier.Policy, "another policy: a walk goes on from the page before, which another shard may have"},
		{f.PerDomain > 0, "frontier.per_domain", f.PerDomain, "none: the hosts of a domain are in several shards"},
		{f.Frontier.DomainBudget > 0, "frontier.domain_budget", f.Frontier.DomainBudget, "none: the hosts of a domain are in several shards"},
		{len(f.Extract.ModuleState) > 0, "extract.module_state", strings.Join(f.Extract.ModuleState, ","), "none: each shard would keep a state of its own pages alone"},
		{f.Fetch.Proxy != "", "fetch.proxy", f.Fetch.Proxy, "none: hosts are shared out by their addresses"},
		{f.Render.On(), "render.pages", cmp.Or(f.Render.Pages, f.Render.Rules), "none: parts of a page are in several shards"},
		{len(f.Fetch.Exec) > 0, "fetch.exec", strings.Join(f.Fetch.Exec, ","), "none: hosts are shared out by their addresses"},
		{f.Focus.Patience > 0, "focus.patience", f.Focus.Patience, "0: each shard sees its own pages alone"},
		{f.Focus.Distill > 0, "focus.distill", f.Focus.Distill, "0: hubs link to pages of other shards"},
		{slices.ContainsFunc(f.Seeds, isTable), "seeds", strings.Join(f.Seeds, ","), "files of URLs or of JSON lines"},
	} {
		if s.set {
			e := &fault.Error{Class: fault.Usage, File: c.Path, Place: s.key, Found: fmt.Sprintf("%v in a crawl of several shards", s.found), Want: s.want}
			if s.key == "frontier.policy" {
				e.Hint = "a crawl without --shards can have each policy; list them: mfrontier policies"
			}
			return e
		}
	}
	return nil
}

// isTable reports whether a file of seeds has rows of another form than a line each.
func isTable(file string) bool { return filepath.Ext(file) == ".csv" || filepath.Ext(file) == ".tsv" }
