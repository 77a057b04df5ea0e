package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/driver/pipe"
)

// Files of a focused crawl's folder.
const (
	topicsFile = "topics.jsonl"
	ModelFile  = "focus.model"
)

// Focus has the flags of mfocus that make a crawl's topics and model.
type Focus struct {
	Queries    []string
	Dictionary string   // --dictionary of mfocus expand; "": its default
	Match      string   // --match of mfocus expand; "": its default
	Database   string   // file of the database of words; "": a temporary one
	Topics     []string // the senses that count, with all others as their rivals; none: all count
	Examples   []string // --examples of mfocus train
	Others     []string // --others of mfocus train
}

// Settings are the settings of a focused crawl, which a person may change. URLs from relevant pages come first, then URLs that good
// hubs link to, after each round anew. Rounds are short, since each uses the scores of the one before. The crawl stops when nothing relevant comes any more.
func (Focus) Settings() []config.Pair {
	return []config.Pair{{Key: "frontier.policy", Value: "priority"}, {Key: "frontier.queues", Value: "8"}, {Key: "frontier.strict", Value: "true"},
		{Key: "frontier.prioritizer", Value: "score"}, {Key: "focus.model", Value: ModelFile}, {Key: "focus.distill", Value: "1"},
		{Key: "focus.patience", Value: "3"}, {Key: "batch", Value: "1000"}}
}

// pipes are the commands that make topics and a model from queries.
func (f Focus) pipes(words []string, database, topics, model string) (pipes []pipe.Pipe) {
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
		pipes = append(pipes, pipe.Pipe{append(flag(flag([]string{"mfocus", "expand"}, "--dictionary", f.Dictionary), "--match", f.Match), database, "--", q)})
		print = append(print, "--query="+q)
	}
	train := flag([]string{"mfocus", "train", "--topics", topics, "-o", model}, "--topic", f.Topics...)
	train = flag(flag(flag(train, "--examples", f.Examples...), "--others", f.Others...), "--dictionary", f.Dictionary)
	return append(pipes, pipe.Pipe{print}, pipe.Pipe{train})
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
		err = &fault.Error{Class: fault.Usage, Found: "no words", Want: "a query that says what the crawl is about", Hint: `such as "computer mouse"; a site is crawled by its URL with mcrawl site`}
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

// without removes a temporary folder from an error's text. It removes a hint that names the folder.
func without(tmp string, err error) error {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		f.Found = strings.ReplaceAll(f.Found, tmp+string(filepath.Separator), "")
		if strings.Contains(f.Hint, tmp) {
			f.Hint = ""
		}
	}
	return err
}

// Same refuses the folder of a crawl with other topics or another model.
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

// Print returns the shell lines that make topics and model.
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

// askFocus runs a verb of mfocus, and returns the verb's error. If the verb succeeds, warn gets its warnings.
func askFocus(ctx context.Context, words []string, warn func(format string, args ...any)) ([]byte, error) {
	var said []string
	var out bytes.Buffer
	err := pipe.RunCommand(ctx, words, nil, &out, func(line string) { said = append(said, strings.TrimPrefix(line, "mfocus: ")) })
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
