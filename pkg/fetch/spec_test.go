package fetch

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/segment"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

var update = flag.Bool("update", false, "write testdata from the vectors in this file")

// storeVector is a file of testdata; its extension says how it is read. Bad ones carry the
// rule that they break.
type storeVector struct {
	name  string
	bytes []byte
	class error  // of a bad one
	says  string // part of its error
}

// specNow is the time at which vectors are read.
var specNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func moduleStream(t testing.TB, rows ...record.Module) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter[record.Module](&b, record.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func moduleRow(module, key, value string) record.Module {
	return record.Module{Key: fingerprint.OfString(key), Module: module, Name: key, Value: value}
}

// exampleContacts are the rows of the worked example in SPEC.md.
func exampleContacts() []record.Module {
	return []record.Module{
		moduleRow(moduleAddr, "192.0.2.1", fmt.Sprintf("%d 500000", specNow.Add(1500*time.Millisecond).UnixMicro())),
		moduleRow(moduleHost, "a.test", fmt.Sprintf("%d 1000000", specNow.Add(time.Second).UnixMicro())),
	}
}

func storeVectors(t testing.TB) []storeVector {
	good := func(name string, rows ...record.Module) storeVector {
		return storeVector{name: "good/" + name, bytes: moduleStream(t, rows...)}
	}
	bad := func(name, says string, rows ...record.Module) storeVector {
		return storeVector{name: "bad/" + name, bytes: moduleStream(t, rows...), class: fault.Corrupt, says: says}
	}
	contacts := exampleContacts()
	robots := []record.Module{
		moduleRow(moduleRobots, "http://a.test", "2026-01-02T03:00:00.5Z rules\nUser-agent: *\nDisallow: /private/\n"),
		moduleRow(moduleRobots, "http://b.test:8080", "2026-01-02T02:00:00Z allow-all"),
	}
	off, none := contacts[0], moduleRow(moduleRobots, "", robots[1].Value)
	off.Key++
	var links bytes.Buffer
	w, err := record.NewWriter[record.Link](&links, record.WriterOptions{})
	if err == nil {
		_, err = w.Commit(record.Ledger{})
	}
	if err != nil {
		t.Fatal(err)
	}
	host := func(value string) record.Module { return moduleRow(moduleHost, "a.test", value) }
	rules := func(value string) record.Module { return moduleRow(moduleRobots, "http://a.test", value) }
	return []storeVector{
		good("contacts.contacts", contacts...),
		good("robots.robots", robots...),
		{name: "good/batch.batch", bytes: []byte("7\n")},
		{name: "bad/R2-cut.contacts", bytes: moduleStream(t, contacts...)[:700], class: fault.Truncated, says: "frame 2"},
		{name: "bad/R2-kind.robots", bytes: links.Bytes(), class: fault.WrongKind, says: "link records, want module records"},
		bad("R3-key.contacts", "want the FP64 of key", off),
		bad("R3-no-key.robots", "want the FP64 of key", none),
		bad("R4-module.contacts", "robots, want module contact-host", robots[0]),
		bad("R4-module.robots", "contact-host, want module robots", contacts[1]),
		bad("R5-one-number.contacts", "want two numbers", host("1767323046000000")),
		bad("R5-negative.contacts", "want two numbers", host("1767323046000000 -1")),
		bad("R5-address.contacts", "want an IP address", moduleRow(moduleAddr, "a.test", contacts[0].Value)),
		bad("R6-order.contacts", "out of order", contacts[1], contacts[0]),
		bad("R7-time.robots", "a time of RFC 3339 in UTC", rules("2026-01-02T03:00:00+00:00 rules\n")),
		bad("R7-word.robots", "and rules or allow-all", rules("2026-01-02T03:00:00Z deny-all")),
		bad("R7-text.robots", "a text behind allow-all", rules("2026-01-02T03:00:00Z allow-all\nDisallow: /")),
		{name: "bad/R9-number.batch", bytes: []byte("seven\n"), class: fault.Corrupt, says: "the number of a generation"},
	}
}

// memoryStore is a fetch store in memory.
func memoryStore(t *testing.T) *store.Store {
	t.Helper()
	fsys := durable.NewCrashFS()
	if err := CreateStore("/fetch", store.Options{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open("/fetch", Kind, Version, store.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// readVector puts a file into a store as the kind that its name's end says, and has it read. It says which file
// that was.
func readVector(t *testing.T, name string, file []byte) (inStore string, err error) {
	t.Helper()
	st := memoryStore(t)
	kind := strings.TrimPrefix(filepath.Ext(name), ".")
	begin := func() *store.Tx {
		tx, _, err := st.Begin(t.Context(), "fetch", "")
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	if kind == "batch" {
		inStore = st.Path(batchFile)
		if err := durable.WriteFile(st.FS(), inStore, file); err != nil {
			t.Fatal(err)
		}
		tx := begin()
		defer tx.Abort()
		r := &runner{opt: Options{Store: st}}
		_, err := r.unclean(tx)
		return inStore, err
	}
	tx := begin()
	f, err := tx.Create(kind+"-", ".arrows.zst", kind)
	if err == nil {
		_, err = f.Write(file)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.Current()
	if err != nil {
		t.Fatal(err)
	}
	inStore = st.Path(m.Files[0].Path)
	if kind == roleContacts {
		return inStore, newScheduler(0).load(st, m, micros(specNow.UnixMicro()))
	}
	return inStore, testCache(t).load(st, m, specNow)
}

func TestStoreVectors(t *testing.T) {
	want := map[string]bool{}
	for _, v := range storeVectors(t) {
		path := filepath.Join("testdata", v.name)
		want[path] = true
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, v.bytes, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v (go test -update writes it)", err)
		}
		if !bytes.Equal(file, v.bytes) {
			t.Errorf("%s differs from what this version makes", path)
		}
		inStore, err := readVector(t, v.name, file)
		if v.class == nil {
			if err != nil {
				t.Errorf("%s: %v", v.name, err)
			}
			continue
		}
		wantBad(t, v.name, err, v.class, v.says, inStore)
	}
	files, _ := filepath.Glob("testdata/*/*")
	for _, f := range files {
		if !want[f] {
			t.Errorf("%s is no vector of this test", f)
		}
	}
}

func wantBad(t *testing.T, name string, err, class error, says, file string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || !errors.Is(err, class) || !strings.Contains(err.Error(), says) || f.File != file {
		t.Errorf("%s: %v, want %v of %s with %q", name, err, class, file, says)
	}
}

// TestStoreRefusals has the cases of rules whose vectors are no files.
func TestStoreRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		kind, version string
		class         error
	}{
		"R1-kind":    {"dns", Version, fault.WrongKind},
		"R1-version": {Kind, "2.0", fault.Version},
	} {
		dir := filepath.Join(t.TempDir(), "fetch")
		if err := store.Create(dir, c.kind, c.version, nil, store.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(dir, Kind, Version, store.Options{}); !errors.Is(err, c.class) {
			t.Errorf("%s: %v, want %v", name, err, c.class)
		}
	}
	for name, row := range map[string]record.Module{
		"R8-key":  moduleRow(moduleRobots, "http://"+strings.Repeat("a", 1<<16), "2026-01-02T03:00:00Z allow-all"),
		"R8-text": moduleRow(moduleRobots, "http://a.test", "2026-01-02T03:00:00Z rules\n"+strings.Repeat("#", 3*robotsTextMax+1)),
	} {
		file, err := readVector(t, name+".robots", moduleStream(t, row))
		wantBad(t, name, err, fault.Corrupt, "at most", file)
	}
	for name, via := range map[string]string{"R10-offset": "crawl-000002-1.warc.gz", "R10-absolute": "/crawl-000002-1.warc.gz#0"} {
		_, err := payloadOf(&segment.Entry{URL: record.URL{URL: "http://a.test/", Via: via}}, "payloads/000002-2.seg")
		wantBad(t, name, err, fault.Corrupt, "a WARC file, #, and an offset", "payloads/000002-2.seg")
	}
	st := memoryStore(t)
	tx, _, err := st.Begin(t.Context(), "fetch", "")
	if err != nil {
		t.Fatal(err)
	}
	tx.SetState(statePayloads, "payloads/000002-1.fps payloads/000002-2.seg")
	if _, err := tx.Commit(0, "", record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	if tx, _, err = st.Begin(t.Context(), "fetch", ""); err != nil {
		t.Fatal(err)
	}
	defer tx.Abort()
	_, err = openPayloads(st, tx)
	wantBad(t, "R11-path", err, fault.Corrupt, "no file", st.Path("payloads/000002-1.fps"))
}

// TestStoreRules: each rule of SPEC.md names its vectors, and each bad vector its rule.
func TestStoreRules(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]bool{"R1-kind": true, "R1-version": true, "R8-key": true, "R8-text": true, "R10-offset": true, "R10-absolute": true, "R11-path": true}
	for _, v := range storeVectors(t) {
		if name, ok := strings.CutPrefix(v.name, "bad/"); ok {
			bad[name] = true
		}
	}
	rules := regexp.MustCompile(`(?m)^- \*\*(R\d+)\*\* (.*(?:\n  .*)*)`).FindAllStringSubmatch(string(spec), -1)
	if len(rules) == 0 {
		t.Fatal("SPEC.md has no rules")
	}
	for i, m := range rules {
		if m[1] != fmt.Sprintf("R%d", i+1) {
			t.Errorf("rule %d of SPEC.md is %s", i+1, m[1])
		}
		names := regexp.MustCompile("`(R\\d+-[a-z.-]+)`").FindAllStringSubmatch(m[2], -1)
		if len(names) == 0 {
			t.Errorf("rule %s has no vector", m[1])
		}
		for _, n := range names {
			if !bad[n[1]] || !strings.HasPrefix(n[1], m[1]+"-") {
				t.Errorf("rule %s names %s, which is no vector of it", m[1], n[1])
			}
			delete(bad, n[1])
		}
	}
	for name := range bad {
		t.Errorf("no rule of SPEC.md names %s", name)
	}
}

// TestStoreExample compares the example of SPEC.md with what mfetch writes.
func TestStoreExample(t *testing.T) {
	st := memoryStore(t)
	tx, _, err := st.Begin(t.Context(), "fetch", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newScheduler(500_000)
	rows := exampleContacts()
	good := moduleStream(t, rows...)
	f, err := tx.Create(roleContacts+"-", ".arrows.zst", roleContacts)
	if err == nil {
		_, err = f.Write(good)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.Current()
	if err == nil {
		err = s.load(st, m, micros(specNow.UnixMicro()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if tx, _, err = st.Begin(t.Context(), "fetch", ""); err != nil {
		t.Fatal(err)
	}
	if err = s.save(tx, micros(specNow.UnixMicro())); err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	if err == nil {
		m, err = st.Current()
	}
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var first []byte
	err = loadModules(st, m, roleContacts, func(row *record.Module) error {
		fmt.Fprintf(&out, "    %016x %s %s %s\n", row.Key, row.Module, row.Name, row.Value)
		if first == nil {
			first = record.AppendCanonical(nil, row)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("\n")
	line := func(n int, note string) {
		fmt.Fprintf(&out, "    %-71s   # %s\n", fmt.Sprintf("% x", first[:n]), note)
		first = first[n:]
	}
	line(8, "url_key")
	line(1+len(moduleAddr), "module, after its length")
	line(1+len("192.0.2.1"), "key")
	line(1+len(rows[0].Value), "value")
	line(1, "no other column")
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(spec), "<!-- example -->\n")
	if text, _, _ = strings.Cut(text, "<!-- end -->"); text != out.String() {
		t.Errorf("SPEC.md has\n%s\nwhat is written is\n%s", text, out.String())
	}
}

// FuzzStoreFiles reads any bytes as the files beside the archive: what is wrong is a fault of the file.
func FuzzStoreFiles(f *testing.F) {
	kinds := []string{".contacts", ".robots", ".batch"}
	for _, v := range storeVectors(f) {
		for i := range kinds {
			f.Add(v.bytes, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, kind uint8) {
		inStore, err := readVector(t, kinds[int(kind)%len(kinds)], file)
		if bad := (*fault.Error)(nil); err != nil && (!errors.As(err, &bad) || bad.File != inStore) {
			t.Fatalf("%v is no fault of %s", err, inStore)
		}
	})
}
