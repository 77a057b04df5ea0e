package canon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

func TestRules(t *testing.T) {
	const id = "9682993c8daa2c5497996114facdc805"
	for _, tt := range []struct {
		rules    Rules
		in, want string
	}{
		{SessionIDs, "http://h/a;jsessionid=1A2B.node1/b;x=1;JSESSIONID=2?c", "http://h/a/b;x=1?c"},
		{SessionIDs, "http://h/a;jsessionid=" + id, "http://h/a"},
		{SessionIDs, "http://h/;jsessionid=" + id, "http://h/"},
		{SessionIDs, "http://h/a/..;jsessionid=1", "http://h/a/..;jsessionid=1"}, // "/a/.." is "/"
		{SessionIDs, "http://h/?PHPSESSID=" + id, "http://h/"},
		{SessionIDs, "http://h/?a=1&phpsessid=" + id + "&b=2", "http://h/?a=1&b=2"},
		{SessionIDs, "http://h/?sid=" + id, "http://h/"},
		{SessionIDs, "http://h/?sid=17&side=" + id + "&xsid=" + id, "http://h/?sid=17&side=" + id + "&xsid=" + id},
		{SessionIDs, "http://h/?sid=" + id[1:] + "_", "http://h/?sid=" + id[1:] + "_"},
		{SessionIDs, "http://h/?ASPSESSIONIDAQBSDSRT=EOHBLBDDPFCLHKPGGKLILNAM&x", "http://h/?x"},
		{SessionIDs, "http://h/boo?CFID=3304324&CFTOKEN=57491900&jsessionid=a63098d96360$B0$D9$A", "http://h/boo"},
		{SessionIDs, "http://h/boo?dt=1&CFTOKEN=2D89F5AF-3048&r=4&cfid=14475712", "http://h/boo?dt=1&r=4"},
		{SessionIDs, "http://h/boo?cfid=1", "http://h/boo?cfid=1"}, // of another program
		{SessionIDs, "http://h/?", "http://h/?"},
		{WWW, "http://www.example.org:8080/www.x", "http://example.org:8080/www.x"},
		{WWW, "http://www12.www.example.org/", "http://example.org/"},
		{WWW, "http://www.org/", "http://www.org/"},
		{WWW, "http://wwwx.example.org/", "http://wwwx.example.org/"},
		{QueryOrder, "http://h/?b=2&a=1&b=1&&a", "http://h/?&a&a=1&b=1&b=2"},
		{QueryOrder, "http://h/?a-b=1&a=2&a=&a", "http://h/?a&a=&a=2&a-b=1"},
		{Tracking, "http://h/?utm_source=x&q=1&FBCLID=y&gclid", "http://h/?q=1"},
		{Tracking, "http://h/a?utm_medium=x", "http://h/a"},
		{Tracking, "http://h/?utmost=1&xgclid=2&ml_subscriber_hash_of_another=3", "http://h/?utmost=1&xgclid=2&ml_subscriber_hash_of_another=3"},
		{TrailingSlash, "http://h/a/b//?q/", "http://h/a/b?q/"},
		{TrailingSlash, "http://h//", "http://h/"},
		{AllRules, "http://www.h.test/a/;jsessionid=1/?z&utm_id=4&a", "http://h.test/a?a&z"},
		{0, "http://www.h.test/a/;jsessionid=1/?z&utm_id=4&a", "http://www.h.test/a/;jsessionid=1/?z&utm_id=4&a"},
	} {
		t.Run(fmt.Sprintf("%.20s %.60s", tt.rules, tt.in), func(t *testing.T) {
			o := Options{URLRules: tt.rules}
			got, host, err := o.URL(tt.in)
			if got != tt.want || err != nil || !strings.Contains(got, "://"+host+"/") {
				t.Errorf("%s of %s: %s, host %s, %v; want %s", tt.rules, tt.in, got, host, err, tt.want)
			}
			// As rules for the key, the same rules leave the URL as it is, and its key is the key of the URL that they change.
			k := Options{KeyRules: tt.rules}
			u, h, err := k.URL(tt.in)
			must.OK(t, err)
			if key := k.URLKey(h, u); key != fingerprint.URLKey(host, got) || key != k.Key([]byte(u), PartsOf(u)) {
				t.Errorf("%s of %s: key %016x, want that of %s", tt.rules, tt.in, key, got)
			}
		})
	}
}

