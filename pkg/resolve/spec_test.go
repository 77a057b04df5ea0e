package resolve

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
)

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
	{"no.example.com", entry{Error: StatusNXDomain, Expires: testNow.Add(time.Hour), Server: "192.0.2.53:53"}},
	{"four.example.com", entry{Addr: "192.0.2.2", Expires: testNow.Add(time.Hour + time.Microsecond), Server: "192.0.2.53:53"}},
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

func cacheVectors(t testing.TB) []spectest.Vector {
	const expires = `"expires":"2026-01-02T04:04:05Z"`
	good := func(name string, rows ...record.Module) spectest.Vector {
		return spectest.Vector{Name: "good/" + name, Bytes: cacheStream(t, rows...), Gives: fmt.Sprintf("%d rows", len(rows))}
	}
	bad := func(name, says string, rows ...record.Module) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: cacheStream(t, rows...), Class: fault.Corrupt, Says: says}
	}
	value := func(name, says, members string) spectest.Vector {
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
	return []spectest.Vector{
		good("01-empty"),
		good("02-example", example...),
		good("03-of-others", // another order, escapes, a member that version 1.0 does not know
			cacheRow("a.test", ` { "expires" : "2026-01-31T04:04:05.5Z" , "more" : [1] , "addr" : "127.0.0.\u0031" , "family" : "4" } `)),

		{Name: "bad/R1-kind", Class: fault.WrongKind, Says: "content", Case: otherStore("content", StoreVersion)},
		{Name: "bad/R1-version", Class: fault.Version, Says: "store version 2, want 1", Case: otherStore(StoreKind, 2)},
		{Name: "bad/R2-kind", Bytes: urls.Bytes(), Class: fault.WrongKind, Says: "url records, want module records"},
		{Name: "bad/R2-cut", Bytes: cacheStream(t, example...)[:900], Class: fault.Truncated, Says: "frame 2"},
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
		value("R7-zone", `expires "2026-01-02T04:04:05+00:00", want a time of RFC 3339 in UTC`, `"addr":"127.0.0.1","expires":"2026-01-02T04:04:05+00:00"`),
		value("R7-day", `expires "2026-02-30T04:04:05Z", want a time of RFC 3339 in UTC`, `"addr":"127.0.0.1","expires":"2026-02-30T04:04:05Z"`),
		value("R8-name", "want IP addresses", `"addr":"b.test",`+expires),
		value("R8-commas", "want IP addresses", `"addr":"127.0.0.1,,127.0.0.2",`+expires),
		value("R8-zone", "want IP addresses", `"addr":"fe80::1%eth0",`+expires),
		value("R9-neither", "want one of them", expires),
		value("R9-both", "want one of them", `"addr":"127.0.0.1",`+expires+`,"error":"nxdomain"`),
		value("R10-error", "lower-case letters and hyphens", expires+`,"error":"No such name"`),
		value("R10-long", "at most 32", expires+`,"error":"`+strings.Repeat("x", 33)+`"`),
		value("R11-family", `family "ipv4", want 4 or 6`, `"addr":"127.0.0.1",`+expires+`,"family":"ipv4"`),
		value("R11-address", "in an answer of family 6", `"addr":"127.0.0.1",`+expires+`,"family":"6"`),
	}
}

// storeOf makes a dns store with one cache file.
func storeOf(t testing.TB, file []byte) *store.Store {
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
func changeStore(t testing.TB, st *store.Store, do func(tx *store.Tx) error) error {
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

// otherStore opens a store of another kind or version, which R1 refuses.
func otherStore(kind string, version int) func(t testing.TB) error {
	return func(t testing.TB) error {
		dir := filepath.Join(t.TempDir(), "dns")
		if err := store.Create(dir, kind, version, nil, store.Options{}); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(dir, StoreKind, StoreVersion, store.Options{})
		return err
	}
}

// readCache has a file read by a batch and merged by a commit. What is bad is refused by both, with file and place, and leaves
// the store as it was.
func readCache(t testing.TB, r *Resolver, file []byte) (gives string, err error) {
	t.Helper()
	st := storeOf(t, file)
	rows := 0
	files, err := openBase(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	loadErr := files.load(r, testNow, nil, func(uint64, string, *entry) error { rows++; return nil })
	files.Close()
	fresh := newEntries(1 << 20)
	defer fresh.Close()
	e := entry{Addr: "127.0.0.9", Expires: testNow.Add(time.Hour)}
	if err := fresh.put(fingerprint.OfString("new.test"), "new.test", &e); err != nil {
		t.Fatal(err)
	}
	commitErr := changeStore(t, st, func(tx *store.Tx) error {
		return commit(tx, fresh, func() (cacheFiles, error) { return openBase(st, tx) }, testNow)
	})
	if loadErr == nil && commitErr == nil {
		if got := cached(t, st); len(got) != rows+1 {
			t.Errorf("%d rows and one more, merged: %v", rows, got)
		}
		return fmt.Sprintf("%d rows", rows), nil
	}
	var read, merged *fault.Error
	if !errors.As(loadErr, &read) || !errors.As(commitErr, &merged) || read.Class != merged.Class || read.File != merged.File || read.Place != merged.Place {
		t.Errorf("read: %v; merged: %v", loadErr, commitErr)
	} else if read.Class == fault.Corrupt && !strings.HasPrefix(read.Place, "name ") && !strings.HasPrefix(read.Place, "frame ") {
		t.Errorf("%v, want a frame or a name", loadErr)
	}
	if m, err := st.Current(); err != nil || m.Generation != 2 || len(m.Files) != 1 {
		t.Errorf("the store has %+v, %v", m, err)
	}
	return "", loadErr
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	r, err := New(Config{Servers: []string{"127.0.0.1:1"}, Family: "4"}) // of which all good vectors tell
	if err != nil {
		t.Fatal(err)
	}
	rows := exampleRows(t)
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, "    %016x %s %s\n        %s\n", rows[i].Key, rows[i].Module, rows[i].Name, rows[i].Value)
	}
	at := slices.IndexFunc(rows, func(r record.Module) bool { return r.Name == "www.example.com" })
	spectest.Check(t, spectest.Format{
		Ext:     ".arrows.zst",
		Vectors: cacheVectors(t),
		Read:    func(t testing.TB, _ string, file []byte) (string, error) { return readCache(t, r, file) },
		Every:   12,
		File:    func(string) string { return "/dns/cache/000002-0.arrows.zst" },
		Regions: map[string]string{"rows": text.String(), "hex": annotated(&rows[at])},
	})
}

// annotated is a row of the worked example in hex: its byte form (formats/record).
func annotated(row *record.Module) string {
	var out strings.Builder
	line := func(b []byte, note string) {
		for len(b) > 16 {
			fmt.Fprintf(&out, "    % x\n", b[:16])
			b = b[16:]
		}
		fmt.Fprintf(&out, "    %-47s   # %s\n", fmt.Sprintf("% x", b), note)
	}
	b := record.AppendRow(nil, row)
	cut := func(n int) (head []byte) { head, b = b[:n], b[n:]; return head }
	line(cut(1), "no unknown columns")
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
	return out.String()
}
