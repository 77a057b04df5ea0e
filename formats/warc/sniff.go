package warc

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"mercator/pkg/base/fault"
)

// frontMax is how much of a file Sniff and Describe need.
const frontMax = 4 << 10

// nested is how deep they look into compressed files.
const nested = 3

// Sniff reports whether a file is an archive by front, its first bytes: WARC or ARC records, bare or compressed, under any
// name. It looks into gzip and zstd, as far as front goes. Damaged compressed bytes may be an archive.
func Sniff(front []byte) bool {
	if isSkippable(front) {
		return true // of record streams none begins so
	}
	content, coded := inside(front)
	switch {
	case coded == "":
		return startsArchive(front)
	case len(content) == 0:
		return coded == "gzip" || largeBlock(front)
	}
	return startsArchive(bytes.TrimLeft(content, "\r\n"))
}

// largeBlock reports whether a zstd frame begins with a block that is larger than the schema with which record streams begin.
func largeBlock(front []byte) bool {
	var h zstd.Header
	return h.Decode(front) == nil && h.DictionaryID == 0 && h.WindowSize <= windowMax && h.FirstBlock.OK && h.FirstBlock.CompressedSize > largeFirst && h.FirstBlock.CompressedSize <= blockMax
}

// Sizes of first blocks.
const (
	largeFirst = 32 << 10
	blockMax   = 128 << 10 // RFC 8878 section 3.1.1.2.4
)

func startsArchive(b []byte) bool {
	if isWARC(b) || bytes.HasPrefix(b, []byte("filedesc://")) || len(b) >= 5 && len(b) < 8 && string(b[:5]) == "WARC/" {
		return true
	}
	line, _, ok := bytes.Cut(b, []byte("\n"))
	if ok {
		_, ok = parseARC(string(line))
	}
	return ok
}

// inside decompresses the first bytes of a gzip or zstd file; coded is "" for other files.
func inside(b []byte) (content []byte, coded string) {
	var z io.Reader
	switch {
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		coded = "gzip"
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, coded
		}
		z = r
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		coded = "zstd"
		r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowMax))
		if err != nil {
			return nil, coded
		}
		defer r.Close()
		z = r
	default:
		return nil, ""
	}
	content = make([]byte, 512)
	n, _ := io.ReadFull(z, content) // what there is
	return content[:n], coded
}

// others are files that people take for archives, or that have archives in them.
var others = []struct{ magic, name, hint string }{
	{"PK\x03\x04", "a ZIP file", "of a WACZ file: unzip -p %s 'archive/*' | mcat"},
	{"\x04\x22\x4d\x18", "an LZ4 file", "lz4 -dc %s | mcat"},
	{"BZh", "a bzip2 file", "bzip2 -dc %s | mcat"},
	{"\xfd7zXZ\x00", "an xz file", "xz -dc %s | mcat"},
	{"7z\xbc\xaf\x27\x1c", "a 7z file", "7z x -so %s | mcat"},
	{"%PDF-", "a PDF file", ""},
	{" CDX ", "a CDX index", ""},
	{"SQLite format 3\x00", "an SQLite file", ""},
	{"PAR1", "a Parquet file", ""},
	{"\x89PNG", "a PNG image", ""},
	{"\xff\xd8\xff", "a JPEG image", ""},
	{"\x7fELF", "a program", ""},
}

// Describe names what a file is that is no archive, by its first bytes: "a ZIP file", "gzip of HTML". "" is none of those
// that it knows.
func Describe(front []byte) string { return describe(front, nested) }

func describe(b []byte, depth int) string {
	for _, o := range others {
		if bytes.HasPrefix(b, []byte(o.magic)) {
			return o.name
		}
	}
	if len(b) > 262 && string(b[257:262]) == "ustar" {
		return "a tar file"
	}
	if content, coded := inside(b); coded != "" && depth > 0 {
		what := describe(content, depth-1)
		switch {
		case what != "":
			return coded + " of " + what
		case len(content) == 0:
			return "" // damaged, or an archive
		case startsArchive(content):
			if depth < nested {
				return coded + " of an archive"
			}
			return "" // an archive
		}
		if coded == "zstd" && bytes.HasPrefix(content, []byte("\xff\xff\xff\xff")) {
			return "" // a record stream: Arrow begins so
		}
		return coded + fmt.Sprintf(" of %q", content[:min(len(content), 20)])
	}
	text := strings.ToLower(string(bytes.TrimLeft(b[:min(len(b), 256)], "\xef\xbb\xbf \t\r\n")))
	switch {
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<head"):
		return "HTML"
	case strings.HasPrefix(text, "<?xml"):
		return "XML"
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return "JSON"
	case strings.HasPrefix(text, "http/"):
		return "an HTTP reply without a WARC header"
	}
	return ""
}

