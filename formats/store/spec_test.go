package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/spectest"
	"mercator/pkg/fault"
)

// exampleManifest is the one of SPEC.md.
func exampleManifest() *Manifest {
	return &Manifest{Kind: "urls", Version: "1.0", Generation: 3, Parent: 2, Base: 2, Epoch: 1,
		Params: map[string]string{"polynomial": "911498ae0e66bad6"}, State: map[string]string{"batches": "2"},
		Files: []Entry{
			{Path: "000003-1.arrows.zst", Role: RoleOutput, Length: 0, Sum: sum128(nil), Born: 3, Epoch: 1},
			{Path: "runs/000002-0.fps", Role: "run", Length: 5, Sum: sum128([]byte("hello")), Born: 2},
			{Path: "warc/000002-1.warc.gz", Role: "warc", Length: 7, Growing: true, Born: 2},
			{Path: "warc/000003-0.warc.gz", Role: "warc", Length: 5, Sum: chained("hello").Sum(), Link: chained("hello").Link(), Growing: true, Born: 3, Epoch: 1},
		},
		Done: []Done{{Verb: "new", Txn: "r2", Generation: 3, Epoch: 1, InRows: 1, InHash: sum128([]byte("in")), Output: "000003-1.arrows.zst", Ledger: books("r2")}},
	}
}

func chained(s string) *Chain {
	c := NewChain()
	_, _ = c.Write([]byte(s))
	return c
}

func exampleCheckpoint() *Checkpoint {
	return &Checkpoint{Number: 2, Parent: 1, Epoch: 1, Txn: "r2", Made: "2026-11-21T10:00:00Z",
		Stores: []CheckpointStore{{Name: "frontier", Kind: "frontier", Generation: 4, Sum: sum128([]byte("a"))}, {Name: "urls", Kind: "urls", Generation: 3, Sum: sum128([]byte("b"))}},
		Ledger: books("r2"), Files: []RoundFile{{"epoch.1", 0, sum128(nil)}, {"links.arrows.zst", 3, sum128([]byte("abc"))}}}
}

func mustSeal(magic string, v any) []byte {
	b, err := seal(magic, v)
	if err != nil {
		panic(err)
	}
	return b
}

const exampleNames = namesMagic + "\nnew\tr1\t2\t1\n"

// goodVectors are accepted, and encode again to the same bytes.
func goodVectors() []spectest.Vector {
	good := func(name string, data []byte) spectest.Vector {
		return spectest.Vector{Name: "good/" + name, Bytes: data, Gives: string(data)}
	}
	return []spectest.Vector{
		good("first.manifest", mustSeal(magicManifest, &Manifest{Kind: "dns", Version: "1.0", Generation: 1, Base: 1})),
		good("full.manifest", mustSeal(magicManifest, exampleManifest())),
		good("head.head", mustSeal(magicHead, head{3})),
		good("journal.journal", mustSeal(magicJournal, journal{Generation: 4, Epoch: 1, Verb: "fetch", Txn: "r3", Serial: 1, Names: []string{"warc/000004-0.warc.gz"}})),
		good("current.current", mustSeal(magicCurrent, current{Epoch: 1, Checkpoint: 2, Last: 5, Forgotten: "1,3-4"})),
		good("two.checkpoint", mustSeal(magicCheckpoint, exampleCheckpoint())),
		good("one.names", []byte(exampleNames)),
	}
}

