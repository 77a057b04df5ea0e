package classify

import (
	"strings"

	"mercator/pkg/web/process"
)

// image reports whether documents of a media type are judged by their names.
func image(mime string) bool { return strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" }

// pagePart reports whether documents of a media type only make a page what it is.
func pagePart(mime string) bool {
	return mime == "text/css" || strings.HasSuffix(mime, "javascript") || strings.HasPrefix(mime, "font/") || mime == "application/wasm"
}

// fewWords is the number of words from which on a page is judged by its text alone: others are mostly pictures, or frames.
const fewWords = 200

// ReadTexts reads what a document is judged by; false if it has no text.
func ReadTexts(doc *process.Document) (texts Texts, read bool) {
	if image(doc.MIME) {
		return Texts{}, false
	}
	text, err := process.Content(doc, MaxText)
	if err != nil {
		return Texts{}, false
	}
	texts = Texts{Title: process.Title(doc), Texts: []string{text}}
	n := 0
	eachWord(text, func([]byte, int, int) bool { n++; return n < fewWords })
	if n < fewWords {
		if more := process.Captions(doc, MaxText); more != "" {
			texts.Texts = append(texts.Texts, more)
		}
	}
	return texts, n > 0 || len(texts.Texts) > 1
}
