package process

import (
	"archive/zip"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"mercator/pkg/web/markup"
)

// office is a family of documents that are zip archives of XML files. Patterns are of path.Match, in lower case; the files of one
// pattern have the order of their numbers.
type office struct {
	types []string
	parts []string // patterns of the files with text, in the order of their text; of EPUB the package says it
	title []string // patterns of the file with dc:title
	links []string // patterns of the files with references
	marks map[string]mark
}

// mark is what an element means, by its local name.
type mark uint8

const (
	holds  mark = 1 << iota // text for readers
	ends                    // a line begins and ends with it
	parts                   // a word begins and ends with it
	hidden                  // nothing within it is for readers, or it is the second time that they see it
	apart                   // within it, text is only what elements of its own hold
)

const (
	ooxml  = "application/vnd.openxmlformats-officedocument."
	macros = ".macroenabled.12"
	odf    = "application/vnd.oasis.opendocument."

	typeDOCX = ooxml + "wordprocessingml.document"
	typePPTX = ooxml + "presentationml.presentation"
	typeXLSX = ooxml + "spreadsheetml.sheet"
	typeODT  = odf + "text"
	typeODS  = odf + "spreadsheet"
	typeEPUB = "application/epub+zip"
)

var (
	ooxmlTitle = []string{"docprops/core.xml", "package/services/metadata/core-properties/*.psmdcp"}
	ooxmlLinks = []string{"*/_rels/*.rels", "*/*/_rels/*.rels"}

	// Of text that is drawn twice, for programs of different age, the second time is a fallback.
	ooxmlMarks = map[string]mark{"t": holds, "text": holds | ends, "v": holds | parts, "p": ends, "br": ends, "cr": ends, "row": ends, "sheet": ends, "comment": ends, "tab": parts, "c": parts,
		"fallback": hidden, "movefrom": hidden, "numcache": hidden, "rph": hidden, "rt": hidden, "nobreakhyphen": holds}
	odfMarks = map[string]mark{"p": holds | ends, "h": holds | ends, "line-break": ends, "s": parts, "tab": parts, "tracked-changes": hidden, "ruby-text": hidden, "annotation": apart, "frame": apart}

	offices = []office{
		// ISO 29500
		{types: []string{typeDOCX, ooxml + "wordprocessingml.template", "application/vnd.ms-word.document" + macros, "application/vnd.ms-word.template" + macros},
			parts: []string{"word/document*.xml", "word/header*.xml", "word/footer*.xml", "word/footnotes*.xml", "word/endnotes*.xml", "word/comments*.xml", "word/diagrams/data*.xml", "word/charts/chart*.xml"},
			title: ooxmlTitle, links: ooxmlLinks, marks: ooxmlMarks},
		{types: []string{typePPTX, ooxml + "presentationml.template", ooxml + "presentationml.slideshow", "application/vnd.ms-powerpoint.presentation" + macros, "application/vnd.ms-powerpoint.template" + macros, "application/vnd.ms-powerpoint.slideshow" + macros},
			parts: []string{"ppt/slides/slide*.xml", "ppt/notesslides/*.xml", "ppt/comments/*.xml", "ppt/diagrams/data*.xml", "ppt/charts/chart*.xml"},
			title: ooxmlTitle, links: ooxmlLinks, marks: ooxmlMarks},
		{types: []string{typeXLSX, ooxml + "spreadsheetml.template", "application/vnd.ms-excel.sheet" + macros, "application/vnd.ms-excel.template" + macros},
			parts: []string{"xl/workbook.xml", "xl/worksheets/*.xml", "xl/comments*.xml", "xl/comments/*.xml", "xl/threadedcomments/*.xml", "xl/drawings/drawing*.xml", "xl/diagrams/data*.xml", "xl/charts/chart*.xml"},
			title: ooxmlTitle, links: ooxmlLinks, marks: ooxmlMarks},
		// ISO 26300
		{types: []string{typeODT, odf + "text-template", odf + "text-master"}, parts: []string{"content.xml", "styles.xml"}, title: []string{"meta.xml"}, links: []string{"content.xml"}, marks: odfMarks},
		{types: []string{odf + "presentation", odf + "presentation-template", odf + "graphics", odf + "graphics-template"}, parts: []string{"content.xml"}, title: []string{"meta.xml"}, links: []string{"content.xml"}, marks: odfMarks},
		{types: []string{typeODS, odf + "spreadsheet-template"}, parts: []string{"content.xml"}, title: []string{"meta.xml"}, links: []string{"content.xml"},
			marks: map[string]mark{"p": holds | parts, "h": holds | parts, "table-row": ends, "line-break": parts, "s": parts, "tab": parts, "tracked-changes": hidden}},
		{types: []string{typeEPUB}},
	}
)

