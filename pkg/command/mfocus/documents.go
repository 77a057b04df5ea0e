package mfocus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/cli"
	"mercator/pkg/extract"
	"mercator/pkg/folder/stage"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/process"
)

// archiveFlags say where documents are.
type archiveFlags struct{ ArchiveFlags }

// documents calls do for each document of a source: a crawl folder, fetch records, a WARC file, a document, or a folder of documents. Of
// crawls only pages count that were fetched and are no duplicates.
func (a archiveFlags) documents(std *cli.Std, source string, do func(row *record.Fetch, doc *process.Document) error) error {
	st, err := os.Stat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Class: fault.Usage, File: source, Found: "no such file", Want: "a document, a folder of documents, a WARC file, fetch records, or a crawl folder", Err: err}
	}
	if err != nil {
		return err
	}
	if st.IsDir() && !store.IsCrawl(source, store.Options{}) {
		return filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return a.documents(std, path, do)
		})
	}
	in, local, err := a.rows(std, []string{source})
	if err != nil {
		return err
	}
	if local {
		return a.local(source, do)
	}
	from := a.reader(source)
	defer from.Close()
	err = record.Each(in, func(row *record.Fetch) error {
		if noDocument(row) != "" {
			return nil
		}
		doc, err := from.Read(row)
		if err != nil || doc == nil {
			return err
		}
		return do(row, doc)
	})
	if archives, ok := in.(*extract.WARCInput); ok && err == nil {
		err = archives.Damage()
	}
	return err
}

// reader reads the documents of rows of a source, which may be a crawl folder.
func (a archiveFlags) reader(source string) *extract.Documents {
	dir := a.WARC
	if dir == "" && store.IsCrawl(source, store.Options{}) {
		dir = source
	}
	if dir != "" {
		dir = store.Within(dir, "fetch", store.Options{})
	}
	return extract.NewDocuments(dir, int64(a.MaxBody))
}

// rows opens fetch records or WARC files. local: it is a document by itself.
func (a archiveFlags) rows(std *cli.Std, files []string) (in stage.Input[record.Fetch], local bool, err error) {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var head []byte
	if files[0] == "-" {
		head = std.PeekIn()
	} else if f, err := os.Open(files[0]); err == nil { // else OpenRecords says what is wrong
		head, _ = bufio.NewReaderSize(f, 4<<10).Peek(4 << 10)
		f.Close()
		if warc.Sniff(head) {
			return extract.NewWARCInput(files, func(name string) (io.ReadCloser, error) { return os.Open(name) }, canon.Options{}, int64(a.MaxBody), std.Tolerance(cli.ArchiveFlags{}, false)), false, nil
		}
	}
	isRecords := bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")) || bytes.HasPrefix(head, []byte("\xff\xff\xff\xff"))
	if st, err := os.Stat(files[0]); err == nil && st.Mode().IsRegular() && !isRecords && !strings.Contains(filepath.Base(files[0]), ".arrow") {
		return nil, true, nil
	}
	in, err = cli.OpenRecords[record.Fetch](std, files)
	return in, false, err
}

// typeOf are media types of files by extension. Others are recognised by their bytes.
var typeOf = map[string]string{".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml", ".txt": "text/plain", ".md": "text/markdown", ".xml": "application/xml",
	".doc": "application/msword"}

// local reads a document that is a file.
func (a archiveFlags) local(name string, do func(row *record.Fetch, doc *process.Document) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, int64(a.MaxBody)))
	if err != nil || len(body) == 0 {
		return err
	}
	row := record.Fetch{URL: filepath.ToSlash(name), Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, MIME: typeOf[strings.ToLower(filepath.Ext(name))], Body: body}
	doc, err := extract.NewDocuments("", int64(a.MaxBody)).Read(&row)
	if err != nil || doc == nil {
		return err
	}
	return do(&row, doc)
}

// listed calls do for each document of a crawl with its URL in the file list, one URL a line. A URL without a document is an error.
func (a archiveFlags) listed(std *cli.Std, crawl, list string, do func(row *record.Fetch, doc *process.Document) error) error {
	if crawl == "" {
		return &fault.Error{Class: fault.Usage, File: list, Found: "a list of URLs without a crawl", Want: "--crawl DIR, the crawl that has their documents"}
	}
	if err := isCrawl(crawl); err != nil {
		return err
	}
	wanted := map[string]bool{}
	err := eachLine(std, []string{list}, func(line string) error {
		u, _, err := canon.Options{}.URL(line)
		if err != nil {
			return &fault.Error{Class: fault.Corrupt, File: list, Found: fmt.Sprintf("%.200q", line), Want: "a URL", Err: err}
		}
		wanted[u] = true
		return nil
	})
	if err != nil {
		return err
	}
	err = a.documents(std, crawl, func(row *record.Fetch, doc *process.Document) error {
		if !wanted[row.URL] {
			return nil
		}
		delete(wanted, row.URL)
		return do(row, doc)
	})
	if err != nil || len(wanted) == 0 {
		return err
	}
	var left []string
	for u := range wanted {
		left = append(left, u)
	}
	return &fault.Error{Class: fault.Usage, File: list, Found: fmt.Sprintf("%s, without a document in %s", slices.Min(left), crawl), Want: "URLs that it has fetched",
		Hint: "see what became of each URL: " + fault.Quote("mcat", "--columns", "url,outcome,status", crawl)}
}

func isCrawl(dir string) error {
	if store.IsCrawl(dir, store.Options{}) {
		return nil
	}
	return &fault.Error{Class: fault.Usage, File: dir, Found: "no crawl folder", Want: "one that mcrawl made"}
}
