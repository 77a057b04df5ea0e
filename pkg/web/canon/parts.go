package canon

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Parts say where the parts of a canonical URL begin:
//
//	http://www.example.com:8080/a/b?c
//	       Host                Path
//	                               Query
type Parts struct {
	Host  int // the host begins here, behind "://"
	Path  int // the path's "/", where host and port end
	Query int // the query's "?", or the length of the URL
}

// PartsOf finds the parts of a canonical URL.
func PartsOf(canonical string) Parts {
	scheme, host, rest := Split(canonical)
	p := Parts{Host: len(scheme) + len("://")}
	p.Path = p.Host + len(host)
	p.Query = len(canonical)
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		p.Query = p.Path + i
	}
	return p
}

// Split cuts a canonical URL into scheme, host (with its port, if any) and the
// rest: path and query.
func Split(canonical string) (scheme, host, rest string) {
	scheme, after, _ := strings.Cut(canonical, "://")
	i := strings.IndexByte(after, '/')
	if i < 0 {
		return scheme, after, ""
	}
	return scheme, after[:i], after[i:]
}

// RegisteredDomain returns the name that was registered under a public suffix:
// "example.co.uk" for "www.example.co.uk:8080". The private section of the public
// suffix list counts: what people register with a hoster, "anna.github.io", are
// domains of their own, since they are sites of different people. An address, and a
// name that is itself a public suffix, is returned as it is, without port.
func RegisteredDomain(host string) string {
	name, _ := SplitPort(host)
	if isAddr(name) {
		return name
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

// Domains are the domains of a host name by the public suffix list.
type Domains struct {
	RegistrySuffix, Registered string // by the list's section of registries: "io" and "github.io" for anna.github.io
	PrivateSuffix, Private     string // by the whole list: "github.io" and "anna.github.io"
}

// DomainsOf finds the suffixes of a name without port, and the domains registered under them. A name that is a suffix has no
// domain under it, and an address has neither. A name under no suffix of the list has its last label as suffix.
func DomainsOf(name string) (d Domains) {
	if name == "" || isAddr(name) {
		return d
	}
	d.PrivateSuffix, _ = publicsuffix.PublicSuffix(name)
	d.RegistrySuffix = d.PrivateSuffix
	for {
		_, registry := publicsuffix.PublicSuffix(d.RegistrySuffix)
		_, parent, more := strings.Cut(d.RegistrySuffix, ".")
		if registry || !more {
			break
		}
		d.RegistrySuffix, _ = publicsuffix.PublicSuffix(parent)
	}
	d.Registered, d.Private = under(name, d.RegistrySuffix), under(name, d.PrivateSuffix)
	return d
}

// under is the part of a name that has one label more than its suffix; "" if there is none.
func under(name, suffix string) string {
	rest, ok := strings.CutSuffix(name, "."+suffix)
	if !ok {
		return ""
	}
	return name[strings.LastIndexByte(rest, '.')+1:]
}

// SplitPort cuts a canonical host into its name and its port, "" if it has none.
// An IPv6 address keeps its brackets.
func SplitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// DefaultPort is the port that a scheme's URLs leave out, "" if the scheme is none of
// http, https, ftp and gopher.
func DefaultPort(scheme string) string { return known[scheme] }

func isAddr(name string) bool {
	if strings.HasPrefix(name, "[") {
		return true
	}
	if n := len(name); n == 0 || name[n-1] > '9' { // no error is made for most names
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
