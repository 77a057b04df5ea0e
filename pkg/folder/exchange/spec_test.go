package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/run"
	"mercator/formats/spectest"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// vectorManifest is the manifest of the page's example.
func vectorManifest() *Manifest {
	h := func(n int) string { return fmt.Sprintf("%032x", n) }
	return &Manifest{Version: version, ID: ID{Exchange: "links", Round: "r12", Epoch: 2, Map: 1, Shards: 2, By: ByHost}, From: 1, Kind: record.KindLink,
		Bytes: 2000, Parts: []Sent{{Rows: 1, Hash: h(10)}, {Rows: 2, Hash: h(11)}},
		Ledger: record.Ledger{Stages: []record.Stage{
			{Name: "mextract", Txn: "r12", Made: []record.Count{{Reason: "link", N: 3}}, Out: 3, OutHash: h(9)},
			{Name: "mmerge split", Txn: "r12", In: 3, InHash: h(9), Consumed: 3},
		}}}
}

func sealManifest(t testing.TB, edit func(b *Manifest)) []byte {
	b := vectorManifest()
	edit(b)
	data, err := store.Seal(magic, b)
	must.OK(t, err)
	return data
}

// oldManifest is a manifest as version 1 had it, which did not say its version.
func oldManifest(t testing.TB) []byte {
	data, err := store.Seal(magic, json.RawMessage(`{"exchange":"links","round":"r12","epoch":2,"map":1,"shards":2,"by":"host","from":1,"kind":"link","parts":[{"rows":1,"hash":"0000000000000000000000000000000a","bytes":2000},{"rows":2,"hash":"0000000000000000000000000000000b","bytes":2100}],"ledger":{"stages":[{"name":"mextract","txn":"r12","in":0,"passed":0,"consumed":0,"made":[{"reason":"link","n":3}],"out":3,"out_hash":"00000000000000000000000000000009"},{"name":"mmerge split","txn":"r12","in":3,"in_hash":"00000000000000000000000000000009","passed":0,"consumed":3,"out":0}]}}`))
	must.OK(t, err)
	if !strings.HasPrefix(string(data), "mercator-bill 1 533 4e189acea2307d9fe464810d3f9d92ba\n") {
		t.Errorf("a manifest of version 1 began otherwise than %.60q", data)
	}
	return data
}

func vectors(t testing.TB) []spectest.Vector {
	bad := func(name, says string, edit func(b *Manifest)) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: sealManifest(t, edit), Class: fault.Corrupt, Says: says}
	}
	good := sealManifest(t, func(*Manifest) {})
	return []spectest.Vector{
		{Name: "good/manifest.json", Bytes: good, Gives: string(good)},
		bad("R1-no-shards.json", "shard 1 of 0", func(b *Manifest) { b.Shards = 0 }),
		bad("R1-513-shards.json", "shard 1 of 513", func(b *Manifest) { b.Shards = 513 }),
		bad("R1-sender.json", "shard -1 of 2", func(b *Manifest) { b.From = -1 }),
		bad("R2-exchange.json", `exchange "a/b"`, func(b *Manifest) { b.Exchange = "a/b" }),
		bad("R2-round.json", `round ""`, func(b *Manifest) { b.Round = "" }),
		bad("R2-epoch.json", "epoch 9007199254740993", func(b *Manifest) { b.Epoch = store.MaxGeneration + 1 }),
		bad("R2-map.json", "map 0", func(b *Manifest) { b.Map = 0 }),
		bad("R3-key.json", `"address" of rows of kind "link"`, func(b *Manifest) { b.By = ByAddress }),
		bad("R4-parts.json", "parts: 1, want 2", func(b *Manifest) { b.Parts = b.Parts[1:] }),
		bad("R5-bytes.json", "bytes: 0", func(b *Manifest) { b.Bytes = 0 }),
		bad("R5-hash.json", `hash "00"`, func(b *Manifest) { b.Parts[1].Hash = "00" }),
		bad("R6-rows.json", "want 4 rows", func(b *Manifest) { b.Parts[1].Rows++ }),
		bad("R6-no-ledger.json", "want 3 rows", func(b *Manifest) { b.Ledger.Stages = nil }),
		{Name: "bad/R7-version-1.json", Bytes: sealManifest(t, func(b *Manifest) { b.Version = 1 }), Class: fault.Version, Says: "version: 1, want 2"},
		{Name: "bad/R7-version-absent.json", Bytes: oldManifest(t), Class: fault.Version, Says: "version: 1, want 2"},
		{Name: "bad/R7-version-3.json", Bytes: sealManifest(t, func(b *Manifest) { b.Version = 3 }), Class: fault.Version, Says: "version: 3, want 2"},
		bad("R8-round.json", `round "r11", want "r12"`, func(b *Manifest) { b.Round = "r11" }),
		bad("R8-sender.json", `sender "0", want "1"`, func(b *Manifest) { b.From = 0 }),
		parts("good/parts.run", "", vectorParts),
		parts("bad/R9-empty.run", "0 bytes, want 1, as its manifest says", func() []byte { return []byte{} }),
		parts("bad/R10-cut.run", "no trailer", func() []byte { b := vectorParts(); return b[:len(b)-1] }),
		parts("bad/R10-kind.run", "a run of spill, want one of exchange", func() []byte { return makeParts("spill", head("r12"), forms()...) }),
		parts("bad/R11-no-schema.run", "no schema before the rows", func() []byte { return makeParts(runKind, nil, forms()...) }),
		parts("bad/R11-round.run", `link rows of round "r11"`, func() []byte { return makeParts(runKind, head("r11"), forms()...) }),
		parts("bad/R12-rows.run", "1 rows, want 2, as the manifest says", func() []byte { return makeParts(runKind, head("r12"), forms()[0]) }),
		parts("bad/R12-more.run", "more than 2 rows, want 2, as the manifest says", func() []byte { return makeParts(runKind, head("r12"), forms()[0], forms()[1], forms()[1]) }),
		parts("bad/R12-hash.run", "2 rows with hash ", func() []byte { return makeParts(runKind, head("r12"), forms()[0], forms()[0]) }),
		parts("bad/R12-form.run", "row 1 is no row of kind link", func() []byte { return makeParts(runKind, head("r12"), forms()[0], forms()[1][1:]) }),
	}
}

