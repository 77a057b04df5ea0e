// Package setup makes crawl folders and changes their settings: it is the work of mcrawl new, site, focus and set.
//
//   - A folder is made whole or not at all, and settings change all or none.
//   - Settings, seeds, programs, and the files that settings name are read before anything is made or changed.
//
// make.go makes folders, seeds.go reads lists of URLs, site.go writes the rules of a site, focus.go the topics of a focused crawl,
// set.go and programs.go check settings.
package setup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/folder/shard"
	"mercator/pkg/urlset"
)

// Spec is a crawl that is to be made. All of it is written into the crawl's folder.
type Spec struct {
	Seeds  []string // files of URLs, one a line, or files of rows (urlset.Seeds); - stands for In
	In     io.Reader
	URLs   []string          // seeds that are in no file
	Config string            // a crawl.toml to start from; "": one that explains all settings
	Preset []config.Pair     // settings that Set may change; a crawl that is there may have others
	Set    []config.Pair     // settings
	Files  map[string]string // further files of the folder, by name
	Others []string          // contents of Files with other flags: a crawl that has fetched nothing replaces such a file
	Shards int               // 0 or 1: the crawl has none
	Scoped bool              // flags say the scope of a site: a crawl of another one is an error
	Named  bool              // its WARC files get a prefix of their own, unless Config or Set gives them one
	Runs   bool              // the crawl runs at once: settings that forbid any contact are an error
}

// Make makes a crawl folder, whole or not at all. If the folder holds the same crawl already, made
// is false; one that has fetched nothing yet takes the settings that differ. If it holds another one, the error is
// fault.Usage and says what to do. warn gets seeds that were taken as https, and what differs.
func Make(ctx context.Context, dir string, spec Spec, warn func(format string, args ...any)) (made bool, err error) {
	tmp, err := spec.check(dir, warn)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	names, err := filesIn(tmp)
	if err != nil {
		return false, err
	}
	if !isThere(filepath.Join(dir, "CURRENT")) {
		conf, err := config.Load(filepath.Join(tmp, config.Name))
		if err != nil {
			return false, err
		}
		if err := contactless(conf, spec.URLs); err != nil && spec.Runs {
			return false, err
		} else if err != nil {
			warn("note: %v", err)
		}
	}
	taken, err := crawl.New(ctx, dir, func(to string) error {
		for _, name := range names {
			err := durable.WriteOutputBy(filepath.Join(to, name), func(out io.Writer) error {
				in, err := os.Open(filepath.Join(tmp, name))
				if err != nil {
					return err
				}
				defer in.Close()
				_, err = io.Copy(out, in)
				return err
			})
			if err != nil {
				return err
			}
		}
		p := pipe.Runner{Said: func(line string) { warn("%s", strings.ReplaceAll(line, to, filepath.Clean(dir))) }}
		_, err := p.Run(ctx, pipe.Pipe{append(spec.init(to), "--quiet")})
		return err
	})
	if !taken {
		return err == nil, err
	}
	if isThere(filepath.Join(dir, "CURRENT")) {
		return false, spec.compare(ctx, tmp, dir, warn)
	}
	if _, err := crawl.Open(dir, crawl.Options{}); errors.Is(err, fault.Corrupt) {
		return false, err // CURRENT is lost
	}
	return false, &fault.Error{Class: fault.Usage, File: dir, Found: "a folder with files in it, and no crawl", Want: "a new one, or a crawl",
		Hint: fmt.Sprintf("name another folder; if it holds the crawl.toml of a crawl to be made, make it: %s", fault.Quote("mckpt", "init", dir))}
}

// check writes the files of a crawl into a temporary folder, so that what is wrong with them is
// found before anything is made. The caller removes the folder.
func (s Spec) check(dir string, warn func(format string, args ...any)) (tmp string, err error) {
	if tmp, err = os.MkdirTemp("", "mcrawl-*"); err != nil {
		return "", err
	}
	if err := s.write(tmp, dir, warn); err != nil {
		os.RemoveAll(tmp)
		return "", renamed(err, func(text string) string { return strings.ReplaceAll(text, tmp, filepath.Clean(dir)) })
	}
	return tmp, nil
}

// init makes the stores.
func (s Spec) init(dir string) []string {
	words := []string{"mckpt", "init", dir}
	if s.Shards > 1 {
		words = append(words, "--shards", strconv.Itoa(s.Shards))
	}
	return words
}

