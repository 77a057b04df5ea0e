package mfrontier

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A wait of five seconds or more is told when it begins, and every half minute.
func TestWaitsAreTold(t *testing.T) {
	for wait, want := range map[time.Duration]int{4 * time.Second: 0, 5 * time.Second: 1, 30 * time.Second: 1, 61 * time.Second: 3} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, told := time.Now(), 0
				err := sleep(context.Background(), wait, func() { told++ })
				if err != nil || told != want || time.Since(began) != wait {
					t.Errorf("%v: told %d times, want %d; took %v; %v", wait, told, want, time.Since(began), err)
				}
			})
		})
	}
}
