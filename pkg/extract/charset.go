package extract

import (
	"bytes"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// decode gives a document's text as UTF-8. Its encoding is known by byte order
// mark, header, meta element, or else is UTF-8 if the body is valid and
// windows-1252 if not, as in browsers. The encoding returned is that of queries,
// nil for UTF-8; a document in UTF-16 sends UTF-8, too (WHATWG Encoding, section 4.3).
func decode(doc *Document, isHTML bool) (io.Reader, encoding.Encoding) {
	contentType := "text/html"
	if doc.Charset != "" {
		contentType = mime.FormatMediaType(contentType, map[string]string{"charset": doc.Charset})
	}
	prefix := doc.Body
	if !isHTML {
		prefix = prefix[:min(len(prefix), 4)] // a byte order mark, and no meta elements
	}
	enc, name, certain := charset.DetermineEncoding(prefix, contentType)
	declared := certain || bytes.Contains(bytes.ToLower(prefix[:min(len(prefix), 1024)]), []byte("charset"))
	if name == "utf-8" || !declared && utf8.Valid(doc.Body) {
		return bytes.NewReader(bytes.TrimPrefix(doc.Body, []byte("\xef\xbb\xbf"))), nil
	}
	text := transform.NewReader(bytes.NewReader(doc.Body), enc.NewDecoder())
	if strings.HasPrefix(name, "utf-16") {
		enc = nil
	}
	return text, enc
}

// encodeQuery writes the query of a reference in the document's encoding, as
// browsers do: what the encoding lacks becomes a decimal character reference.
func (f *finder) encodeQuery(ref string) string {
	if f.encoding == nil {
		return ref
	}
	ref, _, _ = strings.Cut(ref, "#")
	i := strings.IndexByte(ref, '?')
	if i < 0 || isASCII(ref[i:]) {
		return ref
	}
	enc := encoding.HTMLEscapeUnsupported(f.encoding.NewEncoder())
	var b strings.Builder
	b.WriteString(ref[:i])
	for _, r := range ref[i:] {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		out, err := enc.String(string(r))
		if err != nil {
			out = string(r)
		}
		for j := 0; j < len(out); j++ {
			b.WriteByte('%')
			b.WriteByte("0123456789ABCDEF"[out[j]>>4])
			b.WriteByte("0123456789ABCDEF"[out[j]&15])
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
