package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

func TestOurs(t *testing.T) {
	for _, c := range []struct {
		name  string
		owner uint32
		uid   int
		sudo  string
		want  bool
	}{
		{"own", 1000, 1000, "", true},
		{"another", 1001, 1000, "", false},
		{"of root", 0, 1000, "", false},
		{"root, own", 0, 0, "", true},
		{"root, of a user", 1000, 0, "", false},
		{"root by sudo, of who called it", 1000, 0, "1000", true},
		{"root by sudo, of another", 1001, 0, "1000", false},
		{"no root, with a variable", 1001, 1000, "1001", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mayRun(c.owner, c.uid, c.sudo); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A crawl folder, or a crawl.toml in it, of another user is refused, unless the environment names the folder.
func TestForeignFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	t.Setenv("SUDO_UID", "")
	for _, c := range []struct {
		name, variable string
		folder, file   int
		crawl, refused bool
	}{
		{"own", "", 0, 0, true, false},
		{"folder", "", 1234, 0, true, true},
		{"file", "", 0, 1234, true, true},
		{"both, named", "/nowhere:FOLDER", 1234, 1234, true, false},
		{"both, named with a slash", "FOLDER/", 1234, 1234, true, false},
		{"all", "*", 1234, 1234, true, false},
		{"another named", "/", 1234, 1234, true, true},
		{"relative", ".", 1234, 1234, true, true},
		{"no crawl folder", "", 1234, 1234, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			file := filepath.Join(dir, Name)
			must.OK(t, os.WriteFile(file, []byte("batch = 5\n"), 0o644))
			if c.crawl {
				must.OK(t, os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o644))
			}
			for p, uid := range map[string]int{dir: c.folder, file: c.file} {
				must.OK(t, os.Chown(p, uid, -1))
			}
			t.Setenv(SafeVariable, strings.ReplaceAll(c.variable, "FOLDER", dir))
			_, err := Load(file)
			f, _ := errors.AsType[*fault.Error](err)
			if (err != nil) != c.refused || c.refused && (f == nil || f.Class != fault.Usage || !strings.HasSuffix(f.Hint, "export "+SafeVariable+"="+dir)) {
				t.Errorf("%v, want refused: %v", err, c.refused)
			}
		})
	}
}

