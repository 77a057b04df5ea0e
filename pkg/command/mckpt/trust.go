package mckpt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/web/filter"
)

// secrets finds files of a crawl folder that a copy leaves out.
type secrets struct {
	crawl  string
	read   bool
	logins []os.FileInfo // the file of fetch.login

	named  map[string]bool // names, without folders, of files that settings and filter rules name
	copied []string        // files that are copied with passwords in them, since the crawl needs them
}

// maxSecret is the size above which a file is not looked into.
const maxSecret = 1 << 20

// ofRounds and ofInbox match the names of files of rounds and of the inbox, which the crawl or a shard of it makes.
var (
	ofRounds = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(shard/\d+/)?rounds/`) })
	ofInbox  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(shard/\d+/)?inbox/`) })
)

// of says what a file has that is secret, so that it is not copied; "": nothing. What rounds and stores make has none but what servers sent. A
// file that the crawl needs is copied with the passwords that are in its URLs, and noted.
func (s *secrets) of(name string) (what string, err error) {
	if ofRounds().MatchString(name) {
		return "", nil
	}
	if !s.read {
		s.read = true
		if conf, err := config.Load(filepath.Join(s.crawl, config.Name)); err == nil {
			if err := s.names(conf); err != nil {
				return "", err
			}
			files, err := conf.Setting("fetch.login")
			if err != nil {
				return "", err
			}
			for _, f := range files {
				if st, err := os.Stat(f); f != "" && err == nil {
					s.logins = append(s.logins, st)
				}
			}
		}
	}
	path := filepath.Join(s.crawl, filepath.FromSlash(name))
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return "", err
	}
	for _, login := range s.logins {
		if os.SameFile(st, login) {
			return "passwords, fetch.login", nil
		}
	}
	if !st.Mode().IsRegular() {
		return "", nil
	}
	base := filepath.Base(name)
	needed := base == config.Name || base == config.Name+asItCame || s.named[strings.TrimSuffix(base, asItCame)] || ofInbox().MatchString(name)
	if what := secretName(name); what != "" && !needed {
		return what, nil
	}
	if st.Size() > maxSecret {
		return "", nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSecret))
	if err != nil {
		return "", err
	}
	if what := secretIn(base, text); what != "" {
		return what, nil
	}
	if !passwordIn(text) {
		return "", nil
	}
	if !needed {
		return "passwords", nil
	}
	if !slices.Contains(s.copied, name) {
		s.copied = append(s.copied, name)
	}
	return "", nil
}

// names takes the names of files that settings have, also of programs, and those that filter rules include.
func (s *secrets) names(conf *config.Config) error {
	s.named = map[string]bool{}
	for _, k := range config.Keys() {
		if k.Name == "fetch.login" {
			continue
		}
		for _, word := range strings.FieldsFunc(conf.Text(k), func(r rune) bool { return strings.ContainsRune(" \t\n\"',=[]();|<>", r) }) {
			s.named[filepath.Base(word)] = true
		}
	}
	rules, err := ruleFiles(conf)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for len(rules) > 0 {
		file := filepath.Clean(rules[0])
		if rules = rules[1:]; seen[file] {
			continue
		}
		seen[file] = true
		if text, err := durable.ReadFile(durable.OS, file, maxSecret); err == nil {
			_, _, more := filter.Untrust(file, text)
			for _, f := range more {
				s.named[filepath.Base(f)] = true
			}
			rules = append(rules, more...)
		}
	}
	return nil
}

// secretNames are names of files that by custom hold secrets. Those with a folder are the ends of paths.
var secretNames = map[string]string{
	".netrc": "passwords", "_netrc": "passwords", ".git-credentials": "passwords", ".pgpass": "passwords", "pgpass.conf": "passwords", ".my.cnf": "passwords", ".mylogin.cnf": "passwords",
	".htpasswd": "passwords", ".env": "passwords", ".pypirc": "passwords", ".npmrc": "passwords",
	"rclone.conf": "passwords", ".s3cfg": "keys", ".boto": "keys", ".aws/credentials": "keys", "aws/credentials": "keys", ".docker/config.json": "passwords", ".kube/config": "keys",
	"cookies.json": "cookies", "cookies.sqlite": "cookies", "cookies.sqlite-wal": "cookies", "cookies.txt": "cookies", "Cookies": "cookies",
}

