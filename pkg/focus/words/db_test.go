package words

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// expand puts queries into a database, as mfocus expand does.
func expand(path string, d func() (Dictionary, error), match Matching, limits Limits, queries ...string) (Stats, error) {
	ctx := context.Background()
	db, err := OpenDB(ctx, path, true, 10*time.Second)
	if err != nil {
		return Stats{}, err
	}
	defer db.Close()
	x := &Expansion{DB: db, Filter: NewFilter(nil), Match: match, Limits: limits, Dictionary: d}
	defer x.Close()
	for _, q := range queries {
		if err = x.Put(ctx, q, x.Filter.Words(q)); err == nil {
			err = x.Run(ctx, func(int64) {})
		}
		if err != nil {
			break
		}
	}
	return x.Stats(), err
}

func small() (Dictionary, error) { return OpenDictionary("testdata/wordnet") }
func none() (Dictionary, error)  { return OpenDictionary("testdata/none") }

// topics are all of a database, a JSON line each.
func topics(t *testing.T, path string) string {
	t.Helper()
	ctx := context.Background()
	db, err := OpenDB(ctx, path, false, time.Second)
	must.OK(t, err)
	defer db.Close()
	var b strings.Builder
	must.OK(t, db.Topics(ctx, func(string, string) bool { return true }, func(t Topic) error { return json.NewEncoder(&b).Encode(t) }))
	for line := range strings.Lines(b.String()) {
		if _, err := ReadTopics(strings.NewReader(line), "topics"); err != nil {
			t.Error(err)
		}
	}
	return b.String()
}

var usual = Limits{Depth: 2, Words: 200}

// The paper's example: a mouse is a rodent, or a device, and each word is of one of them.
func TestMouse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words.db")
	if s, err := expand(path, small, Exact, usual, "mouse"); err != nil || s.Put < 30 || s.Redundant == 0 || s.Asked == 0 {
		t.Fatal(s, err)
	}
	found, err := ReadTopics(strings.NewReader(topics(t, path)), "topics")
	if err != nil || len(found) != 3 {
		t.Fatal(found, err)
	}
	weight := func(topic int, word string) float64 {
		for _, w := range found[topic].Words {
			if w.Word == word {
				return w.Weight
			}
		}
		return 0
	}
	for word, want := range map[string][2]float64{"mouse": {1, 1}, "rodent": {0.5, 0}, "field mouse": {0.7, 0}, "snout": {0.25, 0}, "animal": {0.25, 0}, "squirrel": {0, 0},
		"electronic device": {0, 0.5}, "computer mouse": {0, 0.9}, "mouse button": {0, 0.4}, "cursor": {0, 0.25}, "cat": {0, 0}} {
		t.Run(word, func(t *testing.T) {
			if rodent, device := weight(0, word), weight(2, word); rodent != want[0] || device != want[1] {
				t.Errorf("%s: %v, %v, want %v", word, rodent, device, want)
			}
		})
	}
	if names := found[0].Topic + " " + found[2].Topic; names != "mouse.n.01 mouse.n.03" || found[0].Query != "mouse" {
		t.Error(names)
	}
	// the dictionary is asked only for what the database does not have
	if s, err := expand(path, none, Exact, usual, "mouse"); err != nil || s.Asked != 0 || s.Put != 0 || s.Redundant != 1 {
		t.Error(s, err)
	}
	before := topics(t, path)
	if s, err := expand(path, none, Exact, usual, "the mouse"); err != nil || s.Asked != 0 || s.Known == 0 || s.Put == 0 {
		t.Error(s, err)
	}
	if after := topics(t, path); !strings.HasPrefix(after, before) || after != before+strings.ReplaceAll(before, `"query":"mouse"`, `"query":"the mouse"`) {
		t.Error(after)
	}
}

