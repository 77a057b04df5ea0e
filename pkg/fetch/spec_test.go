package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch/cookies"
)

// specNow is the time at which vectors are read.
var specNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func moduleStream(t testing.TB, rows ...record.Module) []byte {
	t.Helper()
	var b bytes.Buffer
	recordtest.Write(t, &b, record.WriterOptions{}, rows...)
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

// storeVectors are files of the store, with an extension that says how each is read, and cases that are none.
func storeVectors(t testing.TB) []spectest.Vector {
	good := func(name string, rows ...record.Module) spectest.Vector {
		return spectest.Vector{Name: "good/" + name, Bytes: moduleStream(t, rows...)}
	}
	bad := func(name, says string, rows ...record.Module) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: moduleStream(t, rows...), Class: fault.Corrupt, Says: says}
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
	must.OK(t, err)
	host := func(value string) record.Module { return moduleRow(moduleHost, "a.test", value) }
	rules := func(value string) record.Module { return moduleRow(moduleRobots, "http://a.test", value) }
	long := func(name, says string, row record.Module) spectest.Vector { // no file of testdata: it is large
		return spectest.Vector{Name: "bad/" + name, Class: fault.Corrupt, Says: says, Case: func(t testing.TB) error {
			file, err := readVector(t, name+".robots", moduleStream(t, row))
			wantFile(t, err, file)
			return err
		}}
	}
	noted := func(name string, known payload, cut int) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Class: fault.Corrupt, Says: "want a date, an offset and a WARC file", Case: func(t testing.TB) error {
			known.url = "http://a.test/"
			b := known.append(nil)
			_, err := parsePayload(known.digest, b[:len(b)-cut], "payloads/000002-2.run")
			wantFile(t, err, "payloads/000002-2.run")
			return err
		}}
	}
	cookie := func(value string) record.Module { return moduleRow(moduleCookie, "a.test", value) }
	redirected := func(value string) record.Module { return moduleRow(moduleLed, "http://a.test/", value) }
	const sums = `"line":"617c1bf319d701ce","names":"0314b33abc3fb090"`
	return []spectest.Vector{
		good("contacts.contacts", contacts...),
		good("hung.contacts", moduleRow(moduleHost, "a.test", "1767323046000000 20000000 1")),
		good("last.contacts", moduleRow(moduleHost, "a.test", "1767323046000000 0 0 1767323046000000 50000")),
		good("last-at.contacts", moduleRow(moduleHost, "a.test", "1767323046000000 0 2 1767323046000000 50000 192.0.2.1")),
		good("claim.contacts", contacts[0], moduleRow(moduleClaim, "b.test", "192.0.2.9"), contacts[1]),
		good("robots.robots", robots...),
		good("cookies.cookies", cookie(`{"name":"sid","value":"ü","path":"/","host_only":true,"secure":true,"set":1767323046000000,"expires":1767326646000000}`),
			cookie(`{"value":"nameless","path":"/d","set":1767323046000000}`), redirected(`{`+sums+`,"due":2,"depth":3,"via":"http://b.test/"}`)),
		{Name: "good/batch.batch", Bytes: []byte("7\n")},
		{Name: "good/batch-ended.batch", Bytes: []byte("7 1700000000000000\n")},
		{Name: "good/batch-until.batch", Bytes: []byte("7 1700000000000000 1700000001000000\n")},
		{Name: "bad/R2-cut.contacts", Bytes: moduleStream(t, contacts...)[:700], Class: fault.Truncated, Says: "frame 2"},
		{Name: "bad/R2-kind.robots", Bytes: links.Bytes(), Class: fault.WrongKind, Says: "link records, want module records"},
		bad("R3-key.contacts", "want the FP64 of key", off),
		bad("R3-no-key.robots", "want the FP64 of key", none),
		bad("R4-module.contacts", "robots, want module contact-host, contact-addr, contact-claim or contact-reach", robots[0]),
		bad("R4-module.robots", "contact-host, want module robots", contacts[1]),
		bad("R5-one-number.contacts", "want two numbers", host("1767323046000000")),
		bad("R5-negative.contacts", "want two numbers", host("1767323046000000 -1")),
		bad("R5-third.contacts", "a third number from 1 to", host("1767323046000000 1 0")),
		bad("R5-four.contacts", "want two numbers", host("1767323046000000 1 1 1767323046000000")),
		bad("R5-of-address.contacts", "want two numbers", moduleRow(moduleAddr, "192.0.2.1", "1767323046000000 0 0 1767323046000000 50000")),
		bad("R5-where.contacts", "an IP address behind five numbers", host("1767323046000000 0 0 1767323046000000 50000 a.test")),
		bad("R5-address.contacts", "want an IP address", moduleRow(moduleAddr, "a.test", contacts[0].Value)),
		bad("R5-reach.contacts", "an IP address and a number up to 32", moduleRow(moduleReach, "b.test", "1767323046000000 192.0.2.1 33")),
		bad("R5-claim.contacts", "soon, want an IP address", moduleRow(moduleClaim, "b.test", "soon")),
		bad("R6-order.contacts", "out of order", contacts[1], contacts[0]),
		bad("R7-time.robots", "a time of RFC 3339 in UTC", rules("2026-01-02T03:00:00+00:00 rules\n")),
		bad("R7-word.robots", "and rules or allow-all", rules("2026-01-02T03:00:00Z deny-all")),
		bad("R7-text.robots", "a text behind allow-all", rules("2026-01-02T03:00:00Z allow-all\nDisallow: /")),
		bad("R4-module.cookies", "robots, want module cookie or led", robots[0]),
		bad("R12-json.cookies", "a JSON object with its fields", cookie(`sid=1`)),
		bad("R12-field.cookies", "a JSON object with its fields", cookie(`{"path":"/","set":1,"same_site":"lax"}`)),
		bad("R12-two.cookies", "one JSON object", cookie(`{"path":"/","set":1} {}`)),
		bad("R12-path.cookies", "a path that begins with /", cookie(`{"name":"sid","path":"d","set":1}`)),
		bad("R12-time.cookies", "times that are not negative", cookie(`{"name":"sid","path":"/","set":1,"expires":-1}`)),
		bad("R12-character.cookies", "no character above U+00FF", cookie(`{"name":"sid","value":"€","path":"/","set":1}`)),
		bad("R13-checksum.cookies", "two checksums of 16 digits", redirected(`{"line":"7","names":"0314b33abc3fb090"}`)),
		bad("R13-due.cookies", "a number up to 10", redirected(`{`+sums+`,"due":11}`)),
		{Name: "bad/R9-time.batch", Bytes: []byte("7 soon\n"), Class: fault.Corrupt, Says: "the number of a generation"},
		{Name: "bad/R9-backwards.batch", Bytes: []byte("7 1700000000000000 1600000000000000\n"), Class: fault.Corrupt, Says: "the number of a generation"},
		{Name: "bad/R9-number.batch", Bytes: []byte("seven\n"), Class: fault.Corrupt, Says: "the number of a generation"},

		{Name: "bad/R1-kind", Class: fault.WrongKind, Says: "dns", Case: otherStore("dns", Version)},
		{Name: "bad/R1-version", Class: fault.Version, Says: "store version 2, want 1", Case: otherStore(Kind, 2)},
		long("R8-key", "bytes of key, ", moduleRow(moduleRobots, "http://"+strings.Repeat("a", 1<<16), robots[1].Value)),
		long("R8-text", "bytes of key, ", rules("2026-01-02T03:00:00Z rules\n"+strings.Repeat("#", 3*robotsTextMax+1))),
		noted("R10-offset", payload{file: "crawl-000002-1.warc.gz", offset: -1}, 0),
		noted("R10-absolute", payload{file: "/crawl-000002-1.warc.gz"}, 0),
		noted("R10-cut", payload{file: "crawl-000002-1.warc.gz"}, 20),
		{Name: "bad/R11-path", Class: fault.Corrupt, Says: "no file", Case: missingPayloads},
	}
}

