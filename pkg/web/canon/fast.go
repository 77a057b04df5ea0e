package canon

import "bytes"

// The fast path makes the canonical form of references as they mostly stand on
// pages in one pass, without parsing them into parts, and without allocating. It
// says yes or nothing: what is wrong, too long, or not plainly one of the cases
// below, the parser judges, so that every rule and every error has one place.
// FuzzFast holds it against the parser.
//
// It declines: hosts other than plain names (addresses, "xn--", "%", userinfo),
// schemes in upper case or without "//", "\" and control characters in a path,
// an escaped ".", and a "%" that begins no escape.

// What a byte is within a path or a query.
const (
	plain   = iota // stays as it is
	slash          // ends a segment
	dot            // may begin a dot segment
	percent        // begins an escape, or is stray
	escape         // is percent-encoded
	query          // ends the path
	hash           // ends the URL
	decline        // is left to the parser
)

var inPath, inQuery = classes()

func classes() (path, queries [256]byte) {
	for c := range path {
		switch {
		case c < ' ': // tabs and newlines vanish, anywhere
			path[c], queries[c] = decline, decline
		case c == ' ' || c >= 0x7f || bytes.IndexByte([]byte(`"<>`), byte(c)) >= 0:
			path[c], queries[c] = escape, escape
		}
	}
	path['^'], path['`'], path['{'], path['}'], queries['\''] = escape, escape, escape, escape, escape
	path['/'], path['.'], path['?'], path['\\'] = slash, dot, query, decline
	path['%'], queries['%'] = percent, percent
	path['#'], queries['#'] = hash, hash
	return path, queries
}

// appendFast appends the canonical form of ref to dst, before the rules of
// Options.URLRules, or declines. A nil base has no plain form.
func (o *Options) appendFast(dst []byte, base *Base, ref []byte) (out []byte, p Parts, ok bool) {
	ref = trim(ref)
	if len(ref) > 4*o.maxURL() {
		return dst, p, false
	}
	start, onBase := len(dst), ""
	if base != nil {
		onBase, p = base.plain, base.parts
	}
	if n := schemeLen(ref); n > 0 {
		port := o.schemes().ports[string(ref[:n])]
		if port == "" || len(ref) < n+3 || ref[n+1] != '/' || ref[n+2] != '/' {
			return dst, p, false
		}
		p.Host = n + 3
		dst = append(dst, ref[:p.Host]...)
		if dst, ref, ok = appendHost(dst, ref[p.Host:], port); !ok {
			return dst[:start], p, false
		}
		p.Path = len(dst) - start
	} else if onBase == "" {
		return dst, p, false
	} else if len(ref) == 0 || ref[0] == '#' {
		return append(dst, onBase...), p, true
	} else if ref[0] == '?' {
		dst = append(dst, onBase[:p.Query]...)
	} else if ref[0] != '/' {
		dst = append(dst, onBase[:base.dir]...)
	} else if len(ref) < 2 || ref[1] != '/' {
		dst = append(dst, onBase[:p.Path]...)
	} else {
		dst = append(dst, onBase[:p.Host]...)
		if dst, ref, ok = appendHost(dst, ref[2:], base.port); !ok {
			return dst[:start], p, false
		}
		p.Path = len(dst) - start
	}
	if len(ref) == 0 || ref[0] != '?' || len(dst)-start == p.Path {
		dst, ref, ok = appendPath(dst, ref, start+p.Path)
		if !ok {
			return dst[:start], p, false
		}
	}
	p.Query = len(dst) - start
	if len(ref) > 0 && ref[0] == '?' {
		if dst, ok = appendQuery(dst, ref); !ok {
			return dst[:start], p, false
		}
	}
	return dst, p, true
}

// trim drops outer spaces and control characters.
func trim(ref []byte) []byte {
	for len(ref) > 0 && ref[0] <= ' ' {
		ref = ref[1:]
	}
	for len(ref) > 0 && ref[len(ref)-1] <= ' ' {
		ref = ref[:len(ref)-1]
	}
	return ref
}

// schemeLen is the length of the scheme with which ref begins, 0 if it has none.
func schemeLen(ref []byte) int {
	for i, c := range ref {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':':
			return i
		default:
			return 0
		}
	}
	return 0
}

