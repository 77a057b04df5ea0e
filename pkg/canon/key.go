package canon

import (
	"mercator/pkg/fingerprint"
)

// Key is the URL checksum (url_key) of a canonical URL with its parts.
func (o Options) Key(canonical []byte, p Parts) uint64 {
	return fingerprint.JoinKey(fingerprint.Of(canonical[p.Host:p.Path]), fingerprint.Of(canonical))
}

// URLKey is Key of a URL and its host as strings.
func (o Options) URLKey(host, canonical string) uint64 {
	return fingerprint.URLKey(host, canonical)
}
