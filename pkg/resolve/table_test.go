package resolve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	tb := newTable(4 << 20)
	at := testNow.Add(123 * time.Microsecond)
	full := 0
	for i := range 200_000 {
		name := fmt.Sprintf("host%d.test", i)
		if !tb.put(uint64(i), name, told{"127.0.0.1,::1", "x", "alias.test", at}) {
			full++
			if _, ok := tb.get(0, "host0.test"); ok {
				t.Fatal("an emptied table still has its first name")
			}
		}
		got, ok := tb.get(uint64(i), name)
		if !ok || got != (told{"127.0.0.1,::1", "x", "alias.test", at}) {
			t.Fatalf("%s: %v %v", name, got, ok)
		}
		if size := len(tb.chunks)*chunkSize + len(tb.at)*indexBytes; size > 5<<20 {
			t.Fatalf("%d bytes after %d names", size, i)
		}
	}
	if full == 0 {
		t.Error("the table took more than its limit")
	}
	if _, ok := tb.get(199_999, "other.test"); ok {
		t.Error("another name of equal fingerprint was taken")
	}
	tb.put(7, strings.Repeat("a", maxEntry), told{})
	if _, ok := tb.get(7, strings.Repeat("a", maxEntry)); ok {
		t.Error("an entry without bound was taken")
	}
}

func TestParseEntry(t *testing.T) {
	for _, e := range []entry{
		{Expires: testNow},
		{Addr: "127.0.0.1,::1", Expires: testNow.Add(123456 * time.Microsecond), CNAME: "a.test", Server: "127.0.0.1:53", Family: "4"},
		{Expires: testNow, Error: "nxdomain"},
		{Expires: testNow, CNAME: `od"d\.test`},
	} {
		value, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseEntry(string(value)); err != nil || got != e {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, s := range []string{`{"addr":"127.0.0.1","expires":"2026-01-02T03:04:05Z"}`, `{}`, `{"x":1}`, `{"addr":"\u0031"}`, `{,"addr":"1"}`, `{"addr":"1",}`, `{"expires":"2026-01-02T03:04:05Z"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want entry
		if json.Unmarshal([]byte(s), &want) != nil {
			return // the store's own checksum finds damage
		}
		if got, err := parseEntry(s); err != nil || !got.Expires.Equal(want.Expires) || got.Addr != want.Addr || got.Error != want.Error || got.CNAME != want.CNAME {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
	})
}
