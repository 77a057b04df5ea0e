package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// SafeVariable names crawl folders of other users in the environment that are trusted nevertheless, with colons between; "*": all.
const SafeVariable = "MERCATOR_SAFE_DIRECTORY"

// checkOwner refuses (fault.Usage) the crawl.toml of a crawl folder that another user owns, as git does with repositories: settings
// name programs, and their writer would run these as this user. root may act for the user who called sudo.
func checkOwner(path string) error {
	folder := filepath.Dir(path)
	for _, p := range []string{folder, path} {
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		owner, known := durable.UserOf(st)
		if !known || mayRun(owner, os.Geteuid(), os.Getenv("SUDO_UID")) || isSafe(folder, os.Getenv(SafeVariable)) {
			continue
		}
		abs, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		return &fault.Error{Class: fault.Usage, File: p, Found: fmt.Sprintf("owned by user %d", owner), Want: "a crawl of your own: its settings may name programs",
			Hint: "if you trust who can write there: " + fault.Quote("export", SafeVariable+"="+abs)}
	}
	return nil
}

func mayRun(owner uint32, uid int, sudo string) bool {
	return int64(owner) == int64(uid) || uid == 0 && sudo != "" && strconv.FormatUint(uint64(owner), 10) == sudo
}

// isSafe reports whether a value of SafeVariable names a folder.
func isSafe(folder, list string) bool {
	have, err := os.Stat(folder)
	return err == nil && slices.ContainsFunc(filepath.SplitList(list), func(name string) bool {
		if name == "*" {
			return true
		}
		st, err := os.Stat(name)
		return filepath.IsAbs(name) && err == nil && os.SameFile(st, have)
	})
}

// Owned reports whether this user owns a file that is there.
func Owned(path string) (bool, error) {
	st, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	owner, known := durable.UserOf(st)
	return !known || mayRun(owner, os.Geteuid(), os.Getenv("SUDO_UID")), nil
}

// plainRclone is the spelling of a remote of rclone's own configuration: one that brings its options with it may name programs.
var plainRclone = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^rclone:[\w.+@ -]+:`) })

// Programs lists the settings that name programs, or options of programs, with their values.
func (c *Config) Programs() []Pair {
	var found []Pair
	for _, k := range allKeys() {
		if left, programs := k.withoutPrograms(c); programs {
			value := c.Text(k)
			if list, _ := c.valueAt(k.Name); len(left) > 0 { // of a list, the members alone that name one
				members := slices.DeleteFunc(texts(list), func(m string) bool { return slices.Contains(left, m) })
				value = k.ListText(members)
			}
			found = append(found, Pair{k.Name, value})
		}
	}
	return found
}

func texts(list any) (all []string) {
	members, _ := list.([]any)
	for _, m := range members {
		all = append(all, fmt.Sprint(m))
	}
	return all
}

// withoutPrograms returns the values of a setting that name no program; programs: others do.
func (k Key) withoutPrograms(c *Config) (left []string, programs bool) {
	v, set := c.valueAt(k.Name)
	if !set || k.tag.Get("runs") == "" {
		return nil, false
	}
	text, list := fmt.Sprint(v), texts(v)
	switch k.tag.Get("runs") {
	case "always":
		return nil, text != "" && text != "[]"
	case "word": // a command, but for a few words
		return nil, text != "" && text != "depth" && text != "score"
	case "remote":
		return nil, strings.HasPrefix(text, "rclone:") && !plainRclone().MatchString(text)
	case "module": // NAME=TYPES:COMMAND
		for _, m := range list {
			if _, types, _ := strings.Cut(m, "="); !strings.Contains(types, ":") {
				left = append(left, m)
			}
		}
		return left, len(left) < len(list)
	}
	panic("tag runs of " + k.Name)
}

// Disarm takes the settings that name programs out of crawl.toml, and what needs them; off are these. Of a text without any it is the text.
func Disarm(path string, text []byte) (clean []byte, off []Pair, err error) {
	c, err := parse(path, text)
	if err != nil {
		return nil, nil, err
	}
	if off = c.Programs(); len(off) == 0 {
		return text, nil, nil
	}
	set := map[string]string{}
	for _, p := range off {
		k, err := KeyOf(p.Key)
		if err != nil {
			return nil, nil, err
		}
		left, _ := k.withoutPrograms(c)
		set[p.Key] = ""
		if len(left) > 0 {
			set[p.Key] = k.ListText(left)
		}
		switch p.Key {
		case "fetch.exec":
			set["fetch.exec_state"] = ""
		case "extract.modules":
			state, err := KeyOf("extract.module_state")
			if err != nil {
				return nil, nil, err
			}
			names := slices.DeleteFunc(slices.Clone(c.File.Extract.ModuleState), func(name string) bool {
				return !slices.ContainsFunc(left, func(m string) bool { n, _, _ := strings.Cut(m, "="); return n == name })
			})
			set[state.Name] = ""
			if len(names) > 0 {
				set[state.Name] = state.ListText(names)
			}
		}
	}
	var pairs []Pair
	for _, key := range slices.Sorted(maps.Keys(set)) {
		pairs = append(pairs, Pair{key, set[key]})
	}
	if clean, err = SetAll(text, pairs); err != nil { // written in a way that cannot be edited: the comments are lost
		if clean, err = c.textWithout(set); err != nil {
			return nil, nil, err
		}
	}
	again, err := parse(path, clean)
	if err != nil {
		return nil, nil, err
	}
	if still := again.Programs(); len(still) > 0 {
		return nil, nil, &fault.Error{Class: fault.Usage, File: path, Place: still[0].Key, Found: "a program that cannot be taken out", Want: "the setting on a line of its own"}
	}
	return clean, off, nil
}

// textWithout writes the file anew without the settings of set.
func (c *Config) textWithout(set map[string]string) ([]byte, error) {
	all := map[string]any{}
	for name, v := range c.set {
		table, is := v.(map[string]any)
		if is {
			v = maps.Clone(table)
		}
		all[name] = v
	}
	for key := range set {
		table, name, dotted := strings.Cut(key, ".")
		if !dotted {
			delete(all, key)
		} else if t, is := all[table].(map[string]any); is {
			delete(t, name)
		}
	}
	return toml.Marshal(all)
}
