package politeness

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	for _, c := range []struct{ name, window, at, opens string }{
		{"in it", "22:00-06:00", "2026-01-10T23:59:59Z", ""},
		{"after midnight", "22:00-06:00", "2026-01-10T05:59:59Z", ""},
		{"at its begin", "22:00-06:00", "2026-01-10T22:00:00Z", ""},
		{"at its end", "22:00-06:00", "2026-01-10T06:00:00Z", "2026-01-10T22:00:00Z"},
		{"of the day", "08:00-17:30", "2026-01-10T17:30:00Z", "2026-01-11T08:00:00Z"},
		{"the next of two", "20:00-24:00,06:00-08:00", "2026-01-31T09:00:00Z", "2026-01-31T20:00:00Z"},
		{"until midnight", "20:00-24:00,06:00-08:00", "2026-01-31T23:59:59Z", ""},
		{"from midnight", "20:00-24:00,06:00-08:00", "2026-02-01T00:00:00Z", "2026-02-01T06:00:00Z"},
		{"a zone in winter", "22:00-06:00 Europe/Berlin", "2026-01-10T20:00:00Z", "2026-01-10T21:00:00Z"},
		{"a zone in summer", "22:00-06:00 Europe/Berlin", "2026-07-10T19:59:00Z", "2026-07-10T20:00:00Z"},
		{"an hour is left out", "02:15-02:45 Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:15:00Z"},
		{"all of it is left out", "02:30-03:00 Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-30T00:30:00Z"},
		{"an hour comes twice", "02:15-04:00 Europe/Berlin", "2026-10-25T02:30:00Z", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := ParseWindow(c.window)
			if err != nil {
				t.Fatal(err)
			}
			at, _ := time.Parse(time.RFC3339, c.at)
			want := at
			if c.opens != "" {
				want, _ = time.Parse(time.RFC3339, c.opens)
			}
			if got := w.Opens(at); !got.Equal(want) {
				t.Errorf("opens %v, want %v", got.UTC(), want)
			}
		})
	}
	for _, bad := range []string{"", "22:00", "22:00-22:00", "24:00-06:00", "25:00-26:00", "1:00-02:00", "01:60-02:00", "01:00-02:00,", "01:00-02:00 ", "01:00-02:00 Mars/Olympus", "01:00-02:00 ../../etc/passwd", "+1:00-02:00", "01:00-02:00Z"} {
		if w, err := ParseWindow(bad); err == nil {
			t.Errorf("%q is taken: %v", bad, w)
		}
	}
}
