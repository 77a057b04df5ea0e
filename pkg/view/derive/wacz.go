package derive

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// WACZOptions say how a WACZ file is made.
type WACZOptions struct {
	Title    string        // of the collection
	Software string        // program that made it
	Created  time.Time     // what it says of itself
	Memory   int64         // bytes for sorting the index
	Progress func(n int64) // gets the number of records indexed; may be nil
}

// waczVersion is the version of the specification: https://specs.webrecorder.net/wacz/1.1.1/
const waczVersion = "1.1.1"

// zipNumLines is how many lines of an index are compressed together, as other programs have it.
const zipNumLines = 1024

// WACZ writes WARC files as one WACZ file: a ZIP file with all that replay needs.
//
//	pages/pages.jsonl        each HTML page with its title, in the order of the archive
//	indexes/index.cdx.gz     the sorted CDXJ index, 1,024 lines a gzip member
//	indexes/index.idx        the first key of each member
//	archive/NAME.warc.gz     the WARC files
//	datapackage.json         names, lengths and SHA-256 of all these
//	datapackage-digest.json  the SHA-256 of that
//
// What stands compressed already is stored. The output is written once, from front to end. WARC files are read
// twice. Those with zstd are refused: no program that replays a WACZ file reads them. An archive without a reply is
// ErrNoReply.
func WACZ(ctx context.Context, out io.Writer, parts []warc.Part, opt WACZOptions) error {
	for _, p := range parts {
		if strings.HasSuffix(partName(p), warc.Zstd.Suffix()) {
			return &fault.Error{Class: fault.WrongKind, File: p.Path, Found: "a WARC file with zstd", Want: "gzip, which is all that WACZ and pywb know",
				Hint: "compress it again with gzip, a member for each record, or crawl with fetch.warc_codec = \"gzip\""}
		}
	}
	w := &wacz{zip: zip.NewWriter(out), opt: opt, index: NewIndex(opt.Memory, "")}
	defer w.index.Close()
	if err := w.pages(ctx, parts); err != nil {
		return err
	}
	if w.index.lines == 0 {
		return ErrNoReply
	}
	if err := w.indexes(); err != nil {
		return err
	}
	for _, p := range parts {
		if err := w.archive(ctx, p); err != nil {
			return err
		}
	}
	if err := w.datapackage(); err != nil {
		return err
	}
	return w.zip.Close()
}

type wacz struct {
	zip       *zip.Writer
	opt       WACZOptions
	index     *Index
	first     *waczPage
	resources []waczResource
}

// waczResource is a file as datapackage.json has it.
type waczResource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

type waczPage struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	TS    string `json:"ts"`
	Title string `json:"title,omitempty"`
}

// waczFile is a file of the ZIP file that is being written.
type waczFile struct {
	io.Writer
	path string
	hash hash.Hash
	n    int64
}

func (f *waczFile) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	f.hash.Write(b[:n])
	f.n += int64(n)
	return n, err
}

func (w *wacz) create(path string, method uint16) (*waczFile, error) {
	to, err := w.zip.CreateHeader(&zip.FileHeader{Name: path, Method: method, Modified: w.opt.Created})
	if err != nil {
		return nil, err
	}
	return &waczFile{Writer: to, path: path, hash: sha256.New()}, nil
}

// done enters a file into datapackage.json. Nothing more can be written to it.
func (w *wacz) done(f *waczFile) {
	w.resources = append(w.resources, waczResource{strings.ToLower(path.Base(f.path)), f.path, fmt.Sprintf("sha256:%x", f.hash.Sum(nil)), f.n})
}

