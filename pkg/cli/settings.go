package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
	"mercator/pkg/config"
)

// configFlag is --config: when kong meets it, the file becomes a source of
// defaults for all flags that the command line leaves out.
type configFlag string

// BeforeResolve reads the file before kong asks its resolvers.
func (configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFlag)
	return useConfig(ctx, string(path))
}

// BeforeResolve looks for the configuration of the crawl folder that an argument
// lies in, unless --config names one.
func (c *Common) BeforeResolve(ctx *kong.Context, std *Std) error {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			return nil
		}
	}
	path := config.Find(std.args)
	if path == "" {
		return nil
	}
	err := useConfig(ctx, path)
	if verb := ctx.Selected(); verb != nil && verb.Target.CanAddr() {
		if _, ok := verb.Target.Addr().Interface().(Unconfigured); ok {
			return nil
		}
	}
	return err
}

// Unconfigured is a verb that no setting changes. It works where crawl.toml cannot be read, and warns of that itself.
type Unconfigured interface{ Unconfigured() }

func useConfig(ctx *kong.Context, path string) error {
	c, err := config.Load(path)
	if err != nil {
		return err
	}
	ctx.AddResolver(settings{c})
	return nil
}

// settings lets kong ask crawl.toml for flags.
type settings struct{ *config.Config }

// Validate has nothing to check: config.Load has.
func (settings) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag, or nil.
func (s settings) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if ctx.Model == nil {
		return nil, errors.New("no grammar")
	}
	v, _ := s.Lookup(keyOf(ctx.Model, flag))
	return v, nil
}

// keyOf is the setting that is the default of a flag; "" if there is none.
func keyOf(app *kong.Application, flag *kong.Flag) string {
	if flag.Name == "memory" {
		return app.Vars()["memory_setting"]
	}
	return flag.Tag.Get("key")
}

// check refuses what the tags of flags do, of those that the command line or crawl.toml has.
func check(kctx *kong.Context) error {
	for _, p := range kctx.Path {
		if p.Flag == nil || p.Flag.Tag == nil {
			continue
		}
		if v := p.Flag.Target; p.Flag.Tag.Get("is") == "server" && v.Len() == 0 && !p.Resolved { // as an empty variable of a script leaves it: it would mean the servers of the system
			return setting.Wrong("--"+p.Flag.Name, "", "the IP address of a DNS server")
		}
		if err := config.Check("--"+p.Flag.Name, p.Flag.Tag, p.Flag.Target); err != nil {
			return err
		}
	}
	return nil
}

// DriverVariable is set in the environment of a crawl's driver, as "mckpt hold" runs it. What a driver
// passes to commands it passes on purpose, each round: it is not told of.
const DriverVariable = "MERCATOR_DRIVER"

// warnOfFlags names flags of the command line that differ from the settings of the crawl folder, before a
// command of a round does anything: the next run would be without them.
func (s *Std) warnOfFlags(kctx *kong.Context) error {
	inRound := slices.ContainsFunc(kctx.Flags(), func(f *kong.Flag) bool { return f.Name == "txn" })
	if !inRound || s.call != nil || os.Getenv(DriverVariable) != "" || s.Common.Quiet {
		return nil
	}
	path := config.Find(s.args)
	if path == "" {
		return nil
	}
	if given := string(s.Common.Config); given != "" {
		if !sameFile(given, path) {
			s.Warn("--config %s: %s, the settings of the crawl, does not count", given, path)
		}
		return nil
	}
	var c *config.Config
	var flags, pairs []string
	for _, p := range kctx.Path {
		if p.Flag == nil || p.Resolved || p.Flag.Name == "memory" || slices.Contains(flags, "--"+p.Flag.Name) { // memory changes no crawl
			continue
		}
		k, err := config.KeyOf(keyOf(kctx.Model, p.Flag))
		if err != nil {
			continue
		}
		if c == nil {
			if c, err = config.Load(path); err != nil {
				return err
			}
		}
		is := p.Flag.Target
		was, err := settingOf(c, k, p.Flag)
		if err != nil {
			return err
		}
		if reflect.DeepEqual(is.Interface(), was.Interface()) || k.Path && is.Kind() == reflect.String && sameFile(is.String(), was.String()) {
			continue
		}
		flags, pairs = append(flags, "--"+p.Flag.Name), append(pairs, k.Name+"="+textOf(k, is))
	}
	if len(flags) > 0 {
		s.Warn("other than %s: %s; to keep that for all rounds: %s", path, strings.Join(flags, ", "), fault.Quote(append([]string{"mcrawl", "set", filepath.Dir(path)}, pairs...)...))
	}
	return nil
}

// flagAndValue is a flag in a message, with what stands for its value. It is a word by itself: a URL or the name of a file may have -- in it.
var flagAndValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[\s"'(\[])--([^\s"'()\[\],;:]*[^\s"'()\[\],;:.])( [A-Z]+\b| [0-9a-f.:]+/[0-9]+(?:,[0-9a-f.:]+/[0-9]+)*)?`)
})

// inSettings is a message in which a flag that nobody typed is the setting of the crawl folder that it stands for: who
// runs mcrawl sees no flags of mfetch. "--allow-net NETWORK" becomes the command that changes the setting, and so does a flag without a value. sets reports whether one did.
func (s *Std) inSettings(message string) (text string, sets bool) {
	path := config.Find(s.args)
	if path == "" || s.Given("config") || !strings.Contains(message, "--") {
		return message, false
	}
	text = flagAndValue().ReplaceAllStringFunc(message, func(text string) string {
		m := flagAndValue().FindStringSubmatch(text)
		k, err := config.KeyOf(s.keys[m[2]])
		if err != nil || s.Given(m[2]) {
			return text
		}
		value := strings.TrimSpace(m[3])
		if k.IsSwitch() {
			value = "true"
		}
		if value == "" {
			return m[1] + k.Name
		}
		if c, err := config.Load(path); err == nil && k.IsList() { // the command replaces a list, so it names what stands there, too
			if had, err := c.Setting(k.Name); err == nil && len(had) > 0 {
				value = k.ListText(append(had, k.ListMembers(value)...))
			}
		}
		sets = true
		return m[1] + fault.Quote("mcrawl", "set", filepath.Dir(path), k.Name+"="+value)
	})
	return text, sets
}

// settingOf returns the value that a flag would have if the command line did not have it.
func settingOf(c *config.Config, k config.Key, f *kong.Flag) (reflect.Value, error) {
	was := reflect.New(f.Target.Type()).Elem()
	text, found := c.Lookup(k.Name)
	switch {
	case found:
	case f.HasDefault:
		text = f.Default
	case was.Kind() == reflect.Pointer: // an absent flag means the value that the setting shows
		text = k.Like
	default:
		return was, nil
	}
	return was, f.Parse(kong.Scan().PushTyped(text, kong.FlagValueToken), was)
}

// textOf is a flag's value as Set of package config reads it.
func textOf(k config.Key, v reflect.Value) string {
	if list, ok := v.Interface().([]string); ok {
		return k.ListText(list)
	}
	return fmt.Sprint(reflect.Indirect(v).Interface())
}

// sameFile reports whether two names are of one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}