// secretName names the secret that a file has by its name; "": none.
func secretName(name string) string {
	base := filepath.Base(name)
	what := cmp.Or(secretNames[base], secretNames[filepath.Base(filepath.Dir(name))+"/"+base])
	if what == "" && (strings.HasPrefix(base, ".env.") || strings.HasSuffix(base, ".env")) {
		switch filepath.Ext(base) {
		case ".example", ".sample", ".template":
		default:
			what = "passwords"
		}
	}
	return what
}

var (
	cookieList = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"cookies"\s*:\s*\[\s*\{`) }) // a browser's state, and its export
	secretLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?im)^[ \t]*(machine[ \t]+\S+[ \t]+login[ \t]+\S+[ \t]+password[ \t]+\S|aws_secret_access_key[ \t]*=[ \t]*\S)`)
	})
	// urlLogin is a URL with a password. One that begins so is a place for it: ${PASSWORD}, <password>.
	urlLogin = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/?#@:"'<>]*:[^\s/?#@"'<>${][^\s/?#@"'<>]*@[^\s/?#"'<>]`)
	})
)

// secretIn names the secret in a text; "": none.
func secretIn(name string, text []byte) string {
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) || bytes.HasPrefix(text, []byte("PuTTY-User-Key-File")) {
		return "a private key"
	}
	if bytes.HasPrefix(text, []byte("# Netscape HTTP Cookie File")) || bytes.HasPrefix(text, []byte("# HTTP Cookie File")) || cookieList().Match(text) || isCookies(text) {
		return "cookies"
	}
	if logins, err := http1.ParseLogins(name, text); err == nil && logins.Any() || secretLine().Match(text) {
		return "passwords"
	}
	return ""
}

// isCookies reports whether a text is a list of cookies as extensions of browsers export it, or a browser's database of them.
func isCookies(text []byte) bool {
	if bytes.HasPrefix(text, []byte("SQLite format 3\x00")) {
		return bytes.Contains(text, []byte("moz_cookies")) || bytes.Contains(text, []byte("TABLE cookies"))
	}
	var list []struct{ Name, Value, Domain string }
	if t := bytes.TrimSpace(text); len(t) == 0 || t[0] != '[' || json.Unmarshal(t, &list) != nil {
		return false
	}
	for _, c := range list {
		if c.Name != "" && c.Value != "" && c.Domain != "" {
			return true
		}
	}
	return false
}

// passwordIn reports whether a text has a URL with a password, or a line of a file of fetch.login among others.
func passwordIn(text []byte) bool {
	if urlLogin().Match(text) {
		return true
	}
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("://")) {
			if logins, err := http1.ParseLogins("", line); err == nil && logins.Any() {
				return true
			}
		}
	}
	return false
}

// warnOfHeader tells that a file is copied with a header that by its name holds a secret.
func warnOfHeader(std *cli.Std, file string, lines []string) {
	if header := http1.SecretHeader(lines...); header != "" {
		std.Warn("%s is copied with fetch.headers, and so with the value of %s", file, cli.Printable(header))
	}
}

// sheetHeaders are the headers that sheets give.
func sheetHeaders(conf *config.Config) (lines []string) {
	sheets, err := sheet.OfCrawl(conf)
	if sheets == nil || err != nil {
		return nil // a run says so
	}
	for _, s := range sheets.All {
		for _, v := range s.Values {
			if v.Key.Name == "fetch.headers" {
				lines = append(lines, v.Text)
			}
		}
	}
	return lines
}

// ruleFiles are the files of a crawl's own rules, which may name lists and programs.
func ruleFiles(conf *config.Config) (files []string, err error) {
	for _, key := range []string{"extract.filter", "render.filter"} {
		list, err := conf.Setting(key)
		if err != nil {
			return nil, err
		}
		files = append(files, list...)
	}
	return slices.DeleteFunc(files, func(f string) bool { return f == "" || f == "default" }), nil
}