// pages reads the archive for its pages and its index.
func (w *wacz) pages(ctx context.Context, parts []warc.Part) error {
	f, err := w.create("pages/pages.jsonl", zip.Deflate)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := encoder(out)
	if err := lines.Encode(map[string]string{"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}); err != nil {
		return err
	}
	n := 0
	for _, p := range parts {
		err := w.index.part(ctx, p, w.opt.Progress, func(rec *warc.Record, title string) error {
			n++
			page := waczPage{ID: strconv.Itoa(n), URL: rec.TargetURI, TS: rec.Date.UTC().Format(time.RFC3339), Title: title}
			if w.first == nil {
				w.first = &page
			}
			return lines.Encode(&page)
		})
		if err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	w.done(f)
	return nil
}

// indexes writes the index as ZipNum: gzip members, and a line for each of them that has its first key and its place.
func (w *wacz) indexes() error {
	const name = "index.cdx.gz"
	f, err := w.create("indexes/"+name, zip.Store)
	if err != nil {
		return err
	}
	second, err := durable.TempFile("") // grows with the archive
	if err != nil {
		return err
	}
	defer second.Close()
	idx := bufio.NewWriter(second)
	fmt.Fprintf(idx, "!meta 0 {\"format\": \"cdxj-gzip-1.0\", \"filename\": %q}\n", name)
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	lines, key := 0, ""
	flush := func() error {
		if lines == 0 {
			return nil
		}
		if err := z.Close(); err != nil {
			return err
		}
		fmt.Fprintf(idx, "%s {\"offset\": %d, \"length\": %d, \"digest\": \"sha256:%x\", \"filename\": %q}\n", key, f.n, member.Len(), sha256.Sum256(member.Bytes()), name)
		_, err := member.WriteTo(f)
		z.Reset(&member)
		lines = 0
		return err
	}
	err = w.index.Lines(func(line []byte) error {
		if lines == 0 {
			k, rest, _ := bytes.Cut(line, []byte{' '})
			stamp, _, _ := bytes.Cut(rest, []byte{' '})
			key = string(k) + " " + string(stamp)
		}
		if _, err := z.Write(line); err != nil {
			return err
		}
		if lines++; lines == zipNumLines {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	w.done(f)

	if err := idx.Flush(); err != nil {
		return err
	}
	if _, err := second.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if f, err = w.create("indexes/index.idx", zip.Deflate); err != nil {
		return err
	}
	if _, err := io.Copy(f, second); err != nil {
		return err
	}
	w.done(f)
	return nil
}

// archive copies what counts of a WARC file.
func (w *wacz) archive(ctx context.Context, p warc.Part) error {
	from, length, err := p.Open()
	if err != nil {
		return err
	}
	defer from.Close() // was read only
	f, err := w.create("archive/"+partName(p), zip.Store)
	if err != nil {
		return err
	}
	if err := copyPart(ctx, f, from, length); err != nil {
		return err
	}
	w.done(f)
	return nil
}

func copyPart(ctx context.Context, to io.Writer, from *os.File, length int64) error {
	for at := int64(0); at < length; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.Copy(to, io.NewSectionReader(from, at, min(length-at, 16<<20)))
		if err != nil {
			return err
		}
		if n == 0 {
			return &fault.Error{Class: fault.Truncated, File: from.Name(), Found: fmt.Sprintf("%d bytes", at), Want: strconv.FormatInt(length, 10)}
		}
		at += n
	}
	return nil
}

// datapackage writes what the file says of itself.
func (w *wacz) datapackage() error {
	about := struct {
		Profile   string         `json:"profile"`
		Title     string         `json:"title,omitempty"`
		Main      string         `json:"mainPageUrl,omitempty"`
		MainDate  string         `json:"mainPageDate,omitempty"`
		Created   string         `json:"created"`
		Version   string         `json:"wacz_version"`
		Software  string         `json:"software"`
		Resources []waczResource `json:"resources"`
	}{Profile: "data-package", Title: w.opt.Title, Created: w.opt.Created.UTC().Format(time.RFC3339), Version: waczVersion, Software: w.opt.Software, Resources: w.resources}
	if w.first != nil {
		about.Main, about.MainDate = w.first.URL, w.first.TS
	}
	const name = "datapackage.json"
	sum, err := w.document(name, about)
	if err != nil {
		return err
	}
	_, err = w.document("datapackage-digest.json", map[string]string{"path": name, "hash": fmt.Sprintf("sha256:%x", sum)})
	return err
}

func (w *wacz) document(name string, v any) (sum []byte, err error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	f, err := w.create(name, zip.Deflate)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	return f.hash.Sum(nil), err
}
