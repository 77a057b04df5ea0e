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
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
)

// exampleManifest is the one of SPEC.md.
func exampleManifest() *Manifest {
	return &Manifest{Kind: "urls", Version: 1, Generation: 3, Parent: 2, Base: 2, Epoch: 1,
		Params: map[string]string{"polynomial": "911498ae0e66bad6"}, State: map[string]string{"batches": "2"},
		Files: []Entry{
			{Path: "000003-1.arrows.zst", Role: RoleOutput, Length: 0, Sum: Sum(nil), Born: 3, Epoch: 1},
			{Path: "runs/000002-0.fps", Role: "run", Length: 5, Sum: Sum([]byte("hello")), Born: 2},
			{Path: "warc/000002-1.warc.gz", Role: "warc", Length: 7, Growing: true, Born: 2},
			{Path: "warc/000003-0.warc.gz", Role: "warc", Length: 5, Sum: chained("hello").Sum(), Link: chained("hello").Link(), Growing: true, Born: 3, Epoch: 1},
		},
		Done: []Done{{Verb: "new", Txn: "r2", Generation: 3, Epoch: 1, InRows: 1, InHash: Sum([]byte("in")), Output: "000003-1.arrows.zst", Ledger: record.Ledger{Stages: []record.Stage{{Name: "murlset new", Store: "urls", Txn: "r2", Made: []record.Count{{Reason: "text", N: 3}}, Out: 3, OutHash: Sum(nil)}}}}},
	}
}

func chained(s string) *Chain {
	c := NewChain()
	_, _ = c.Write([]byte(s))
	return c
}

func mustSeal(magic string, v any) []byte {
	b, err := Seal(magic, v)
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
		good("first.manifest", mustSeal(magicManifest, &Manifest{Kind: "dns", Version: 1, Generation: 1, Base: 1})),
		good("full.manifest", mustSeal(magicManifest, exampleManifest())),
		good("head.head", mustSeal(magicHead, head{3})),
		good("journal.journal", mustSeal(magicJournal, journal{Generation: 4, Epoch: 1, Verb: "fetch", Txn: "r3", Serial: 1, Names: []string{"warc/000004-0.warc.gz"}})),
		good("current.current", mustSeal(magicCurrent, Current{Epoch: 1, Checkpoint: 2, Txn: "r2", Stores: map[string]uint64{"frontier": 4, "modules/tags": 2, "urls": 3}, Last: 5, Forgotten: "1,3-4"})),
		good("shards.current", mustSeal(magicCurrent, Current{Checkpoint: 1, Txn: "r1", Stores: map[string]uint64{"shard/000/urls": 3, "shard/001/urls": 2}, Last: 1, Map: 1})),
		good("node.attempt", mustSeal(magicAttempt, exampleAttempt(4, 1))),
		good("one.names", []byte(exampleNames)),
	}
}

