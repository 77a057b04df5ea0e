package record

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"

	"mercator/pkg/fingerprint"
)

// annotate is the worked example of SPEC.md: a stored stream in hex.
func annotate(t *testing.T, b []byte) string {
	var out strings.Builder
	at := 0
	put := func(n int, meaning string) {
		for first := true; first || n > 0; first = false {
			step := min(n, 16)
			line := fmt.Sprintf("%04x  %-47s", at, fmt.Sprintf("% x", b[at:at+step]))
			if first {
				line += "  " + meaning
			}
			out.WriteString(strings.TrimRight(line, " ") + "\n")
			at += step
			n -= step
		}
	}
	msgs, tr := messages(t, b)
	for i, msg := range msgs {
		name := []string{"schema", "batch", "end of stream"}[i]
		put(4, fmt.Sprintf("frame %d: zstd magic", i+1))
		put(1, "descriptor: 4-byte content size, single segment, checksum")
		put(4, fmt.Sprintf("content size %d", len(msg)))
		put(3, fmt.Sprintf("raw block of %d bytes, the last", len(msg)))
		put(4, "Arrow's continuation")
		if len(msg) == 8 {
			put(4, "metadata length 0: "+name)
		} else {
			meta, _ := header(t, msg)
			put(4, fmt.Sprintf("metadata length %d", len(meta)))
			fmt.Fprintf(&out, "%04x  %-47s  %s (flatbuffer, %d bytes)\n", at, "…", name, len(meta))
			at += len(meta)
			if n := len(msg) - 8 - len(meta); n > 0 {
				put(n, "body: offsets and text of url; url_key; the same of module, key, value")
			}
		}
		put(4, "checksum: xxh64 of the content, low half")
	}
	doc := len(b) - at - trailerFixed - trailerSum
	put(4, "trailer: skippable frame")
	put(4, "size")
	put(8, trailerMagic)
	put(4, "version "+formatVersion)
	put(4, fmt.Sprintf("JSON length %d", doc))
	put(8, fmt.Sprintf("rows %d", tr.Rows))
	put(16, "row hash")
	put(16, "wire hash")
	put(doc, "JSON: "+string(b[at:at+doc]))
	put(8, "checksum: xxh64 of the trailer so far")
	return out.String()
}

// exampleStream is the stream of the worked example.
func exampleStream(t *testing.T) []byte {
	var b bytes.Buffer
	w, err := NewWriter[Module](&b, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&Module{URL: "http://a.test/", Key: 0x4b7d239c4d186c4f, Module: "langid", Name: "language", Value: "en"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(Ledger{Stages: []Stage{}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// columnLists are the known columns of each kind.
func columnLists() string {
	var out strings.Builder
	short := map[typeID]string{typeUint8: "u8", typeUint16: "u16", typeUint64: "u64", typeInt64: "i64", typeFloat32: "f32", typeTimeUS: "time"}
	for _, t := range []*rowType{urlType, fetchType, linkType, moduleType} {
		line := fmt.Sprintf("- `%s`:", t.kind)
		for i, c := range t.columns {
			name := c.name
			if c.required {
				name = "**" + name + "**"
			}
			word := fmt.Sprintf(" %s %s,", name, cmp.Or(short[c.typ], c.typ.String()))
			if i == len(t.columns)-1 {
				word = strings.TrimSuffix(word, ",") + "."
			}
			if len(line)+len(word) > 120 {
				out.WriteString(line + "\n")
				line = " "
			}
			line += word
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// annotateRow is the byte form of a row in hex.
func annotateRow() string {
	row := URL{URL: "http://a.test/", Key: fingerprint.URLKey("a.test", "http://a.test/"), Host: "a.test", Depth: 1}
	b := AppendRow(nil, &row)
	var out strings.Builder
	put := func(n int, meaning string) {
		fmt.Fprintf(&out, "%-44s  %s\n", fmt.Sprintf("% x", b[:n]), meaning)
		b = b[n:]
	}
	put(2, "flags: depth is the third column that is not bold")
	put(1+len(row.URL), "url, after its length")
	put(8, fmt.Sprintf("url_key %016x", row.Key))
	put(1+len(row.Host), "host")
	put(len(b), "depth")
	return "```\n" + out.String() + "```\n"
}
