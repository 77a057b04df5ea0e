package record

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestTextReader(t *testing.T) {
	for _, c := range []struct{ form, text, want string }{
		{FormJSON, "{\"url\":\"a\",\"x_id\":1}\n\n{\"url\":\"b\",\"round\":\"r1\"}\n", `1 a {"id":1}; 3 b; `},
		{FormJSON, "", ""},
		{FormJSON, "{\"url\":\"a\"}\n[]\n{\"url\":\"b\"}", `1 a; 2 bad: not a JSON object: json: cannot unmarshal array into Go value of type map[string]interface {}; 3 b; `},
		{FormTSV, "url\tx_id\na\t\\t1\n\nb\t\n", `2 a {"id":"\u00091"}; 4 b; `},
		{FormTSV, "", "0 end: no line of column names"},
		{FormTSV, "url\tdepth\na\tb\nb\n", `2 bad: column "depth": "b", want uint16; 3 bad: 1 values, want 2; `},
		{FormCSV, "\uFEFFurl,x_id,\"x_b\"\r\na,\"1\n\"\"2\",\r\n\r\nb,,c\r\n", `2 a {"id":"1\u000a\"2"}; 5 b {"b":"c"}; `},
		{FormCSV, "url,x_id\na,b,c\nb,\"c\"d\nc,d\n", `2 bad: 3 values, want 2; 3 bad: extraneous or missing " in quoted-field in line 3; 4 c {"id":"d"}; `},
		{FormCSV, "url,id\n", `1 end: column "id" of url rows, want one of`},
		{FormCSV, "url,x_a,url\na,b,c\n", `1 end: column "url" a second time, want each column once`},
		{FormTSV, "url\tx_a\tx_a\na\tb\tc\n", `1 end: column "x_a" a second time, want each column once`},
		{FormCSV, "url,x_a\na,\xe9t\xe9\nb,c\n", `2 bad: column "x_a": "\xe9t\xe9", want UTF-8; 3 b {"a":"c"}; `},
		{FormTSV, "url\n\xff\nb\n", `2 bad: column "url": "\xff", want UTF-8; 3 b; `},
		{FormCSV, "url\na\n\"b\n", `2 a; 3 bad: extraneous or missing " in quoted-field in line 3; `},
	} {
		t.Run(fmt.Sprintf("%s %.50s", c.form, c.want), func(t *testing.T) {
			r := NewTextReader[URL](strings.NewReader(c.text), c.form, nil)
			var have strings.Builder
			for {
				var row URL
				bad, err := r.Read(&row)
				if err == io.EOF {
					break
				}
				if err != nil {
					fmt.Fprintf(&have, "%d end: %v", r.Line(), err)
					break
				}
				fmt.Fprintf(&have, "%d ", r.Line())
				if bad != nil {
					fmt.Fprintf(&have, "bad: %v; ", bad)
				} else {
					fmt.Fprint(&have, strings.TrimSpace(row.URL+" "+row.X), "; ")
				}
			}
			if c.want == "" && have.String() != "" || !strings.HasPrefix(have.String(), c.want) {
				t.Errorf("%s %q:\n%s, want\n%s", c.form, c.text, have.String(), c.want)
			}
		})
	}
}

// endless gives one byte for ever.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

func TestTextReaderBoundsLines(t *testing.T) {
	for form, head := range map[string]string{FormJSON: "", FormTSV: "url\n", FormCSV: "url\n\""} {
		t.Run(form, func(t *testing.T) {
			r := NewTextReader[URL](io.MultiReader(strings.NewReader(head), endless('a')), form, nil)
			var row URL
			if bad, err := r.Read(&row); bad != nil || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("longer than %d bytes", lineMax)) {
				t.Errorf("%s: %v, %v", form, bad, err)
			}
		})
	}
}