func TestQueries(t *testing.T) {
	for _, c := range []struct {
		query  string
		match  Matching
		topics string
	}{
		{"computer mouse", Exact, "mouse.n.03"},
		{"computer and mouse", Exact, "mouse.n.03"},
		{"mouse computer", Exact, "mouse.n.01 mouse.n.02 mouse.n.03 computer.n.01"},
		{"mice squirel", Exact, "mouse.n.01 mouse.n.02 mouse.n.03 squirel"},
		{"squirel mice", Edit, "squirrel.n.01 mouse.n.01 mouse.n.02 mouse.n.03"},
		{"mice mouse", Exact, "mouse.n.01 mouse.n.02 mouse.n.03"},
		{"Creeping", Stem, "crawl.v.01"},
	} {
		t.Run(c.query+" "+string(c.match), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "words.db")
			_, err := expand(path, small, c.match, usual, c.query)
			must.OK(t, err)
			found, err := ReadTopics(strings.NewReader(topics(t, path)), "topics")
			var names []string
			for _, f := range found {
				names = append(names, f.Topic)
			}
			if got := strings.Join(names, " "); err != nil || got != c.topics {
				t.Errorf("%s: %s, want %s (%v)", c.query, got, c.topics, err)
			}
		})
	}
	// a file has no senses of similar words: those that have one are followed
	path := filepath.Join(t.TempDir(), "words.db")
	_, err := expand(path, func() (Dictionary, error) { return OpenDictionary("testdata/table.tsv") }, Exact, usual, "mouse")
	must.OK(t, err)
	if got := topics(t, path); !strings.Contains(got, `"mouse.rodent","query":"mouse","words":[{"word":"mouse","weight":1},{"word":"rat","weight":0.6},{"word":"vole","weight":0.6},{"word":"rodent","weight":0.36}]`) ||
		!strings.Contains(got, `{"word":"joystick","weight":0.36}`) {
		t.Error(got)
	}
}

// Limits that rise give what they give at once, and another matching finds what was unknown.
func TestLimitsRise(t *testing.T) {
	dir := t.TempDir()
	for _, last := range []Limits{{1, 200}, {2, 8}, {3, 12}, {5, 200}} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			steps, once := filepath.Join(dir, fmt.Sprint("steps", last)), filepath.Join(dir, fmt.Sprint("once", last))
			for _, l := range []Limits{{1, 5}, {min(2, last.Depth), 7}, last, {1, 5}} {
				_, err := expand(steps, small, Exact, l, "mouse squirel")
				must.OK(t, err)
			}
			_, err := expand(once, small, Exact, last, "mouse squirel")
			must.OK(t, err)
			got, want := topics(t, steps), topics(t, once)
			if got != want {
				t.Errorf("%v:\n%s\nwant\n%s", last, got, want)
			}
			found, _ := ReadTopics(strings.NewReader(got), "topics")
			for _, f := range found {
				if len(f.Words) > last.Words {
					t.Errorf("%s: %d words, want %d", f.Topic, len(f.Words), last.Words)
				}
			}
		})
	}
	path := filepath.Join(dir, "match")
	for _, m := range []Matching{Exact, Edit} {
		_, err := expand(path, small, m, usual, "squirel")
		must.OK(t, err)
		if got, want := topics(t, path), map[Matching]string{Exact: `{"topic":"squirel"`, Edit: `{"topic":"squirrel.n.01"`}[m]; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Error(got)
		}
	}
}

// mortal is a dictionary in a process that is killed after some questions.
type mortal struct {
	Dictionary
	lives int
}

