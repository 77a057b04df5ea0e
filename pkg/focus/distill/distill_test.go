package distill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/costtest"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/focus/classify"
)

// web is a small crawl: rounds of pages and their links.
type web struct {
	t     *testing.T
	dir   string
	files []File
}

func newWeb(t *testing.T) *web { return &web{t: t, dir: t.TempDir()} }

func key(host, url string) uint64 { return fingerprint.URLKey(host, url) }

type doc struct {
	host, path string
	relevance  float32
	topic      string
	to         [][2]string // host, path
}

func (d *doc) url() string { return "http://" + d.host + d.path }

var withTopic = record.NewSchema(record.KindFetch, record.Column{Name: classify.TopicColumn, Text: true})

// round adds the files of a round.
func (w *web) round(name string, docs ...doc) {
	w.t.Helper()
	var fetches []record.Fetch
	var links []record.Link
	for _, d := range docs {
		f := record.Fetch{URL: d.url(), Key: key(d.host, d.url()), Host: d.host, Role: record.RolePage, Outcome: record.OutcomeFetched, Status: 200, Score: d.relevance}
		if d.relevance < 0 {
			f.Status = 404
		}
		f.Extra = withTopic.Texts(func(string) string { return d.topic })
		fetches = append(fetches, f)
		for _, to := range d.to {
			url := "http://" + to[0] + to[1]
			links = append(links, record.Link{SrcURL: d.url(), SrcKey: f.Key, URL: url, Key: key(to[0], url), Host: to[0], LinkKind: "a", Score: d.relevance})
		}
	}
	w.files = append(w.files, File{Path: write(w, name+"-marked", withTopic, fetches)}, File{write(w, name+"-links", nil, links), true})
}

func write[T record.Row](w *web, name string, like *record.Schema, rows []T) string {
	w.t.Helper()
	return recordtest.File(w.t, filepath.Join(w.dir, name), like, rows...)
}

var options = Options{Memory: 4 << 20, Threshold: DefaultThreshold, Steps: DefaultSteps}

func (w *web) update(dir string, files int) bool {
	w.t.Helper()
	changed, err := Open(filepath.Join(w.dir, dir), options).Update(context.Background(), w.files[:files])
	must.OK(w.t, err)
	return changed
}

// contents are the bytes of the runs of a folder, by kind.
func (w *web) contents(dir string) (all []string) {
	w.t.Helper()
	s, err := Open(filepath.Join(w.dir, dir), options).state()
	must.OK(w.t, err)
	for _, kind := range []string{pagesKind, linksKind, scoresKind} {
		b, err := os.ReadFile(Open(filepath.Join(w.dir, dir), options).path(kind, s.Runs))
		must.OK(w.t, err)
		all = append(all, string(b))
	}
	return all
}

func (w *web) scores(dir string) map[string][2]float64 {
	w.t.Helper()
	got := map[string][2]float64{}
	must.OK(w.t, Open(filepath.Join(w.dir, dir), options).Each(context.Background(), func(p *Page, hub, authority float64) error {
		got[p.URL.URL] = [2]float64{hub, authority}
		return nil
	}))
	return got
}

