package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/command/mfetch"
	"mercator/pkg/config"
	"mercator/pkg/crawl"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/shard"
	"mercator/pkg/fpset"
	"mercator/pkg/resolve"
	"mercator/pkg/urlset"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/process"
)

// Change is a setting that was changed. A text is "" where it is not set.
type Change struct {
	Key string
	Was string // the text before
	Is  string // the text after
}

// Set changes settings of a crawl, all or none, and returns those that are otherwise than they
// were. They count from the next round. What cannot change in a crawl that is there is fault.Usage.
func Set(ctx context.Context, folder *crawl.Crawl, pairs []config.Pair) (changes []Change, err error) {
	path := filepath.Join(folder.Dir(), config.Name)
	err = folder.Configure(ctx, func(old []byte) ([]byte, error) {
		text, err := config.SetAll(old, pairs)
		if err != nil {
			return nil, inCrawl(folder, pairs, err)
		}
		before, err := config.Parse(path, old)
		if err != nil {
			return nil, err
		}
		after, err := config.Parse(path, text)
		if err != nil {
			return nil, err
		}
		var paths []string
		for _, k := range config.Keys() {
			was, is := before.Text(k), after.Text(k)
			if k.Path && (was != is || slices.ContainsFunc(pairs, func(p config.Pair) bool { return p.Key == k.Name })) {
				paths = append(paths, k.Name) // one that has the same name may have changed
			}
			if was == is {
				continue
			}
			if k.Fixed {
				return nil, fixed(folder, k.Name, is)
			}
			changes = append(changes, Change{k.Name, was, is})
		}
		if len(paths) > 0 {
			if err := after.CheckPaths(folder.Dir(), paths...); err != nil {
				return nil, elsewhere(folder, after, paths, err)
			}
			if _, err := CheckFiles(after, paths); err != nil {
				return nil, err
			}
		}
		if err := checkPrograms(after, func(key string) bool {
			return slices.ContainsFunc(pairs, func(p config.Pair) bool { return p.Key == key })
		}); err != nil {
			return nil, err
		}
		m, err := shard.Read(durable.OS, folder.Dir())
		if err != nil {
			return nil, err
		}
		if m != nil {
			if err := after.Shardable(); err != nil {
				return nil, err
			}
		}
		if checkValues(before, m != nil) == nil { // else it is not these settings
			if err := checkValues(after, m != nil); err != nil {
				return nil, err
			}
		}
		if err := programsFixed(folder, m != nil, changes); err != nil {
			return nil, err
		}
		return text, rulesFixed(folder, after, changes)
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// PathKeys names the settings that name files, without some.
func PathKeys(but ...string) (names []string) {
	for _, k := range config.Keys() {
		if k.Path && !slices.Contains(but, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}

// CheckFiles reads the files of these settings as the commands will, so that what is wrong with them is reported now. It names
// those that it has read, with those that they include.
func CheckFiles(conf *config.Config, names []string) (all []string, err error) {
	form, err := conf.Canon()
	if err != nil {
		return nil, err
	}
	rules := func(file string) error {
		f, err := filter.Load(file, filter.Options{Schemes: form.Schemes})
		if err != nil {
			return err
		}
		all = append(all, f.Files...)
		return f.Close()
	}
	read := map[string]func(file string) error{
		"seeds": func(file string) error {
			in, err := os.Open(file)
			if err != nil {
				return err
			}
			defer in.Close()
			list := urlset.Seeds{W: io.Discard, Form: form, Assumed: func(string, string) {}}
			_, err = list.File(in, file)
			return err
		},
		"extract.filter": rules,
		"render.filter":  rules,
		"sheets": func(file string) error {
			s, err := mfetch.Sheets(file, form.Schemes)
			if err == nil {
				all = append(all, s.Files[1:]...)
			}
			return err
		},
		"network.deny": func(file string) error { _, err := fetch.OpenDeny(file, form); return err },
		"focus.model":  func(file string) error { _, err := classify.Read(file); return err },
		"fetch.login":  func(file string) error { _, err := http1.ReadLogins(file); return err },
		"fetch.tls_ca": func(file string) error { _, err := http1.ReadAuthorities(file); return err },
	}
	for _, name := range names {
		files, err := conf.Setting(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if file == "" {
				continue
			}
			if err := read[name](file); err != nil {
				return nil, err
			}
			all = append(all, file)
		}
	}
	return all, nil
}

// inCrawl refuses a setting that cannot change before anything else that is wrong with it.
func inCrawl(folder *crawl.Crawl, pairs []config.Pair, err error) error {
	for _, p := range pairs {
		if k, keyErr := config.KeyOf(p.Key); keyErr == nil && k.Fixed {
			return fixed(folder, k.Name, p.Value)
		}
	}
	return err
}

func fixed(folder *crawl.Crawl, name, value string) error {
	seeds := filepath.Join(folder.Dir(), seedsText)
	if rows := filepath.Join(folder.Dir(), seedsRows); isThere(rows) {
		seeds = rows
	}
	words := []string{"mcrawl", "new", "FOLDER", "--seeds", seeds}
	if value != "" {
		words = append(words, "--set", name+"="+value)
	}
	return &fault.Error{Class: fault.Usage, Place: name, Found: "a setting that counts when a crawl is made", Want: "another one: the stores of " + folder.Dir() + " are made by it",
		Hint: "make another crawl: " + fault.Quote(words...)}
}

// programsFixed refuses to give a stage to a program, or to take it from one, if the stage's store is made. A copy without its
// programs gets them back.
func programsFixed(folder *crawl.Crawl, shards bool, changes []Change) error {
	kinds := map[string]string{"stages.seen": urlset.Kind, "stages.content": fpset.Kind, "stages.resolve": resolve.StoreKind}
	for _, c := range changes {
		kind := kinds[c.Key]
		if kind == "" || c.Was != "" && c.Is != "" {
			continue
		}
		dir := filepath.Join(folder.Dir(), kind)
		if shards {
			dir = filepath.Join(folder.Dir(), store.ShardsDir, "000", kind)
		}
		_, err := store.Open(dir, process.Kind, process.Version, store.Options{})
		switch programs := err == nil; {
		case errors.Is(err, fault.Usage): // it is to be made
		case !programs && !errors.Is(err, fault.WrongKind):
			return err
		case programs != (c.Is != ""):
			return fixed(folder, c.Key, c.Is)
		}
	}
	return nil
}

// rulesFixed refuses other rules for URLs than those by which the set of URLs was made.
func rulesFixed(folder *crawl.Crawl, after *config.Config, changes []Change) error {
	i := slices.IndexFunc(changes, func(c Change) bool { return c.Key == "urls.key_rules" || c.Key == "urls.url_rules" })
	if i < 0 {
		return nil
	}
	form, err := after.Canon()
	if err != nil {
		return err
	}
	st, err := store.Open(filepath.Join(folder.Dir(), urlset.Kind), urlset.Kind, urlset.Version, store.Options{})
	if errors.Is(err, fault.Usage) || errors.Is(err, fault.WrongKind) {
		return nil // a crawl without a set of URLs, or with a program's, which murlset compares
	} else if err != nil {
		return err
	}
	m, err := st.Current()
	if err != nil {
		return err
	}
	if err := urlset.CheckRules(st, m, form); err != nil {
		return fixed(folder, changes[i].Key, changes[i].Is)
	}
	return nil
}

// elsewhere adds a hint to the error of a file that the crawl folder does not have: how to name a file in the user's working
// folder.
func elsewhere(folder *crawl.Crawl, after *config.Config, names []string, err error) error {
	var e *fault.Error
	for _, name := range names {
		k, keyErr := config.KeyOf(name)
		if keyErr != nil || !errors.As(err, &e) || e.Place != name {
			continue
		}
		file := after.Text(k)
		if abs, absErr := filepath.Abs(file); absErr == nil {
			if isThere(abs) {
				e.Hint = fault.Quote("mcrawl", "set", folder.Dir(), fmt.Sprintf("%s=%s", name, abs))
			} else {
				e.Hint = "write that file first"
			}
		}
	}
	return err
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