// appendHost appends the host and the port, without the scheme's own, with which
// ref begins, and returns what follows.
func appendHost(dst, ref []byte, defaultPort string) (out, rest []byte, ok bool) {
	label := 0 // where the last one begins
	i := 0
name:
	for ; i < len(ref); i++ {
		c := ref[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '-' && (i != label+3 || ref[i-1] != '-'): // not "xn--"
		case c == '.' && i > label:
			label = i + 1
		case c == ':', c == '/', c == '?', c == '#':
			break name
		default:
			return dst, ref, false
		}
		dst = append(dst, c)
	}
	// An empty label, or a last one that the parser may take for a number, "-0" too:
	// then the host is an IPv4 address.
	if i == label || ref[label] <= '9' {
		return dst, ref, false
	}
	ref = ref[i:]
	if len(ref) == 0 || ref[0] != ':' {
		return dst, ref, true
	}
	n := 0
	for i = 1; i < len(ref) && i < 6 && '0' <= ref[i] && ref[i] <= '9'; i++ {
		n = 10*n + int(ref[i]-'0')
	}
	if i == 1 || ref[1] == '0' || n > 65535 || i < len(ref) && ref[i] != '/' && ref[i] != '?' && ref[i] != '#' {
		return dst, ref, false
	}
	if string(ref[1:i]) != defaultPort {
		dst = append(dst, ref[:i]...)
	}
	return dst, ref[i:], true
}

// appendPath appends the path with which ref begins, and returns the query and
// fragment that follow. The path of dst begins at root and is empty or, where ref
// is relative to a directory, ends with a "/".
func appendPath(dst, ref []byte, root int) (out, rest []byte, ok bool) {
	i := 0
	if len(dst) == root {
		dst = append(dst, '/')
		if len(ref) > 0 && ref[0] == '/' {
			i = 1
		}
	}
	from, segment := i, i // ref[from:i] waits to be copied
	for ; i < len(ref); i++ {
		c := ref[i]
		switch inPath[c] {
		case plain:
		case slash:
			segment = i + 1
		case dot:
			if i != segment {
				continue
			}
			n := dots(ref[i:])
			if n == 0 {
				continue
			}
			dst = append(dst, ref[from:i]...)
			if n == 2 && len(dst) > root+1 {
				dst = dst[:bytes.LastIndexByte(dst[:len(dst)-1], '/')+1]
			}
			if i += n; i == len(ref) || ref[i] != '/' {
				return dst, ref[i:], true
			}
			from, segment = i+1, i+1
		case percent:
			if i+2 >= len(ref) {
				return dst, ref, false
			}
			v := unhex(ref[i+1])<<4 | unhex(ref[i+2])
			if v < 0 || v == '.' { // "%2E" may be a dot segment
				return dst, ref, false
			}
			dst = appendEscape(append(dst, ref[from:i]...), byte(v))
			i += 2
			from = i + 1
		case escape:
			dst = appendEscape(append(dst, ref[from:i]...), c)
			from = i + 1
		case query, hash:
			return append(dst, ref[from:i]...), ref[i:], true
		default:
			return dst, ref, false
		}
	}
	return append(dst, ref[from:]...), nil, true
}

// dots is the length of the dot segment at the start of ref, 0 if it is another.
func dots(ref []byte) int {
	n := 1
	if len(ref) > 1 && ref[1] == '.' {
		n = 2
	}
	if len(ref) == n || ref[n] == '/' || ref[n] == '?' || ref[n] == '#' {
		return n
	}
	return 0 // before a "\" too, which appendPath meets next and declines
}

// appendQuery appends the query with which ref begins, its "?" included.
func appendQuery(dst, ref []byte) (out []byte, ok bool) {
	from := 0
	for i := 0; i < len(ref); i++ {
		c := ref[i]
		switch inQuery[c] {
		case plain:
		case percent:
			if i+2 >= len(ref) {
				return dst, false
			}
			v := unhex(ref[i+1])<<4 | unhex(ref[i+2])
			if v < 0 {
				return dst, false
			}
			dst = appendEscape(append(dst, ref[from:i]...), byte(v))
			i += 2
			from = i + 1
		case escape:
			dst = appendEscape(append(dst, ref[from:i]...), c)
			from = i + 1
		case hash:
			return append(dst, ref[from:i]...), true
		default:
			return dst, false
		}
	}
	return append(dst, ref[from:]...), true
}

// appendEscape appends the escape of a byte, or the byte itself if it is unreserved.
func appendEscape(dst []byte, v byte) []byte {
	if unreserved(v) {
		return append(dst, v)
	}
	return append(dst, '%', upperHex[v>>4], upperHex[v&15])
}
