package setup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/frontier"
	"mercator/pkg/web/process"
)

// programKeys are the settings that have commands for the shell. Each function cuts the command out of a value.
var programKeys = map[string]func(value string) string{
	"frontier.prioritizer": func(value string) string {
		if slices.Contains([]string{frontier.ByDepth, frontier.ByScore}, value) {
			return ""
		}
		return value
	},
	"fetch.exec": func(value string) string {
		_, command, _ := strings.Cut(value, "=")
		return command
	},
	"extract.modules": func(value string) string {
		_, types, _ := strings.Cut(value, "=")
		_, command, _ := strings.Cut(types, ":")
		return strings.TrimPrefix(strings.TrimSpace(command), "stay ")
	},
	"stages.seen": whole, "stages.content": whole, "stages.resolve": whole, "stages.links": whole, "stages.new": whole,
}

func whole(value string) string { return value }

// plainWord is a word that the shell takes as it is: no assignment, no quotes, no variable.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w./+][\w./+-]*$`) })

// checkPrograms refuses a setting with a command that begins with no program. Other errors of a command appear in the round.
func checkPrograms(conf *config.Config, changed func(key string) bool) error {
	for _, k := range config.Keys() {
		commandOf := programKeys[k.Name]
		if commandOf == nil || !changed(k.Name) {
			continue
		}
		values, err := conf.Setting(k.Name)
		if err != nil {
			return err
		}
		for _, value := range values {
			words := strings.Fields(commandOf(value))
			if len(words) == 0 || !plainWord().MatchString(words[0]) || isProgram(words[0]) {
				continue
			}
			e := &fault.Error{Class: fault.Usage, Place: k.Name, Found: fmt.Sprintf("no program %q", words[0]), Want: "a command that the shell finds", Hint: "install it, or correct its name"}
			if strings.Contains(words[0], "/") {
				e.Hint = "a file that can be executed has this mode: chmod +x " + words[0]
				if !isThere(words[0]) {
					e.Hint = "a relative name counts from the folder where mcrawl runs: give it whole"
				}
			}
			return e
		}
	}
	return nil
}

// checkValues refuses what a command of a round would refuse, of values that several settings decide or that take that command's code.
func checkValues(conf *config.Config, sharded bool) error {
	f := &conf.File
	placed := func(key string, err error) error {
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Place == "" {
			e.Place = key
		}
		return err
	}
	for _, line := range f.Fetch.Header {
		if _, err := http1.ParseHeader(line); err != nil {
			return placed("fetch.headers", err)
		}
	}
	if f.Fetch.Proxy != "" {
		if _, err := http1.ParseProxy(f.Fetch.Proxy, nil); err != nil {
			return placed("fetch.proxy", err)
		}
	}
	form, err := conf.Canon()
	if err != nil {
		return err
	}
	programs := map[string]bool{}
	for _, spec := range f.Fetch.Exec {
		name, _, _ := strings.Cut(spec, "=")
		if !form.Schemes.Has(name) || programs[name] {
			return &fault.Error{Class: fault.Usage, Place: "fetch.exec", Found: strconv.Quote(spec), Want: "SCHEME=COMMAND, once for each of the schemes of the setting schemes"}
		}
		programs[name] = true
	}
	for _, name := range f.Fetch.ExecState {
		if !programs[name] {
			return &fault.Error{Class: fault.Usage, Place: "fetch.exec_state", Found: strconv.Quote(name), Want: "a scheme that has a program in fetch.exec"}
		}
	}
	if _, err := process.Select(f.Extract.Module, f.Extract.ModuleState, process.ExecLimits{}); err != nil {
		return err
	}
	if f.Stages.Resolve != "" && f.Resolve.Canonical {
		return &fault.Error{Class: fault.Usage, Place: "stages.resolve", Found: "a program beside resolve.canonical", Want: "one of them: a program gives addresses alone"}
	}
	if on := f.Engine.On; !sharded && on != "" && on != "local" {
		return &fault.Error{Class: fault.Usage, Place: "engine.on", Found: strconv.Quote(on) + " for a crawl without shards", Want: "shards, one task each", Hint: "mcrawl new --shards 4 makes a crawl that has some"}
	}
	return nil
}

// isProgram reports whether the shell can run word. It has commands of its own.
func isProgram(word string) bool {
	if strings.Contains(word, "/") {
		info, err := os.Stat(word)
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}
	return exec.Command("/bin/sh", "-c", `command -v "$1"`, "sh", word).Run() == nil
}