func (m *mortal) Sense(name string) (Sense, error) {
	if m.lives--; m.lives < 0 {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	return m.Dictionary.Sense(name)
}

// TestExpandKilled is run by TestKill.
func TestExpandKilled(t *testing.T) {
	path := os.Getenv("WORDS_KILLED")
	if path == "" {
		t.Skip("TestKill runs it")
	}
	d, err := small()
	must.OK(t, err)
	m := &mortal{Dictionary: d}
	fmt.Sscan(os.Getenv("WORDS_LIVES"), &m.lives)
	_, err = expand(path, func() (Dictionary, error) { return m, nil }, Exact, Limits{5, 200}, "mouse", "squirrel computer")
	must.OK(t, err)
}

// TestKill: killed at each question to the dictionary, and run again by two at once, the result is the same.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	once := filepath.Join(dir, "once")
	_, err := expand(once, small, Exact, Limits{5, 200}, "mouse", "squirrel computer")
	must.OK(t, err)
	want := topics(t, once)
	killed := 0
	for lives := 0; lives < 20; lives += 3 {
		path := filepath.Join(dir, fmt.Sprint(lives))
		cmd := exec.Command(os.Args[0], "-test.run=^TestExpandKilled$")
		cmd.Env = append(os.Environ(), "WORDS_KILLED="+path, fmt.Sprint("WORDS_LIVES=", lives))
		if out, err := cmd.CombinedOutput(); err == nil {
			break
		} else if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%v\n%s", err, out)
		}
		killed++
		var all sync.WaitGroup
		for _, queries := range [][]string{{"mouse", "squirrel computer"}, {"squirrel computer", "mouse"}} {
			all.Go(func() {
				if _, err := expand(path, small, Exact, Limits{5, 200}, queries...); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := topics(t, path); got != want {
			t.Errorf("killed at question %d:\n%s\nwant\n%s", lives, got, want)
		}
	}
	if killed < 3 {
		t.Errorf("killed %d times", killed)
	}
}

func TestDatabases(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	// names that mean something in a URI
	for _, name := range []string{"a?b", "c#d", "e%20f", ":memory:", "ü &=;"} {
		if _, err := expand(at(name), small, Exact, Limits{1, 10}, "mouse"); err != nil {
			t.Fatal(name, err)
		}
		if _, err := os.Stat(at(name)); err != nil {
			t.Error(err)
		}
	}
	run := func(path, text string) {
		db, err := sql.Open("sqlite", path)
		if err == nil {
			_, err = db.Exec(text)
			db.Close()
		}
		must.OK(t, err)
	}
	for _, name := range []string{"later", "damaged", "busy"} {
		_, err := expand(at(name), small, Exact, Limits{5, 200}, "mouse")
		must.OK(t, err)
	}
	run(at("later"), "PRAGMA user_version = 2")
	run(at("other"), "CREATE TABLE queue(x)")
	os.WriteFile(at("text"), []byte(strings.Repeat("no database\n", 1000)), 0o666)
	b, err := os.ReadFile(at("damaged"))
	must.OK(t, err)
	for i := 4096; i < len(b); i++ {
		b[i] ^= 0x5a
	}
	os.WriteFile(at("damaged"), b, 0o666)
	for name, want := range map[string]error{"later": fault.Version, "other": fault.WrongKind, "text": fault.WrongKind, "damaged": fault.Corrupt, ".": fault.Usage, "none/x": fault.Usage} {
		t.Run(name, func(t *testing.T) {
			for _, create := range []bool{true, false} {
				db, err := OpenDB(ctx, at(name), create, time.Second)
				if err == nil { // the first page alone is good
					err = db.Topics(ctx, func(string, string) bool { return true }, func(Topic) error { return nil })
					db.Close()
				}
				if !errors.Is(err, want) || fault.HintOf(err) == "" {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			}
		})
	}
	if _, err := OpenDB(ctx, at("none"), false, time.Second); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	// what a kill has left before the first transaction is an empty file
	os.WriteFile(at("empty"), nil, 0o666)
	if _, err := expand(at("empty"), small, Exact, usual, "mouse"); err != nil {
		t.Error(err)
	}
	// another process has it
	db, err := OpenDB(ctx, at("busy"), true, time.Second)
	must.OK(t, err)
	defer db.Close()
	err = db.change(ctx, func(tx *sql.Tx) error {
		_, err := OpenDB(ctx, at("busy"), true, 50*time.Millisecond)
		return err
	})
	if !errors.Is(err, fault.Busy) {
		t.Error(err)
	}
	if _, err := expand(at("new"), none, Exact, usual, "mouse"); !errors.Is(err, fault.Usage) || !strings.Contains(fault.HintOf(err), "wordnet-base") {
		t.Error(err)
	}
	if _, err := expand(at("new"), small, Exact, usual, "the 1999"); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	if _, err := expand(at("new"), small, Exact, usual, strings.Repeat("mouse ", MaxQueryWords+1)); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}