func badVectors() []spectest.Vector {
	sealed := func(magic string, v any, edit func([]byte) []byte) []byte { return edit(mustSeal(magic, v)) }
	headWith := func(edit func(string) string) []byte {
		return sealed(magicHead, head{3}, func(b []byte) []byte { return []byte(edit(string(b))) })
	}
	manifest := func(edit func(*Manifest)) []byte {
		m := exampleManifest()
		edit(m)
		return mustSeal(magicManifest, m)
	}
	checkpoint := func(edit func(*Checkpoint)) []byte {
		k := exampleCheckpoint()
		edit(k)
		return mustSeal(magicCheckpoint, k)
	}
	replace := func(old, new string) []byte {
		return headWith(func(s string) string { return strings.Replace(s, old, new, 1) })
	}
	bad := func(name string, data []byte, class fault.Class, says string) spectest.Vector {
		return spectest.Vector{Name: "bad/" + name, Bytes: data, Class: class, Says: says}
	}
	return []spectest.Vector{
		bad("R1-empty.head", nil, fault.Truncated, "empty file"),
		bad("R1-cut-in-line-1.head", headWith(func(s string) string { return s[:30] }), fault.Truncated, "line 1: the file ends in it"),
		bad("R2-long-line-1.head", []byte(magicHead+" "+strings.Repeat("1", 200)+"\n"), fault.Corrupt, "line 1: no end of line within 128 bytes"),
		bad("R3-manifest-as-head.head", manifest(func(*Manifest) {}), fault.WrongKind, magicManifest),
		bad("R4-version-2.head", replace(" 1.0 ", " 2.0 "), fault.Version, "version 2.0"),
		bad("R4-version-x.head", replace(" 1.0 ", " x "), fault.Corrupt, `version "x"`),
		bad("R5-length-007.head", replace(" 1.0 ", " 1.0 0"), fault.Corrupt, `line 1: length "017"`),
		bad("R5-length-70000000.head", []byte(magicHead+" 1.0 70000000 "+sum128(nil)+"\n"), fault.Corrupt, `line 1: length "70000000"`),
		bad("R5-three-fields.head", []byte(magicHead+" 1.0 0\n"), fault.Corrupt, "line 1: 3 fields"),
		bad("R6-cut-in-body.head", headWith(func(s string) string { return s[:len(s)-3] }), fault.Truncated, "bytes after line 1"),
		bad("R7-byte-after-body.head", headWith(func(s string) string { return s + "\n" }), fault.Corrupt, "1 bytes too many"),
		bad("R8-bit-in-body.head", replace(":3", ":2"), fault.Corrupt, "line 1: checksum"),
		bad("R9-not-json.head", mustSealRaw(magicHead, "{\"generation\":\n"), fault.Corrupt, "body: unexpected end of JSON"),
		bad("R10-generation-0.head", mustSeal(magicHead, head{}), fault.Corrupt, "generation: 0"),
		bad("R10-generation-0.manifest", manifest(func(m *Manifest) { m.Generation = 0 }), fault.Corrupt, "generation: 0"),
		bad("R11-kind.manifest", manifest(func(m *Manifest) { m.Kind = "URLs" }), fault.Corrupt, `kind: "URLs"`),
		bad("R11-version.manifest", manifest(func(m *Manifest) { m.Version = "1" }), fault.Corrupt, `version: "1", want`),
		bad("R12-parent-of-itself.manifest", manifest(func(m *Manifest) { m.Parent = 3 }), fault.Corrupt, "parent: 3"),
		bad("R12-base-above.manifest", manifest(func(m *Manifest) { m.Base = 4 }), fault.Corrupt, "base: 4"),
		bad("R13-path-up.manifest", manifest(func(m *Manifest) { m.Files[0].Path = "../passwd" }), fault.Corrupt, "want a path inside the store"),
		bad("R13-path-absolute.manifest", manifest(func(m *Manifest) { m.Files[0].Path = "/etc/passwd" }), fault.Corrupt, "want a path inside the store"),
		bad("R13-path-of-output.manifest", manifest(func(m *Manifest) { m.Done[0].Output = "a/../b" }), fault.Corrupt, "want a path inside the store"),
		bad("R13-path.journal", mustSeal(magicJournal, journal{Names: []string{"a//b"}}), fault.Corrupt, "want a path inside the store"),
		bad("R13-store.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Name = ".." }), fault.Corrupt, "want a folder inside the crawl"),
		bad("R14-files-not-in-order.manifest", manifest(func(m *Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] }), fault.Corrupt, "a path after"),
		bad("R14-stores-twice.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[1].Name = "frontier" }), fault.Corrupt, "a name after"),
		bad("R15-role.manifest", manifest(func(m *Manifest) { m.Files[0].Role = "" }), fault.Corrupt, `role ""`),
		bad("R16-length.manifest", manifest(func(m *Manifest) { m.Files[0].Length = -1 }), fault.Corrupt, "length -1"),
		bad("R17-no-sum.manifest", manifest(func(m *Manifest) { m.Files[0].Sum = "" }), fault.Corrupt, `sum "", want 32 hex`),
		bad("R17-link.manifest", manifest(func(m *Manifest) { m.Files[0].Link = "0" }), fault.Corrupt, "want 32 hex digits, beside a sum"),
		bad("R17-link-without-sum.manifest", manifest(func(m *Manifest) { m.Files[2].Link = sum128(nil) }), fault.Corrupt, "want 32 hex digits, beside a sum"),
		bad("R17-sum.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Sum = "0" }), fault.Corrupt, `sum "0", want 32 hex`),
		bad("R18-born-later.manifest", manifest(func(m *Manifest) { m.Files[0].Born = 4 }), fault.Corrupt, "born 4"),
		bad("R19-verb.manifest", manifest(func(m *Manifest) { m.Done[0].Verb = "New" }), fault.Corrupt, `verb "New"`),
		bad("R19-name.manifest", manifest(func(m *Manifest) { m.Done[0].Txn = "-r" }), fault.Corrupt, "want a transaction's name"),
		bad("R19-name.checkpoint", checkpoint(func(k *Checkpoint) { k.Txn = "" }), fault.Corrupt, `txn: ""`),
		bad("R20-generation-later.manifest", manifest(func(m *Manifest) { m.Done[0].Generation = 4 }), fault.Corrupt, "generation 4"),
		bad("R20-input-hash.manifest", manifest(func(m *Manifest) { m.Done[0].InHash = "z" }), fault.Corrupt, `input hash "z"`),
		bad("R21-parent-of-itself.checkpoint", checkpoint(func(k *Checkpoint) { k.Parent = 2 }), fault.Corrupt, "number above its parent's"),
		bad("R21-store-generation.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Generation = 0 }), fault.Corrupt, "store 0: generation 0"),
		bad("R22-made.checkpoint", checkpoint(func(k *Checkpoint) { k.Made = "2026-11-21T10:00:00+01:00" }), fault.Corrupt, `made: "2026`),
		bad("R27-name.checkpoint", checkpoint(func(k *Checkpoint) { k.Files[0].Name = "../a" }), fault.Corrupt, "want a name in the round's folder"),
		bad("R27-order.checkpoint", checkpoint(func(k *Checkpoint) { k.Files[1].Name = "a" }), fault.Corrupt, "want one that follows"),
		bad("R27-sum.checkpoint", checkpoint(func(k *Checkpoint) { k.Files[1].Sum = "" }), fault.Corrupt, "0 or more, and a checksum"),
		bad("R26-forgotten.current", mustSeal(magicCurrent, current{Checkpoint: 2, Last: 5, Forgotten: "3-4,1"}), fault.Corrupt, `forgotten: "3-4,1"`),
		bad("R26-forgotten-is-current.current", mustSeal(magicCurrent, current{Checkpoint: 2, Last: 5, Forgotten: "1-2"}), fault.Corrupt, `forgotten: "1-2"`),
		bad("R23-checkpoint-above-last.current", mustSeal(magicCurrent, current{Checkpoint: 2, Last: 1}), fault.Corrupt, "checkpoint 2 of 1"),
		bad("R24-first-line.names", []byte("mercator-store-names 2.0\n"), fault.Corrupt, `want "mercator-store-names 1.0"`),
		bad("R24-three-fields.names", []byte(namesMagic+"\nnew\tr1\t2\n"), fault.Corrupt, "line 2: 3 fields"),
		bad("R24-long-line.names", []byte(namesMagic+"\n"+strings.Repeat("a", 300)), fault.Corrupt, "no end of line within 256 bytes"),
		bad("R25-sum.names", []byte(exampleNames+"new\tr2\t3\t2\n"), fault.Corrupt, "whole file: checksum"),
	}
}

func mustSealRaw(magic, body string) []byte {
	return []byte(fmt.Sprintf("%s 1.0 %d %s\n%s", magic, len(body), sum128([]byte(body)), body))
}

// decode reads a vector by its extension, and encodes it again.
func decode(name string, data []byte) ([]byte, error) {
	var v any
	var err error
	magic := ""
	switch filepath.Ext(name) {
	case ".manifest":
		magic = magicManifest
		v, err = DecodeManifest(name, data)
	case ".head":
		magic = magicHead
		v, err = decodeHead(name, data)
	case ".journal":
		magic = magicJournal
		v, err = decodeJournal(name, data)
	case ".current":
		magic = magicCurrent
		v, err = decodeCurrent(name, data)
	case ".checkpoint":
		magic = magicCheckpoint
		v, err = decodeCheckpoint(name, data)
	case ".names":
		err := decodeNames(name, bytes.NewReader(data), sum128([]byte(exampleNames)), func(line []byte) error {
			_, _, err := parseName(line)
			return err
		})
		return data, err
	}
	if err != nil {
		return nil, err
	}
	return seal(magic, v)
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: append(goodVectors(), badVectors()...),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			again, err := decode(name, file)
			return string(again), err
		},
		Open: func(_ string, file, _ []byte, at int) bool { // the minor version
			dot := bytes.IndexByte(file, '.')
			return at == dot+1 && bytes.IndexByte(file, '\n') > dot
		},
		Example: mustSeal(magicHead, head{3}),
	})
}