// filesIn names the files that check made.
func filesIn(tmp string) (names []string, err error) {
	list, err := os.ReadDir(tmp)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

// contactless refuses settings without a contact, if servers at public addresses may be fetched from. No contact is needed with network.allow_net or
// seeds at special-purpose addresses, which mean a network of the user's. Nor is it with a proxy or program that finds addresses by itself.
func contactless(conf *config.Config, urls []string) error {
	f := conf.File
	if f.Fetch.Contact != "" || len(f.Network.AllowNet) > 0 || f.Fetch.Proxy != "" || len(f.Fetch.Exec) > 0 {
		return nil
	}
	special := func(text string) bool {
		u, err := url.Parse(text)
		if err != nil {
			return false
		}
		addr, err := netip.ParseAddr(u.Hostname())
		return err == nil && addrguard.Special(addr) != ""
	}
	if len(urls) > 0 && !slices.ContainsFunc(urls, func(u string) bool { return !special(u) }) {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: "no contact is set, and public addresses are not fetched from without one", Want: config.ContactWanted, Hint: "add --contact you@example.org"}
}

// renamed puts the folder's name in the place of the temporary folder's, in an error.
func renamed(err error, rename func(string) string) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	g := *f
	g.File, g.Found, g.Hint = rename(f.File), rename(f.Found), rename(f.Hint)
	return &g
}

// ownPrefix is a prefix for the WARC files of a crawl in folder: its name, and when it was made.
func ownPrefix(folder string, now time.Time) (string, error) {
	path, err := filepath.Abs(folder)
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if warc.IsPrefix("x" + string(r)) {
			return r
		}
		return '-'
	}, filepath.Base(path)), ".-")
	made := now.UTC().Format("-20060102T150405.000")
	prefix := name[:min(len(name), warc.PrefixMax-len(made))] + made
	if _, refused := config.Set(nil, prefixKey, prefix); refused != nil {
		prefix = warc.DefaultPrefix + made
	}
	return prefix, err
}

const prefixKey = "fetch.warc_prefix"

// write makes the files of a crawl that are there before its stores in dir, of which they move to folder.
func (s Spec) write(dir, folder string, warn func(format string, args ...any)) error {
	text, seeds := config.Preset(), s.Seeds
	var moved, pairs []config.Pair
	if s.Config != "" {
		given, err := config.Load(s.Config)
		if err != nil {
			return err
		}
		if text, err = os.ReadFile(s.Config); err != nil {
			return err
		}
		if text, err = given.WithoutAlone(folder, text, warn); err != nil {
			return err
		}
		if moved, err = absolute(given, dir, s.Set); err != nil {
			return err
		}
		if len(s.URLs) == 0 && len(seeds) == 0 {
			if seeds, err = given.Setting("seeds"); err != nil {
				return err
			}
		}
	}
	preset := slices.Clone(s.Preset)
	if given, err := config.Parse(s.Config, text); err != nil {
		return err
	} else if prefix, err := given.Setting(prefixKey); err != nil {
		return err
	} else if s.Named && len(prefix) == 0 {
		own, err := ownPrefix(folder, time.Now())
		if err != nil {
			return err
		}
		preset = append(preset, config.Pair{Key: prefixKey, Value: own})
	}
	for _, p := range append(preset, s.Set...) {
		key, err := config.KeyOf(p.Key)
		if err != nil {
			return err
		}
		if p.Key == "seeds" {
			return &fault.Error{Class: fault.Usage, Found: "the setting seeds", Want: "--seeds FILE", Hint: "seeds are copied into the crawl folder"}
		}
		if _, own := s.Files[p.Value]; key.Path && p.Value != "" && p.Value != key.Word && !own {
			if p.Value, err = filepath.Abs(p.Value); err != nil {
				return err
			}
		}
		pairs = append(pairs, p)
	}
	seedsFile := seedsText
	if slices.ContainsFunc(seeds, func(name string) bool { return record.FormOf(name) != "" }) {
		seedsFile = seedsRows
	}
	pairs = append(append(moved, pairs...), config.Pair{Key: "seeds", Value: seedsFile})
	text, err := config.SetAll(text, pairs)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, config.Name)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	for name, content := range s.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			return err
		}
	}
	conf, err := config.Load(path)
	if err != nil {
		return err
	}
	if err := s.copySeeds(filepath.Join(dir, seedsFile), seeds, conf, warn); err != nil {
		return err
	}
	if s.Shards > 1 {
		if err := conf.Shardable(); err != nil {
			return err
		}
	}
	if err := conf.CheckPaths(dir); err != nil {
		return err
	}
	if _, err := CheckFiles(conf, PathKeys("seeds")); err != nil {
		return err
	}
	if err := checkPrograms(conf, func(string) bool { return true }); err != nil {
		return err
	}
	if err := checkValues(conf, s.Shards > 1); err != nil {
		return err
	}
	if filter, err := conf.Setting("extract.filter"); err != nil {
		return err
	} else if s.Config != "" && len(filter) == 0 && !slices.ContainsFunc(pairs, func(p config.Pair) bool { return p.Key == "extract.filter" }) {
		warn(`note: %s has no extract.filter: traps are followed, too; "--set extract.filter=default" leaves them out`, s.Config)
	}
	for _, note := range Notes(conf, "") {
		warn("note: %s", note)
	}
	in, err := os.Open(filepath.Join(dir, seedsFile))
	if err != nil {
		return err
	}
	defer in.Close()
	return NoteSeeds(conf, in, seedsFile, seedsFile == seedsRows, false, warn)
}

