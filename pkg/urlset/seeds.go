package urlset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
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
	return "", false, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%q is no URL to crawl", text), Want: "one such as https://www.example.org/", Hint: hintOf(err), Err: err}
}

// hintOf says more of what canon refused.
func hintOf(err error) string {
	if canon.ReasonOf(err) == canon.ReasonScheme {
		return "the setting schemes says which schemes are crawled"
	}
	return ""
}

// maxSeed bounds a line of seeds, in bytes.
const maxSeed = 64 << 10

// Seeds copies a file of seeds, one a line, as Seed reads each; empty lines and lines that begin with #
// stay. assumed is told of each URL that was taken as https. It returns the number of URLs.
// A line that is no URL is fault.Usage, with its place, and so is a file without any: the caller
// makes nothing visible then.
func Seeds(w io.Writer, r io.Reader, file string, form canon.Options, assumed func(line, url string)) (n int, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, maxSeed), maxSeed)
	at := 0
	for in.Scan() {
		at++
		line := bytes.TrimSpace(bytes.TrimPrefix(in.Bytes(), []byte("\ufeff")))
		if len(line) > 0 && line[0] != '#' {
			url, guessed, err := Seed(string(line), form)
			if err != nil {
				e := err.(*fault.Error)
				e.File, e.Place = file, fmt.Sprintf("line %d", at)
				return n, e
			}
			if guessed {
				assumed(string(line), url)
			}
			line = []byte(url)
			n++
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return n, err
		}
	}
	switch err := in.Err(); {
	case err == bufio.ErrTooLong:
		return n, &fault.Error{Class: fault.Usage, File: file, Place: fmt.Sprintf("line %d", at+1), Found: "a longer line", Want: fmt.Sprintf("a URL, of at most %d bytes", maxSeed)}
	case err != nil:
		return n, err
	case n == 0:
		return 0, &fault.Error{Class: fault.Usage, File: file, Found: "no URL", Want: "seeds, one a line, such as https://www.example.org/"}
	}
	return n, nil
}
