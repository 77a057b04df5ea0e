package record

import (
	"fmt"
	"strings"
	"testing"
)

func TestUserColumns(t *testing.T) {
	all := NewTextOrFatal[URL](t, nil, nil)
	const line = `{"url":"http://a.test/","x_who":"é\n","x_id":17,"x_ok":true,"x_none":null}`
	var row URL
	if err := all.ParseJSON([]byte(line), &row); err != nil {
		t.Fatal(err)
	}
	if want := `{"id":17,"ok":true,"who":"é\u000a"}`; row.X != want {
		t.Errorf("column x: %s, want %s", row.X, want)
	}
	if have, want := string(all.AppendJSON(nil, &row, true)), `{"url":"http://a.test/","x_id":17,"x_ok":true,"x_who":"é\u000a"}`; have != want {
		t.Errorf("JSON: %s, want %s", have, want)
	}
	some := NewTextOrFatal[URL](t, nil, []string{"x_who", "url", "x_id", "x_nobody"})
	if have, want := string(some.AppendTSV(nil, &row)), "é\\n\thttp://a.test/\t17\t"; have != want {
		t.Errorf("TSV: %q, want %q", have, want)
	}
	if have, want := string(some.AppendJSON(nil, &row, false)), `{"x_who":"é\u000a","url":"http://a.test/","x_id":17,"x_nobody":null}`; have != want {
		t.Errorf("chosen columns: %s, want %s", have, want)
	}
	if have := some.AppendCells(nil, &row); fmt.Sprintf("%q", have) != `["é\n" "http://a.test/" "17" ""]` {
		t.Errorf("cells: %q", have)
	}
	var again URL
	if err := some.ParseTSV(string(some.AppendTSV(nil, &row)), &again); err != nil || again.X != `{"id":"17","who":"é\u000a"}` {
		t.Errorf("from TSV: %s, %v", again.X, err)
	}
	// A table of all columns has them in one.
	if err := all.ParseTSV(string(all.AppendTSV(nil, &row)), &again); err != nil || again != row {
		t.Errorf("from TSV with all columns: %+v, %v", again, err)
	}
	// What another program wrote into the column is shown as it is.
	row.X = `["a"]`
	if have := string(all.AppendJSON(nil, &row, true)); have != `{"url":"http://a.test/","x":"[\"a\"]"}` {
		t.Errorf("foreign column x: %s", have)
	}
	if have := string(some.AppendTSV(nil, &row)); have != "\thttp://a.test/\t\t" {
		t.Errorf("foreign column x: %q", have)
	}
}

func TestUserColumnsLimits(t *testing.T) {
	all := NewTextOrFatal[Fetch](t, nil, nil)
	members := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"x_%d":1`, i))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	long := func(n int) string { return `{"x_a":"` + strings.Repeat("v", n) + `"}` }
	name := func(n int) string { return `{"x_` + strings.Repeat("n", n) + `":1}` }
	around := len(`{"a":""}`)
	for _, c := range []struct{ line, bad string }{
		{members(MaxUserColumns), ""},
		{members(MaxUserColumns + 1), "17 columns x_NAME, want at most 16"},
		{long(MaxUserBytes - around), ""},
		{long(MaxUserBytes - around + 1), "columns x_NAME of 1025 bytes, want at most 1024"},
		{name(maxUserName - 2), ""},
		{name(maxUserName - 1), "is not one of fetch rows"},
		{`{"x_":1}`, "is not one of fetch rows"},
		{`{"x_a b":1}`, "is not one of fetch rows"},
		{`{"id":1}`, "as a column of your own it would be named x_id"},
		{`{"x_a":[1]}`, "an object or a list, want one value"},
		{`{"x":"{\"a\":1}"}`, ""},
		{`{"x":"a"}`, "want a JSON object"},
		{`{"x":"{\"a\":[]}"}`, "want a JSON object"},
	} {
		t.Run(fmt.Sprintf("%.40s, %d bytes", c.line, len(c.line)), func(t *testing.T) {
			var row Fetch
			err := all.ParseJSON([]byte(c.line), &row)
			if c.bad == "" && err != nil || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
				t.Errorf("%.60s: %v, want %q", c.line, err, c.bad)
			}
		})
	}
	if _, err := NewText[Link](nil, []string{"url", "x_id"}); err == nil {
		t.Error("links have columns of the user's")
	}
}

func TestRoundColumn(t *testing.T) {
	row := Module{Module: "m", Name: "k", Value: "v"}
	all := NewTextOrFatal[Module](t, nil, nil)
	before := string(all.AppendTSV(nil, &row))
	all.InRound("r1")
	all.InRound("r2")
	if have := string(all.AppendTSV(nil, &row)); have != before+"\tr2" || all.Columns()[len(all.Columns())-1] != "round" {
		t.Errorf("%q, columns %q", have, all.Columns())
	}
	var again Module
	if err := all.ParseTSV(before+"\tr2", &again); err != nil || again != row {
		t.Errorf("%+v, %v", again, err)
	}
	chosen := NewTextOrFatal[Module](t, nil, []string{"round", "key"})
	if have := string(chosen.AppendJSON(nil, &row, false)); have != `{"round":null,"key":"k"}` {
		t.Errorf("%s", have)
	}
	chosen.InRound("r3")
	if have := string(chosen.AppendJSON(nil, &row, false)); have != `{"round":"r3","key":"k"}` {
		t.Errorf("%s", have)
	}
}