// Notes returns what a user should know of settings that have no effect beside others or miss one, under prefix ("politeness.", "frontier.", "resolve.") or "" for all.
func Notes(conf *config.Config, prefix string) (notes []string) {
	if rules, err := conf.Setting("extract.filter"); err == nil && len(rules) > 0 && rules[0] != "" && rules[0] != "default" && conf.File.Resolve.Canonical && strings.HasPrefix("resolve.", prefix) {
		notes = append(notes, fmt.Sprintf("resolve.canonical=true: rules of %s that name hosts must allow canonical names, too, or these URLs are not fetched", rules[0]))
	}
	if note := delayNote(conf); note != "" && strings.HasPrefix("politeness.", prefix) {
		notes = append(notes, note)
	}
	f := &conf.File
	if f.Render.On() && os.Getuid() == 0 && strings.HasPrefix("render.", prefix) {
		notes = append(notes, "render.pages: as root, Chromium runs without its sandbox; run the crawl as another user, or in a container")
	}
	if q := f.Frontier.Params.Priority.Queues; q > 1 && f.Frontier.Prioritizer == "" && f.Stages.Seen+f.Stages.New == "" && strings.HasPrefix("frontier.", prefix) {
		notes = append(notes, fmt.Sprintf(`frontier.queues=%d has no effect while all URLs have one priority; frontier.prioritizer gives them others, such as "depth", and so does mfrontier raise`, q))
	}
	if f.Frontier.Policy == "opic" && f.Frontier.Refetch == "" && strings.HasPrefix("frontier.", prefix) {
		notes = append(notes, `frontier.refetch is not set: policy opic fetches each page once, and can fetch as many pages of traps as fifo; "--set frontier.refetch=0s --set extract.duplicates=true" fetches few, but such a crawl has no end; "--set frontier.refetch=never" keeps it as it is`)
	}
	return notes
}

// delayNote says which of two delays counts, where one that is set has no effect; "" if it has.
func delayNote(conf *config.Config) string {
	own, addr := conf.File.Politeness.MinDelay, conf.File.Politeness.AddrDelay
	if set, err := conf.Setting("politeness.min_delay"); err != nil || len(set) == 0 || own >= addr {
		return ""
	}
	return fmt.Sprintf("politeness.min_delay=%v has no effect below politeness.addr_delay, %v: so long after a contact nobody contacts the same address again; set both", own, addr)
}

// absolute are the settings that name a file, by names that hold in any folder. Files in the folder of another crawl, such as the rules of a site, are
// copied into dir: that crawl may go. Only logins stay where they are. Settings that are set to something else do not count.
func absolute(conf *config.Config, dir string, set []config.Pair) (pairs []config.Pair, err error) {
	for _, k := range config.Keys() {
		values, err := conf.Setting(k.Name)
		if err != nil {
			return nil, err
		}
		if !k.Path || k.Name == "seeds" || len(values) == 0 || values[0] == "" || values[0] == k.Word || slices.ContainsFunc(set, func(p config.Pair) bool { return p.Key == k.Name }) {
			continue
		}
		path, err := filepath.Abs(values[0])
		if err != nil {
			return nil, err
		}
		copied, err := copyOwn(conf, k.Name, dir)
		if err != nil {
			return nil, err
		}
		if copied {
			path = filepath.Base(path)
		}
		pairs = append(pairs, config.Pair{Key: k.Name, Value: path})
	}
	return pairs, nil
}