// parts is a vector that is a file of parts: two links from a shard that has no other beside it.
func parts(name, says string, make func() []byte) spectest.Vector {
	v := spectest.Vector{Name: name, Bytes: make(), Loose: true}
	if says == "" {
		v.Gives = "http://a.test/ http://b.test/"
		return v
	}
	v.Class, v.Says = fault.Corrupt, says
	switch {
	case strings.HasSuffix(name, "cut.run"):
		v.Class = fault.Truncated
	case strings.HasSuffix(name, "kind.run"):
		v.Class = fault.WrongKind
	}
	return v
}

func vectorParts() []byte { return makeParts(runKind, head("r12"), forms()...) }

// forms are the rows of these parts.
func forms() [][]byte {
	return [][]byte{
		record.AppendRow(nil, &record.Link{URL: "http://a.test/", Key: 1, Host: "a.test"}),
		record.AppendRow(nil, &record.Link{URL: "http://b.test/", Key: 2, Host: "b.test"}),
	}
}

// head is the stream that says what columns the rows have.
func head(round string) []byte {
	var b bytes.Buffer
	w, err := record.NewWriter[record.Link](&b, record.WriterOptions{Txn: round, Epoch: "2"})
	if err == nil {
		_, err = w.Commit(record.Ledger{})
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

func makeParts(kind string, head []byte, rows ...[]byte) []byte {
	var b bytes.Buffer
	w := run.NewWriter(&b, kind)
	if head != nil {
		_ = w.Add(0, head) // errors stick
	}
	for _, form := range rows {
		_ = w.Add(1, form)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// readParts reads a file of parts behind the manifest of the vectors' rows.
func readParts(t testing.TB, file []byte) (string, error) {
	const dir = "/c/rounds/r12/links"
	id := ID{Exchange: "links", Round: "r12", Epoch: 2, Map: 1, Shards: 1, By: ByHost}
	b := &Manifest{Version: version, ID: id, Kind: record.KindLink, Bytes: int64(max(1, len(file))),
		Parts:  []Sent{{Rows: 2, Hash: store.Sum(slices.Concat(forms()...))}},
		Ledger: record.Ledger{Stages: []record.Stage{{Name: "mmerge split", Txn: "r12", Consumed: 2}}}}
	manifest, err := store.Seal(magic, b)
	fsys := crashtest.New()
	if err = errors.Join(err, durable.MkdirAll(fsys, dir), durable.WriteFile(fsys, ManifestPath(dir, 0), manifest), durable.WriteFile(fsys, PartsPath(dir, 0), file)); err != nil {
		t.Fatal(err)
	}
	in, err := Receive(fsys, dir, id, 0)
	if err != nil {
		return "", err
	}
	rows, err := Rows[record.Link](in)
	var urls []string
	for err == nil {
		var row record.Link
		if err = rows.Read(&row); err == nil {
			urls = append(urls, row.URL)
		}
	}
	if err != io.EOF {
		return "", err
	}
	return strings.Join(urls, " "), nil
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	all := vectors(t)
	line, body, _ := strings.Cut(strings.TrimSpace(string(all[0].Bytes)), "\n")
	spectest.Check(t, spectest.Format{
		Vectors: all,
		Regions: map[string]string{"example": "    " + line + "\n    " + body + "\n"},
		File: func(name string) string {
			if strings.HasSuffix(name, partsSuffix) {
				return "/c/rounds/r12/links/000.run"
			}
			return "/001.json"
		},
		// The index of a run is read by who looks for a part far behind the first one, and its checksums by mcat --check.
		Open: func(name string, file, _ []byte, at int) bool {
			return strings.HasSuffix(name, partsSuffix) && at >= bytes.Index(file, []byte("MPAG"))
		},
		Read: func(t testing.TB, name string, file []byte) (string, error) {
			if strings.HasSuffix(name, partsSuffix) {
				return readParts(t, file)
			}
			fsys := crashtest.New()
			must.OK(t, durable.WriteFile(fsys, ManifestPath("/", 1), file))
			b, err := ReadManifest(fsys, "/", vectorManifest().ID, 1)
			if err != nil {
				return "", err
			}
			return string(sealManifest(t, func(v *Manifest) { *v = *b })), nil
		},
	})
}

// FuzzManifest: what is accepted encodes again to the same.
func FuzzManifest(f *testing.F) {
	_, body, _ := strings.Cut(string(sealManifest(f, func(*Manifest) {})), "\n")
	f.Add(body)
	f.Fuzz(func(t *testing.T, body string) {
		b, err := decodeManifest("manifest", fmt.Appendf(nil, "%s 1 %d %s\n%s", magic, len(body), store.Sum([]byte(body)), body))
		if err != nil {
			return
		}
		again, err := store.Seal(magic, b)
		must.OK(t, err)
		if once, err := decodeManifest("manifest", again); err != nil || !reflect.DeepEqual(once, b) {
			t.Fatalf("%v, %v, want %v", once, err, b)
		}
	})
}