func TestDisarm(t *testing.T) {
	for _, c := range []struct {
		name, text string
		off        []Pair
		keeps      map[string]string
	}{
		{"none", "batch = 5\n[extract]\nmodules = [\"page\", \"words=text/html\"]\n[frontier]\nprioritizer = \"score\"\n", nil, map[string]string{"batch": "5", "extract.modules": `["page", "words=text/html"]`, "frontier.prioritizer": "score"}},
		{"exec", "[fetch]\nexec = [\"gemini=./g.sh\", \"x=y\"]\nexec_state = [\"gemini\"]\ntimeout = \"5s\"\n", []Pair{{"fetch.exec", `["gemini=./g.sh", "x=y"]`}}, map[string]string{"fetch.timeout": "5s", "fetch.exec_state": ""}},
		{"module", "[extract]\nmodules = [\"page\", \"w=text/html:wc -w\", \"tags\"]\nmodule_state = [\"w\", \"tags\"]\n", []Pair{{"extract.modules", "w=text/html:wc -w"}}, map[string]string{"extract.modules": "page,tags", "extract.module_state": "tags"}},
		{"only a module", "[extract]\nmodules = [\"w=text/html:stay wc -w\"]\nmodule_state = [\"w\"]\n", []Pair{{"extract.modules", "w=text/html:stay wc -w"}}, map[string]string{"extract.modules": "", "extract.module_state": ""}},
		{"prioritizer", "[frontier]\nprioritizer = \"./rank\"\nmax_attempts = 2\n", []Pair{{"frontier.prioritizer", "./rank"}}, map[string]string{"frontier.max_attempts": "2"}},
		{"engine", "[engine]\non = \"slurm\"\nargs = \"--prolog=./x\"\nbin = \"./mcrawl\"\n", []Pair{{"engine.args", "--prolog=./x"}, {"engine.bin", "./mcrawl"}}, map[string]string{"engine.on": "slurm"}},
		{"rclone with options", "push = \"rclone::sftp,ssh='sh -c x':p\"\n", []Pair{{"push", "rclone::sftp,ssh='sh -c x':p"}}, nil},
		{"rclone with options of a name", "push = \"rclone:mine,ssh=x:p\"\n", []Pair{{"push", "rclone:mine,ssh=x:p"}}, nil},
		{"remotes", "push = \"rclone:mine:p\"\n", nil, map[string]string{"push": "rclone:mine:p"}},
		{"in braces", "fetch = { exec = [\"a=b\"], timeout = \"5s\" }\n", []Pair{{"fetch.exec", `a=b`}}, map[string]string{"fetch.timeout": "5s"}},
		{"dotted", "fetch.exec = [\"a=b\"]\nfetch.timeout = \"5s\"\n", []Pair{{"fetch.exec", `a=b`}}, map[string]string{"fetch.timeout": "5s"}},
		{"quoted keys", "[\"fetch\"]\n'exec' = [\n  \"a=b\", # more\n]\n", []Pair{{"fetch.exec", `a=b`}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean, off, err := Disarm(Name, []byte(c.text))
			if err != nil || !reflect.DeepEqual(off, c.off) {
				t.Fatalf("%v: off %q, want %q", err, off, c.off)
			}
			conf, err := Parse(Name, clean)
			if err != nil || len(conf.Programs()) > 0 {
				t.Fatalf("%v, still %q", err, conf.Programs())
			}
			for key, want := range c.keeps {
				k, err := KeyOf(key)
				must.OK(t, err)
				if got := conf.Text(k); got != want {
					t.Errorf("%s is %q, want %q in %s", key, got, want, clean)
				}
			}
			for _, p := range c.off { // the pairs are what mcrawl set takes
				if _, err := Set(clean, p.Key, p.Value); err != nil {
					t.Errorf("%s=%s: %v", p.Key, p.Value, err)
				}
			}
		})
	}
}

// A setting that speaks of commands or programs says how it names them.
func TestRuns(t *testing.T) {
	harmless := []string{"frontier.prioritizer_timeout", "fetch.exec_state", "fetch.contact", "extract.module_state", "extract.module_timeout", "stages.timeout", "memory.stages", "resolve.canonical"}
	for _, k := range Keys() {
		speaks := slices.Contains([]string{"program", "module", "remote"}, k.tag.Get("is")) || strings.Contains(k.Doc, "command") || strings.Contains(k.Doc, "program") || strings.HasPrefix(k.Name, "engine.") && k.Choices() == nil
		if speaks && k.tag.Get("runs") == "" && !slices.Contains(harmless, k.Name) {
			t.Errorf("%s has no tag runs: %s", k.Name, k.Doc)
		}
	}
}

// A setting is what it looks like where it is printed.
func TestUnseen(t *testing.T) {
	for text, bad := range map[string]bool{
		`fetch.contact = "a\u001b[2J@b.test"`: true, `seeds = ["a", "b\u202E"]`: true, "push = \"/a\u202Eb\"": true, `focus.model = "a\u0085"`: true, `fetch.login = "\u2066x"`: true,
		`fetch.exec = ["x=a\u0007"]`: true, `frontier.prioritizer = '''
one	two
three'''`: false, `push = "/\u05d0\u05d1\u200f"`: false,
	} {
		t.Run(fmt.Sprintf("%.60s", text), func(t *testing.T) {
			if _, err := Parse(Name, []byte(text+"\n")); (err != nil) != bad || bad && fault.ClassOf(err) != fault.Usage || err != nil && strings.ContainsFunc(err.Error(), isInvisible) {
				t.Errorf("%q: %v", text, err)
			}
		})
	}
}