// OfficeTypes are the media types of documents that are zip archives.
func OfficeTypes() (types []string) {
	for _, o := range offices {
		types = append(types, o.types...)
	}
	return types
}

// OfficeName is the name of a file by which the type of a zip archive is known.
type OfficeName struct{ Name, MIME string }

// OfficeNames are those of documents whose archives do not begin as they ought to.
var OfficeNames = []OfficeName{{"word/document", typeDOCX}, {"ppt/presentation.xml", typePPTX}, {"xl/workbook.xml", typeXLSX}, {"META-INF/container.xml", typeEPUB}}

// officeOf is the family of a media type, nil if it has none.
func officeOf(mime string) *office {
	if i := slices.IndexFunc(offices, func(o office) bool { return slices.Contains(o.types, mime) }); i >= 0 {
		return &offices[i]
	}
	return nil
}

// Bounds of documents in a zip archive.
const (
	maxParts        = 10_000  // files in the archive
	maxInflated     = 8 << 20 // bytes of all of them that are read, inflated
	inflatedPerByte = 24      // of an archive for which maxInflated is less: a book in DOCX is inflated to 20 times its size; at most eight times maxInflated
	maxStrings      = 1 << 20 // strings that the cells of a workbook share
)

// zipArchive is an archive of which a bounded number of bytes is inflated.
type zipArchive struct {
	files  []*zip.File
	free   int64  // bytes that may still be inflated
	packed uint64 // compressed bytes that may still be read: 10,000 files could share those of a small archive
}

func openArchive(body []byte) (*zipArchive, error) {
	if bytes.Count(body, []byte("PK\x01\x02")) > maxParts {
		return nil, fmt.Errorf("an archive of more than %d files", maxParts)
	}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	return &zipArchive{z.File, min(max(maxInflated, inflatedPerByte*int64(len(body))), 8*maxInflated), uint64(len(body))}, nil
}

// each calls read with the files that match patterns. One that is damaged does not keep it from the others; the first damage is its error.
func (a *zipArchive) each(patterns []string, read func(io.Reader) error) (first error) {
	for _, p := range patterns {
		var found []*zip.File
		for _, f := range a.files {
			if ok, _ := path.Match(p, strings.ToLower(f.Name)); ok {
				found = append(found, f)
			}
		}
		slices.SortStableFunc(found, func(a, b *zip.File) int {
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
		})
		for _, f := range found {
			if err := a.read(f, read); first == nil {
				first = err
			}
		}
	}
	return first
}

func (a *zipArchive) read(f *zip.File, read func(io.Reader) error) error {
	switch {
	case a.free <= 0:
		return nil
	case f.CompressedSize64 > a.packed:
		return zip.ErrFormat
	}
	a.packed -= f.CompressedSize64
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	in := &io.LimitedReader{R: r, N: a.free}
	err = read(in)
	a.free = in.N
	return err
}

// readXML reads an XML file until w, if there is one, is full, calling tag with each tag, by its local name in lower case, and text, if not nil, with
// each text. It does not mind what is not well-formed, and keeps one token in memory, whatever the nesting.
func readXML(r io.Reader, w *lines, tag func(name string, opens, closes bool, l *markup.Reader), text func([]byte)) error {
	l := readers.Get().(*markup.Reader)
	defer readers.Put(l)
	l.Lexer.Open(transform.NewReader(r, unicode.BOMOverride(transform.Nop)), nil) // these formats allow UTF-8 and UTF-16
	defer l.Lexer.Close()
	l.Texts, l.CDATA = text != nil, true
	for w == nil || !w.full() {
		switch tok := l.Lexer.Next(); tok {
		case markup.TokenEnd:
			if !l.Fill() {
				return l.Err()
			}
		case markup.TokenText:
			text(l.Decoded())
		default:
			b := l.TagName()
			b = b[bytes.IndexByte(b, ':')+1:]
			name := strings.ToLower(string(b[:min(len(b), MaxKey)]))
			tag(name, tok == markup.TokenStart, tok == markup.TokenClose || l.SelfClosing, l)
		}
	}
	return nil
}