// listsOutside are the files that filter rules and sheets name and that are not in folder.
func listsOutside(conf *config.Config, folder string) (outside []string, err error) {
	var files []string                                                            // what is wrong with rules and sheets, a run says
	named := func(of []string) { files = append(files, of[min(1, len(of)):]...) } // without the first, which a setting names
	if sheets, err := sheet.OfCrawl(conf); err == nil && sheets != nil {
		named(sheets.Files)
	}
	rules, err := ruleFiles(conf)
	if err != nil {
		return nil, err
	}
	for _, file := range rules {
		if f, err := filter.Load(file, filter.Options{}); err == nil {
			defer f.Close()
			named(f.Files)
		}
	}
	for _, file := range files {
		in, err := config.Within(folder, file)
		if err != nil {
			return nil, err
		}
		if !in && !slices.Contains(outside, file) {
			outside = append(outside, file)
		}
	}
	return outside, nil
}

// asItCame ends the names of files as they were in a copy, before what runs programs was switched off.
const asItCame = ".untrusted"

// disarmed lists the settings that disarm has switched off.
type disarmed struct {
	what  []string // settings and commands
	files []string // files changed
}

func (d *disarmed) warn(std *cli.Std) {
	if len(d.files) == 0 {
		return
	}
	var back []string
	for _, f := range d.files {
		back = append(back, fault.Quote("mv", f+asItCame, f))
	}
	std.WarnAlways("left off, since programs run by it: %s; if you trust who can write to the copy: %s", cli.Printable(strings.Join(d.what, "; ")), strings.Join(back, " && "))
}

// disarm switches off what runs programs in a folder that came from elsewhere: settings of each crawl.toml, and rules of the filters that these name.
// A file that it changes stays as it came beside, under a name of asItCame.
func disarm(dir string) (d disarmed, err error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return d, err
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path == filepath.Join(root, crawl.PushDir) {
			return filepath.SkipDir
		}
		if e.Name() != config.Name || !e.Type().IsRegular() {
			return nil
		}
		return d.settings(root, path, seen)
	})
	return d, err
}

func (d *disarmed) settings(root, path string, seen map[string]bool) error {
	text, err := durable.ReadFile(durable.OS, path, 1<<20)
	if err != nil {
		return err
	}
	conf, err := config.Parse(path, text)
	if err != nil {
		return nil // no command takes it
	}
	filters, err := ruleFiles(conf)
	if err != nil {
		return err
	}
	clean, off, err := config.Disarm(path, text)
	if err != nil {
		return err
	}
	if len(off) > 0 {
		for _, p := range off {
			d.what = append(d.what, p.Key+"="+p.Value)
		}
		if err := d.replace(path, text, clean); err != nil {
			return err
		}
	}
	for _, f := range filters {
		if err := d.rules(root, f, seen); err != nil {
			return err
		}
	}
	return nil
}

// rules does so with a file of rules, and those that it includes. One outside of the folder is no part of the copy: it counts if it is this user's own.
func (d *disarmed) rules(root, path string, seen map[string]bool) error {
	path = filepath.Clean(path)
	if seen[path] {
		return nil
	}
	seen[path] = true
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil // a run says so
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	clean, programs, includes := filter.Untrust(path, text)
	if len(programs) > 0 {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			for _, p := range programs {
				d.what = append(d.what, fmt.Sprintf("exec %q of %s", p, rel))
			}
			if err := d.replace(path, text, clean); err != nil {
				return err
			}
		} else if own, err := config.Owned(path); err != nil {
			return err
		} else if !own {
			return &fault.Error{Class: fault.Usage, File: path, Found: fmt.Sprintf("rules of another user that run %q", programs[0]), Want: "a file of your own", Hint: "if you trust it, and who can write to the copy, add --trust-programs"}
		}
	}
	for _, in := range includes {
		if err := d.rules(root, in, seen); err != nil {
			return err
		}
	}
	return nil
}

// replace keeps a file as it came, and writes it anew.
func (d *disarmed) replace(path string, was, is []byte) error {
	if err := durable.WriteFile(durable.OS, path+asItCame, was); err != nil {
		return err
	}
	if err := durable.WriteFile(durable.OS, path, is); err != nil {
		return err
	}
	d.files = append(d.files, path)
	return nil
}
