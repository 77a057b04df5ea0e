package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mercator/pkg/config"
	"mercator/pkg/fault"
)

// Files of a focused crawl's folder.
const (
	topicsFile = "topics.jsonl"
	ModelFile  = "focus.model"
)

// Focus is what a crawl is focused on, in the words of the verbs of mfocus.
type Focus struct {
	Queries    []string
	Dictionary string   // of mfocus expand; "": its default
	Match      string   // likewise
	Database   string   // of words; "": a temporary one
	Topics     []string // of all senses only these count, and the others are their rivals; none: all
	Examples   []string // of mfocus train
	Others     []string // likewise
}

// Settings are those of a focused crawl, which a person may change: URLs that were found on relevant pages come first, and
// after each round those that good hubs link to. Rounds are short, since each has the scores of the one before. It stops when nothing relevant comes any more.
func (Focus) Settings() []config.Pair {
	return []config.Pair{{Key: "frontier.policy", Value: "priority"}, {Key: "frontier.queues", Value: "8"}, {Key: "frontier.strict", Value: "true"},
		{Key: "frontier.prioritizer", Value: "score"}, {Key: "focus.model", Value: ModelFile}, {Key: "focus.distill", Value: "1"},
		{Key: "focus.patience", Value: "3"}, {Key: "batch", Value: "1000"}}
}

// pipes are the commands that make topics and model of the queries that are words.
func (f Focus) pipes(words []string, database, topics, model string) (pipes []Pipe) {
	flag := func(p []string, name string, values ...string) []string {
		for _, v := range values {
			if v != "" {
				p = append(p, name, v)
			}
		}
		return p
	}
	print := []string{"mfocus", "topics", database, "-o", topics}
	for _, q := range words {
		pipes = append(pipes, Pipe{append(flag(flag([]string{"mfocus", "expand"}, "--dictionary", f.Dictionary), "--match", f.Match), database, "--", q)})
		print = append(print, "--query="+q)
	}
	train := flag([]string{"mfocus", "train", "--topics", topics, "-o", model}, "--topic", f.Topics...)
	train = flag(flag(flag(train, "--examples", f.Examples...), "--others", f.Others...), "--dictionary", f.Dictionary)
	return append(pipes, Pipe{print}, Pipe{train})
}

// Words tells apart queries that are URLs, and others, which are the words of the focus.
func (f Focus) Words(ctx context.Context) (words, urls []string, err error) {
	for _, q := range f.Queries {
		if q == "-" { // which has the verbs read standard input
			return nil, nil, &fault.Error{Class: fault.Usage, Place: "query", Found: `"-"`, Want: "a word, words or a URL"}
		}
		out, err := askFocus(ctx, []string{"mfocus", "query", "--", q}, nil)
		var query struct{ Type, URL string }
		if err == nil {
			err = json.Unmarshal(out, &query)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case query.Type == "url":
			urls = append(urls, query.URL)
		default:
			words = append(words, q)
		}
	}
	if len(words) == 0 {
		err = &fault.Error{Class: fault.Usage, Found: "no words", Want: "a query that says what the crawl is about", Hint: `such as "computer mouse"; "mcrawl site" crawls a site by its URL`}
	}
	return words, urls, err
}

// Files are the files of the crawl folder that hold the topics and the model of words. warn gets what mfocus warns of.
func (f Focus) Files(ctx context.Context, words []string, warn func(format string, args ...any)) (map[string]string, error) {
	tmp, err := os.MkdirTemp("", "mcrawl-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	database := f.Database
	if database == "" {
		database = filepath.Join(tmp, "words.db")
	}
	for _, pipe := range f.pipes(words, database, filepath.Join(tmp, topicsFile), filepath.Join(tmp, ModelFile)) {
		if _, err := askFocus(ctx, pipe[0], warn); err != nil {
			return nil, without(tmp, err)
		}
	}
	files := map[string]string{}
	for _, name := range []string{topicsFile, ModelFile} {
		b, err := os.ReadFile(filepath.Join(tmp, name))
		if err != nil {
			return nil, err
		}
		files[name] = string(b)
	}
	return files, nil
}

// without takes a folder that is gone by then out of an error's text, and its hint where that names it.
func without(tmp string, err error) error {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		f.Found = strings.ReplaceAll(f.Found, tmp+string(filepath.Separator), "")
		if strings.Contains(f.Hint, tmp) {
			f.Hint = ""
		}
	}
	return err
}

// Same refuses a folder whose crawl is about other topics, or has another model of them.
func (Focus) Same(dir string, files map[string]string) error {
	for _, c := range []struct{ name, found, want string }{
		{topicsFile, "other topics than those of this query", "the query that the crawl was made with"},
		{ModelFile, "another model than these flags give", "the --topic, --examples and --others that the crawl was made with, and the same pages"},
	} {
		file := filepath.Join(dir, c.name)
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && string(b) != files[c.name] {
			err = &fault.Error{Class: fault.Usage, File: file, Found: c.found, Want: c.want, Hint: "make another folder, or go on with this crawl: " + fault.Quote("mcrawl", "run", dir)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Print has the shell lines that make topics and model.
func (f Focus) Print(words []string) string {
	database := f.Database
	if database == "" {
		database = "words.db"
	}
	var lines []string
	for _, p := range f.pipes(words, database, topicsFile, ModelFile) {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, " &&\n")
}

// askFocus runs a verb of mfocus. Its error is that of the verb; of one that succeeds, warn gets the warnings.
func askFocus(ctx context.Context, words []string, warn func(format string, args ...any)) ([]byte, error) {
	var said []string
	var out bytes.Buffer
	err := runCommand(ctx, words, nil, &out, func(line string) { said = append(said, strings.TrimPrefix(line, "mfocus: ")) })
	if err == nil && warn != nil {
		for _, line := range said {
			warn("%s", line)
		}
	}
	failed := (*fault.Error)(nil)
	if !errors.As(err, &failed) || len(said) == 0 {
		return bytes.TrimSpace(out.Bytes()), err
	}
	f := &fault.Error{Class: failed.Class, Err: err}
	for _, line := range said {
		if hint, is := strings.CutPrefix(line, "hint: "); is {
			f.Hint = hint
		} else {
			f.Found = line
		}
	}
	return nil, f
}