// attribute is the value of an attribute, decoded.
func attribute(l *markup.Reader, name string) string {
	return string(markup.AppendDecoded(nil, l.Attribute(name), true))
}

// text writes the text of a document. What is damaged does not keep it from the rest; the first damage is its error.
func (o *office) text(w *lines, body []byte) error {
	a, err := openArchive(body)
	if err != nil {
		return err
	}
	if o.parts == nil {
		w.plain = true
		return a.pages(func(page *Document) error {
			w.line()
			return visible(w, page)
		})
	}
	var shared sharedStrings
	err = a.each([]string{"xl/sharedstrings.xml"}, shared.read)
	return cmp.Or(a.each(o.parts, func(r io.Reader) error {
		w.line()
		return o.marked(w, r, &shared)
	}), err)
}

// marked writes the text of the elements of an XML file that are marked.
func (o *office) marked(w *lines, r io.Reader, shared *sharedStrings) error {
	held, outside, concealed := 0, 0, 0
	kind, value, inValue := "", []byte(nil), false // of a cell
	return readXML(r, w, func(name string, opens, closes bool, l *markup.Reader) {
		m, deeper := o.marks[name], 0
		if opens {
			deeper++
		}
		if closes {
			deeper--
		}
		if m&hidden != 0 {
			concealed = max(concealed+deeper, 0)
		}
		if m == 0 || concealed > 0 {
			return
		}
		if m&apart != 0 && deeper != 0 {
			held, outside = outside, held
		}
		if m&holds != 0 {
			held = max(held+deeper, 0)
		}
		if m&ends != 0 {
			w.line()
		}
		if m&parts != 0 {
			w.gap = true
		}
		switch {
		case name == "c" && opens:
			kind = attribute(l, "t")
		case name == "nobreakhyphen" && opens:
			w.text([]byte{'-'})
		case name == "sheet" && opens:
			w.text([]byte(attribute(l, "name")))
		case name == "v":
			if closes {
				w.text(shared.cell(kind, value))
			}
			value, inValue = value[:0], !closes
		}
	}, func(s []byte) {
		switch {
		case concealed > 0:
		case inValue:
			value = append(value, s[:min(len(s), markup.MaxToken-len(value))]...)
		case held > 0:
			w.text(s)
		}
	})
}

// sharedStrings are the strings that the cells of a workbook share.
type sharedStrings struct {
	lines
	ends []int // of each string in the text
}

func (s *sharedStrings) read(r io.Reader) error {
	s.max = DefaultMaxText
	in, phonetic := false, false
	return readXML(r, &s.lines, func(name string, opens, closes bool, _ *markup.Reader) {
		switch name {
		case "t":
			in = opens && !closes
		case "rph":
			phonetic = opens && !closes
		case "si":
			if s.gap = false; closes && len(s.ends) < maxStrings {
				s.ends = append(s.ends, len(s.b))
			}
		}
	}, func(text []byte) {
		if in && !phonetic {
			s.text(text)
		}
	})
}

// cell is the text of a cell of a kind (ISO 29500-1, 18.18.11). Numbers have the 15 digits that spreadsheets show.
func (s *sharedStrings) cell(kind string, value []byte) []byte {
	switch n, err := strconv.Atoi(string(value)); {
	case kind == "b" || kind == "e":
		return nil
	case kind == "s":
		if err != nil || n < 0 || n >= len(s.ends) {
			return nil
		}
		first := 0
		if n > 0 {
			first = s.ends[n-1]
		}
		return s.b[first:s.ends[n]]
	case kind != "str" && len(value) > 15 && bytes.IndexByte(value, '.') >= 0:
		if f, err := strconv.ParseFloat(string(value), 64); err == nil {
			return strconv.AppendFloat(nil, f, 'g', 15, 64)
		}
	}
	return value
}

