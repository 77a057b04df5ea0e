package warc

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.com":                     "com,example)/",
		"https://www.Example.com:443/A/B":        "com,example)/a/b",
		"http://www2.sub.example.com./?c=1&b&a=": "com,example,sub)/?a=&b&c=1",
		"http://www.com/":                        "com,www)/",
		"http://user:pw@example.com:8080?x#f":    "com,example:8080)/?x",
		"http://192.0.2.1:81/":                   "192.0.2.1:81)/",
		"http://[2001:db8::1]/a b":               "[2001:db8::1])/a%20b",
		"ftp://example.com:21/x":                 "com,example)/x",
		"dns:example.com":                        "dns:example.com",
	} {
		if got := SURT(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestCDXJ(t *testing.T) {
	for _, c := range codecs {
		file, ends := testFile(t, c)
		r := NewReader(bytes.NewReader(file), ReaderOptions{})
		var lines []string
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			line, ok, err := r.CDXJ("a.warc")
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				lines = append(lines, string(line))
			}
		}
		if len(lines) != 1 || !strings.HasPrefix(lines[0], `com,example)/ 20260301120000 {"url":"http://example.com/","mime":"text/html","status":"200","digest":"2TUXFJY3WEBU2BP4UHK5SM4AVBR7SA6Q","length":"`) {
			t.Fatalf("%s: %q", c, lines)
		}
		if r.Good() != ends[len(ends)-1] {
			t.Errorf("%s: good %d", c, r.Good())
		}
	}
}

// TestCDXJOfNoHTTP: a reply that is no HTTP has no payload of which a digest could be told.
func TestCDXJOfNoHTTP(t *testing.T) {
	block := "220 ftp ready\r\n\r\nrest"
	member, err := Encoder{}.Append(nil, &Record{Type: TypeResponse, Date: testDate, TargetURI: "http://example.com/", ContentType: MediaResponse,
		Block: strings.NewReader(block), Length: int64(len(block))})
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(bytes.NewReader(member), ReaderOptions{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	line, ok, err := r.CDXJ("a.warc.gz")
	if err != nil || !ok || strings.Contains(string(line), "digest") || strings.Contains(string(line), "status") {
		t.Errorf("%s, %v, %v", line, ok, err)
	}
}
