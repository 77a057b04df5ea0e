package politeness

import (
	"fmt"
	"testing"
	"time"
)

func TestAfter(t *testing.T) {
	for _, c := range []struct {
		rules   Rules
		contact time.Duration
		want    time.Duration
	}{
		{Rules{}, time.Second, 0},
		{Rules{MinDelay: time.Second}, time.Minute, time.Second},
		{Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}, 50 * time.Millisecond, time.Second},
		{Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}, 2 * time.Second, 20 * time.Second},
		{Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 30 * time.Second}, 4 * time.Second, 30 * time.Second},
		{Rules{MinDelay: time.Second, DelayFactor: 10, MaxDelay: 0}, 4 * time.Second, time.Second}, // a longest gap below the least
		{Rules{MinDelay: 0, DelayFactor: 0.5, MaxDelay: time.Second}, 3 * time.Microsecond, time.Microsecond},
	} {
		t.Run(fmt.Sprint(c.contact, " ", c.want), func(t *testing.T) {
			if got := time.Duration(c.rules.After(c.contact.Microseconds())) * time.Microsecond; got != c.want {
				t.Errorf("%+v after %v: %v, want %v", c.rules, c.contact, got, c.want)
			}
		})
	}
}
