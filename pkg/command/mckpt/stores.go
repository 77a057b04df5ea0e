package mckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/fetch"
	"mercator/pkg/focus/classify"
	"mercator/pkg/folder/shard"
	"mercator/pkg/fpset"
	"mercator/pkg/frontier"
	"mercator/pkg/render"
	"mercator/pkg/resolve"
	"mercator/pkg/urlset"
	"mercator/pkg/web/process"
)

// eachPart calls f with the folder of each shard of a crawl, or with the crawl folder if it has none, until one fails.
func eachPart(dir string, f func(dir string) error) error {
	m, err := shard.Read(durable.OS, dir)
	if err != nil {
		return nil // crawl.Verify tells it
	}
	if m == nil {
		return f(dir)
	}
	for n := range m.Shards {
		if err := f(shard.Dir(dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// firstPart is the folder of a store that is made alike in all shards.
func firstPart(dir, kind string) string {
	if m, err := shard.Read(durable.OS, dir); err == nil && m != nil {
		dir = shard.Dir(dir, 0)
	}
	return filepath.Join(dir, kind)
}

// polynomialOf is the polynomial of the sets of a crawl: of one that is there
// already, which a random choice must not contradict, or the one chosen.
func polynomialOf(crawl string, choice string, opt store.Options) (uint64, error) {
	if choice == cli.RandomPolynomial {
		for _, kind := range []string{urlset.Kind, fpset.Kind} { // their folders have the same names
			if st, err := store.Open(firstPart(crawl, kind), kind, fpset.Version, opt); err == nil {
				return fpset.PolynomialOf(st)
			}
		}
	}
	return cli.ChoosePolynomial(choice)
}

// maker makes one store of a crawl folder.
type maker struct {
	name string
	make func(dir string, opt store.Options) error
}

// makersOf returns a maker for each store of a crawl with the configuration conf, from the file path. Each comes from the package
// that owns the store. Errors in the configuration are found here, before anything is made.
func makersOf(path string, conf *config.File, polynomial uint64) ([]maker, error) {
	bad := func(place string, err error) error {
		return &fault.Error{Class: fault.Usage, File: path, Place: place, Err: err}
	}
	urls, content := setOptions(conf.Sets.URLs.Impl, conf, polynomial), setOptions(conf.Sets.Content.Impl, conf, polynomial)
	content.ContentHash = conf.Sets.ContentHash
	params := conf.Frontier.Params
	if _, err := params.Encode(); err != nil {
		return nil, bad("", err)
	}
	makers := []maker{
		{urlset.Kind, func(dir string, opt store.Options) error { return urlset.Create(dir, urls, opt) }},
		{frontier.Kind, func(dir string, opt store.Options) error { return frontier.Create(dir, params, opt) }},
		{"dns", resolve.CreateStore},
		{fetch.Kind, func(dir string, opt store.Options) error { return fetch.CreateStore(dir, conf.Sets.ContentHash, opt) }},
		{fpset.Kind, func(dir string, opt store.Options) error { return fpset.Create(dir, content, opt) }},
	}
	own := []struct{ kind, setting, command string }{{urlset.Kind, "stages.seen", conf.Stages.Seen}, {fpset.Kind, "stages.content", conf.Stages.Content}, {"dns", "stages.resolve", conf.Stages.Resolve},
		{filepath.Join(store.ModulesDir, "links"), "stages.links", conf.Stages.Links}, {filepath.Join(store.ModulesDir, "new"), "stages.new", conf.Stages.New}}
	for _, o := range own {
		if o.command == "" {
			continue
		}
		one := maker{o.kind, process.CreateStore}
		if i := slices.IndexFunc(makers, func(m maker) bool { return m.name == o.kind }); i >= 0 {
			makers[i] = one
			continue
		}
		if name := filepath.Base(o.kind); slices.Contains(conf.Extract.ModuleState, name) || slices.Contains(conf.Fetch.ExecState, name) {
			return nil, bad(o.setting, fmt.Errorf("a module with state is named %q, too", name))
		}
		makers = append(makers, one)
	}
	if conf.Render.On() {
		makers = append(makers, maker{render.Kind, render.CreateStore})
	}
	for _, name := range conf.Extract.ModuleState {
		if err := process.CheckName(name); err != nil {
			return nil, bad("extract.module_state", err)
		}
		makers = append(makers, maker{filepath.Join(store.ModulesDir, name), process.CreateStore})
	}
	if conf.Focus.Model != "" {
		if slices.Contains(conf.Extract.ModuleState, classify.LearnedName) || slices.Contains(conf.Fetch.ExecState, classify.LearnedName) {
			return nil, bad("focus.model", fmt.Errorf("a module with state is named %q", classify.LearnedName))
		}
		makers = append(makers, maker{filepath.Join(store.ModulesDir, classify.LearnedName), process.CreateStore})
	}
	for _, name := range conf.Fetch.ExecState {
		err := process.CheckName(name)
		if err == nil && slices.Contains(conf.Extract.ModuleState, name) {
			err = fmt.Errorf("%q is in extract.module_state, too: a module and a program cannot share a state", name)
		}
		if err != nil {
			return nil, bad("fetch.exec_state", err)
		}
		makers = append(makers, maker{filepath.Join(store.ModulesDir, name), process.CreateStore})
	}
	return makers, nil
}

// checkSettings tells what crawl.toml says that a crawl cannot change, and refuses what it cannot go on with.
func checkSettings(std *cli.Std, crawl string) error {
	conf, err := config.Load(filepath.Join(crawl, config.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, m := made(crawl, frontier.Kind, frontier.Version); m != nil {
		if err := warnOfFixed(std, conf, m.Params); err != nil {
			return err
		}
	}
	form, err := conf.Canon()
	if err != nil {
		return err
	}
	if st, m := made(crawl, urlset.Kind, urlset.Version); m != nil {
		return urlset.CheckRules(st, m, form)
	}
	return nil
}

// warnOfFixed warns of settings in crawl.toml that differ from those that the frontier was made with. These cannot be
// changed later, so the settings have no effect.
func warnOfFixed(std *cli.Std, conf *config.Config, made map[string]string) error {
	told := func(name string) {
		is := "without it"
		if value, found := made[name]; found {
			is = "with " + name + "=" + value
		}
		std.Warn("%s: frontier.%s has no effect: the frontier was made %s", conf.Path, name, is)
	}
	if p, err := conf.Setting("frontier.policy"); err == nil && len(p) > 0 && p[0] != made["policy"] {
		told("policy")
		return nil
	}
	params := conf.File.Frontier.Params
	params.Policy = made["policy"]
	now, err := params.Encode()
	if err != nil {
		std.Warn("%s: %v; it has no effect", conf.Path, err)
		return nil
	}
	either := maps.Clone(made)
	maps.Copy(either, now)
	for _, name := range slices.Sorted(maps.Keys(either)) {
		given, err := conf.Setting("frontier." + name)
		if err != nil {
			return err
		}
		if len(given) > 0 && now[name] != made[name] {
			told(name)
		}
	}
	return nil
}

// made opens a store of a crawl; m is nil where something is wrong with it, which those say who need it.
func made(crawl, kind string, version int) (st *store.Store, m *store.Manifest) {
	st, err := store.Open(firstPart(crawl, kind), kind, version, store.Options{})
	if err == nil {
		m, err = st.Current()
	}
	if err != nil {
		return nil, nil
	}
	return st, m
}

// setOptions returns the options of a set with an implementation. All Bloom filters of a crawl have one size.
func setOptions(impl string, conf *config.File, polynomial uint64) fpset.CreateOptions {
	with := fpset.CreateOptions{Polynomial: polynomial, Impl: impl}
	if impl == fpset.Bloom {
		with.Size = int64(conf.Sets.BloomSize)
	}
	return with
}

// checkFetch checks what the fetch store holds beside its generations.
func checkFetch(crawl string) error {
	st, err := store.Open(filepath.Join(crawl, fetch.Kind), fetch.Kind, fetch.Version, store.Options{})
	if err != nil {
		return nil // crawl.Verify tells what is wrong with it
	}
	return fetch.CheckStore(st)
}

// checkSeen reports URLs that the frontier has and the set of URLs has not: what passed the set by is
// fetched again when a page links to it. A walk has no such test, and a set that a program keeps cannot be read. Damage is not told where other problems are:
// crawl.Verify has told it.
func checkSeen(ctx context.Context, std *cli.Std, crawl string, others bool) error {
	var opt store.Options
	f, err := frontier.Open(filepath.Join(crawl, frontier.Kind), opt)
	var set *store.Store
	fromLinks := false // it visits URLs any number of times
	if err == nil {
		fromLinks, err = f.FromLinks()
	}
	if err == nil {
		set, err = store.Open(filepath.Join(crawl, urlset.Kind), urlset.Kind, urlset.Version, opt)
	}
	if f != nil && errors.Is(err, fault.WrongKind) {
		std.Warn("%s: the state of a program (stages.seen): whether it knows the URLs of the frontier is not checked", filepath.Join(crawl, urlset.Kind))
		return nil
	}
	if errors.Is(err, fault.Usage) || err == nil && fromLinks {
		return nil // a crawl of one's own without the set
	}
	var n uint64
	var example string
	if err == nil {
		n, example, err = urlset.Unseen(set, sortMemory, func(fn func(*record.URL) error) error { return f.EachURL(ctx, fn) })
	}
	if err != nil && others && ctx.Err() == nil {
		return nil
	}
	if err != nil || n == 0 {
		return err
	}
	return &fault.Error{File: f.Store().Dir(), Found: fmt.Sprintf("%s not in the set of URLs, such as %s", cli.Count(n, "URL"), example),
		Hint: "add them: " + fault.Quote("mfrontier", "export", f.Store().Dir()) + " | " + fault.Quote("murlset", "add", set.Dir())}
}

// sortMemory is for the checksums of the frontier's URLs; what does not fit is sorted in temporary files.
const sortMemory = 8 << 20
