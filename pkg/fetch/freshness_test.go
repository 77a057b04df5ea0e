package fetch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/web/httpmsg"
)

func TestFreshUntil(t *testing.T) {
	asked := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	came := asked.Add(2 * time.Second)
	const (
		date   = "Date: Sat, 21 Nov 2026 10:00:01 GMT\n"
		hour   = "Expires: Sat, 21 Nov 2026 11:00:01 GMT\n"
		past   = "Expires: Sat, 21 Nov 2026 09:00:00 GMT\n"
		second = time.Second
	)
	for _, c := range []struct {
		head string
		want time.Duration // after asked; 0: nothing is said
	}{
		{"", 0},
		{date, 0},
		{"Last-Modified: Sat, 21 Nov 2020 10:00:00 GMT\n", 0},

		// Cache-Control.
		{"Cache-Control: max-age=3600\n", time.Hour},
		{"cache-control: Public , MAX-AGE=3600\n", time.Hour},
		{date + "Cache-Control: max-age=3600\n", time.Hour},
		{"Cache-Control: max-age=3600, s-maxage=60\n", time.Minute},
		{"Cache-Control: s-maxage=60\nCache-Control: max-age=3600\n", time.Minute},
		{"Cache-Control: max-age=60\n" + date + hour, time.Minute},
		{"Cache-Control: max-age=0\n" + date + hour, 0},
		{"Cache-Control: max-age=1\n", 0}, // over when the reply came
		{"Cache-Control: max-age=3600, must-revalidate, private, no-transform\n", time.Hour},
		{"Cache-Control: must-revalidate\n", 0},
		{"Cache-Control: max-age=31536000, immutable\n", 365 * 24 * time.Hour},
		{"Cache-Control: immutable\n", 0},
		{"Cache-Control: public\n" + date + hour, time.Hour},
		{"Cache-Control: max-age=3600, no-store\n", 0},
		{"Cache-Control: no-cache, max-age=3600\n", 0},
		{"Cache-Control: no-cache=\"set-cookie, x\", max-age=3600\n", 0},
		{"Cache-Control: no-cache\n" + date + hour, 0},

		// Values.
		{"Cache-Control: max-age=\"3600\"\n", time.Hour},
		{"Cache-Control: max-age=\"36\\00\"\n", time.Hour},
		{"Cache-Control: max-age = 3600\n", time.Hour},
		{"Cache-Control: private=\"a, max-age=1\", max-age=3600\n", time.Hour},
		{"Cache-Control: x=\"max-age=60\n" + date + hour, time.Hour},
		{"Cache-Control: max-age=\"3600\n", 0},
		{"Cache-Control: max-age\n" + date + hour, 0},
		{"Cache-Control: max-age=\n", 0},
		{"Cache-Control: max-age=-1\n", 0},
		{"Cache-Control: max-age=+1\n", 0},
		{"Cache-Control: max-age=3600.5\n", 0},
		{"Cache-Control: max-age=1e9\n", 0},
		{"Cache-Control: max-age=99999999999999999999999999\n", freshMax + 2*second},
		{"Cache-Control: max-age=9223372036854775807\n", freshMax + 2*second},
		{"Cache-Control: ,,;=,max-age=3600,=,\"\n", time.Hour},

		// Said twice.
		{"Cache-Control: max-age=3600, max-age=3600\n", time.Hour},
		{"Cache-Control: max-age=3600\nCache-Control: max-age=60\n", 0},
		{date + hour + hour, time.Hour},
		{date + hour + past, 0},

		// Expires and Date.
		{date + hour, time.Hour},
		{hour, time.Hour - second},
		{date + past, 0},
		{date + "Expires: 0\n", 0},
		{date + "Expires: -1\n", 0},
		{date + "Expires: tomorrow\n", 0},
		{date + "Expires: Saturday, 21-Nov-26 11:00:01 GMT\n", time.Hour},
		{date + "Expires: Fri, 31 Dec 9999 23:59:59 GMT\n", freshMax + 2*second},
		{"Date: yesterday\n" + hour, time.Hour - second},
		{"Date: Sat, 21 Nov 2026 09:00:00 GMT\nCache-Control: max-age=7200\n", time.Hour}, // a copy of an hour ago
		{"Date: Sat, 21 Nov 2026 09:00:00 GMT\nExpires: Sat, 21 Nov 2026 10:30:00 GMT\n", 30 * time.Minute},
		{"Date: Mon, 21 Nov 1994 09:00:00 GMT\nCache-Control: max-age=3600\n", 0},         // a clock that is years behind
		{"Date: Sun, 21 Nov 2027 10:00:00 GMT\nCache-Control: max-age=3600\n", time.Hour}, // one that is ahead
		{"Date: Sun, 21 Nov 2027 10:00:00 GMT\nExpires: Sun, 21 Nov 2027 11:00:00 GMT\n", time.Hour},

		// Age.
		{"Age: 600\nCache-Control: max-age=3600\n", 50 * time.Minute},
		{"Age: 600\n" + date + hour, 50 * time.Minute},
		{"Age: 3600\nCache-Control: max-age=3600\n", 0},
		{"Age: 99999999999999999999\nCache-Control: max-age=3600\n", 0},
		{"Age: old\nCache-Control: max-age=3600\n", 0},
	} {
		t.Run(fmt.Sprintf("%.100s", c.head), func(t *testing.T) {
			var h httpmsg.Head
			must.OK(t, h.Parse([]byte("HTTP/1.1 200 OK\r\n"+strings.ReplaceAll(c.head, "\n", "\r\n")+"\r\n")))
			got := time.Duration(0)
			if until := FreshUntil(&h, asked, came); until != 0 {
				got = until.Go().Sub(asked)
			}
			if got != c.want {
				t.Errorf("%q: fresh for %v, want %v", c.head, got, c.want)
			}
		})
	}
}

// Whatever a server says, it is of the year after the reply.
func FuzzFreshUntil(f *testing.F) {
	f.Add("max-age=\"1\\\"\", no-cache=\"", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "1")
	f.Fuzz(func(t *testing.T, control, expires, date, age string) {
		asked := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		came := asked.Add(time.Second)
		h := httpmsg.Head{Fields: []httpmsg.Field{{Name: "Cache-Control", Value: control}, {Name: "Expires", Value: expires}, {Name: "Date", Value: date}, {Name: "Age", Value: age}}}
		if until := FreshUntil(&h, asked, came); until != 0 && (!until.Go().After(came) || until.Go().After(came.Add(freshMax))) {
			t.Errorf("fresh until %v", until.Go())
		}
	})
}
