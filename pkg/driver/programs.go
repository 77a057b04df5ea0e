package driver

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mercator/pkg/config"
	"mercator/pkg/fault"
	"mercator/pkg/frontier"
)

// programKeys are the settings that have commands for the shell, and what of a value is the command.
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
}

// plainWord is a word that the shell takes as it is: no assignment, no quotes, no variable.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w./+][\w./+-]*$`) })

// checkPrograms refuses commands of settings whose first word is no program. Others are known in the round.
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

// isProgram says whether the shell can run word. It has commands of its own.
func isProgram(word string) bool {
	if strings.Contains(word, "/") {
		info, err := os.Stat(word)
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}
	return exec.Command("/bin/sh", "-c", `command -v "$1"`, "sh", word).Run() == nil
}
