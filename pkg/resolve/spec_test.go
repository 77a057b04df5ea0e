package resolve

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

var update = flag.Bool("update", false, "write testdata from the vectors in this file")

// cacheVector is one cache file of testdata. Bad ones carry the rule that they break.
type cacheVector struct {
	name  string
	rows  []record.Module
	bytes []byte
	class error  // of a bad one
	says  string // part of its error
}

// cacheStream is a cache file of rows, in stored frames, so that its bytes do not depend on a
// library's version.
func cacheStream(t testing.TB, rows ...record.Module) []byte {
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

func cacheRow(name, value string) record.Module {
	return record.Module{Key: fingerprint.OfString(name), Module: moduleName, Name: name, Value: value}
}

// exampleEntries are what the worked example of SPEC.md holds, in its order.
var exampleEntries = []struct {
	name  string
	entry entry
}{
	{"www.example.com", entry{Addr: "192.0.2.1,2001:db8::1", Expires: testNow.Add(time.Hour), CNAME: "web.example.com", Server: "192.0.2.53:53"}},
	{"no.example.com", entry{Error: StatusNXDomain, Expires: testNow.Add(time.Hour), Server: "192.0.2.53:53", Zone: "example.com."}},
	{"four.example.com", entry{Addr: "192.0.2.2", Expires: testNow.Add(time.Hour + time.Microsecond), Server: "192.0.2.53:53", Absent: "2026-01-02T03:14:05Z", Failed: StatusServFail}},
}

func exampleRows(t testing.TB) (rows []record.Module) {
	for _, x := range exampleEntries {
		value, err := x.entry.appendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, cacheRow(x.name, string(value)))
	}
	slices.SortFunc(rows, func(a, b record.Module) int { return compareRows(&a, &b) })
	return rows
}

