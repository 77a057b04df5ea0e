package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/fault"
)

var update = flag.Bool("update", false, "write the test vectors")

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
		Done: []Done{{Verb: "new", Txn: "r2", Generation: 3, Epoch: 1, InRows: 1, InHash: sum128([]byte("in")), Output: "000003-1.arrows.zst", Ahead: true, Ledger: books("r2")}},
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
		Ledger: books("r2")}
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
func goodVectors() map[string][]byte {
	return map[string][]byte{
		"first.manifest":  mustSeal(magicManifest, &Manifest{Kind: "dns", Version: "1.0", Generation: 1, Base: 1}),
		"full.manifest":   mustSeal(magicManifest, exampleManifest()),
		"head.head":       mustSeal(magicHead, head{3}),
		"journal.journal": mustSeal(magicJournal, journal{Generation: 4, Epoch: 1, Verb: "fetch", Txn: "r3", Serial: 1, Names: []string{"warc/000004-0.warc.gz"}}),
		"current.current": mustSeal(magicCurrent, current{Epoch: 1, Checkpoint: 2, Last: 5}),
		"two.checkpoint":  mustSeal(magicCheckpoint, exampleCheckpoint()),
		"one.names":       []byte(exampleNames),
	}
}

type badVector struct {
	name  string // rule, what, extension
	data  []byte
	class fault.Class
	found string // in the message
}

