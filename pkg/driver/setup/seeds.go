package setup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/filter"
)

// The file of a crawl's seeds in its folder has one of these names.
const (
	seedsText = "seeds.txt"   // a URL a line
	seedsRows = "seeds.jsonl" // rows with columns
)

// maxLine bounds a line of a list, in bytes.
const maxLine = 64 << 10

// EachLine calls a function for the lines of a list that are no comments. Errors name the file and the line; before is how many lines came before.
func EachLine(in io.Reader, file string, before int, of func(string) error) error {
	lines, number := bufio.NewScanner(in), before
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		err := of(string(line))
		if f := (*fault.Error)(nil); errors.As(err, &f) && f.File == "" {
			f.File, f.Place = file, fmt.Sprintf("line %d", number)
		}
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != bufio.ErrTooLong {
		return err
	}
	return &fault.Error{Class: fault.Corrupt, File: file, Place: fmt.Sprintf("line %d", number+1), Found: "a longer line", Want: fmt.Sprintf("a URL, of less than %d bytes", maxLine)}
}

// SeedLine returns the URL of a line, and its host. The line may be a row. wrong says why it is no URL of this crawl.
func SeedLine(line string, row bool, form canon.Options) (url, host string, wrong, err error) {
	given := struct{ URL string }{line}
	if row {
		if err := json.Unmarshal([]byte(line), &given); err != nil {
			return "", "", nil, &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("%.200q", line), Want: "a JSON object with a url", Err: err}
		}
	}
	url, host, wrong = form.URL(given.URL)
	return url, host, wrong, nil
}

// NoteSeeds warns of the first seeds that are of no use: those that are there twice, and those that the crawl's own filter
// refuses, without which it would end. With links it names those from which no link would be followed.
func NoteSeeds(conf *config.Config, in io.Reader, name string, rows, links bool, warn func(format string, args ...any)) error {
	const most, judged, kept = 5, 1000, 1 << 17 // notes, and how many seeds are looked at
	form, err := conf.Canon()
	if err != nil {
		return err
	}
	rules, file, err := LoadFilter(conf, form)
	if err != nil {
		return err
	}
	defer rules.Close()
	judge := rules.NewJudge()
	defer judge.Close()
	seen := map[uint64]bool{}
	n, twice, refused := 0, 0, 0
	err = EachLine(in, name, 0, func(line string) error {
		url, host, wrong, err := SeedLine(line, rows, form)
		if err != nil || wrong != nil {
			return err
		}
		n++
		key := form.URLKey(host, url)
		if seen[key] && !links {
			if twice++; twice <= most {
				warn("%s is a duplicate of another seed", url)
			}
			return nil
		} else if len(seen) < kept {
			seen[key] = true
		}
		if file == "" || n > judged || refused == most {
			return nil
		}
		reason, verdict := make([]string, 1), make([]filter.Verdict, 1)
		if err := judge.Waiting(context.Background(), []*record.URL{{URL: url, Host: host}}, reason); err != nil {
			return nil // the round will say
		}
		if reason[0] != "" {
			refused++
			warn("%s will not be fetched: %s refuses it", url, reason[0])
			return nil
		}
		if err := judge.URLs(context.Background(), []filter.Candidate{{URL: url, Host: host, Depth: 1, Kind: "a"}}, verdict); links && err == nil && !verdict[0].Allow {
			refused++
			warn("%s will be fetched, but no links like it are followed: %s does not allow them; a rule such as \"allow more: host %s\" does", url, file, host)
		}
		return nil
	})
	if twice > most {
		warn("%d more are duplicates", twice-most)
	}
	return err
}

// LoadFilter loads the filter of a crawl, and names its file; "" if it has none.
func LoadFilter(conf *config.Config, form canon.Options) (rules *filter.Filter, file string, err error) {
	names, err := conf.Setting("extract.filter")
	if err != nil || len(names) == 0 || names[0] == "" {
		return &filter.Filter{}, "", err
	}
	rules, err = filter.Load(names[0], filter.Options{Schemes: form.Schemes})
	return rules, names[0], err
}