// Misfit is the error for a file that is no archive, by its first bytes; nil if these say nothing.
func Misfit(front []byte, name, want string) error {
	what := Describe(front)
	if what == "" && !strings.HasSuffix(name, ".arrows.zst") { // the reader of records says more about these
		what = undecoded(front)
	}
	if what == "" || what == "JSON" { // JSON may be rows of records
		return nil
	}
	return &fault.Error{Class: fault.WrongKind, File: name, Found: what, Want: want, Hint: HintFor(front, name)}
}

// undecoded says why a zstd frame cannot be decoded; "" of others.
func undecoded(front []byte) string {
	content, coded := inside(front)
	if coded != "zstd" || len(content) > 0 {
		return ""
	}
	var h zstd.Header
	switch err := h.Decode(front); {
	case err != nil:
		return "a damaged zstd frame"
	case h.DictionaryID != 0:
		return fmt.Sprintf("a zstd frame that needs dictionary %d", h.DictionaryID)
	case h.WindowSize > windowMax:
		return fmt.Sprintf("a zstd frame with a window of %d bytes, above %d", h.WindowSize, windowMax)
	case h.FirstBlock.OK && h.FirstBlock.CompressedSize <= blockMax && h.FirstBlock.CompressedSize+h.HeaderSize+3 > len(front):
		return "" // it may go on
	}
	return "a damaged zstd frame"
}

// HintFor says how an archive inside such a file is read; "" where it cannot be.
func HintFor(front []byte, name string) string {
	name = fault.Quote(named(name))
	for _, o := range others {
		if bytes.HasPrefix(front, []byte(o.magic)) && o.hint != "" {
			return fmt.Sprintf(o.hint, name)
		}
	}
	if content, coded := inside(front); coded != "" {
		if _, twice := inside(content); twice != "" {
			return map[string]string{"gzip": "gzip -dc ", "zstd": "zstd -dc "}[coded] + name + " | mcat"
		}
		var h zstd.Header
		if coded == "zstd" && h.Decode(front) == nil && h.DictionaryID == 0 && h.WindowSize > windowMax {
			return "zstd -dc --long=31 " + name + " | mcat"
		}
	}
	return ""
}

// indexLine is a line of an index: a key and a time, then JSON or the URL; or the head of a CDX file with the columns in this order.
var indexLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?: CDX N b a|[^\s{]+ \d{14,17} (\{|\w+://))`) })

// HintURLs says how to list the URLs of an archive or of an index of archives, by its first bytes; "" of other files.
func HintURLs(front []byte, name string) string {
	name = named(name)
	line, file, pipe := front, " "+fault.Quote(name), ""
	if content, coded := inside(front); coded != "" {
		line, file, pipe = content, "", fault.Quote(coded, "-dc", name)+" | "
	}
	m := indexLine().FindSubmatch(line)
	if Sniff(front) {
		file, pipe, m = "", fault.Quote("mcat", "--format", "cdxj", name)+" | ", [][]byte{nil, {'{'}}
	}
	switch {
	case m == nil:
		return ""
	case string(m[1]) == "{":
		return "list its URLs: " + pipe + `sed -n 's/.*"url": *"\(http[^"]*\)".*/\1/p'` + file + " | sort -u > urls.txt"
	}
	return "list its URLs: " + pipe + "awk '$3 ~ /^http/ {print $3}'" + file + " | sort -u > urls.txt"
}

// Named reports whether a file has the name of an archive, whatever is in it.
func Named(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".open"), ".gz"), ".zst")
	for _, end := range []string{".warc", ".arc", ".wet", ".wat"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
