package urlset

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// Seed reads a URL as a person writes it: one without a scheme, such as www.example.org/a, is
// taken as https, and assumed is true. It is returned as it was given otherwise. What is no URL of the crawl
// is fault.Usage.
func Seed(text string, form canon.Options) (url string, assumed bool, err error) {
	text = strings.TrimSpace(text)
	if _, _, err = form.URL(text); err == nil {
		return text, false, nil
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(text, "//"), "/")
	name, port, _ := strings.Cut(host, ":")
	digits := strings.Trim(port, "0123456789") == ""
	if digits && (strings.Contains(name, ".") || name == "localhost") && !strings.ContainsAny(host, "@ ") {
		url = "https://" + strings.TrimPrefix(text, "//")
		if _, _, httpsErr := form.URL(url); httpsErr == nil {
			return url, true, nil
		}
	}
	shown := fmt.Sprintf("%.200q", text)
	if len(shown) > 250 { // it is no text
		shown = fmt.Sprintf("%.20q", text)
	}
	found := shown + " is no URL to crawl"
	if e, ok := errors.AsType[*canon.Error](err); ok && strings.HasPrefix(e.Detail, "a port") {
		found += ": " + e.Detail
	}
	return "", false, &fault.Error{Class: fault.Usage, Found: found, Want: "one such as https://www.example.org/", Hint: hintOf(err), Err: err}
}

// hintOf says more of what canon refused.
func hintOf(err error) string {
	switch canon.ReasonOf(err) {
	case canon.ReasonScheme:
		return "the setting schemes says which schemes are crawled"
	case canon.ReasonTooLong:
		return "the setting urls.max_url says how long a URL may be"
	}
	return ""
}

// maxSeed bounds a line of seeds, in bytes, as it is read and as it is written.
const maxSeed = 64 << 10

// Seeds writes seeds to W, each as Seed reads it: one a line or, with Rows set, a JSON line of each and its columns.
type Seeds struct {
	W       io.Writer
	Form    canon.Options
	Rows    bool
	Assumed func(text, url string) // gets each URL that was taken as https

	text *record.Text[record.URL]
}

// Add writes a URL.
func (s *Seeds) Add(text string) error { return s.row(&record.URL{URL: text}) }

func (s *Seeds) row(row *record.URL) error {
	url, assumed, err := Seed(row.URL, s.Form)
	if err != nil {
		return err
	}
	if assumed {
		s.Assumed(strings.TrimSpace(row.URL), url)
	}
	line := []byte(url)
	if s.Rows {
		if s.text == nil {
			if s.text, err = record.NewText[record.URL](nil, nil); err != nil {
				return err
			}
		}
		row.URL, row.Host, row.Key = url, "", 0
		line = s.text.AppendJSON(nil, row, true)
	}
	if len(line) > maxSeed {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a URL with columns of %d bytes", len(line)), Want: fmt.Sprintf("at most %d, as JSON", maxSeed)}
	}
	_, err = fmt.Fprintf(s.W, "%s\n", line)
	return err
}

// File copies a file of seeds, one a line; without Rows empty lines and those that begin with # stay. A file that is
// named as one of rows (record.FormOf) may have columns beside the url. It returns the number of URLs.
// A line that is no URL is fault.Usage, with its place, and so is a file without any: the caller
// makes nothing visible then.
func (s *Seeds) File(r io.Reader, file string) (n int, err error) {
	in := bufio.NewReader(r)
	head, _ := in.Peek(6) // an error is met again by who reads
	if found, hint := fault.Packed(string(head), file); found != "" {
		return 0, &fault.Error{Class: fault.Usage, File: file, Found: found, Want: "text", Hint: hint}
	}
	read, wanted := s.lines, "seeds, one a line, such as https://www.example.org/"
	if record.FormOf(file) != "" {
		read, wanted = s.table, "a row for each seed"
	}
	n, line, err := read(in, file)
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		g := *f
		g.Class, g.File, g.Place = fault.Usage, file, fmt.Sprintf("line %d", max(line, 1))
		if file == "-" && g.Hint == "" {
			g.Hint = "standard input is read as one URL a line: rows come from a file that is named .csv, .tsv or .jsonl"
		}
		return n, &g
	case err != nil:
		return n, err
	case n == 0:
		return 0, &fault.Error{Class: fault.Usage, File: file, Found: "no URL", Want: wanted}
	}
	return n, nil
}

// lines reads a URL a line. It returns the number of the line that it ended at, too.
func (s *Seeds) lines(r io.Reader, _ string) (n, at int, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, maxSeed), maxSeed)
	for in.Scan() {
		at++
		line := bytes.TrimSpace(bytes.TrimPrefix(in.Bytes(), []byte("\ufeff")))
		if bytes.IndexByte(line, '\r') >= 0 {
			return n, at, &fault.Error{Found: "a carriage return within a line", Want: "a URL a line", Hint: `lines end with a line feed: tr '\r' '\n' < OLD > NEW`}
		}
		if len(line) > 0 && line[0] != '#' {
			err = s.Add(string(line))
			n++
		} else if !s.Rows {
			_, err = fmt.Fprintf(s.W, "%s\n", line)
		}
		if err != nil {
			return n, at, err
		}
	}
	if err = in.Err(); err == bufio.ErrTooLong {
		err = &fault.Error{Found: "a longer line", Want: fmt.Sprintf("a URL, of at most %d bytes", maxSeed)}
		at++
	}
	return n, at, err
}

// table reads rows.
func (s *Seeds) table(r io.Reader, file string) (n, at int, err error) {
	in := record.NewTextReader[record.URL](r, record.FormOf(file), nil)
	for {
		var row record.URL
		bad, err := in.Read(&row)
		if err == io.EOF {
			return n, in.Line(), nil
		}
		if err = cmp.Or(bad, err); err == nil {
			err = s.row(&row)
		}
		if err != nil {
			return n, in.Line(), &fault.Error{Err: err, Hint: fault.HintOf(err)}
		}
		n++
	}
}
