package extract

import (
	"bytes"
	"io"
	"strings"

	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/rewind"
)

// listingLineMax bounds a line of a listing or menu, in bytes. Longer ones are left out.
const listingLineMax = 8 << 10

// eachLine calls use with each line of b that is neither empty nor too long, without
// the white space before it and the line end; it goes on while use says so.
func eachLine(b []byte, use func(line []byte) bool) {
	s := rewind.Of(b)
	defer s.Close()
	for long := false; ; {
		if !long {
			_ = s.SkipSpace() // memory does not fail
		}
		line, err := s.TakeUntil('\n', listingLineMax)
		if err == rewind.ErrTooLong {
			long = true
			_, _ = s.Seek(listingLineMax, io.SeekCurrent)
			continue
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); !long && len(line) > 0 && !use(line) {
			return
		}
		if long = false; err != nil {
			return
		}
	}
}

// listing adds what a directory's listing over FTP names: lines of MLSD (RFC 3659
// section 7), or of LIST as servers on Unix and DOS write it.
func (f *finder) listing(b []byte) {
	eachLine(b, func(line []byte) bool {
		name, dir := machineLine(string(line))
		if name == "" {
			name, dir = unixLine(string(line))
		}
		if name == "" {
			name, dir = dosLine(string(line))
		}
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return true
		}
		ref := "./" + escapePath(name)
		if dir {
			ref += "/"
		}
		f.addLink(linkkind.Listing, ref, false)
		return true
	})
}

// machineLine reads "type=file;size=3; NAME". The name is "" if s is no such line, or
// one of the directory itself or of the one above.
func machineLine(s string) (name string, dir bool) {
	facts, name, ok := strings.Cut(s, " ")
	if !ok || !strings.HasSuffix(facts, ";") || !strings.Contains(facts, "=") {
		return "", false
	}
	for fact := range strings.SplitSeq(strings.ToLower(facts), ";") {
		switch fact {
		case "type=cdir", "type=pdir":
			return "", false
		case "type=dir":
			dir = true
		}
	}
	return name, dir
}

const months = " jan feb mar apr may jun jul aug sep oct nov dec "

// unixLine reads "drwxr-xr-x 2 owner group 4096 Jan 31 12:00 NAME". Columns before
// the date differ between servers: the name stands behind the date.
func unixLine(s string) (name string, dir bool) {
	if strings.IndexByte("-dl", s[0]) < 0 {
		return "", false
	}
	rest, size := s, ""
	for range 8 {
		var word string
		word, rest = nextWord(rest)
		if len(word) == 3 && strings.Contains(months, " "+strings.ToLower(word)+" ") && isNumber(size) {
			day, after := nextWord(rest)
			clock, after := nextWord(after)
			if isNumber(day) && isNumber(strings.Replace(clock, ":", "", 1)) && after != "" {
				name = after[1:]
				if s[0] == 'l' {
					name, _, _ = strings.Cut(name, " -> ")
				}
				return name, s[0] == 'd'
			}
		}
		size = word
	}
	return "", false
}

// dosLine reads "01-31-24  10:32AM  <DIR>  NAME", or a size for <DIR>.
func dosLine(s string) (name string, dir bool) {
	date, rest := nextWord(s)
	clock, rest := nextWord(rest)
	size, rest := nextWord(rest)
	if strings.Count(date, "-") != 2 || !isNumber(strings.ReplaceAll(date, "-", "")) || !strings.Contains(clock, ":") {
		return "", false
	}
	if size != "<DIR>" && !isNumber(size) {
		return "", false
	}
	return strings.TrimLeft(rest, " "), size == "<DIR>"
}

// nextWord cuts s behind its first word.
func nextWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, " ")
	i := strings.IndexByte(s, ' ')
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// menu adds the items of a Gopher menu (RFC 1436 section 3.4) that can be fetched:
// not those that want input (2, 7) or a terminal (8, T), or only say something (i, 3),
// or repeat the one before (+).
func (f *finder) menu(b []byte) {
	eachLine(b, func(line []byte) bool {
		if string(line) == "." {
			return false
		}
		field := strings.Split(string(line[1:]), "\t")
		if strings.IndexByte("i378T2+", line[0]) >= 0 || len(field) < 4 {
			return true
		}
		text, selector, host, port := field[0], field[1], field[2], strings.TrimSpace(field[3])
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		ref := "gopher://" + host + ":" + port + "/" + escapePath(string(line[:1])+selector)
		if url, ok := strings.CutPrefix(selector, "URL:"); ok && line[0] == 'h' {
			ref = url
		}
		if i := f.addLink(linkkind.Menu, ref, false); i >= 0 {
			f.setText(i, text)
		}
		return true
	})
}

// escapePath encodes all bytes but unreserved characters and slashes, so that they
// come to the server as they are.
func escapePath(s string) string {
	b := make([]byte, 0, len(s)+len(s)/4)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return string(b)
}
