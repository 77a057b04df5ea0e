package frontier

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/durable"
)

func TestPlan(t *testing.T) {
	b := open(t, durable.NewCrashFS(), Params{})
	slow := newURL("slow.test", "first", 0)
	if err := b.add("seed", slow); err != nil {
		t.Fatal(err)
	}
	if _, err := b.next(1, NextOptions{N: 1, Txn: "r1"}); err != nil {
		t.Fatal(err)
	}
	f := fetchOf(slow, record.OutcomeFetched, 200, 1)
	f.DurationUS = 2_000_000
	var fresh []record.URL
	for i := range 10 {
		fresh = append(fresh, newURL("slow.test", fmt.Sprint(i), 0), newURL(fmt.Sprintf("h%d.test", i), "", 0))
	}
	if err := b.update("r1", 1, []record.Fetch{f}, fresh...); err != nil {
		t.Fatal(err)
	}
	p := Politeness{MinDelay: time.Second, DelayFactor: 3, MaxDelay: 5 * time.Second, AddrDelay: time.Second, Connections: 2, Duration: 100 * time.Millisecond}
	plan, err := b.f.PlanNext(context.Background(), NextOptions{N: 100}, 1, p)
	if err != nil {
		t.Fatal(err)
	}
	// Ten contacts of 2 s, nine gaps of 5 s (three times 2 s, cut).
	want := 10*2*time.Second + 9*5*time.Second
	if plan.URLs != 20 || plan.Hosts != 11 || plan.Measured != 1 || plan.ByHost != want || plan.Duration != want || plan.Slow[0].Host != "slow.test" || plan.Slow[0].URLs != 10 {
		t.Errorf("%+v", plan)
	}
	if plan.ByWork != (20*time.Second+10*100*time.Millisecond)/2 || plan.Tail != want-100*time.Millisecond {
		t.Errorf("%+v", plan)
	}
	if again, err := b.f.PlanNext(context.Background(), NextOptions{N: 100}, 1, p); err != nil || again.Duration != want {
		t.Error("planning changes something: ", again, err)
	}
	b.check()

	// Records of one address wait for each other.
	i := 0
	plan, err = b.f.PlanRecords(context.Background(), func(u *record.URL) error {
		if i == len(fresh) {
			return io.EOF
		}
		*u = fresh[i]
		if u.Host == "slow.test" {
			u.Host = fmt.Sprintf("v%d.test", i)
		}
		u.Addr = "127.0.0.1,127.0.0.2"
		i++
		return nil
	}, p)
	if err != nil || plan.Addresses != 1 || plan.ByAddr != 19*time.Second || plan.Duration != 19*time.Second {
		t.Errorf("%+v %v", plan, err)
	}
}