// copyOwn copies the files of a setting into dir, if all of them are a crawl's own, in its folder.
func copyOwn(conf *config.Config, key, dir string) (bool, error) {
	from, err := filepath.Abs(filepath.Dir(conf.Path))
	if err != nil {
		return false, err
	}
	if !isThere(filepath.Join(from, "CURRENT")) || key == "fetch.login" {
		return false, nil
	}
	files, err := CheckFiles(conf, []string{key})
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if file, err = filepath.Abs(file); err != nil || filepath.Dir(file) != from {
			return false, err
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o666); err != nil {
			return false, err
		}
	}
	return true, nil
}

// copySeeds writes the seeds into one file, each checked.
func (s Spec) copySeeds(to string, files []string, conf *config.Config, warn func(format string, args ...any)) error {
	form, err := conf.Canon()
	if err != nil {
		return err
	}
	if len(files)+len(s.URLs) == 0 {
		return &fault.Error{Class: fault.Usage, Found: "no seeds", Want: "files of URLs, one a line", Hint: "name one: --seeds seeds.txt"}
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	const most = 5 // notes
	notes := 0
	list := urlset.Seeds{W: out, Form: form, Rows: record.FormOf(to) != "", Assumed: func(line, url string) {
		if notes++; notes <= most {
			warn("%s is taken as %s", line, url)
		}
	}}
	for _, url := range s.URLs {
		if err := list.Add(url); err != nil {
			return err
		}
	}
	for _, name := range files {
		const hint = "name a file with one URL a line; mcrawl site takes URLs"
		in, err := s.open(name)
		if errors.Is(err, os.ErrNotExist) {
			return &fault.Error{Class: fault.Usage, File: name, Found: "no file of seed URLs here", Err: err, Hint: hint}
		}
		if err != nil {
			return &fault.Error{Class: fault.Usage, Err: err}
		}
		_, err = list.File(in, name)
		in.Close()
		if errors.Is(err, syscall.EISDIR) {
			return &fault.Error{Class: fault.Usage, File: name, Found: "a folder", Want: "a file of seed URLs", Err: err, Hint: hint}
		}
		if err != nil {
			return err
		}
	}
	if notes > most {
		warn("%d more without a scheme are taken as https", notes-most)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// open opens a file of seeds; - is standard input.
func (s Spec) open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(s.In), nil
	}
	return os.Open(file)
}

// compare refuses a crawl folder that is another crawl than the one written into tmp. Other settings are taken where
// nothing was fetched yet. The other files of the folder are for people to edit: a difference is a note.
func (s Spec) compare(ctx context.Context, tmp, dir string, warn func(format string, args ...any)) error {
	other := func(of, hint string) error {
		return &fault.Error{Class: fault.Usage, File: dir, Found: "a crawl of other " + of, Want: "a new folder, or the same crawl",
			Hint: fmt.Sprintf("name another folder; %s; or go on with it: %s", hint, fault.Quote("mcrawl", "run", dir))}
	}
	if m, err := shard.Read(durable.OS, dir); err != nil {
		return err
	} else if is := m.Count(); s.Shards > 0 && s.Shards != is {
		hint := fmt.Sprintf("it has %d", is)
		if m != nil && s.Shards > is {
			hint = "add shards: " + fault.Quote("mcrawl", "reshard", dir, strconv.Itoa(s.Shards))
		}
		return other("--shards", hint)
	}
	want, err := config.Load(filepath.Join(tmp, config.Name))
	if err != nil {
		return err
	}
	have, err := config.Load(filepath.Join(dir, config.Name))
	if err != nil {
		return err
	}
	for _, name := range want.File.Seeds {
		if same, err := sameFile(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return err
		} else if !same {
			return other("seeds", "add seeds: "+fault.Quote("mcrawl", "add", dir)+" URL...")
		}
	}
	folder, err := crawl.Open(dir, crawl.Options{LockWait: 5 * time.Second})
	if err != nil {
		return err
	}
	next, err := folder.NextRound()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		file := filepath.Join(dir, name)
		have, err := os.ReadFile(file)
		ours := slices.Contains(s.Others, string(have))
		switch {
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		case string(have) == s.Files[name]:
		case ours && next <= 1:
			warn("%s: made anew, as these flags have it", file)
			if err := durable.WriteFile(durable.OS, file, []byte(s.Files[name])); err != nil {
				return err
			}
		case ours:
			var other []string
			for line := range strings.Lines(s.Files[name]) {
				if !strings.Contains(string(have), line) {
					other = append(other, strings.TrimSpace(line))
				}
			}
			if len(other) == 0 {
				other = append(other, "without "+strings.TrimSpace(partsRule))
			}
			if s.Scoped && strings.HasPrefix(other[0], siteRule) {
				_, line, _ := strings.Cut("\n"+string(have), "\n"+siteRule)
				line, _, _ = strings.Cut(line, "\n")
				return &fault.Error{Class: fault.Usage, File: file, Found: "this crawl has the scope " + line, Want: strings.TrimPrefix(other[0], siteRule) + ", as these flags have it",
					Hint: fmt.Sprintf("to have it, write %s in place of that line; name another folder with --into; or go on with the scope that it has: %s", strings.TrimSpace(other[0]), fault.Quote("mcrawl", "run", dir))}
			}
			warn("%s was made with other flags, and counts as it is; to have this scope, edit it: %s", file, strings.Join(other, "; "))
		default:
			warn("%s was edited: it counts as it is", file)
		}
	}
	var differ []config.Pair
	var words, is []string
	for _, p := range s.Set {
		k, err := config.KeyOf(p.Key)
		if err != nil {
			return err
		}
		if _, own := s.Files[p.Value]; own || want.Text(k) == have.Text(k) || slices.ContainsFunc(differ, func(d config.Pair) bool { return d.Key == p.Key }) {
			continue // a file of ours: the crawl may have another by now
		}
		differ = append(differ, config.Pair{Key: p.Key, Value: want.Text(k)})
		words = append(words, p.Key+"="+want.Text(k))
		is = append(is, p.Key+" is "+cmp.Or(have.Text(k), "not set"))
	}
	if len(differ) == 0 {
		return nil
	}
	if next > 1 {
		return other("settings: "+strings.Join(is, ", "), "change them: "+fault.Quote(append([]string{"mcrawl", "set", dir}, words...)...))
	}
	changes, err := Set(ctx, folder, differ)
	for _, c := range changes {
		warn("%s: %s -> %s", c.Key, cmp.Or(c.Was, "not set"), c.Is)
	}
	return err
}