// A redirect between two URLs that are one leads to a page that is fetched, once.
func TestRedirect(t *testing.T) {
	for _, tt := range []struct {
		o               Options
		from, ref, want string
		keyHost, keyURL string // the key of want is made of these
	}{
		{Options{}, "http://h/a", "b?utm_id=1", "http://h/b?utm_id=1", "h", "http://h/b?utm_id=1"},
		{Options{KeyRules: AllRules}, "http://h/a", "b?utm_id=1", "http://h/b?utm_id=1", "h", "http://h/b"},
		{Options{KeyRules: AllRules}, "http://h.test/", "http://www.h.test/", "http://www.h.test/", "h.test", "http://www.h.test/#"},
		{Options{KeyRules: AllRules}, "http://www.h.test/", "http://h.test/", "http://h.test/", "h.test", "http://h.test/#"},
		{Options{KeyRules: AllRules}, "http://h/a", "/a", "http://h/a", "h", "http://h/a"},
		{Options{URLRules: AllRules}, "http://h/a", "/a/", "http://h/a/", "h", "http://h/a/"},
		{Options{URLRules: AllRules}, "http://h/a", "/a", "http://h/a", "h", "http://h/a"},
		{Options{URLRules: AllRules}, "http://h/a", "/a?sid=9682993c8daa2c5497996114facdc805", "http://h/a?sid=9682993c8daa2c5497996114facdc805", "h", "http://h/a?sid=9682993c8daa2c5497996114facdc805"},
		{Options{URLRules: AllRules}, "http://h/a/", "/a?sid=9682993c8daa2c5497996114facdc805", "http://h/a", "h", "http://h/a"},
		{Options{URLRules: AllRules, KeyRules: AllRules}, "http://h/a", "/a/", "http://h/a/", "h", "http://h/a/#"},
	} {
		t.Run(fmt.Sprintf("%d %d %s %s", tt.o.URLRules, tt.o.KeyRules, tt.from, tt.ref), func(t *testing.T) {
			u, host, key, err := tt.o.Redirect(tt.from, tt.ref)
			if u != tt.want || err != nil || key != fingerprint.URLKey(tt.keyHost, tt.keyURL) || host != strings.Split(u, "/")[2] {
				t.Errorf("%v: from %s to %s: %s, host %s, key %016x, %v", tt.o, tt.from, tt.ref, u, host, key, err)
			}
			// Who reads the record makes it again of what the record has.
			if again, _, key2, err := tt.o.Redirect(tt.from, u); again != u || key2 != key || err != nil {
				t.Errorf("%v: from %s to %s: then %s, %v", tt.o, tt.from, tt.ref, again, err)
			}
		})
	}
}

// A server that answers every request with a redirect to another session is soon left alone.
func TestRedirectsEnd(t *testing.T) {
	for _, o := range []Options{{KeyRules: SessionIDs}, {URLRules: SessionIDs}, {URLRules: AllRules, KeyRules: AllRules}, {URLRules: Tracking, KeyRules: AllRules}, {URLRules: WWW, KeyRules: SessionIDs}} {
		t.Run(fmt.Sprintf("%d %d", o.URLRules, o.KeyRules), func(t *testing.T) {
			u, host, err := o.URL("http://www.h.test/a/")
			must.OK(t, err)
			seen, key, n := make(map[uint64]bool), o.URLKey(host, u), 0
			for !seen[key] && n < 10 {
				seen[key] = true
				n++
				u, _, key, err = o.Redirect(u, fmt.Sprintf("/a?sid=%032d", n))
				must.OK(t, err)
			}
			if n > 4 {
				t.Errorf("%v: fetched %d times, in the end %s", o, n, u)
			}
		})
	}
}

func TestParseRules(t *testing.T) {
	r, err := ParseRules(ruleNames)
	if err != nil || r != AllRules || r.String() != strings.Join(ruleNames, ",") {
		t.Errorf("%s, %v", r, err)
	}
	if r, err := ParseRules(nil); r != 0 || err != nil || r.String() != "" {
		t.Errorf("none: %s, %v", r, err)
	}
	if _, err := ParseRules([]string{"www", "WWW"}); err == nil {
		t.Error("WWW was taken")
	}
	if !slices.IsSorted(Trackers) {
		t.Error("Trackers are out of order")
	}
}

// A URL shortened by the rules may stand where the URL itself would be too long.
func TestRulesBeforeLimit(t *testing.T) {
	o := Options{MaxURL: 20, URLRules: Tracking}
	if u, _, err := o.URL("http://h/?utm_source=abcdefgh"); u != "http://h/" || err != nil {
		t.Errorf("%s, %v", u, err)
	}
}
