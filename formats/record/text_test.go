package record

import (
	"reflect"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

func testText[T Row](t *testing.T) {
	all := NewTextOrFatal[T](t, nil, nil)
	for i, row := range randomRows[T](500, 7) {
		row := row
		var j, v, s T
		must.OK(t, all.ParseJSON(all.AppendJSON(nil, &row, false), &j), all.ParseJSON(all.AppendJSON(nil, &row, true), &s), all.ParseTSV(string(all.AppendTSV(nil, &row)), &v))
		if !reflect.DeepEqual(j, row) || !reflect.DeepEqual(v, row) || !reflect.DeepEqual(s, row) {
			t.Fatalf("row %d: wrote %+v, read from JSON %+v, from TSV %+v", i, row, j, v)
		}
	}
}

func NewTextOrFatal[T Row](t *testing.T, s *Schema, columns []string) *Text[T] {
	t.Helper()
	x, err := NewText[T](s, columns)
	must.OK(t, err)
	return x
}

func TestTextRoundTrip(t *testing.T) {
	t.Run("url", testText[URL])
	t.Run("fetch", testText[Fetch])
	t.Run("link", testText[Link])
	t.Run("module", testText[Module])
}

func TestTextEscapes(t *testing.T) {
	nasty := "a\x1b[31m\t\n\r\\\"\u0085\u2028\u007f\x00é"
	row := Module{Module: "m", Name: "k", Value: nasty}
	x := NewTextOrFatal[Module](t, nil, nil)
	for _, line := range []string{string(x.AppendJSON(nil, &row, false)), string(x.AppendTSV(nil, &row))} {
		if i := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && control(r) }); i >= 0 {
			t.Errorf("control character in %q", line)
		}
	}
	var j, v Module
	if err := x.ParseJSON(x.AppendJSON(nil, &row, false), &j); err != nil || j.Value != nasty {
		t.Errorf("JSON: %q, %v", j.Value, err)
	}
	if err := x.ParseTSV(string(x.AppendTSV(nil, &row)), &v); err != nil || v.Value != nasty {
		t.Errorf("TSV: %q, %v", v.Value, err)
	}
}

func TestTextErrors(t *testing.T) {
	x := NewTextOrFatal[URL](t, nil, []string{"url", "depth"})
	for line, want := range map[string]string{
		`{"url":"a","depht":1}`:    `column "depht" is not one of url rows; as a column of your own it would be named x_depht`,
		`{"url":"a","depth":-1}`:   `column "depth": "-1", want uint16`,
		`{"url":"a","url_key":12}`: `column "url_key": "12", want 16 hex digits`,
		`{"url":["a"]}`:            `column "url": an object or a list, want one value`,
		`{"due":"yesterday"}`:      `column "due": "yesterday", want a time such as 2026-11-21T10:00:00Z`,
		`{} {}`:                    `more than one JSON object in a line`,
		`url`:                      `not a JSON object: invalid character 'u' looking for beginning of value`,
	} {
		t.Run(line, func(t *testing.T) {
			if err := x.ParseJSON([]byte(line), new(URL)); err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", line, err, want)
			}
		})
	}
	if err := x.ParseTSV("a", new(URL)); err == nil || err.Error() != "1 values, want 2" {
		t.Errorf("%v", err)
	}
	if _, err := NewText[URL](nil, []string{"nope"}); err == nil {
		t.Error("an unknown column was accepted")
	}
}

func TestTextExtra(t *testing.T) {
	rows := vectorURLs()
	s := withExtra(rows)
	x := NewTextOrFatal[URL](t, s, []string{"url", "note", "n", "flag"})
	const want = "{\"url\":\"http://a.test/é?q=1\",\"note\":\"note é\",\"n\":1,\"flag\":true}"
	if got := string(x.AppendJSON(nil, &rows[1], false)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var back URL
	must.OK(t, x.ParseJSON([]byte(want), &back))
	if got := string(x.AppendTSV(nil, &back)); got != "http://a.test/é?q=1\tnote é\t1\ttrue" {
		t.Errorf("got %s", got)
	}
	if got := string(x.AppendTSV(nil, &rows[2])); got != "https://b.test:8443/\t\t\t" {
		t.Errorf("got %q", got)
	}
}

// SetJSON changes the columns that x has, and no other; what it refuses changes nothing.
func TestSetJSON(t *testing.T) {
	x, err := NewText[URL](nil, []string{"priority", "score"})
	must.OK(t, err)
	row := URL{URL: "http://h.test/", Priority: 1, Score: 0.5, X: `{"a":1}`}
	want := row
	for line, says := range map[string]string{
		`{"url":"http://h.test/b"}`: "cannot be changed here", `{"x_a":2}`: "cannot be changed here", `{"other":1}`: "not one of", `{"score":null}`: "null", `{"score":"much"}`: "a number", `{} {}`: "more than one",
		`{"score":"NaN"}`: "a finite number", `{"score":"-Inf"}`: "a finite number", `{"score":1,"priority":1,"score":2}`: `"score" stands twice`, `{"score":1,"scor\u0065":1}`: "twice",
	} {
		t.Run(line, func(t *testing.T) {
			if err := x.SetJSON([]byte(line), &row); err == nil || !strings.Contains(err.Error(), says) || row != want {
				t.Errorf("%s: %v, %+v", line, err, row)
			}
		})
	}
	if err := x.SetJSON([]byte(`{"score":2}`), &row); err != nil || row.Score != 2 || row.Priority != 1 || row.X != want.X {
		t.Errorf("%v, %+v", err, row)
	}
}