// A hub links to two good pages of other hosts and to one that waits; links within a host, to irrelevant pages and from them count nothing.
func TestHub(t *testing.T) {
	w := newWeb(t)
	w.round("r1",
		doc{"hub.test", "/", 0.9, "mouse.rodent", [][2]string{{"a.test", "/"}, {"b.test", "/"}, {"new.test", "/"}, {"hub.test", "/own"}, {"bad.test", "/"}, {"gone.test", "/"}}},
		doc{"bad.test", "/", 0, "", [][2]string{{"a.test", "/"}, {"worse.test", "/"}}},
		doc{"gone.test", "/", -1, "", nil})
	w.round("r2",
		doc{"a.test", "/", 1, "mouse.rodent", [][2]string{{"a.test", "/2"}, {"other.test", "/"}}},
		doc{"b.test", "/", 0.8, "mouse.device", [][2]string{{"a.test", "/"}}},
		doc{"hub.test", "/own", 0.7, "", nil})
	w.update("focus", 4)
	got := w.scores("focus")
	hub, a, b := got["http://hub.test/"], got["http://a.test/"], got["http://b.test/"]
	if !(hub[0] > 0.5 && hub[1] == 0 && a[1] > b[1] && b[1] > 0 && b[0] > 0 && a[0] == 0) {
		t.Errorf("hub %v, a %v, b %v", hub, a, b)
	}
	for _, none := range []string{"http://bad.test/", "http://worse.test/", "http://new.test/", "http://hub.test/own", "http://gone.test/"} {
		if s, there := got[none]; !there || s != [2]float64{} {
			t.Errorf("%s: %v, there %v", none, s, there)
		}
	}
	var raised []string
	raise := func(most int) {
		t.Helper()
		raised = nil
		must.OK(t, Open(filepath.Join(w.dir, "focus"), options).Raise(context.Background(), most, func(r *Raised) error {
			raised = append(raised, fmt.Sprintf("%s %s %d %.3f", r.URL.URL, r.URL.Via, r.HubCount, r.Promise))
			return nil
		}))
	}
	// Its own relevance and the relevances of a, b, /own and bad: (0.9+1+0.8+0.7+0)/5. b, the second hub, links to nothing that waits.
	if raise(10); !slices.Equal(raised, []string{"http://new.test/ http://hub.test/ 1 0.680"}) {
		t.Errorf("%q", raised)
	}
	if raise(1); len(raised) != 1 {
		t.Errorf("%q", raised)
	}
	if raise(0); len(raised) != 0 {
		t.Errorf("%q", raised)
	}
	topics := map[string]string{}
	must.OK(t, Open(filepath.Join(w.dir, "focus"), options).Each(context.Background(), func(p *Page, _, _ float64) error {
		topics[p.URL.URL] = fmt.Sprint(p.Topic, " ", p.Relevance, " ", p.Status)
		return nil
	}))
	if topics["http://b.test/"] != "mouse.device 0.8 2" || topics["http://gone.test/"] != " 0 1" || topics["http://new.test/"] != " 0 0" {
		t.Errorf("%v", topics)
	}
}

// random adds rounds of pages that link to each other at random.
func (w *web) random(rounds, pages int) {
	dice := rand.New(rand.NewSource(1))
	place := func() [2]string {
		return [2]string{fmt.Sprintf("h%d.test", dice.Intn(12)), fmt.Sprintf("/%d", dice.Intn(pages/2))}
	}
	for r := range rounds {
		var docs []doc
		for range pages {
			at := place()
			d := doc{host: at[0], path: at[1], relevance: []float32{0, 0.3, 0.6, 1}[dice.Intn(4)]}
			for range dice.Intn(20) {
				d.to = append(d.to, place())
			}
			docs = append(docs, d)
		}
		w.round(fmt.Sprintf("r%d", r+1), docs...)
	}
}

