package canon

import "mercator/pkg/base/fingerprint"

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

// KeyForm returns the host and the URL that the key of a canonical URL is made of: its own, as
// Options.KeyRules leave them.
func (o Options) KeyForm(host, canonical string) (keyHost, keyURL string) {
	if o.KeyRules == 0 {
		return host, canonical
	}
	b, p := o.KeyRules.reduce([]byte(canonical), PartsOf(canonical))
	keyURL = string(b)
	return keyURL[p.Host:p.Path], keyURL
}

// Redirect returns the canonical form, the host and the key of the target of a
// redirect that stands at from, a canonical URL.
//
// A server that redirects one spelling of a URL to another means the other one. Where
// the rules would make them one, neither would ever be fetched: the one answers with
// the redirect, the other is seen. So the target then keeps what Options.URLRules take
// away, and has the key of RedirectForm. It is fetched once.
func (o Options) Redirect(from, ref string) (canonical, host string, key uint64, err error) {
	for {
		base, err := o.Base(from)
		if err != nil {
			return "", "", 0, err
		}
		if canonical, host, err = base.Resolve(ref); err != nil {
			return "", "", 0, err
		}
		if canonical != from || o.URLRules == 0 {
			break
		}
		o.URLRules = 0
	}
	key = o.URLKey(host, canonical)
	if _, fromHost, _ := Split(from); canonical != from && key == o.URLKey(fromHost, from) {
		key = fingerprint.URLKey(o.RedirectForm(host, canonical))
	}
	return canonical, host, key, nil
}

// RedirectForm returns the host and the URL that the key of a redirect's target is made of, where
// the rules take source and target for one: the host as KeyForm has it, so that the key is among the
// host's, and the URL with a "#", which stands in no canonical URL and so makes a
// key that is seen at no other occasion. Of what differs without end, session ids and
// tracking arguments, the rules leave none: a server that opens a session with a redirect
// at every visit would lead from one to the next for ever.
func (o Options) RedirectForm(host, canonical string) (keyHost, keyURL string) {
	keyHost, _ = o.KeyForm(host, canonical)
	o.KeyRules &= SessionIDs | Tracking
	_, keyURL = o.KeyForm(host, canonical)
	return keyHost, keyURL + "#"
}