// sameFile reports whether two files have the same bytes; one that is not there has none.
func sameFile(a, b string) (bool, error) {
	var sums [2][]byte
	for i, name := range []string{a, b} {
		h := sha256.New()
		f, err := os.Open(name)
		if err == nil {
			_, err = io.Copy(h, f)
			f.Close()
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		sums[i] = h.Sum(nil)
	}
	return bytes.Equal(sums[0], sums[1]), nil
}

// PrintMake writes the lines of a shell that do what Make does.
func PrintMake(w io.Writer, dir string, spec Spec, warn func(format string, args ...any)) error {
	tmp, err := spec.check(dir, warn)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(w, "%s &&\n", fault.Quote("mkdir", "-p", dir))
	names, err := filesIn(tmp)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(tmp, name))
		if err != nil {
			return err
		}
		if name == config.Name && spec.Config == "" {
			text = withoutComments(text)
		}
		const end = "END-OF-FILE"
		fmt.Fprintf(w, "cat > %s <<'%s' &&\n%s%s\n", fault.Quote(filepath.Join(dir, name)), end, text, end)
	}
	_, err = fmt.Fprintln(w, pipe.Pipe{spec.init(dir)})
	return err
}

// withoutComments leaves out what only explains, and tables that set nothing.
func withoutComments(text []byte) (out []byte) {
	var table []byte
	for line := range bytes.Lines(text) {
		switch {
		case len(bytes.TrimSpace(line)) == 0 || line[0] == '#':
		case line[0] == '[':
			table = line
		default:
			out = append(append(out, table...), line...)
			table = nil
		}
	}
	return out
}

// LockWait is how long mcrawl waits for another that works on the same crawl: as the commands do by default (--lock-wait).
const LockWait = 70 * time.Second

// Open opens a crawl folder. The hint of its error says how to make one.
func Open(dir string, opt crawl.Options) (*crawl.Crawl, error) {
	folder, err := crawl.Open(dir, opt)
	if !errors.Is(err, os.ErrNotExist) || fault.ClassOf(err) != fault.Usage {
		return folder, err
	}
	return nil, &fault.Error{Class: fault.Usage, Err: err, Hint: "make one: " + fault.Quote("mcrawl", "new", dir, "--seeds", "seeds.txt")}
}
