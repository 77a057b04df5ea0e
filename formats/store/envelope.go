package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/pkg/base/fault"
	"mercator/pkg/base/release"
)

// Every small file of a store is a line of text that says what it is and holds
// the checksum of the rest, and then JSON:
//
//	mercator-store-manifest 1 312 9f3a…\n
//	{"kind":"urls",…}\n
const (
	magicManifest = "mercator-store-manifest"
	magicHead     = "mercator-store-head"
	magicJournal  = "mercator-store-journal"
	magicAttempt  = "mercator-store-attempt"
	magicCurrent  = "mercator-crawl-current"

	version = 1 // of every small file; any other version is refused

	maxHeader = 128      // bytes of the first line
	maxBody   = 64 << 20 // bytes of JSON

	// MagicCheckpoint begins the file of a checkpoint, which package crawl writes.
	MagicCheckpoint = "mercator-checkpoint"
	// MaxFile bounds such a file, in bytes.
	MaxFile = maxHeader + maxBody
)

// Sum is the checksum of everything in this package: xxh3-128, 32 hex digits.
func Sum(b []byte) string {
	s := xxh3.Hash128(b).Bytes()
	return hex.EncodeToString(s[:])
}

// Seal encodes v under a magic.
func Seal(magic string, v any) ([]byte, error) { return SealAs(magic, version, v) }

// SealAs is Seal of a file with versions of its own.
func SealAs(magic string, version int, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	if len(body) > maxBody {
		return nil, fmt.Errorf("%s of %d bytes, at most %d are allowed", magic, len(body), maxBody)
	}
	head := fmt.Sprintf("%s %d %d %s\n", magic, version, len(body), Sum(body))
	return append([]byte(head), body...), nil
}

// Unseal decodes the file name, of content data, into v. It checks magic, version,
// length and checksum before it looks at the JSON.
func Unseal(name, magic string, data []byte, v any) error {
	_, err := UnsealAs(release.Store, name, magic, version, data, v)
	return err
}

// UnsealAs is Unseal of a file with versions of its own, from 1 to newest. It returns the file's version.
func UnsealAs(of release.Format, name, magic string, newest int, data []byte, v any) (is int, err error) {
	corrupt := func(place, found, want string) (int, error) {
		return 0, &fault.Error{Class: fault.Corrupt, File: name, Place: place, Found: found, Want: want}
	}
	if len(data) == 0 {
		return 0, &fault.Error{Class: fault.Truncated, File: name, Found: "empty file", Want: magic}
	}
	line, _, ok := bytes.Cut(data[:min(len(data), maxHeader)], []byte("\n"))
	if !ok {
		switch n := min(len(line), len(magic)); {
		case string(line[:n]) != magic[:n]:
			return 0, &fault.Error{Class: fault.WrongKind, File: name, Place: "line 1", Found: strconv.Quote(clip(string(line))), Want: magic}
		case len(data) < maxHeader:
			return 0, &fault.Error{Class: fault.Truncated, File: name, Place: "line 1", Found: "the file ends in it"}
		}
		return corrupt("line 1", fmt.Sprintf("no end of line within %d bytes", maxHeader), "")
	}
	body := data[len(line)+1:]
	field := strings.Split(string(line), " ")
	if field[0] != magic {
		return 0, &fault.Error{Class: fault.WrongKind, File: name, Place: "line 1", Found: strconv.Quote(field[0]), Want: magic}
	}
	if len(field) < 2 {
		return corrupt("line 1", "no version", strconv.Itoa(newest))
	}
	if is, err = strconv.Atoi(field[1]); err != nil || is < 1 || is > newest || strconv.Itoa(is) != field[1] {
		return 0, otherVersion(of, name, "line 1", magic, clip(field[1]), newest)
	}
	if len(field) != 4 {
		return corrupt("line 1", fmt.Sprintf("%d fields", len(field)), "4")
	}
	length, err := strconv.ParseUint(field[2], 10, 31)
	if err != nil || length > maxBody || strconv.FormatUint(length, 10) != field[2] {
		return corrupt("line 1", "length "+strconv.Quote(field[2]), fmt.Sprintf("at most %d", maxBody))
	}
	if n := uint64(len(body)); n < length {
		return 0, &fault.Error{Class: fault.Truncated, File: name, Place: fmt.Sprintf("byte %d", len(data)),
			Found: fmt.Sprintf("%d bytes after line 1", n), Want: field[2]}
	} else if n > length {
		return corrupt(fmt.Sprintf("byte %d", uint64(len(line)+1)+length), fmt.Sprintf("%d bytes too many", n-length), "")
	}
	if s := Sum(body); s != field[3] {
		return corrupt("line 1", "checksum "+s, field[3])
	}
	if err := json.Unmarshal(body, v); err != nil {
		return 0, &fault.Error{Class: fault.Corrupt, File: name, Place: "body", Err: err}
	}
	return is, nil
}

func otherVersion(of release.Format, file, place, what, have string, want int) error {
	found, _ := strconv.ParseUint(have, 10, 64)
	return &fault.Error{Class: fault.Version, File: file, Place: place,
		Found: fmt.Sprintf("%s version %s", what, have), Want: strconv.Itoa(want),
		Hint: release.Reader(of, found)}
}