func badVectors() []badVector {
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
	return []badVector{
		{"R1-empty.head", nil, fault.Truncated, "empty file"},
		{"R1-cut-in-line-1.head", headWith(func(s string) string { return s[:30] }), fault.Truncated, "no end of line"},
		{"R2-long-line-1.head", []byte(magicHead + " " + strings.Repeat("1", 200) + "\n"), fault.Corrupt, "no end of line"},
		{"R3-manifest-as-head.head", manifest(func(*Manifest) {}), fault.WrongKind, magicManifest},
		{"R4-version-2.head", replace(" 1.0 ", " 2.0 "), fault.Version, "version 2.0"},
		{"R4-version-x.head", replace(" 1.0 ", " x "), fault.Corrupt, `version "x"`},
		{"R5-length-007.head", replace(" 1.0 ", " 1.0 0"), fault.Corrupt, "length"},
		{"R5-length-70000000.head", []byte(magicHead + " 1.0 70000000 " + sum128(nil) + "\n"), fault.Corrupt, "length"},
		{"R5-three-fields.head", []byte(magicHead + " 1.0 0\n"), fault.Corrupt, "3 fields"},
		{"R6-cut-in-body.head", headWith(func(s string) string { return s[:len(s)-3] }), fault.Truncated, "bytes after line 1"},
		{"R7-byte-after-body.head", headWith(func(s string) string { return s + "\n" }), fault.Corrupt, "1 bytes too many"},
		{"R8-bit-in-body.head", replace(":3", ":2"), fault.Corrupt, "checksum"},
		{"R9-not-json.head", mustSealRaw(magicHead, "{\"generation\":\n"), fault.Corrupt, "body"},
		{"R10-generation-0.head", mustSeal(magicHead, head{}), fault.Corrupt, "generation: 0"},
		{"R10-generation-0.manifest", manifest(func(m *Manifest) { m.Generation = 0 }), fault.Corrupt, "generation"},
		{"R11-kind.manifest", manifest(func(m *Manifest) { m.Kind = "URLs" }), fault.Corrupt, "kind"},
		{"R11-version.manifest", manifest(func(m *Manifest) { m.Version = "1" }), fault.Corrupt, "version"},
		{"R12-parent-of-itself.manifest", manifest(func(m *Manifest) { m.Parent = 3 }), fault.Corrupt, "parent"},
		{"R12-base-above.manifest", manifest(func(m *Manifest) { m.Base = 4 }), fault.Corrupt, "base"},
		{"R13-path-up.manifest", manifest(func(m *Manifest) { m.Files[0].Path = "../passwd" }), fault.Corrupt, "path"},
		{"R13-path-absolute.manifest", manifest(func(m *Manifest) { m.Files[0].Path = "/etc/passwd" }), fault.Corrupt, "path"},
		{"R13-path-of-output.manifest", manifest(func(m *Manifest) { m.Done[0].Output = "a/../b" }), fault.Corrupt, "output"},
		{"R13-path.journal", mustSeal(magicJournal, journal{Names: []string{"a//b"}}), fault.Corrupt, "path"},
		{"R13-store.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Name = ".." }), fault.Corrupt, "name"},
		{"R14-files-not-in-order.manifest", manifest(func(m *Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] }), fault.Corrupt, "a path after"},
		{"R14-stores-twice.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[1].Name = "frontier" }), fault.Corrupt, "a name after"},
		{"R15-role.manifest", manifest(func(m *Manifest) { m.Files[0].Role = "" }), fault.Corrupt, "role"},
		{"R16-length.manifest", manifest(func(m *Manifest) { m.Files[0].Length = -1 }), fault.Corrupt, "length -1"},
		{"R17-no-sum.manifest", manifest(func(m *Manifest) { m.Files[0].Sum = "" }), fault.Corrupt, "sum"},
		{"R17-link.manifest", manifest(func(m *Manifest) { m.Files[0].Link = "0" }), fault.Corrupt, "link"},
		{"R17-link-without-sum.manifest", manifest(func(m *Manifest) { m.Files[2].Link = sum128(nil) }), fault.Corrupt, "link"},
		{"R17-sum.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Sum = "0" }), fault.Corrupt, "sum"},
		{"R18-born-later.manifest", manifest(func(m *Manifest) { m.Files[0].Born = 4 }), fault.Corrupt, "born"},
		{"R19-verb.manifest", manifest(func(m *Manifest) { m.Done[0].Verb = "New" }), fault.Corrupt, "verb"},
		{"R19-name.manifest", manifest(func(m *Manifest) { m.Done[0].Txn = "-r" }), fault.Corrupt, "name"},
		{"R19-name.checkpoint", checkpoint(func(k *Checkpoint) { k.Txn = "" }), fault.Corrupt, "txn"},
		{"R20-generation-later.manifest", manifest(func(m *Manifest) { m.Done[0].Generation = 4 }), fault.Corrupt, "generation 4"},
		{"R20-input-hash.manifest", manifest(func(m *Manifest) { m.Done[0].InHash = "z" }), fault.Corrupt, "input hash"},
		{"R21-parent-of-itself.checkpoint", checkpoint(func(k *Checkpoint) { k.Parent = 2 }), fault.Corrupt, "number"},
		{"R21-store-generation.checkpoint", checkpoint(func(k *Checkpoint) { k.Stores[0].Generation = 0 }), fault.Corrupt, "generation 0"},
		{"R22-made.checkpoint", checkpoint(func(k *Checkpoint) { k.Made = "2026-11-21T10:00:00+01:00" }), fault.Corrupt, "made"},
		{"R23-checkpoint-above-last.current", mustSeal(magicCurrent, current{Checkpoint: 2, Last: 1}), fault.Corrupt, "checkpoint 2 of 1"},
		{"R24-first-line.names", []byte("mercator-store-names 2.0\n"), fault.Corrupt, "line 1"},
		{"R24-three-fields.names", []byte(namesMagic + "\nnew\tr1\t2\n"), fault.Corrupt, "3 fields"},
		{"R24-long-line.names", []byte(namesMagic + "\n" + strings.Repeat("a", 300)), fault.Corrupt, "line 2"},
		{"R25-sum.names", []byte(exampleNames + "new\tr2\t3\t2\n"), fault.Corrupt, "checksum"},
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

func TestVectors(t *testing.T) {
	good := goodVectors()
	bad := badVectors()
	if *update {
		for _, dir := range []string{"testdata/good", "testdata/bad"} {
			must(t, os.RemoveAll(dir), os.MkdirAll(dir, 0o777))
		}
		for name, data := range good {
			must(t, os.WriteFile("testdata/good/"+name, data, 0o666))
		}
		for _, v := range bad {
			must(t, os.WriteFile("testdata/bad/"+v.name, v.data, 0o666))
		}
	}
	for name, want := range good {
		data, err := os.ReadFile("testdata/good/" + name)
		must(t, err)
		again, err := decode(name, data)
		if err != nil || !bytes.Equal(again, data) || !bytes.Equal(data, want) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, again, want)
		}
	}
	for _, v := range bad {
		data, err := os.ReadFile("testdata/bad/" + v.name)
		must(t, err)
		if !bytes.Equal(data, v.data) {
			t.Errorf("%s: the file is not what the test makes", v.name)
		}
		if _, err := decode(v.name, data); !errors.Is(err, v.class) || !strings.Contains(err.Error(), v.found) {
			t.Errorf("%s: got %v, want %s with %q", v.name, err, v.class, v.found)
		}
	}
	for dir, n := range map[string]int{"good": len(good), "bad": len(bad)} {
		if list, err := os.ReadDir("testdata/" + dir); err != nil || len(list) != n {
			t.Errorf("%d files in testdata/%s, %d vectors", len(list), dir, n)
		}
	}
}

// TestRules: each rule of SPEC.md has a vector, and each vector a rule, which names it.
func TestRules(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	must(t, err)
	rules := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(R[0-9]+)\*\* (.*(?:\n  .*)*)`).FindAllStringSubmatch(string(spec), -1) {
		rules[m[1]] = m[2]
	}
	used := map[string]bool{}
	for _, v := range badVectors() {
		rule, _, _ := strings.Cut(v.name, "-")
		used[rule] = true
		if !strings.Contains(rules[rule], "`"+v.name+"`") {
			t.Errorf("rule %s of SPEC.md does not name its vector %s", rule, v.name)
		}
	}
	for rule := range rules {
		if !used[rule] {
			t.Errorf("rule %s has no vector", rule)
		}
	}
	if len(rules) == 0 {
		t.Error("SPEC.md has no rules")
	}
}

// TestExample compares the hex of SPEC.md with the encoder.
func TestExample(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	must(t, err)
	var want []byte
	for _, m := range regexp.MustCompile(`(?m)^    [0-9a-f]{4}  ((?:[0-9a-f]{2}(?: |$))+)`).FindAllStringSubmatch(string(spec), -1) {
		b, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
		must(t, err)
		want = append(want, b...)
	}
	if got := mustSeal(magicHead, head{3}); !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", hex.Dump(got), hex.Dump(want))
	}
}

// FuzzDecode: nothing panics, and what is accepted encodes to something that
// decodes to the same.
func FuzzDecode(f *testing.F) {
	for name, data := range goodVectors() {
		f.Add(filepath.Ext(name), data)
	}
	for _, v := range badVectors() {
		f.Add(filepath.Ext(v.name), v.data)
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