// The scores agree with the definition, worked out in memory; by rounds they are the same bytes as at once.
func TestAgainstDefinition(t *testing.T) {
	w := newWeb(t)
	w.random(5, 120)
	for n := 2; n <= len(w.files); n += 2 {
		if !w.update("byrounds", n) {
			t.Error("nothing changed")
		}
	}
	if w.update("byrounds", len(w.files)) {
		t.Error("changed without new files")
	}
	w.update("atonce", len(w.files))
	if !slices.Equal(w.contents("byrounds"), w.contents("atonce")) {
		t.Error("by rounds and at once differ")
	}
	if left, err := os.ReadDir(filepath.Join(w.dir, "byrounds")); err != nil || len(left) != 5 {
		t.Errorf("%q, %v", left, err)
	}

	relevance, links := map[uint64]float64{}, map[[2]uint64]bool{}
	names := map[string]uint64{}
	for _, file := range w.files {
		in, err := os.Open(file.Path)
		must.OK(t, err)
		defer in.Close()
		if file.Links {
			each(t, in, func(l *record.Link) { links[[2]uint64{l.SrcKey, l.Key}] = true; names[l.URL] = l.Key })
		} else {
			each(t, in, func(f *record.Fetch) { relevance[f.Key] = float64(f.Score); names[f.URL] = f.Key })
		}
	}
	share := map[[3]uint64]float64{} // source's host and target, or source and target's host
	var edges [][2]uint64
	for e := range links {
		if host(e[0]) != host(e[1]) && relevance[e[0]] > 0 && relevance[e[1]] > DefaultThreshold {
			edges = append(edges, e)
			share[[3]uint64{0, host(e[0]), e[1]}]++
			share[[3]uint64{1, e[0], host(e[1])}]++
		}
	}
	hub, authority := map[uint64]float64{}, map[uint64]float64{}
	for _, e := range edges {
		hub[e[0]] = 1
	}
	scale := func(of map[uint64]float64) {
		sum := 0.0
		for _, x := range of {
			sum += x
		}
		for k := range of {
			of[k] /= sum
		}
	}
	for range DefaultSteps {
		authority = map[uint64]float64{}
		for _, e := range edges {
			authority[e[1]] += hub[e[0]] * relevance[e[0]] / share[[3]uint64{0, host(e[0]), e[1]}]
		}
		scale(authority)
		hub = map[uint64]float64{}
		for _, e := range edges {
			hub[e[0]] += authority[e[1]] * relevance[e[1]] / share[[3]uint64{1, e[0], host(e[1])}]
		}
		scale(hub)
	}
	got := w.scores("atonce")
	if len(got) != len(names) || len(edges) < 100 {
		t.Errorf("%d pages, want %d; %d links that count", len(got), len(names), len(edges))
	}
	for url, k := range names {
		if s := got[url]; math.Abs(s[0]-hub[k]) > 1e-6 || math.Abs(s[1]-authority[k]) > 1e-6 {
			t.Errorf("%s: %v, want %v %v", url, s, hub[k], authority[k])
		}
	}
}

func each[T record.Row](t *testing.T, in *os.File, of func(*T)) {
	t.Helper()
	rows, _ := recordtest.Rows[T](t, in)
	for i := range rows {
		of(&rows[i])
	}
}

// A crawl that went back to a checkpoint has other files: nothing of the old ones is left. Damage is noticed.
func TestBegunAnew(t *testing.T) {
	w := newWeb(t)
	w.random(3, 40)
	w.update("focus", len(w.files))
	w.update("two", 4)
	undone := *w
	undone.files = undone.files[:4]
	if !undone.update("focus", 4) || !slices.Equal(undone.contents("focus"), undone.contents("two")) {
		t.Error("rounds that were undone are still there")
	}
	s, err := Open(filepath.Join(w.dir, "focus"), options).state()
	must.OK(t, err)
	for _, kind := range []string{pagesKind, scoresKind} {
		path := Open(filepath.Join(w.dir, "focus"), options).path(kind, s.Runs)
		b, err := os.ReadFile(path)
		must.OK(t, err)
		must.OK(t, os.WriteFile(path, b[:len(b)-1], 0o666))
		err = Open(filepath.Join(w.dir, "focus"), options).Each(context.Background(), func(*Page, float64, float64) error { return nil })
		if !errors.Is(err, fault.Truncated) {
			t.Errorf("cut %s: %v", kind, err)
		}
		if !undone.update("focus", 4) || !slices.Equal(undone.contents("focus"), undone.contents("two")) {
			t.Errorf("cut %s: not made again", kind)
		}
		s, err = Open(filepath.Join(w.dir, "focus"), options).state()
		must.OK(t, err)
	}
	if err := Open(filepath.Join(w.dir, "none"), options).Each(context.Background(), nil); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
	other := state{Version: stateVersion + 1}
	b, _ := json.Marshal(other)
	must.OK(t, os.WriteFile(filepath.Join(w.dir, "focus", stateName), b, 0o666))
	if !undone.update("focus", 4) || !slices.Equal(undone.contents("focus"), undone.contents("two")) {
		t.Error("a folder of another version is not made again")
	}
}

// A hub with many links that are seen at each visit costs one pass.
func TestLargeHub(t *testing.T) {
	w := newWeb(t)
	hub := doc{host: "hub.test", path: "/", relevance: 1}
	for i := range 100_000 {
		hub.to = append(hub.to, [2]string{fmt.Sprintf("h%d.test", i%100), fmt.Sprintf("/%d", i)})
	}
	w.round("r1", hub)
	slices.Reverse(hub.to)
	hub.to = append(hub.to, [2]string{"new.test", "/"})
	w.round("r2", hub)
	if took := costtest.Of(func() {
		w.update("byrounds", 2)
		w.update("byrounds", 4)
		w.update("atonce", 4)
	}); took > 20*time.Second {
		t.Errorf("took %v of processor time, want at most 20s", took)
	}
	if got := w.contents("byrounds"); !slices.Equal(got, w.contents("atonce")) || len(got[1]) < 8*100_001 {
		t.Errorf("by rounds and at once differ, or links are gone: %d bytes", len(got[1]))
	}
}

