package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// TestUnits: systemd takes the units, and the commands take the command lines in them.
func TestUnits(t *testing.T) {
	t.Parallel()
	all, err := helps()
	must.OK(t, err)
	units, err := filepath.Glob("systemd/*@.*")
	if err != nil || len(units) != 3 {
		t.Fatalf("units %v, %v; want 3", units, err)
	}
	dir := t.TempDir()
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		must.OK(t, err)
		for _, m := range regexp.MustCompile(`(?m)^Exec\w+=/usr/local/bin/(\w+) (\w+)(.*)$`).FindAllStringSubmatch(string(text), -1) {
			name := m[1] + " " + m[2]
			if all[name] == "" {
				t.Errorf("%s: there is no %s", unit, name)
			}
			for _, f := range anyFlag.FindAllString(m[3], -1) {
				if !hasFlag(all, name, f) {
					t.Errorf("%s: %s has no %s", unit, name, f)
				}
			}
		}
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte(bin))
		name := strings.Replace(filepath.Base(unit), "@", "@site", 1)
		must.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o666))
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		needs.Skip(t, err)
	}
	files, _ := filepath.Glob(dir + "/*")
	if out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestContainerfile: the image gets all commands and nothing else of bin/. That it can be built is not tested: that needs a registry.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("Containerfile")
	must.OK(t, err)
	makefile, err := os.ReadFile("../Makefile")
	must.OK(t, err)
	spaced := regexp.MustCompile(` +:= `)
	var got []string
	link := regexp.MustCompile(`for c in ([^;]+); do ln (\w+) \$c; done`)
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "FROM", "ENV", "USER", "WORKDIR", "CMD":
		case "COPY":
			files := strings.Fields(rest)
			for _, file := range files[:len(files)-1] {
				got = append(got, filepath.Base(file))
			}
		case "RUN":
			for _, m := range link.FindAllStringSubmatch(rest, -1) {
				got = append(got, strings.Fields(m[1])...)
				if want := "\n" + strings.ToUpper(m[2]) + " := " + m[1] + "\n"; !strings.Contains(spaced.ReplaceAllString(string(makefile), " := "), want) {
					t.Errorf("links to %s: %s, which the Makefile has otherwise", m[2], m[1])
				}
			}
		default:
			t.Errorf("an instruction %q", word)
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(commands)); !slices.Equal(got, want) {
		t.Errorf("the image has %v, want %v", got, want)
	}
}

// entries reads lines of the log, and holds them to the names of operate.md.
func entries(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	page, err := os.ReadFile("operate.md")
	must.OK(t, err)
	for line := range bytes.Lines(text) {
		e := map[string]any{}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for name := range e {
			if !bytes.Contains(page, []byte("`"+name+"`")) {
				t.Errorf("operate.md does not name %s: %s", name, line)
			}
		}
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(e["time"])); err != nil || !slices.Contains(commands, fmt.Sprint(e["command"])) {
			t.Errorf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// TestOperate: a program reads the standard error of a crawl, and a person its decisions about one URL.
func TestOperate(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 9, 2, 12)
	dir := t.TempDir()
	c := &crawl{dir: filepath.Join(dir, "crawl"), web: w}
	url := fmt.Sprintf("http://h1.mweb.test:%d/", w.port)
	run := func(env ...string) (stderr []byte, code int) {
		cmd := c.command(t, "mcrawl")
		cmd.Args = append(cmd.Args, "--progress", "json")
		cmd.Env = append(os.Environ(), env...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return said.Bytes(), cmd.ProcessState.ExitCode()
	}
	debug := filepath.Join(dir, "debug.log")
	said, code := run("MERCATOR_LOG=json", "MERCATOR_DEBUG="+debug, "MERCATOR_DEBUG_FOR="+strings.ToUpper(url[:4])+url[4:])
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	progress := 0
	for _, e := range entries(t, said) {
		if e["level"] == "progress" {
			progress++
		}
	}
	if progress == 0 {
		t.Errorf("no progress: %s", said)
	}
	t.Run("debug", func(t *testing.T) {
		text, err := os.ReadFile(debug)
		must.OK(t, err)
		var of []string // what happened to the URL, in order
		for line := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(f) != 4 {
				t.Fatalf("%d fields: %s", len(f), line)
			}
			if f[2] == url {
				what, _, _ := strings.Cut(f[3], " ")
				of = append(of, f[1]+" "+what)
			} else if f[2] != strings.Trim(url, "htp:/") && !strings.Contains(line, url) {
				t.Errorf("a line about neither the URL, its host nor a link of it: %s", line)
			}
		}
		at := 0
		for _, want := range []string{"mextract out", "murlset new in", "murlset new out", "mfrontier queued:", "mfrontier next out", "mresolve out", "mfetch contact:", "mfetch out", "mfpset mark out", "mextract in", "mfrontier fetched"} {
			i := slices.Index(of[at:], want)
			if i < 0 {
				t.Fatalf("no %q behind step %d of %q", want, at, of)
			}
			at += i + 1
		}
	})
	t.Run("error", func(t *testing.T) {
		for _, c := range []struct {
			env, want string
			args      []string
			exit      int
		}{
			{"MERCATOR_LOG=json", "not a crawl folder", []string{"status", dir}, 2},
			{"MERCATOR_LOG=json", "unknown flag", []string{"status", "--nothing"}, 2},
		} {
			cmd := exec.Command(bin+"mcrawl", c.args...)
			cmd.Env = append(os.Environ(), c.env)
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Run(); err == nil {
				t.Errorf("%v succeeded", c.args)
			}
			all := entries(t, said.Bytes())
			if len(all) != 1 || all[0]["level"] != "error" || all[0]["exit"] != float64(c.exit) || all[0]["class"] != "usage" || all[0]["hint"] == nil || !strings.Contains(fmt.Sprint(all[0]["message"]), c.want) {
				t.Errorf("%v said %s", c.args, said.Bytes())
			}
		}
	})
	t.Run("wrong", func(t *testing.T) {
		for env, want := range map[string]string{
			"MERCATOR_LOG=xml":                        "mcrawl: MERCATOR_LOG: xml, want json",
			"MERCATOR_DEBUG=" + dir + "/no/debug.log": "no such file",
		} {
			cmd := exec.Command(bin+"mcrawl", "status", c.dir)
			cmd.Env = append(os.Environ(), env)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v, %s", env, err, out)
			}
		}
	})
}
