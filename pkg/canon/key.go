package canon

import "mercator/pkg/fingerprint"

// Key is the URL checksum, url_key, of a canonical URL with its parts:
// fingerprint.URLKey of what Options.KeyRules leave of the URL and of its host.
func (o Options) Key(canonical []byte, p Parts) uint64 {
	var room [512]byte
	if o.KeyRules != 0 {
		canonical, p = o.KeyRules.reduce(append(room[:0], canonical...), p)
	}
	return fingerprint.JoinKey(fingerprint.Of(canonical[p.Host:p.Path]), fingerprint.Of(canonical))
}

// URLKey is Key of a URL and its host as strings.
func (o Options) URLKey(host, canonical string) uint64 {
	return fingerprint.URLKey(o.KeyForm(host, canonical))
}

// KeyForm is what the key of a canonical URL is made of: its host and itself, as
// Options.KeyRules leave them.
func (o Options) KeyForm(host, canonical string) (keyHost, keyURL string) {
	if o.KeyRules == 0 {
		return host, canonical
	}
	b, p := o.KeyRules.reduce([]byte(canonical), PartsOf(canonical))
	keyURL = string(b)
	return keyURL[p.Host:p.Path], keyURL
}
