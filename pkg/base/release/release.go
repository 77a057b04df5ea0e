// Package release holds the version of this release, and which releases read which version of each format.
//
// # Invariants
//
//   - A release reads all that a release before it wrote, from FirstRelease on: folders of crawls, stores, files.
//   - A format gets a new version where its older readers would misread it. Its reader then takes the version before, too, and its line in
//     formats gets one more version, with the release that brings it; testdata/golden gets a crawl of that release.
//   - A file that cannot be read names the release that reads it.
package release

import "slices"

// Version is of this release: --version says it, packages are named after it.
const Version = "1.0.0"

// First is the release from which on all are read.
const First = "1.0.0"

// Format names a format in messages.
type Format string

// The formats that say their version. The page of each is the SPEC.md in the folder that formats names.
const (
	Fingerprints Format = "fingerprint file"
	Bloom        Format = "Bloom filter"
	Records      Format = "record stream"
	Run          Format = "run"
	Store        Format = "file of a store"
	Exchange     Format = "manifest of an exchange"
	Map          Format = "bucket map"
)

// OfStore is the format of stores of a kind.
func OfStore(kind string) Format { return Format(kind + " store") }

// version is a version of a format, and the first release that writes it. read is the last that reads it; "": this one does.
type version struct {
	n           uint64
	since, read string
}

// formats has the versions of each format, the oldest first. Versions before the first of a list are of no release.
var formats = map[Format]struct {
	page     string // folder of its SPEC.md; "": it has none
	versions []version
}{
	Fingerprints: {"formats/fpfile", []version{{1, First, ""}}},
	Bloom:        {"formats/bloom", []version{{2, First, ""}}},
	Records:      {"formats/record", []version{{3, First, ""}}},
	Run:          {"formats/run", []version{{1, First, ""}}},
	Store:        {"formats/store", []version{{1, First, ""}}},
	Exchange:     {"pkg/folder/exchange", []version{{2, First, ""}}},
	Map:          {"pkg/folder/shard", []version{{1, First, ""}, {2, First, ""}}},

	OfStore("frontier"): {"pkg/frontier", []version{{3, First, ""}}},
	OfStore("urls"):     {"pkg/fpset", []version{{1, First, ""}}},
	OfStore("content"):  {"pkg/fpset", []version{{1, First, ""}}},
	OfStore("fetch"):    {"pkg/fetch", []version{{1, First, ""}}},
	OfStore("module"):   {"pkg/web/process", []version{{1, First, ""}}},
	OfStore("render"):   {"", []version{{1, First, ""}}},
	OfStore("dns"):      {"", []version{{1, First, ""}}},
}

// Reader is a hint for who has a file of a version of a format that this release does not read: which release does.
func Reader(of Format, found uint64) string {
	if f, ok := formats[of]; ok {
		return hint(f.versions, found)
	}
	return "another release wrote it: use that one"
}

func hint(versions []version, found uint64) string {
	i := slices.IndexFunc(versions, func(v version) bool { return v.n == found })
	switch {
	case found > versions[len(versions)-1].n:
		return "a release after " + Version + " wrote it: use that one, or a later one; if there was none, the file is damaged"
	case i < 0:
		return "it is older than release " + First + ", the first whose files are read"
	case versions[i].read != "":
		return "release " + versions[i].read + " reads it"
	}
	return "release " + versions[i].since + " or a later one reads it"
}