func cacheVectors(t testing.TB) []cacheVector {
	const expires = `"expires":"2026-01-02T04:04:05Z"`
	good := func(name string, rows ...record.Module) cacheVector {
		return cacheVector{name: "good/" + name, rows: rows, bytes: cacheStream(t, rows...)}
	}
	bad := func(name, says string, rows ...record.Module) cacheVector {
		return cacheVector{name: "bad/" + name, rows: rows, bytes: cacheStream(t, rows...), class: fault.Corrupt, says: says}
	}
	value := func(name, says, members string) cacheVector {
		return bad(name, says, cacheRow("a.test", "{"+members+"}"))
	}
	example := exampleRows(t)
	other := cacheRow("a.test", `{"addr":"127.0.0.1",`+expires+`}`)
	otherModule, otherKey, noName := other, other, cacheRow("", other.Value)
	otherModule.Module = "page"
	otherKey.Key++
	var urls bytes.Buffer
	w, err := record.NewWriter[record.URL](&urls, record.WriterOptions{})
	if err == nil {
		_, err = w.Commit(record.Ledger{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return []cacheVector{
		good("01-empty"),
		good("02-example", example...),
		good("03-of-others", // another order, escapes, a member that version 1.0 does not know
			cacheRow("a.test", ` { "expires" : "2026-01-31T04:04:05.5Z" , "more" : [1] , "addr" : "127.0.0.\u0031" , "family" : "4" } `)),

		{name: "bad/R2-kind", bytes: urls.Bytes(), class: fault.WrongKind, says: "url records, want module records"},
		{name: "bad/R2-cut", bytes: cacheStream(t, example...)[:900], class: fault.Truncated, says: "frame 2"},
		bad("R3-module", `a row of module "page", want "dns"`, otherModule),
		bad("R4-key", "want the FP64 of a name", otherKey),
		bad("R4-no-name", "want the FP64 of a name", noName),
		bad("R5-twice", "out of order", example[0], example[0]),
		bad("R5-back", "out of order", example[1], example[0]),
		bad("R6-not-json", "unexpected end of JSON", cacheRow("a.test", `{"addr":"127.0.0.1",`+expires)),
		bad("R6-no-comma", "invalid character", cacheRow("a.test", `{"addr":"127.0.0.1"`+expires+`}`)),
		bad("R6-array", "cannot unmarshal array", cacheRow("a.test", `[]`)),
		value("R6-number", "family is 4, want a text", `"addr":"127.0.0.1",`+expires+`,"family":4`),
		value("R7-no-expires", `expires "", want a time`, `"addr":"127.0.0.1"`),
		value("R7-zone", "want a time of RFC 3339 in UTC", `"addr":"127.0.0.1","expires":"2026-01-02T04:04:05+00:00"`),
		value("R7-day", "want a time of RFC 3339 in UTC", `"addr":"127.0.0.1","expires":"2026-02-30T04:04:05Z"`),
		value("R8-name", "want IP addresses", `"addr":"b.test",`+expires),
		value("R8-commas", "want IP addresses", `"addr":"127.0.0.1,,127.0.0.2",`+expires),
		value("R8-zone", "want IP addresses", `"addr":"fe80::1%eth0",`+expires),
		value("R9-neither", "want one of them", expires),
		value("R9-both", "want one of them", `"addr":"127.0.0.1",`+expires+`,"error":"nxdomain"`),
		value("R10-error", "lower-case letters and hyphens", expires+`,"error":"No such name"`),
		value("R10-failed", "lower-case letters and hyphens", `"addr":"127.0.0.1",`+expires+`,"absent":"2026-01-02T04:04:05Z","failed":"SERVFAIL"`),
		value("R10-long", "at most 32", expires+`,"error":"`+strings.Repeat("x", 33)+`"`),
		value("R11-family", `family "ipv4", want 4 or 6`, `"addr":"127.0.0.1",`+expires+`,"family":"ipv4"`),
		value("R11-address", "in an answer of family 6", `"addr":"127.0.0.1",`+expires+`,"family":"6"`),
		value("R12-time", "absent", `"addr":"127.0.0.1",`+expires+`,"absent":"soon"`),
		value("R12-no-addresses", "want absent with addresses", expires+`,"error":"nxdomain","absent":"2026-01-02T04:04:05Z"`),
		value("R12-one-family", "want absent with addresses", `"addr":"127.0.0.1",`+expires+`,"family":"4","absent":"2026-01-02T04:04:05Z"`),
		value("R12-failed-alone", "want absent with addresses", `"addr":"127.0.0.1",`+expires+`,"failed":"servfail"`),
	}
}

// storeOf makes a dns store with one cache file.
func storeOf(t *testing.T, file []byte) *store.Store {
	t.Helper()
	fsys := durable.NewCrashFS() // in memory
	if err := CreateStore("/dns", store.Options{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open("/dns", StoreKind, StoreVersion, store.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	err = changeStore(t, st, func(tx *store.Tx) error {
		f, err := tx.Create("cache/", ".arrows.zst", roleCache)
		if err == nil {
			_, err = f.Write(file)
		}
		if err == nil {
			err = f.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// changeStore does one change, and returns what its part of it said.
func changeStore(t *testing.T, st *store.Store, do func(tx *store.Tx) error) error {
	t.Helper()
	tx, _, err := st.Begin(t.Context(), "resolve", "")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Abort()
	if err := do(tx); err != nil {
		return err
	}
	if _, err := tx.Commit(0, "", record.Ledger{}); err != nil {
		t.Fatal(err)
	}
	return nil
}

// TestVectors has each file read by a batch and merged by a commit. Bad ones are refused by
// both, with file and place, and leave the store as it was.
func TestVectors(t *testing.T) {
	r, err := New(Config{Servers: []string{"127.0.0.1:1"}, Family: "4"}) // of which all good vectors tell
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, v := range cacheVectors(t) {
		path := filepath.Join("testdata", v.name+".arrows.zst")
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
		st := storeOf(t, file)
		loaded := 0
		files, err := openBase(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		inStore := files[0].path
		loadErr := files.load(r, testNow, nil, func(uint64, string, *entry) error { loaded++; return nil })
		files.Close()
		fresh := newEntries(1 << 20)
		e := entry{Addr: "127.0.0.9", Expires: testNow.Add(time.Hour)}
		if err := fresh.put(fingerprint.OfString("new.test"), "new.test", &e); err != nil {
			t.Fatal(err)
		}
		commitErr := changeStore(t, st, func(tx *store.Tx) error {
			return commit(tx, fresh, func() (cacheFiles, error) { return openBase(st, tx) }, testNow)
		})
		fresh.Close()
		if v.class == nil {
			if loadErr != nil || commitErr != nil || loaded != len(v.rows) {
				t.Errorf("%s: %d rows read, %v; merged: %v", v.name, loaded, loadErr, commitErr)
			} else if got := cached(t, st); len(got) != len(v.rows)+1 {
				t.Errorf("%s: merged: %v", v.name, got)
			}
			continue
		}
		for what, err := range map[string]error{"read": loadErr, "merged": commitErr} {
			var f *fault.Error
			if !errors.As(err, &f) || !errors.Is(err, v.class) || !strings.Contains(err.Error(), v.says) || !strings.HasSuffix(f.File, inStore) || v.rows != nil && !strings.HasPrefix(f.Place, "name ") {
				t.Errorf("%s, %s: %v, want %v of %s with a place and %q", v.name, what, err, v.class, inStore, v.says)
			}
		}
		if m, err := st.Current(); err != nil || len(m.Files) != 1 || m.Files[0].Path != inStore {
			t.Errorf("%s: the store has %+v, %v", v.name, m, err)
		}
	}
	files, _ := filepath.Glob("testdata/*/*")
	for _, f := range files {
		if !want[f] {
			t.Errorf("%s is no vector of this test", f)
		}
	}
}

// TestOtherStores: R1, whose cases are stores.
func TestOtherStores(t *testing.T) {
	for name, c := range map[string]struct {
		kind, version string
		class         error
	}{
		"R1-kind":    {"content", StoreVersion, fault.WrongKind},
		"R1-version": {StoreKind, "2.0", fault.Version},
	} {
		dir := filepath.Join(t.TempDir(), "dns")
		if err := store.Create(dir, c.kind, c.version, nil, store.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(dir, StoreKind, StoreVersion, store.Options{}); !errors.Is(err, c.class) {
			t.Errorf("%s: %v, want %v", name, err, c.class)
		}
	}
}

// TestRules: each rule of SPEC.md names its vectors, and each bad vector its rule.
func TestRules(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]bool{"R1-kind": true, "R1-version": true}
	for _, v := range cacheVectors(t) {
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
		names := regexp.MustCompile("`(R\\d+-[a-z-]+)`").FindAllStringSubmatch(m[2], -1)
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

// annotated is a row of the worked example in hex: its canonical encoding (formats/record).
func annotated(row *record.Module) string {
	var out strings.Builder
	line := func(b []byte, note string) {
		for len(b) > 16 {
			fmt.Fprintf(&out, "    % x\n", b[:16])
			b = b[16:]
		}
		fmt.Fprintf(&out, "    %-47s   # %s\n", fmt.Sprintf("% x", b), note)
	}
	b := record.AppendCanonical(nil, row)
	cut := func(n int) (head []byte) { head, b = b[:n], b[n:]; return head }
	line(cut(8), fmt.Sprintf("url_key %016x", row.Key))
	line(cut(1+len(row.Module)), fmt.Sprintf("module: %d characters, %s", len(row.Module), row.Module))
	line(cut(1+len(row.Name)), fmt.Sprintf("key: %d characters, %s", len(row.Name), row.Name))
	line(cut(1), fmt.Sprintf("value: %d characters", len(row.Value)))
	for rest := row.Value; rest != ""; {
		n := strings.IndexByte(rest, ',') + 1
		for n > 0 && !strings.HasPrefix(rest[n:], `"`) { // a comma between addresses
			n += strings.IndexByte(rest[n:], ',') + 1
		}
		if n == 0 {
			n = len(rest)
		}
		line(cut(n), rest[:n])
		rest = rest[n:]
	}
	line(b, "no other column")
	return out.String()
}

// TestExample compares the example of SPEC.md with what is written.
func TestExample(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := exampleRows(t)
	var want strings.Builder
	for i := range rows {
		fmt.Fprintf(&want, "    %016x %s %s\n        %s\n", rows[i].Key, rows[i].Module, rows[i].Name, rows[i].Value)
	}
	at := slices.IndexFunc(rows, func(r record.Module) bool { return r.Name == "www.example.com" })
	for name, want := range map[string]string{"rows": want.String(), "hex": annotated(&rows[at])} {
		_, text, _ := strings.Cut(string(spec), "<!-- "+name+" -->\n")
		if text, _, _ = strings.Cut(text, "<!-- end -->"); text != want {
			t.Errorf("SPEC.md has\n%s\nwhat is written is\n%s", text, want)
		}
	}
}