// A page that is fetched again and has not changed keeps its topic and relevance, also where the server says 200.
func TestUnchanged(t *testing.T) {
	w := newWeb(t)
	w.round("r1", doc{"a.test", "/", 0.9, "mouse.rodent", nil})
	again := record.Fetch{URL: "http://a.test/", Key: key("a.test", "http://a.test/"), Host: "a.test", Role: record.RolePage, Outcome: record.OutcomeFetched,
		Status: 200, Score: 0.3, Duplicate: true, ContentFP: 7, LastContentFP: 7}
	w.files = append(w.files, File{Path: write(w, "r2-marked", withTopic, []record.Fetch{again})})
	again.LastContentFP = 8
	w.files = append(w.files, File{Path: write(w, "r3-marked", withTopic, []record.Fetch{again})})
	for n, want := range map[int]string{3: "mouse.rodent 0.9", 4: " 0.3"} {
		w.update(fmt.Sprint("focus", n), n)
		must.OK(t, Open(filepath.Join(w.dir, fmt.Sprint("focus", n)), options).Each(context.Background(), func(p *Page, _, _ float64) error {
			if got := fmt.Sprint(p.Topic, " ", p.Relevance); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			return nil
		}))
	}
}

// A damaged block is noticed by the next update, which begins anew. What a killed one left is removed.
func TestDamagedBlock(t *testing.T) {
	w := newWeb(t)
	w.random(3, 40)
	w.update("want", len(w.files))
	for _, kind := range []string{pagesKind, linksKind} {
		dir := filepath.Join(w.dir, kind)
		w.update(kind, 4)
		path := Open(dir, options).path(kind, 0)
		b, err := os.ReadFile(path)
		must.OK(t, err)
		b[len(b)/2] ^= 1
		must.OK(t, os.WriteFile(path, b, 0o666))
		if kind == pagesKind {
			err := Open(dir, options).Each(context.Background(), func(*Page, float64, float64) error { return nil })
			if want := "mfocus makes it anew; remove it: rm -r " + dir; !errors.Is(err, fault.Corrupt) || fault.HintOf(err) != want {
				t.Errorf("%v, hint %q, want %q", err, fault.HintOf(err), want)
			}
		}
		dead := exec.Command("true")
		must.OK(t, dead.Run())
		file, err := durable.Create(durable.OS, path)
		must.OK(t, err)
		mine, err := filepath.Glob(filepath.Join(dir, ".*"+durable.TempSuffix))
		if err != nil || len(mine) != 1 {
			t.Fatalf("%q, %v", mine, err)
		}
		left := strings.Replace(mine[0], fmt.Sprintf(".%d-", os.Getpid()), fmt.Sprintf(".%d-", dead.Process.Pid), 1)
		must.OK(t, os.Rename(mine[0], left))
		file.Abort()
		if !w.update(kind, len(w.files)) || !slices.Equal(w.contents(kind), w.contents("want")) {
			t.Errorf("%s: not made again", kind)
		}
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", left, err)
		}
	}
}

// An update waits for another one, and says so.
func TestWaits(t *testing.T) {
	w := newWeb(t)
	w.random(1, 4)
	dir := filepath.Join(w.dir, "focus")
	w.update("focus", 1)
	other, err := Open(dir, options).lock(context.Background(), 0)
	must.OK(t, err)
	said := false
	opt := options
	opt.Waiting = func(err error) {
		said = errors.Is(err, fault.Busy)
		time.AfterFunc(100*time.Millisecond, func() { other.Close() })
	}
	if changed, err := Open(dir, opt).Update(context.Background(), w.files); err != nil || !changed || !said {
		t.Errorf("changed %v, said %v, %v", changed, said, err)
	}
}
