package tell

import (
	"fmt"
	"io"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/extract"
	"mercator/pkg/view/stats"
	"mercator/pkg/web/process"
)

// headBody is how much of a document is read for its title, description and language, in bytes.
const headBody = 256 << 10

// Pages counts what the documents of the crawl lack, and which are slow or large. It reads HTML documents in the archive, up to stats.MaxPages.
func (c *Crawl) Pages() (*stats.Pages, error) {
	rows, err := c.outcomeRows()
	if err != nil {
		return nil, err
	}
	documents := extract.DocumentsOf(c.Dir(), headBody)
	defer documents.Close()
	p, err := stats.PagesOf(HistoryMemory/2, rows, func(r *record.Fetch) (title, description, language string, ok bool) {
		if r.BodyLength == 0 {
			return "", "", "", true
		}
		doc, err := documents.Read(r)
		if err != nil || doc == nil { // mckpt verify tells of damage
			return "", "", "", false
		}
		f := process.About(doc)
		return f.Title, f.Description, f.Language, true
	})
	return p, damaged(c.Dir(), err)
}

// PrintPages writes them for people.
func PrintPages(out io.Writer, p *stats.Pages) error {
	w := newPage(out)
	fmt.Fprintf(w, "%s, %d of them HTML", Count(p.Documents, "document"), p.HTML)
	if p.Read < p.HTML {
		fmt.Fprintf(w, "; %d of them were read", p.Read)
	}
	fmt.Fprintln(w)
	for _, lack := range []struct {
		what string
		of   stats.Lack
	}{{"title", p.WithoutTitle}, {"description", p.WithoutDescription}, {"language", p.WithoutLanguage}} {
		if lack.of.N > 0 {
			printHeading(w, "pages", "", "without a "+lack.what)
			fmt.Fprintf(w, "%12d\n", lack.of.N)
			for _, url := range lack.of.URLs[:min(len(lack.of.URLs), printed)] {
				fmt.Fprintf(w, "%12s %12s  %s\n", "", "", nameText(url))
			}
			printMore(w, int(lack.of.N))
		}
	}
	if len(p.Shared) > 0 {
		printHeading(w, "pages", "", fmt.Sprintf("with a title that others have, %d in all", p.SharedTitles))
	}
	for _, t := range p.Shared[:min(len(p.Shared), printed)] {
		fmt.Fprintf(w, "%12d %12s  %s\n%26s %s\n", t.N, "", nameText(t.Title), "", nameText(strings.Join(t.URLs, " ")))
	}
	if len(p.Shared) < stats.TopWorst {
		printMore(w, len(p.Shared))
	}
	for _, table := range []struct {
		name string
		list []stats.Page
	}{{"slowest", p.Slowest}, {"largest", p.Largest}} {
		printHeading(w, "bytes", "seconds", table.name)
		for _, page := range table.list[:min(len(table.list), printed)] {
			fmt.Fprintf(w, "%12s %12.3f  %s\n", Size(page.Bytes), float64(page.DurationUS)/1e6, nameText(page.URL))
		}
	}
	return w.Flush()
}
