package cookies

import (
	"strconv"
	"strings"
	"time"
)

const blank = " \t"

func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// parse reads a header field Set-Cookie as section 5.6 has it, which takes what browsers take. Path is "" where the
// attribute says none.
func parse(field string, now time.Time) (c Cookie, ok bool) {
	if strings.ContainsFunc(field, control) {
		return c, false
	}
	pair, rest, _ := strings.Cut(field, ";")
	if name, value, named := strings.Cut(pair, "="); named {
		c.Name, c.Value = strings.Trim(name, blank), strings.Trim(value, blank)
	} else {
		c.Value = strings.Trim(pair, blank)
	}
	if n := len(c.Name) + len(c.Value); n == 0 || n > cookieMax {
		return c, false
	}
	var expires, maxAge time.Time
	for rest != "" {
		var attribute string
		attribute, rest, _ = strings.Cut(rest, ";")
		name, value, _ := strings.Cut(attribute, "=")
		if value = strings.Trim(value, blank); len(value) > attributeMax {
			continue
		}
		switch strings.ToLower(strings.Trim(name, blank)) {
		case "expires":
			if t, ok := parseDate(value); ok {
				expires = t
			}
		case "max-age":
			if t, ok := parseAge(value, now); ok {
				maxAge = t
			}
		case "domain":
			c.Domain = strings.ToLower(strings.TrimPrefix(value, "."))
		case "path":
			if c.Path = ""; strings.HasPrefix(value, "/") {
				c.Path = value
			}
		case "secure":
			c.Secure = true
		}
	}
	if c.Expires = expires; !maxAge.IsZero() {
		c.Expires = maxAge
	}
	if limit := now.Add(keepMax); c.Expires.After(limit) {
		c.Expires = limit
	}
	return c, true
}

// parseAge reads Max-Age (section 5.6.2).
func parseAge(s string, now time.Time) (time.Time, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case digits != s || err == nil && n <= 0:
		return time.Unix(1, 0), true
	case err != nil || n > int64(keepMax/time.Second):
		return now.Add(keepMax), true
	}
	return now.Add(time.Duration(n) * time.Second), true
}

var months = [...]string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

// parseDate reads a date in any of the forms that servers write (section 5.1.1).
func parseDate(s string) (time.Time, bool) {
	clock, day, month, year := -1, -1, -1, -1
	tokens := strings.FieldsFunc(s, func(r rune) bool {
		return r == '\t' || r >= 0x20 && r <= 0x2f || r >= 0x3b && r <= 0x40 || r >= 0x5b && r <= 0x60 || r >= 0x7b && r <= 0x7e
	})
	for _, token := range tokens {
		if clock < 0 {
			if n, ok := parseClock(token); ok {
				clock = n
				continue
			}
		}
		n, digits := leading(token)
		switch {
		case day < 0 && digits >= 1 && digits <= 2:
			day = n
			continue
		case month < 0 && len(token) >= 3:
			for i, name := range months {
				if strings.EqualFold(token[:3], name) {
					month = i
				}
			}
			if month >= 0 {
				continue
			}
		}
		if year < 0 && digits >= 2 && digits <= 4 {
			if year = n; year >= 70 && year <= 99 {
				year += 1900
			} else if year <= 69 {
				year += 2000
			}
		}
	}
	if clock < 0 || day < 1 || day > 31 || month < 0 || year < 1601 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month+1), day, 0, 0, clock, 0, time.UTC)
	return t, time.Date(year, time.Month(month+1), day, 0, 0, 0, 0, time.UTC).Day() == day
}

// leading is the number at the beginning of a token, and how many digits it has.
func leading(s string) (n, digits int) {
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		if digits < 5 {
			n = 10*n + int(s[digits]-'0')
		}
		digits++
	}
	return n, digits
}

// parseClock reads hours, minutes and seconds.
func parseClock(s string) (seconds int, ok bool) {
	parts := strings.SplitN(s, ":", 3)
	if len(parts) < 3 {
		return 0, false
	}
	for i, most := range [...]int{23, 59, 59} {
		n, digits := leading(parts[i])
		if digits < 1 || digits > 2 || n > most || i < 2 && digits != len(parts[i]) {
			return 0, false
		}
		seconds = 60*seconds + n
	}
	return seconds, true
}
