package http1

import (
	"crypto/tls"
	"errors"
	"fmt"

	"mercator/pkg/fetch"
)

// A server may know no version of TLS and no cipher suite that are still thought safe: key
// exchange by RSA alone, CBC, TLS 1.0 and 1.1. Browsers and curl turn down some of these, but
// what the crawl wants is a public page, and the certificate is verified as ever. So after a
// handshake that failed for want of common parameters the same contact tries once more, on
// another connection to the same address, with all that crypto/tls knows. Reply.Error
// says so. The first connection carried no request and is closed before the second is made, so
// both are one contact: it lasts from the one's beginning to the other's end, and the gap to the
// next contact is counted from there. An origin that is sent a password is not asked again: whoever sits between could
// make both sides fall back.

// oldSuites are all that crypto/tls knows.
var oldSuites = func() (ids []uint16) {
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		ids = append(ids, s.ID)
	}
	return ids
}()

// makeOld lets config agree to what was good twenty years ago.
func makeOld(config *tls.Config) {
	config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS12
	config.CipherSuites = oldSuites
}

// isTooNew reports whether a handshake may have failed because server and client had no version or
// cipher suite in common. Some servers just close the connection then, or where the client's first message is longer than it used to be.
func isTooNew(err error) bool {
	var f *fetch.Failure
	if errors.As(err, &f) {
		err = f.Err
	}
	cause := causeOf(err)
	return cause == causeCommon || cause == causeClosed
}

// oldFault reports a connection that came about in this way.
func oldFault(state tls.ConnectionState, first error) string {
	return fmt.Sprintf("old TLS: %s with %s, after %q", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite), first)
}
