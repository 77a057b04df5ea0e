package politeness

import (
	"fmt"
	"strings"
	"time"
)

// windowsMax bounds the times of day of a Window.
const windowsMax = 24

// Window is the times of day at which a host may be contacted.
type Window struct {
	text  string
	zone  *time.Location
	spans [][2]int // minutes of a day; one that ends before it begins ends on the next
}

// ParseWindow reads times of day and a time zone, UTC where there is none: "22:00-06:00", "06:00-08:00,20:00-24:00 Europe/Berlin". Local is
// the machine's zone. Other zones are read from the machine's tables.
func ParseWindow(text string) (*Window, error) {
	times, name, found := strings.Cut(text, " ")
	if !found {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" {
		return nil, fmt.Errorf("the time zone %q, want UTC, Local or a name such as Europe/Berlin that this machine knows", name)
	}
	w := &Window{text: times + " " + name, zone: zone}
	for _, span := range strings.Split(times, ",") {
		from, to, _ := strings.Cut(span, "-")
		begin, ok := minutes(from)
		end, also := minutes(to)
		if !ok || !also || begin == end || begin == 24*60 || len(w.spans) == windowsMax {
			return nil, fmt.Errorf("%q, want times of day such as 22:00-06:00, at most %d of them with commas between", span, windowsMax)
		}
		w.spans = append(w.spans, [2]int{begin, end})
	}
	return w, nil
}

// minutes reads HH:MM.
func minutes(text string) (n int, ok bool) {
	var h, m int
	if _, err := fmt.Sscanf(text, "%02d:%02d", &h, &m); err != nil || fmt.Sprintf("%02d:%02d", h, m) != text {
		return 0, false
	}
	n = 60*h + m
	return n, h >= 0 && m >= 0 && m < 60 && n <= 24*60
}

// String is the times and the zone.
func (w *Window) String() string { return w.text }

// Opens is when a contact may begin that must not begin before t: t itself, or when the next of the times of day begins.
func (w *Window) Opens(t time.Time) (next time.Time) {
	local := t.In(w.zone)
	for day := -1; day <= 2; day++ { // one more: where clocks are put forward, a time of day may not come
		for _, s := range w.spans {
			at := func(minute, day int) time.Time {
				return time.Date(local.Year(), local.Month(), local.Day()+day, 0, minute, 0, 0, w.zone)
			}
			begin, end := at(s[0], day), at(s[1], day)
			if s[1] <= s[0] {
				end = at(s[1], day+1)
			}
			switch {
			case !begin.Before(end): // clocks are put forward over it
			case !begin.After(t) && end.After(t):
				return t
			case begin.After(t) && (next.IsZero() || begin.Before(next)):
				next = begin
			}
		}
	}
	return next
}
