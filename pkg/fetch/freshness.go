package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/web/httpmsg"
)

// freshMax bounds what a server may say: nobody knows more of a page than this.
const freshMax = 366 * 24 * time.Hour

// FreshUntil is until when a reply says that it stays as it is; 0 if it does not say,
// or says nothing of the time after it came. asked and came are when the contact began and ended.
//
// It is the freshness of RFC 9111 section 4.2 for a shared cache, without the heuristics
// of 4.2.2: what is guessed from Last-Modified is the frontier's to guess. What cannot be
// read, or is said twice and differently, is taken to be stale, as 4.2.1 has it. Of the
// directives, immutable (RFC 8246) speaks of reloads within that time and must-revalidate
// of the time after it, so that neither changes it.
//
// A 304 is read like any other reply: a server must repeat in it what it says of
// freshness (RFC 9110 section 15.4.5), and that is what holds from then on (RFC 9111
// section 4.3.4).
func FreshUntil(h *httpmsg.Head, asked, came time.Time) record.Time {
	if h.Get("Cache-Control") == "" && h.Get("Expires") == "" { // as most replies
		return 0
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = came
	}
	lifetime := lifetimeOf(h, date)
	if lifetime <= 0 {
		return 0
	}
	// Section 4.2.3: the age of a reply is what caches on its way say, and the time of the
	// contact; but at the least what lies between its date and now.
	age := time.Duration(0)
	if s := strings.TrimSpace(h.Get("Age")); s != "" {
		var ok bool
		if age, ok = deltaSeconds(s); !ok {
			return 0
		}
	}
	until := asked.Add(lifetime - age)
	if date.Before(came) && date.Add(lifetime).Before(until) {
		until = date.Add(lifetime)
	}
	if !until.After(came) {
		return 0
	}
	if latest := came.Add(freshMax); until.After(latest) {
		until = latest
	}
	return record.TimeOf(until)
}

// lifetimeOf is how long a reply of a date may be used (RFC 9111 section 4.2.1); 0 if it
// may not, or does not say.
func lifetimeOf(h *httpmsg.Head, date time.Time) time.Duration {
	const unsaid = -1
	private, shared := time.Duration(unsaid), time.Duration(unsaid)
	stale := false
	eachDirective(h.Values("Cache-Control"), func(name, value string) {
		at := &private
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			stale = true
			return
		case "s-maxage":
			at = &shared
		case "max-age":
		default:
			return
		}
		n, ok := deltaSeconds(value)
		stale = stale || !ok || *at != unsaid && *at != n
		*at = n
	})
	switch {
	case stale:
		return 0
	case shared != unsaid:
		return shared
	case private != unsaid:
		return private
	}
	all := h.Values("Expires")
	for _, v := range all {
		if v != all[0] {
			return 0
		}
	}
	if len(all) == 0 {
		return 0
	}
	expires, err := http.ParseTime(all[0])
	if err != nil { // "0" above all
		return 0
	}
	return expires.Sub(date)
}

// deltaSeconds reads a number of seconds (RFC 9111 section 1.2.2); one beyond 2^31 is
// taken for that.
func deltaSeconds(s string) (time.Duration, bool) {
	const limit = 1 << 31
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > limit {
		n = limit
	}
	return time.Duration(n) * time.Second, true
}

// eachDirective calls fn for each directive of the Cache-Control fields. A value is a token or a
// quoted string (RFC 9111 section 5.2), or "" if the directive has none.
func eachDirective(fields []string, fn func(name, value string)) {
	for _, s := range fields {
		for {
			s = strings.TrimLeft(s, " \t,")
			if s == "" {
				break
			}
			n := strings.IndexAny(s, ",=")
			if n < 0 {
				n = len(s)
			}
			name, value := strings.TrimSpace(s[:n]), ""
			if s = s[n:]; s != "" && s[0] == '=' {
				value, s = directiveValue(strings.TrimLeft(s[1:], " \t"))
			}
			fn(name, value)
		}
	}
}

// directiveValue cuts a value off s; what follows it up to the next comma is lost.
func directiveValue(s string) (value, rest string) {
	if s == "" || s[0] != '"' {
		value, rest, _ = strings.Cut(s, ",")
		return strings.TrimSpace(value), rest
	}
	var b strings.Builder
	i := 1
	for ; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	if i == len(s) {
		return "", "" // without an end: no value, and nothing after it
	}
	_, rest, _ = strings.Cut(s[i:], ",")
	return b.String(), rest
}
