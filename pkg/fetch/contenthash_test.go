package fetch

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// A store's function makes content_fp, and stays.
func TestContentHash(t *testing.T) {
	const body = "a document"
	md, sha := md5.Sum([]byte(body)), sha256.Sum256([]byte(body))
	for name, want := range map[string]uint64{"": fingerprint.OfString(body), "fp64": fingerprint.OfString(body), "md5": binary.BigEndian.Uint64(md[:]), "sha256": binary.BigEndian.Uint64(sha[:])} {
		t.Run(name, func(t *testing.T) {
			opt := store.Options{FS: crashtest.New()}
			must.OK(t, CreateStore("/fetch", name, opt), CreateStore("/fetch", name, opt))
			st, err := store.Open("/fetch", Kind, Version, opt)
			must.OK(t, err)
			m, err := st.Current()
			must.OK(t, err)
			is, err := hashOf(st, m, name)
			must.OK(t, err)
			for range 2 { // scales are used again
				s := scalesPools[is].Get().(*scales)
				s.sha.Reset()
				s.fp.Reset()
				s.fp.Write([]byte(body))
				row := record.Fetch{BodyLength: int64(len(body))}
				s.enter(&row)
				scalesPools[is].Put(s)
				if row.ContentFP != want {
					t.Errorf("%s: content_fp %016x, want %016x", name, row.ContentFP, want)
				}
			}
			other := "md5"
			if is == other {
				other = "sha256"
			}
			if _, err := hashOf(st, m, other); !errors.Is(err, fault.Conflict) {
				t.Errorf("%s for a store of %s: %v", other, is, err)
			}
			if err := CreateStore("/fetch", other, opt); !errors.Is(err, fault.Usage) {
				t.Errorf("made again with %s: %v", other, err)
			}
			m.Params = map[string]string{hashParam: "sha3"}
			if _, err := hashOf(st, m, ""); !errors.Is(err, fault.Corrupt) {
				t.Errorf("an unknown function: %v", err)
			}
		})
	}
	if err := CreateStore("/fetch", "sha3", store.Options{FS: crashtest.New()}); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}