// otherStore opens a store of another kind or version.
func otherStore(kind string, version int) func(t testing.TB) error {
	return func(t testing.TB) error {
		dir := filepath.Join(t.TempDir(), "fetch")
		must.OK(t, store.Create(dir, kind, version, nil, store.Options{}))
		_, err := store.Open(dir, Kind, Version, store.Options{})
		return err
	}
}

// missingPayloads opens runs of payloads without files.
func missingPayloads(t testing.TB) error {
	st := memoryStore(t)
	tx, _, err := st.Begin(t.Context(), "fetch", "")
	must.OK(t, err)
	tx.SetState(statePayloads, "payloads/000002-1.run")
	_, err = tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	tx, _, err = st.Begin(t.Context(), "fetch", "")
	must.OK(t, err)
	defer tx.Abort()
	_, err = openPayloads(st, tx)
	wantFile(t, err, st.Path("payloads/000002-1.run"))
	return err
}

// wantFile: a case's error is of that file.
func wantFile(t testing.TB, err error, file string) {
	t.Helper()
	if f := (*fault.Error)(nil); !errors.As(err, &f) || f.File != file {
		t.Errorf("%v, want a fault of %s", err, file)
	}
}

// memoryStore is a fetch store in memory.
func memoryStore(t testing.TB) *store.Store {
	t.Helper()
	fsys := crashtest.New()
	must.OK(t, CreateStore("/fetch", "", store.Options{FS: fsys}))
	st, err := store.Open("/fetch", Kind, Version, store.Options{FS: fsys})
	must.OK(t, err)
	return st
}

