package fetch

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
)

// hashParam is the parameter of a fetch store that names the hash function of content_fp, which is its first 64 bits. Without
// the parameter it is FP64, as in Mercator (Heydon and Najork, 1999, section 3.5). It never changes during a crawl, because
// documents are compared by content_fp.
const hashParam = "content_hash"

// contentHashes are the functions. A document with the FP64 of another can be made at once, one with 64 given bits of SHA-256 by
// some 2^64 attempts. MD5 is the one that other crawlers have for this.
var contentHashes = map[string]func() hash.Hash{
	"fp64":   func() hash.Hash { return fingerprint.New() },
	"md5":    md5.New,
	"sha256": sha256.New,
}

const wantedHashes = "fp64, md5 or sha256"

// defaultHash is the function of a store without the parameter.
const defaultHash = "fp64"

// scalesPools are of each function.
var scalesPools = func() map[string]*sync.Pool {
	pools := map[string]*sync.Pool{}
	for name, make := range contentHashes {
		pools[name] = &sync.Pool{New: func() any { return &scales{sha: sha1.New(), fp: make()} }}
	}
	return pools
}()

// CreateStore makes an empty fetch store. contentHash is the hash function of content_fp: fp64, md5 or sha256; "" is fp64.
func CreateStore(dir, contentHash string, opt store.Options) error {
	if err := checkHash(contentHash); err != nil {
		return err
	}
	var params map[string]string
	if h := cmp.Or(contentHash, defaultHash); h != defaultHash {
		params = map[string]string{hashParam: h}
	}
	return store.Create(dir, Kind, Version, params, opt)
}

// checkHash refuses the name of a function that there is not.
func checkHash(contentHash string) error {
	if _, ok := contentHashes[cmp.Or(contentHash, defaultHash)]; ok {
		return nil
	}
	return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%q", contentHash), Want: wantedHashes}
}

// hashOf is the function of a store. wanted, unless it is "", must be the same.
func hashOf(st *store.Store, m *store.Manifest, wanted string) (string, error) {
	is := cmp.Or(m.Params[hashParam], defaultHash)
	switch {
	case checkHash(is) != nil:
		return "", &fault.Error{Class: fault.Corrupt, File: st.Dir(), Place: hashParam, Found: is, Want: wantedHashes}
	case wanted != "" && wanted != is:
		return "", &fault.Error{Class: fault.Conflict, File: st.Dir(), Place: hashParam, Found: wanted, Want: is + ", by which the store was made",
			Hint: fmt.Sprintf("the function of a crawl cannot change: put %s back as sets.content_hash of crawl.toml", is)}
	}
	return is, nil
}
