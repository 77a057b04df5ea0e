package urldb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/focus/classify"
	"mercator/pkg/focus/distill"
)

// The database has each URL once, is made again when the crawl went on, and only then; what is none is refused.
func TestDatabase(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	topic := record.NewSchema(record.KindFetch, record.Column{Name: classify.TopicColumn, Text: true})
	key := func(host, url string) uint64 { return fingerprint.URLKey(host, url) }
	fetch := func(host string, score float32, sense string, status uint16) record.Fetch {
		url := "http://" + host + "/"
		return record.Fetch{URL: url, Key: key(host, url), Host: host, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: status, Score: score,
			Extra: topic.Texts(func(string) string { return sense })}
	}
	link := func(from, to string) record.Link {
		src, url := "http://"+from+"/", "http://"+to+"/"
		return record.Link{SrcURL: src, SrcKey: key(from, src), URL: url, Key: key(to, url), Host: to, LinkKind: "a", Depth: 1}
	}
	files := []distill.File{
		{Path: recordtest.File(t, filepath.Join(dir, "marked1"), topic, fetch("a.test", 0.9, "mouse.rodent", 200), fetch("b.test", 0.6, "mouse.device", 200), fetch("c.test", 0, "", 404), fetch("e.test", 0, "", 301))},
		{Path: recordtest.File(t, filepath.Join(dir, "links1"), nil, link("a.test", "b.test"), link("a.test", "d.test"), link("b.test", "a.test")), Links: true},
	}
	folder := distill.Open(filepath.Join(dir, "focus"), distill.Options{Memory: 4 << 20})
	// Names that mean something in a URL are only names.
	path := filepath.Join(dir, "urls ?#%41.sqlite")
	update := func(wasCurrent bool) {
		t.Helper()
		_, err := folder.Update(ctx, files)
		must.OK(t, err)
		if is, err := Current(path, folder); err != nil || is != wasCurrent {
			t.Errorf("current: %v, %v; want %v", is, err, wasCurrent)
		}
		must.OK(t, Make(ctx, path, folder))
	}
	list := func(q Query) (got []string) {
		t.Helper()
		must.OK(t, Each(ctx, path, q, func(r *Row) error {
			got = append(got, fmt.Sprintf("%s %s %.1f %v %s %d %s", r.URL, r.Sense, r.Relevance, r.Hub > 0, r.FoundOn, r.Depth, r.Status))
			return nil
		}))
		return got
	}
	update(false)
	update(true)
	want := []string{"http://a.test/ mouse.rodent 0.9 true  0 fetched", "http://b.test/ mouse.device 0.6 true  0 fetched",
		"http://c.test/  0.0 false  0 failed", "http://d.test/  0.0 false http://a.test/ 1 waiting",
		"http://e.test/  0.0 false  0 redirect"}
	if got := list(Query{By: "relevance"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for q, n := range map[Query]int{{By: "url", Most: 2}: 2, {By: "hub", Sense: "mouse.device"}: 1, {By: "authority", Status: "waiting"}: 1, {By: "url", Sense: "none"}: 0} {
		t.Run(fmt.Sprint(q), func(t *testing.T) {
			if got := list(q); len(got) != n {
				t.Errorf("%+v: %q", q, got)
			}
		})
	}
	if got, err := Senses(ctx, path); err != nil || !slices.Equal(got, []string{"mouse.device", "mouse.rodent"}) {
		t.Errorf("senses %q, %v", got, err)
	}
	files = append(files, distill.File{Path: recordtest.File(t, filepath.Join(dir, "marked2"), topic, fetch("d.test", 0.7, "mouse.device", 200))})
	update(false)
	if got := list(Query{By: "url", Status: "waiting"}); len(got) != 0 {
		t.Errorf("%q", got)
	}

	b, err := os.ReadFile(path)
	must.OK(t, err)
	for name, tt := range map[string]struct {
		edit func([]byte) []byte
		want error
	}{
		"another file":   {func(b []byte) []byte { return []byte("SQLite format 3") }, fault.WrongKind},
		"another use":    {func(b []byte) []byte { b[71]++; return b }, fault.WrongKind},
		"version":        {func(b []byte) []byte { b[63]++; return b }, fault.Version},
		"cut":            {func(b []byte) []byte { return b[:len(b)/2] }, fault.Corrupt},
		"only a header":  {func(b []byte) []byte { return b[:100] }, fault.Corrupt},
		"damaged tables": {func(b []byte) []byte { clear(b[100:8192]); return b }, fault.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			must.OK(t, os.WriteFile(path, tt.edit(slices.Clone(b)), 0o666))
			if err := Each(ctx, path, Query{By: "url"}, func(*Row) error { return nil }); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
			if _, err := Current(path, folder); !errors.Is(err, tt.want) && name != "cut" {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*urls*")); err != nil || len(left) != 1 {
		t.Errorf("%q, %v", left, err)
	}
}
