package classify

import (
	"strings"

	"mercator/pkg/process"
)

// image reports whether documents of a media type are judged by their names.
func image(mime string) bool { return strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" }

// Texts are what a document is judged by; false if nothing can be read in it.
func Texts(doc *process.Document) (texts []string, read bool) {
	if image(doc.MIME) {
		return []string{process.FileName(doc.URL)}, true
	}
	text, err := process.Content(doc, MaxText)
	if err != nil {
		return nil, false
	}
	texts = []string{text}
	n := 0
	eachWord(text, func([]byte, int, int) bool { n++; return n < fewWords })
	if n < fewWords {
		if more := process.Captions(doc, MaxText); more != "" {
			texts = append(texts, more)
		}
	}
	return texts, true
}
