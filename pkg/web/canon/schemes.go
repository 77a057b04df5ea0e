package canon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nlnwa/whatwg-url/url"
)

// Schemes are the URL schemes that are crawled. All are hierarchical with a host,
// which WHATWG calls special (the standard has since dropped gopher).
type Schemes struct {
	ports  map[string]string // by name
	parser url.Parser
}

// known are the schemes that need no port named.
var known = map[string]string{"http": "80", "https": "443", "ftp": "21", "gopher": "70"}

var usual = newSchemes(known)

func newSchemes(ports map[string]string) *Schemes {
	special := map[string]string{"ws": "80", "wss": "443", "file": ""}
	for _, all := range []map[string]string{known, ports} {
		for name, port := range all {
			special[name] = port
		}
	}
	return &Schemes{ports, url.NewParser(url.WithSpecialSchemes(special))}
}

// ParseSchemes reads a list of schemes: http, https, ftp, gopher, and others with
// their default ports, such as gemini:1965.
func ParseSchemes(list []string) (*Schemes, error) {
	if len(list) == 0 {
		return nil, &Error{ReasonScheme, "none, want one or more"}
	}
	ports := make(map[string]string, len(list))
	for _, s := range list {
		name, port, _ := strings.Cut(s, ":")
		if standard, ok := known[name]; ok && (port == "" || port == standard) {
			ports[name] = standard
			continue
		}
		n, err := strconv.ParseUint(port, 10, 16)
		_, taken := known[name]
		if err != nil || n == 0 || taken || name == "ws" || name == "wss" || name == "file" || schemeLen([]byte(name+":")) != len(name) || strings.ToLower(name) != name {
			return nil, &Error{ReasonScheme, fmt.Sprintf("%q, want http, https, ftp, gopher, or another with its default port, such as gemini:1965", s)}
		}
		ports[name] = strconv.FormatUint(n, 10)
	}
	return newSchemes(ports), nil
}

// Has reports whether a scheme is among them; nil are the usual ones.
func (s *Schemes) Has(name string) bool { return cmp.Or(s, usual).ports[name] != "" }

// Names lists them in order.
func (s *Schemes) Names() []string { return slices.Sorted(maps.Keys(s.ports)) }
