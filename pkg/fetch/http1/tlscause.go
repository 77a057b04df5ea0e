package http1

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch"
)

// Causes of a handshake that failed, as they begin Reply.Error. The rest is what crypto/tls says.
const (
	causeCommon    = "no version, cipher suite, curve or signature of TLS in common"
	causePlain     = "plain HTTP at a port for TLS"
	causeNoTLS     = "no TLS at this port"
	causeExpired   = "certificate expired"
	causeEarly     = "certificate not yet valid"
	causeSelf      = "self-signed certificate"
	causeAuthority = "certificate of an unknown authority"
	causeName      = "certificate for another name"
	causeInvalid   = "certificate not valid"
	causeWeak      = "key or signature of the certificate too weak"
	causeClient    = "client certificate wanted"
	causeServer    = "server name unknown to the server"
	causeClosed    = "closed during the handshake of TLS"
	causeOther     = "handshake of TLS failed"
)

// Alerts of a server (RFC 8446 section 6, RFC 6066 section 3) that name a cause. Package tls has no type for those that it
// received: they come as text in a *net.OpError.
var alertCauses = map[tls.AlertError]string{
	40: causeCommon, 47: causeCommon, 70: causeCommon, 71: causeCommon, 86: causeCommon, // handshake_failure, illegal_parameter, protocol_version, insufficient_security, inappropriate_fallback
	41: causeClient, 116: causeClient, // no_certificate, certificate_required
	112: causeServer, // unrecognized_name
}

// alertOf is the alert that a server sent, in an error of a connection.
func alertOf(err error) (alert tls.AlertError, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	for n := range 256 {
		if alert = tls.AlertError(n); op.Err.Error() == alert.Error() {
			return alert, true
		}
	}
	return 0, false
}

// isClosed reports whether the server closed a connection, or cut it.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unsecured is the Failure of a handshake, or of what came in place of the first reply; wanted: the server had asked for a client's
// certificate. A connection that was closed without an alert may come about another time.
func unsecured(err error, wanted bool) error {
	failed := fetch.Classify(err, record.OutcomeTLS)
	f, ok := errors.AsType[*fetch.Failure](failed)
	if !ok {
		return failed // the fault is this machine's
	}
	f.Unreached = true
	if f.Outcome != record.OutcomeTLS {
		return f // it took too long
	}
	cause := causeOf(err)
	switch _, isAlert := alertOf(err); {
	case cause == causeClosed && !wanted:
		f.Outcome = record.OutcomeDisconnect
	case wanted && (isAlert || cause == causeClosed):
		cause = causeClient
	}
	f.Err = fmt.Errorf("%s: %w", cause, err)
	return f
}

// causeOf names why a handshake failed.
func causeOf(err error) string {
	if alert, ok := alertOf(err); ok {
		if cause := alertCauses[alert]; cause != "" {
			return cause
		}
		return causeOther
	}
	var plain tls.RecordHeaderError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var weak x509.InsecureAlgorithmError
	text := err.Error()
	switch {
	case errors.As(err, &plain) && string(plain.RecordHeader[:]) == "HTTP/":
		return causePlain
	case errors.As(err, &plain):
		return causeNoTLS
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && strings.Contains(invalid.Detail, "is before"):
		return causeEarly
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return causeExpired
	case errors.As(err, &weak), strings.Contains(text, "keys are insecure"):
		return causeWeak
	case errors.As(err, &authority) && authority.Cert != nil && bytes.Equal(authority.Cert.RawSubject, authority.Cert.RawIssuer):
		return causeSelf
	case errors.As(err, &authority):
		return causeAuthority
	case errors.As(err, new(x509.HostnameError)):
		return causeName
	case errors.As(err, &invalid), errors.As(err, new(*tls.CertificateVerificationError)):
		return causeInvalid
	case isClosed(err):
		return causeClosed
	case strings.Contains(text, "server selected unsupported"), strings.Contains(text, "server chose an unconfigured"), strings.Contains(text, "server selected an invalid"):
		return causeCommon
	}
	return causeOther
}

const authoritiesMax = 4 << 20 // bytes of a file

// ReadAuthorities reads a PEM file of certificates. Their authorities are trusted beside the system's.
func ReadAuthorities(path string) (*tls.Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, authoritiesMax+1))
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, File: path, Err: err}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has none
	}
	if len(text) > authoritiesMax || !roots.AppendCertsFromPEM(text) {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no certificate", Want: fmt.Sprintf("certificates in PEM (-----BEGIN CERTIFICATE-----), at most %d bytes", authoritiesMax),
			Hint: fault.Quote("openssl", "x509", "-inform", "der", "-in", path) + " makes PEM of one in DER"}
	}
	return &tls.Config{RootCAs: roots}, nil
}
