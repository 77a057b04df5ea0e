package mfocus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/focus/classify"
	"mercator/pkg/focus/words"
	"mercator/pkg/web/process"
)

type trainCmd struct {
	Output     string   `short:"o" required:"" placeholder:"FILE" help:"Model to write."`
	Topics     string   `placeholder:"FILE" help:"Topics with their words, as mfocus topics prints them; - is standard input."`
	Topic      []string `sep:"none" placeholder:"TOPIC" help:"Only pages about this topic are relevant; the others stay its rivals. May be given again."`
	Examples   []string `sep:"none" placeholder:"T=SOURCE" help:"Pages about topic T. May be given again."`
	Others     []string `sep:"none" placeholder:"SOURCE" help:"Pages about none of the topics. May be given again."`
	Crawl      string   `type:"existingdir" placeholder:"DIR" help:"Crawl with the documents of lists of URLs."`
	Dictionary string   `placeholder:"PATH" help:"WordNet's folder, for irregular forms (default: that of mfocus expand, if there)."`
	archiveFlags
}

// Help is part of --help.
func (trainCmd) Help() string {
	return `A SOURCE is a document, a folder of documents, a WARC file, fetch records with --warc, a crawl folder,
or @FILE: a list of URLs whose documents --crawl has. Topics need words or examples; what other pages look
like a crawl learns from its own, and --others tells before. The same input gives the same bytes.

Examples:
  mfocus train -o mouse.model --topics topics.jsonl
  mfocus train -o mouse.model --topics topics.jsonl \
    --examples mouse.n.01=rodents/ --others other-pages/
  mfocus train -o news.model --crawl crawl \
    --examples good=@good.txt --others @bad.txt`
}

func (c *trainCmd) Run(ctx context.Context, std *cli.Std) error {
	var subjects []classify.Subject
	named := map[string]bool{}
	if c.Topics != "" {
		topics, err := readTopics(std, c.Topics)
		if err != nil {
			return err
		}
		for _, t := range topics {
			s := classify.Subject{Name: t.Topic, Query: t.Query, Gloss: t.Gloss, Words: make(map[string]float64)}
			for _, w := range t.Words {
				s.Words[w.Word] = w.Weight
			}
			subjects, named[t.Topic] = append(subjects, s), true
		}
	}
	type example struct{ topic, source string }
	var examples []example
	for _, e := range c.Examples {
		topic, source, ok := strings.Cut(e, "=")
		if !ok || topic == "" || source == "" {
			return &fault.Error{Class: fault.Usage, Place: "--examples", Found: fmt.Sprintf("%q", e), Want: "TOPIC=SOURCE, such as mouse.n.01=rodents/"}
		}
		if c.Topics == "" && !named[topic] {
			subjects, named[topic] = append(subjects, classify.Subject{Name: topic}), true
		}
		examples = append(examples, example{topic, source})
	}
	if len(subjects) == 0 {
		return &fault.Error{Class: fault.Usage, Found: "no topics", Want: "--topics FILE or --examples TOPIC=SOURCE"}
	}
	training, err := classify.NewTraining(subjects)
	if err != nil {
		return err
	}
	forms, err := words.Forms(c.Dictionary)
	if err != nil {
		return err
	}
	training.Forms(forms)
	pages, unread := 0, 0
	add := func(topic int, source string) error {
		before := pages
		take := func(row *record.Fetch, doc *process.Document) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if texts, read := classify.ReadTexts(doc); !read || !training.Add(topic, texts) {
				unread++
				return nil
			}
			pages++
			return nil
		}
		var err error
		if list, ok := strings.CutPrefix(source, "@"); ok {
			err = c.listed(std, c.Crawl, list, take)
		} else {
			err = c.documents(std, source, take)
		}
		if err == nil && pages == before {
			err = &fault.Error{Class: fault.Usage, File: source, Found: "no document with text", Want: "HTML, text, XML, PDF, Word"}
		}
		return err
	}
	for _, e := range examples {
		topic, err := training.Topic(e.topic)
		if err != nil {
			return err
		}
		if err := add(topic, e.source); err != nil {
			return err
		}
	}
	for _, source := range c.Others {
		if err := add(classify.None, source); err != nil {
			return err
		}
	}
	m, err := training.Model()
	if err == nil {
		m, err = m.Choose(c.Topic, c.Topics)
	}
	if err != nil {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if unread > 0 {
		std.Warn("%s without text", cli.Count(unread, "document"))
	}
	std.Stat("pages", pages)
	if c.Output == "-" {
		_, err = std.Out.Write(data)
		return err
	}
	return durable.WriteOutput(c.Output, data)
}

// readTopics reads the topics of a file; "-" is standard input.
func readTopics(std *cli.Std, name string) ([]words.Topic, error) {
	if name == "-" {
		return words.ReadTopics(std.In, "standard input")
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Usage, File: name, Found: "no such file", Want: "topics, a JSON line each", Hint: "mfocus topics words.db > topics.jsonl", Err: err}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return words.ReadTopics(f, name)
}