func exampleAttempt(generation, number uint64) *Attempt {
	return &Attempt{Generation: generation, Number: number, Time: "2026-01-02T03:04:05Z", Ended: true,
		Process: durable.Process{Host: "node1", Boot: "5ad3c0e2-7a5a-4c6a-9a6b-0d1f2e3c4b5a pid:[4026531836]", PID: 4242, Start: "81325"}}
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
		bad("R4-version-2.head", replace(" 1 ", " 2 "), fault.Version, "line 1: mercator-store-head version 2, want 1"),
		bad("R4-version-1.0.head", replace(" 1 ", " 1.0 "), fault.Version, "version 1.0, want 1"),
		bad("R5-length-007.head", replace(" 1 ", " 1 0"), fault.Corrupt, `line 1: length "017"`),
		bad("R5-length-70000000.head", []byte(magicHead+" 1 70000000 "+Sum(nil)+"\n"), fault.Corrupt, `line 1: length "70000000"`),
		bad("R5-three-fields.head", []byte(magicHead+" 1 0\n"), fault.Corrupt, "line 1: 3 fields"),
		bad("R6-cut-in-body.head", headWith(func(s string) string { return s[:len(s)-3] }), fault.Truncated, "bytes after line 1"),
		bad("R7-byte-after-body.head", headWith(func(s string) string { return s + "\n" }), fault.Corrupt, "1 bytes too many"),
		bad("R8-bit-in-body.head", replace(":3", ":2"), fault.Corrupt, "line 1: checksum"),
		bad("R9-not-json.head", mustSealRaw(magicHead, "{\"generation\":\n"), fault.Corrupt, "body: unexpected end of JSON"),
		bad("R10-generation-0.head", mustSeal(magicHead, head{}), fault.Corrupt, "generation: 0"),
		bad("R10-generation-0.manifest", manifest(func(m *Manifest) { m.Generation = 0 }), fault.Corrupt, "generation: 0"),
		bad("R11-kind.manifest", manifest(func(m *Manifest) { m.Kind = "URLs" }), fault.Corrupt, `kind: "URLs"`),
		bad("R11-version.manifest", manifest(func(m *Manifest) { m.Version = 0 }), fault.Corrupt, `version: 0, want 1 or more`),
		bad("R12-parent-of-itself.manifest", manifest(func(m *Manifest) { m.Parent = 3 }), fault.Corrupt, "parent: 3"),
		bad("R12-base-above.manifest", manifest(func(m *Manifest) { m.Base = 4 }), fault.Corrupt, "base: 4"),
		bad("R13-path-up.manifest", manifest(func(m *Manifest) { m.Files[0].Path = "../passwd" }), fault.Corrupt, "want a path inside the store"),
		bad("R13-path-absolute.manifest", manifest(func(m *Manifest) { m.Files[0].Path = "/etc/passwd" }), fault.Corrupt, "want a path inside the store"),
		bad("R13-path-of-output.manifest", manifest(func(m *Manifest) { m.Done[0].Output = "a/../b" }), fault.Corrupt, "want a path inside the store"),
		bad("R13-path.journal", mustSeal(magicJournal, journal{Names: []string{"a//b"}}), fault.Corrupt, "want a path inside the store"),
		bad("R14-files-not-in-order.manifest", manifest(func(m *Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] }), fault.Corrupt, "a path after"),
		bad("R15-role.manifest", manifest(func(m *Manifest) { m.Files[0].Role = "" }), fault.Corrupt, `role ""`),
		bad("R16-length.manifest", manifest(func(m *Manifest) { m.Files[0].Length = -1 }), fault.Corrupt, "length -1"),
		bad("R17-no-sum.manifest", manifest(func(m *Manifest) { m.Files[0].Sum = "" }), fault.Corrupt, `sum "", want 32 hex`),
		bad("R17-link.manifest", manifest(func(m *Manifest) { m.Files[0].Link = "0" }), fault.Corrupt, "want 32 hex digits, beside a sum"),
		bad("R17-link-without-sum.manifest", manifest(func(m *Manifest) { m.Files[2].Link = Sum(nil) }), fault.Corrupt, "want 32 hex digits, beside a sum"),
		bad("R18-born-later.manifest", manifest(func(m *Manifest) { m.Files[0].Born = 4 }), fault.Corrupt, "born 4"),
		bad("R19-verb.manifest", manifest(func(m *Manifest) { m.Done[0].Verb = "New" }), fault.Corrupt, `verb "New"`),
		bad("R19-name.manifest", manifest(func(m *Manifest) { m.Done[0].Txn = "-r" }), fault.Corrupt, "want a transaction's name"),
		bad("R20-generation-later.manifest", manifest(func(m *Manifest) { m.Done[0].Generation = 4 }), fault.Corrupt, "generation 4"),
		bad("R20-input-hash.manifest", manifest(func(m *Manifest) { m.Done[0].InHash = "z" }), fault.Corrupt, `input hash "z"`),
		bad("R24-forgotten.current", mustSeal(magicCurrent, Current{Checkpoint: 2, Last: 5, Forgotten: "3-4,1"}), fault.Corrupt, `forgotten: "3-4,1"`),
		bad("R24-forgotten-is-current.current", mustSeal(magicCurrent, Current{Checkpoint: 2, Last: 5, Forgotten: "1-2"}), fault.Corrupt, `forgotten: "1-2"`),
		bad("R21-checkpoint-above-last.current", mustSeal(magicCurrent, Current{Checkpoint: 2, Last: 1}), fault.Corrupt, "checkpoint 2 of 1"),
		bad("R25-generation-0.current", mustSeal(magicCurrent, Current{Stores: map[string]uint64{"urls": 0}}), fault.Corrupt, `stores: "urls": 0`),
		bad("R25-folder.current", mustSeal(magicCurrent, Current{Stores: map[string]uint64{"../urls": 1}}), fault.Corrupt, "want folders inside the crawl"),
		bad("R26-map.current", mustSeal(magicCurrent, Current{Map: MaxGeneration + 1}), fault.Corrupt, "map: 9007199254740993, want at most"),
		bad("R27-generation-0.attempt", mustSeal(magicAttempt, exampleAttempt(0, 1)), fault.Corrupt, "attempt: ATTEMPT-000000.1"),
		bad("R27-number.attempt", mustSeal(magicAttempt, exampleAttempt(4, MaxGeneration/serials+1)), fault.Corrupt, "an attempt of 0 to 9007199254"),
		bad("R22-first-line.names", []byte("mercator-store-names 2\n"), fault.Corrupt, `want "mercator-store-names 1"`),
		bad("R22-three-fields.names", []byte(namesMagic+"\nnew\tr1\t2\n"), fault.Corrupt, "line 2: 3 fields"),
		bad("R22-long-line.names", []byte(namesMagic+"\n"+strings.Repeat("a", 300)), fault.Corrupt, "no end of line within 256 bytes"),
		bad("R23-sum.names", []byte(exampleNames+"new\tr2\t3\t2\n"), fault.Corrupt, "whole file: checksum"),
	}
}

func mustSealRaw(magic, body string) []byte {
	return []byte(fmt.Sprintf("%s 1 %d %s\n%s", magic, len(body), Sum([]byte(body)), body))
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
	case ".attempt":
		magic = magicAttempt
		v, err = decodeAttempt(name, data)
	case ".current":
		magic = magicCurrent
		v, err = decodeCurrent(name, data)
	case ".names":
		err := decodeNames(name, bytes.NewReader(data), Sum([]byte(exampleNames)), func(line []byte) error {
			_, _, err := parseName(line)
			return err
		})
		return data, err
	}
	if err != nil {
		return nil, err
	}
	return Seal(magic, v)
}

// TestSpec holds the reader to SPEC.md and its vectors.
func TestSpec(t *testing.T) {
	spectest.Check(t, spectest.Format{
		Vectors: append(goodVectors(), badVectors()...),
		Read: func(_ testing.TB, name string, file []byte) (string, error) {
			again, err := decode(name, file)
			return string(again), err
		},
		Regions: map[string]string{"example": "```\n" + string(mustSeal(magicHead, head{3})) + "```\n"},
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
		for _, magic := range []string{magicManifest, magicHead, magicJournal, magicAttempt, magicCurrent} {
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
	must.OK(t, err)
	got, err := DecodeManifest("m", b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
	m.Done[0].Ledger = record.Ledger{Stages: []record.Stage{{Name: strings.Repeat("x", maxBody)}}}
	if _, err := m.Encode(); err == nil {
		t.Fatal("a manifest beyond the limit was encoded")
	}
}