// titleOf is the title in a document's properties.
func (o *office) titleOf(body []byte) (string, error) {
	a, err := openArchive(body)
	if err != nil {
		return "", err
	}
	patterns := o.title
	if patterns == nil {
		patterns = []string{a.packageName()}
	}
	w, in := &lines{max: maxTitle}, false
	err = a.each(patterns, func(r io.Reader) error {
		return readXML(r, w, func(name string, opens, closes bool, _ *markup.Reader) {
			if name == "title" {
				in = opens && !closes
				if closes && len(w.b) > 0 { // a book may have several
					w.max = len(w.b)
				}
			}
		}, func(s []byte) {
			if in {
				w.text(s)
			}
		})
	})
	return w.String(), err
}

// packageName is the name of the file that says what a book has (EPUB 3.3, section 4.2.6.3.1), in lower case. It is no pattern.
func (a *zipArchive) packageName() (name string) {
	_ = a.each([]string{"meta-inf/container.xml"}, func(r io.Reader) error {
		return readXML(r, nil, func(element string, opens, _ bool, l *markup.Reader) {
			if full := attribute(l, "full-path"); element == "rootfile" && opens && name == "" && !strings.ContainsAny(full, `*?[\`) {
				name = strings.ToLower(full)
			}
		}, nil)
	})
	return name
}

// pages calls read with the pages of a book, each once, in the order of its spine (EPUB 3.3, section 5.7). Encrypted ones are left out.
func (a *zipArchive) pages(read func(page *Document) error) error {
	type page struct {
		file *zip.File
		mime string
	}
	files := make(map[string]*zip.File)
	for _, f := range a.files {
		files[strings.ToLower(f.Name)] = f
	}
	name := a.packageName()
	take := func(dir, href string) *zip.File { // no file is taken twice
		href, _, _ = strings.Cut(href, "#")
		if plain, err := url.PathUnescape(href); err == nil {
			href = plain
		}
		key := strings.ToLower(path.Join(dir, href))
		f := files[key]
		delete(files, key)
		return f
	}
	items := make(map[string]page) // by id
	var spine []page
	err := a.each([]string{"meta-inf/encryption.xml", name}, func(r io.Reader) error {
		return readXML(r, nil, func(element string, opens, _ bool, l *markup.Reader) {
			switch {
			case !opens:
			case element == "cipherreference":
				take("", attribute(l, "uri"))
			case element == "item":
				mime := attribute(l, "media-type")
				if mime != typeSVG && !slices.Contains(htmlTypes, mime) {
					return
				}
				if f := take(path.Dir(name), attribute(l, "href")); f != nil {
					items[attribute(l, "id")] = page{f, mime}
				}
			case element == "itemref":
				id := attribute(l, "idref")
				if p, ok := items[id]; ok {
					spine = append(spine, p)
					delete(items, id)
				}
			}
		}, nil)
	})
	for _, p := range spine {
		err = cmp.Or(err, a.read(p.file, func(r io.Reader) error {
			body, err := io.ReadAll(io.LimitReader(r, maxInflated))
			return cmp.Or(read(&Document{MIME: p.mime, Charset: "utf-8", Body: body}), err)
		}))
	}
	return err
}

// OfficeLinks calls link with the references of an office document or book to what is outside of it.
func OfficeLinks(doc *Document, link func(ref string)) error {
	o := officeOf(doc.MIME)
	if o == nil {
		return nil
	}
	a, err := openArchive(doc.Body)
	if err != nil {
		return err
	}
	read := func(r io.Reader) error {
		return readXML(r, nil, func(element string, opens, _ bool, l *markup.Reader) {
			switch {
			case !opens:
			case element == "relationship" && strings.EqualFold(attribute(l, "targetmode"), "external"):
				link(attribute(l, "target"))
			case element == "a" && o.parts == nil:
				if ref := attribute(l, "href"); strings.Contains(ref, ":") { // others are within the book
					link(ref)
				}
			case element == "a":
				if ref := attribute(l, "xlink:href"); ref != "" && ref[0] != '#' {
					link(strings.TrimPrefix(ref, "../")) // the document is the folder (ISO 26300-3, section 2.7)
				}
			}
		}, nil)
	}
	if o.parts == nil {
		return a.pages(func(page *Document) error { return read(bytes.NewReader(page.Body)) })
	}
	return a.each(o.links, read)
}