// FuzzDecode: nothing panics, and what is accepted encodes to something that
// decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, v := range append(goodVectors(), badVectors()...) {
		f.Add(filepath.Ext(v.Name), v.Bytes)
	}
	f.Fuzz(func(t *testing.T, ext string, data []byte) {
		// The fuzzer does not find checksums by itself.
		for _, magic := range []string{magicManifest, magicHead, magicJournal, magicCurrent, magicCheckpoint} {
			if bytes.HasPrefix(data, []byte(magic)) {
				if _, body, ok := bytes.Cut(data, []byte("\n")); ok {
					data = mustSealRaw(magic, string(body))
				}
			}
		}
		again, err := decode(ext, data)
		if err != nil || again == nil {
			return
		}
		once, err := decode(ext, again)
		if err != nil || !bytes.Equal(once, again) {
			t.Fatalf("%v\n%s\n%s", err, again, once)
		}
	})
}

// TestManifestRoundTrip: every field survives.
func TestManifestRoundTrip(t *testing.T) {
	m := exampleManifest()
	b, err := m.Encode()
	must(t, err)
	got, err := DecodeManifest("m", b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
	m.Done[0].Ledger = record.Ledger{Stages: []record.Stage{{Name: strings.Repeat("x", maxBody)}}}
	if _, err := m.Encode(); err == nil {
		t.Fatal("a manifest beyond the limit was encoded")
	}
}
