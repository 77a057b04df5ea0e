package process

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
)

// Documents that Text does not read: what is found in them for programs that judge what they are about.
func TestContent(t *testing.T) {
	var wide []byte
	for _, c := range utf16.Encode([]rune("Die Maus lebt im Feld – müde.\rΜυς και ποντίκι, εδώ.")) {
		wide = append(wide, byte(c), byte(c>>8))
	}
	word := oleMagic + strings.Repeat("\x00", 504) + "A mouse is a rodent\rof the field \x96 a caf\xe9 mouse.\x00\x00" + "\x03short\x04\x00\x00\x00" + string(wide) + "\x00\x00" + "0123456789 0123456789\x00\x00"
	for _, c := range []struct{ mime, body, want string }{
		{"application/msword", word, "A mouse is a rodent of the field – a café mouse.\nDie Maus lebt im Feld – müde. Μυς και ποντίκι, εδώ."},
		{"application/xml", "<?xml version='1.0'?><a x='no'><b>one &amp;</b><!-- no --><c><![CDATA[<two>]]></c></a>", "one &\n<two>"},
		{"application/rss+xml", "<rss><title>News</title><item><title>A mouse</title>", "News\nA mouse"},
		{"text/markdown", "# Mouse\n\n* one", "# Mouse\n\n* one"},
		{"text/html", "<title>T</title><p>x", "T\nx"},
	} {
		t.Run(c.mime, func(t *testing.T) {
			doc := &Document{MIME: c.mime, Body: []byte(c.body)}
			if got, err := Content(doc, 0); err != nil || got != c.want {
				t.Errorf("%s: %q, %v, want %q", c.mime, got, err, c.want)
			}
			for max := 1; max < len(c.want); max += 7 {
				if got, err := Content(doc, max); err != nil || len(got) > max {
					t.Errorf("%s: %d bytes, %v, want at most %d", c.mime, len(got), err, max)
				}
			}
		})
	}
	for _, mime := range []string{"application/zip", "text/css", "video/mp4", ""} {
		if _, err := Content(&Document{MIME: mime, Body: []byte("x")}, 0); !errors.Is(err, ErrNoText) {
			t.Errorf("%s: %v", mime, err)
		}
	}
	if s, err := Content(&Document{MIME: "application/msword", Body: []byte("{\\rtf1 text that is long}")}, 0); err == nil {
		t.Errorf("%q of a file that is not Word's", s)
	}
}

func TestCaptions(t *testing.T) {
	page := `<meta name=Description content="All about mice"><meta name=robots content=none><img src="/i/house-mouse.jpg?x=a/b" alt="A mouse" title='in the field'>
<p>text<img src=data:image/gif;base64,R0lGOD><area alt="the tail"><a href=x.png>link</a>`
	want := "All about mice\nA mouse\nin the field\nhouse-mouse\nthe tail"
	if got := Captions(&Document{MIME: "text/html", Body: []byte(page)}, 1000); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Captions(&Document{MIME: "text/html", Body: []byte(page)}, 10); len(got) > 10 {
		t.Errorf("%q", got)
	}
	if got := Captions(&Document{MIME: "text/plain", Body: []byte(page)}, 10); got != "" {
		t.Errorf("%q", got)
	}
}
