package driver

import (
	"bufio"
	"io"
)

// Styles of text for people, by the names that cli.Screen has for them.
const (
	styleHeading = "heading"
	styleGood    = "good"
	styleBad     = "bad"
	styleNote    = "note"
	styleCommand = "command"
)

// paint is text in a style, if w shows styles, as cli.Screen does on a terminal.
func paint(w io.Writer, style, text string) string {
	if p, ok := w.(interface {
		Paint(style, text string) string
	}); ok {
		return p.Paint(style, text)
	}
	return text
}

// page holds text for people until Flush. It has the styles of what it writes to.
type page struct {
	*bufio.Writer
	to io.Writer
}

func newPage(to io.Writer) page { return page{bufio.NewWriter(to), to} }

// Paint is for paint.
func (p page) Paint(style, text string) string { return paint(p.to, style, text) }
