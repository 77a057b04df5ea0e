package cli

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen writes text for people to standard output. On a terminal the text has colours, and URLs lose their middle where a line would be
// longer than the terminal is wide; a line with tabs becomes columns. A pipe or a file gets each byte as it is. A line appears when its end is written.
type Screen struct {
	out    io.Writer
	width  int // characters of a line; 0: no line is changed
	colors bool
	line   []byte // begun
}

// Screen returns standard output for tables and summaries. What programs read, such as JSON, goes to Out.
func (s *Std) Screen() *Screen {
	return &Screen{out: s.Out, width: widthOf(s.Out), colors: hasColors(s.Out)}
}

// styles are the parts of a text that a terminal shows in other ways, by their codes of ECMA-48, SGR.
var styles = map[string]string{
	"heading": "1",
	"good":    "32",
	"bad":     "31",
	"note":    "33",
	"command": "36", // to be typed next
}

// Paint returns text in a style. Escape codes would shift tabwriter's columns. So a heading with tabs is only marked at its end, and
// Write makes the whole line bold.
func (w *Screen) Paint(style, text string) string {
	if w.colors && style == "heading" && strings.Contains(text, "\t") {
		return text + headingEnd
	}
	return paint(w.colors, style, text)
}

const headingEnd = "\x1b[m"

func paint(colors bool, style, text string) string {
	if code := styles[style]; colors && code != "" && text != "" {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// longestPart bounds what of a line is held: a longer one is not changed.
const longestPart = 64 << 10

// Write writes the lines that end in p.
func (w *Screen) Write(p []byte) (int, error) {
	if w.width == 0 && !w.colors {
		return w.out.Write(p)
	}
	w.line = append(w.line, p...)
	end := bytes.LastIndexByte(w.line, '\n') + 1
	if end == 0 && len(w.line) < longestPart {
		return len(p), nil
	}
	var b strings.Builder
	for line := range strings.Lines(string(w.line[:end])) {
		if line = strings.TrimSuffix(line, "\n"); w.width > 0 {
			line = fit(line, w.width)
		}
		if text, is := strings.CutSuffix(line, headingEnd); is {
			line = paint(w.colors, "heading", text)
		}
		b.WriteString(line + "\n")
	}
	if end == 0 {
		b.Write(w.line)
		end = len(w.line)
	}
	w.line = append(w.line[:0], w.line[end:]...)
	if _, err := io.WriteString(w.out, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Widths of what fit makes, in characters.
const (
	shortestURL = 16 // no shorter, however narrow the terminal is
	column      = 12 // of a cell that is no URL, at least
	gap         = 2
)

// fit shortens the URLs of a line that is longer than width, but not in colour: a command is to be copied.
func fit(line string, width int) string {
	if strings.Contains(line, "\t") {
		return columns(strings.Split(line, "\t"), width)
	}
	excess := visible(line) - width
	if excess <= 0 {
		return line
	}
	words := strings.Split(line, " ")
	var urls []int
	colored := false
	for i, word := range words {
		if strings.Contains(word, "\x1b") {
			colored = !strings.HasSuffix(word, "\x1b[0m")
		} else if isURL(word) && !colored {
			urls = append(urls, i)
		}
	}
	slices.SortFunc(urls, func(a, b int) int { return len(words[b]) - len(words[a]) })
	for _, i := range urls {
		was := visible(words[i])
		words[i] = middle(words[i], max(shortestURL, was-excess))
		if excess -= was - visible(words[i]); excess <= 0 {
			break
		}
	}
	return strings.Join(words, " ")
}

// columns are cells side by side. URLs, and the first cell, which may be a reference that is none, share what the others leave of width, so
// that the columns of all lines begin at the same place.
func columns(cells []string, width int) string {
	urls, left := 0, width-gap*(len(cells)-1)
	for i, c := range cells {
		if i == 0 || isURL(c) {
			urls++
		} else {
			left -= max(column, visible(c))
		}
	}
	var b strings.Builder
	for i, c := range cells {
		size := column
		if i == 0 || isURL(c) {
			size = max(shortestURL, left/urls)
			c = middle(c, size)
		}
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(0, size-visible(c))+gap))
		}
	}
	return b.String()
}

func isURL(word string) bool { return strings.Contains(word, "://") }

// middle is text without its middle, size characters long.
func middle(text string, size int) string {
	runes := []rune(text)
	if len(runes) <= size {
		return text
	}
	return string(runes[:size/2]) + "…" + string(runes[len(runes)-(size-size/2-1):])
}

// visible counts the characters of text that a terminal shows.
func visible(text string) int {
	n := 0
	for {
		before, after, found := strings.Cut(text, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !found {
			return n
		}
		_, text, _ = strings.Cut(after, "m")
	}
}

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := fileOf(f)
	return ok && !isPipe(f) && term.IsTerminal(int(file.Fd())) // Fd makes a read of a pipe one that cannot be ended
}

// hasColors reports whether f is a terminal that shows colours, and its user wants them (no-color.org, bixense.com/clicolors).
func hasColors(f any) bool {
	kind := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && os.Getenv("CLICOLOR") != "0" && kind != "" && kind != "dumb" && isTerminal(f)
}

// Width is how many characters a line of the terminal has that standard error is; 0: it is none.
func (s *Std) Width() int { return widthOf(s.Err) }

func widthOf(f any) int {
	if !isTerminal(f) {
		return 0
	}
	file, _ := fileOf(f)
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