// readVector puts a file into a store as the kind that its name's end says, and has it read. It says which file
// that was.
func readVector(t testing.TB, name string, file []byte) (inStore string, err error) {
	t.Helper()
	st := memoryStore(t)
	kind := strings.TrimPrefix(filepath.Ext(name), ".")
	begin := func() *store.Tx {
		tx, _, err := st.Begin(t.Context(), "fetch", "")
		must.OK(t, err)
		return tx
	}
	if kind == "batch" {
		inStore = st.Path(batchFile)
		must.OK(t, durable.WriteFile(st.FS(), inStore, file))
		tx := begin()
		defer tx.Abort()
		r := &runner{opt: Options{Store: st}}
		_, _, err := r.uncleanGap(tx, 1)
		return inStore, err
	}
	tx := begin()
	commitFile(t, tx, kind, file)
	m, err := st.Current()
	must.OK(t, err)
	inStore = st.Path(m.Files[0].Path)
	switch kind {
	case roleCookies:
		return inStore, loadCookies(st, m, func(cookies.Cookie) {}, func(*led) {})
	case roleContacts:
		return inStore, newScheduler(0).load(st, m, micros(specNow.UnixMicro()))
	}
	return inStore, testCache(t).load(st, m, specNow)
}

// TestSpec holds the readers to SPEC.md and their vectors. A BATCH has no checksum.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: storeVectors(t),
		Read: func(t testing.TB, name string, file []byte) (string, error) {
			_, err := readVector(t, name, file)
			return "", err
		},
		Every: 12,
		File: func(name string) string {
			if kind := strings.TrimPrefix(filepath.Ext(name), "."); kind != "batch" {
				return "/fetch/" + kind + "-000002-0.arrows.zst"
			}
			return "/fetch/" + batchFile
		},
		Open:    func(name string, _, _ []byte, _ int) bool { return strings.HasPrefix(name, "good/batch") },
		Regions: map[string]string{"example": example(t)},
	})
}

// example is the worked example of SPEC.md, as mfetch writes it.
func example(t *testing.T) string {
	st := memoryStore(t)
	tx, _, err := st.Begin(t.Context(), "fetch", "")
	must.OK(t, err)
	s := newScheduler(500_000)
	rows := exampleContacts()
	good := moduleStream(t, rows...)
	commitFile(t, tx, roleContacts, good)
	m, err := st.Current()
	if err == nil {
		err = s.load(st, m, micros(specNow.UnixMicro()))
	}
	must.OK(t, err)
	tx, _, err = st.Begin(t.Context(), "fetch", "")
	must.OK(t, err)
	if err = s.save(tx, micros(specNow.UnixMicro())); err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	if err == nil {
		m, err = st.Current()
	}
	must.OK(t, err)
	var out strings.Builder
	var first []byte
	err = loadModules(st, m, roleContacts, func(row *record.Module) error {
		fmt.Fprintf(&out, "    %016x %s %s %s\n", row.Key, row.Module, row.Name, row.Value)
		if first == nil {
			first = record.AppendRow(nil, row)
		}
		return nil
	})
	must.OK(t, err)
	out.WriteString("\n")
	line := func(n int, note string) {
		fmt.Fprintf(&out, "    %-48s # %s\n", fmt.Sprintf("%x", first[:n]), note)
		first = first[n:]
	}
	line(1, "no unknown columns")
	line(8, "url_key")
	line(1+len(moduleAddr), "module, after its length")
	line(1+len("192.0.2.1"), "key")
	line(1+len(rows[0].Value), "value")
	return out.String()
}

// FuzzStoreFiles reads any bytes as the files beside the archive: what is wrong is a fault of the file.
func FuzzStoreFiles(f *testing.F) {
	kinds := []string{".contacts", ".robots", ".batch", ".cookies"}
	for _, v := range storeVectors(f) {
		for i := range kinds {
			f.Add(v.Bytes, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, kind uint8) {
		inStore, err := readVector(t, kinds[int(kind)%len(kinds)], file)
		if bad := (*fault.Error)(nil); err != nil && (!errors.As(err, &bad) || bad.File != inStore) {
			t.Fatalf("%v is no fault of %s", err, inStore)
		}
	})
}

// commitFile ends a transaction with one file of a role.
func commitFile(t testing.TB, tx *store.Tx, role string, data []byte) {
	t.Helper()
	f, err := tx.Create(role+"-", ".arrows.zst", role)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = tx.Commit(0, "", record.Ledger{})
	}
	must.OK(t, err)
}
