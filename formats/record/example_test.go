package record

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"

	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// annotate is the worked example of SPEC.md: a stored stream in hex, a group a field.
func annotate(t *testing.T, b []byte) string {
	var out strings.Builder
	at := 0
	line := func(at int, hex, meaning string) {
		out.WriteString(strings.TrimRight(fmt.Sprintf("%04x  %-36s  %s", at, hex, meaning), " ") + "\n")
	}
	// put writes fields of these sizes; one field may take several lines.
	put := func(meaning string, sizes ...int) {
		begin, hex := at, ""
		for _, n := range sizes {
			for ; n > 16; n, at, meaning = n-16, at+16, "" {
				line(at, fmt.Sprintf("%x", b[at:at+16]), meaning)
				begin = at + 16
			}
			hex += fmt.Sprintf("%x ", b[at:at+n])
			at += n
		}
		line(begin, hex, meaning)
	}
	msgs, tr := messages(t, b)
	for i, msg := range msgs {
		name := []string{"schema", "batch", "end of stream"}[i]
		put(fmt.Sprintf("frame %d: magic, descriptor, content size %d, last block: raw, %d bytes", i+1, len(msg), len(msg)), 4, 1, 4, 3)
		if len(msg) == 8 {
			put("Arrow's continuation, metadata length 0: "+name, 4, 4)
		} else {
			meta, _ := header(t, msg)
			put(fmt.Sprintf("Arrow's continuation, metadata length %d", len(meta)), 4, 4)
			line(at, "…", fmt.Sprintf("%s (flatbuffer)", name))
			at += len(meta)
			if n := len(msg) - 8 - len(meta); n > 0 {
				put("offsets and text of url; url_key; offsets and text of module, key, value", n)
			}
		}
		put("checksum of the content", 4)
	}
	doc := len(b) - at - trailerFixed - trailerSum
	put("trailer: magic, size, name", 4, 4, 8)
	put(fmt.Sprintf("version %s, JSON length %d, rows %d", formatVersion, doc, tr.Rows), 4, 4, 8)
	put("row hash", 16)
	put("wire hash", 16)
	put("JSON: "+string(b[at:at+doc]), doc)
	put("checksum of the trailer so far", 8)
	return out.String()
}

// exampleStream is the stream of the worked example.
func exampleStream(t *testing.T) []byte {
	var b bytes.Buffer
	w, err := NewWriter[Module](&b, WriterOptions{})
	must.OK(t, err)
	must.OK(t, w.Write(&Module{URL: "http://a.test/", Key: 0x4b7d239c4d186c4f, Module: "langid", Name: "language", Value: "en"}))
	_, err = w.Commit(Ledger{Stages: []Stage{}})
	must.OK(t, err)
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
			word := strings.TrimSuffix(fmt.Sprintf(" %s %s", name, cmp.Or(short[c.typ], c.typ.String())), " utf8") + ","
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

// annotateRow is the byte form of a row in hex, a group a field.
func annotateRow() string {
	row := URL{URL: "http://a.test/", Key: fingerprint.URLKey("a.test", "http://a.test/"), Host: "a.test", Depth: 1}
	b := AppendRow(nil, &row)
	var out strings.Builder
	put := func(meaning string, sizes ...int) {
		hex := ""
		for _, n := range sizes {
			hex += fmt.Sprintf("%x ", b[:n])
			b = b[n:]
		}
		fmt.Fprintf(&out, "%-32s %s\n", hex, meaning)
	}
	put("flags: depth is the third column that is not bold", 2)
	put("url, after its length", 1, len(row.URL))
	put(fmt.Sprintf("url_key %016x", row.Key), 8)
	put("host, after its length", 1, len(row.Host))
	put("depth", len(b))
	return "```\n" + out.String() + "```\n"
}
