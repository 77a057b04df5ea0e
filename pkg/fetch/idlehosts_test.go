package fetch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/must"
)

// TestAbsentHosts holds what is remembered of hosts to a map: most ask to be left alone for
// long, more than memory is for.
func TestAbsentHosts(t *testing.T) {
	const hosts, most = 3000, 400
	rnd := rand.New(rand.NewPCG(1, 2))
	s := newScheduler(0)
	a := s.contacts
	defer a.close()
	a.onDisk.dir, a.max, a.sweep = t.TempDir(), most, most
	model := map[string]contact{}
	now := micros(1)
	for range 30_000 {
		now += 10
		name := fmt.Sprintf("h%d.test", rnd.IntN(hosts))
		c, known := a.takeContact(name, now)
		want := model[name]
		if want.next > now && (!known || c != want) || known && c != want {
			t.Fatalf("at %d %s: %v, %v; want %v", now, name, c, known, want)
		}
		c.next = max(c.next, now+rnd.Int64N(200_000))
		c.required, c.fails = rnd.Int64N(1<<40), rnd.IntN(failsMax)
		a.put(name, c, now)
		model[name] = c
		if len(a.inMemory) > most {
			t.Fatalf("%d hosts in memory", len(a.inMemory))
		}
	}
	if a.err != nil {
		t.Fatal(a.err)
	}
	// They outlive the round, and are read again in another.
	st, m := saved(t, s, now)
	again := newScheduler(0)
	defer again.contacts.close()
	again.contacts.onDisk.dir, again.contacts.max, again.contacts.sweep = st.Dir(), most, most
	must.OK(t, again.load(st, m, now))
	ahead := 0
	for name, want := range model {
		if want.next <= now {
			continue
		}
		ahead++
		if got, _ := again.contacts.takeContact(name, now); got != (contact{next: want.next, required: want.required}) {
			t.Errorf("%s read again: %v, want %v", name, got, want)
		}
	}
	if ahead < 2*most || len(a.onDisk.runs) == 0 {
		t.Errorf("%d hosts ask to be left alone, want more than there is memory for", ahead)
	}
}

// TestTheHoldOutlivesABatch: a host that waits after an unclean stop, and was asked for nothing, waits on in the next batch: its
// time is not taken for one that a wrong clock has set.
func TestTheHoldOutlivesABatch(t *testing.T) {
	const now = 1_000_000
	s := newScheduler(0)
	s.holdFrom, s.holdGap = now, 30_000_000
	s.retire(s.host("a", now), now)
	st, m := saved(t, s, now)
	again := newScheduler(0)
	err := again.load(st, m, now)
	if h := again.host("a", now); h.next != s.holdEnd() || again.ahead > 0 || err != nil {
		t.Errorf("next contact at %d, want %d; the clock jumped by %d; %v", h.next, s.holdEnd(), again.ahead, err)
	}
}

// TestAbsentHostsWithoutDisk: a host is not contacted if its time cannot be read, and the run ends.
func TestAbsentHostsWithoutDisk(t *testing.T) {
	a := newIdleHosts()
	a.max, a.sweep, a.onDisk.dir = 4, 4, t.TempDir()
	for i := range 20 {
		a.put(fmt.Sprint("h", i), contact{next: 1000}, 1)
	}
	a.close()
	if c, known := a.takeContact("h0", 1); !known || c.next < 1000 || a.err == nil {
		t.Errorf("take = %v, %v; error %v", c, known, a.err)
	}
	if err := newSchedulerWith(a).save(nil, 1); err != a.err || !strings.Contains(err.Error(), "closed") {
		t.Errorf("saved with %v", err)
	}
	b := newIdleHosts()
	b.max, b.sweep, b.onDisk.dir = 4, 4, t.TempDir()+"/missing"
	for i := range 20 {
		b.put(fmt.Sprint("h", i), contact{next: 1000}, 1)
	}
	if b.err == nil || len(b.inMemory) > b.max {
		t.Errorf("where there is no folder: error %v, %d hosts in memory", b.err, len(b.inMemory))
	}
	if c, known := b.takeContact("h19", 1); !known || c.next < 1000 {
		t.Errorf("of what the disk did not take: %v, %v", c, known)
	}
}

func newSchedulerWith(a *idleHosts) *scheduler {
	s := newScheduler(0)
	s.contacts = a
	return s
}

// saved is a new store in which a round has saved what s knows of hosts.
func saved(t *testing.T, s *scheduler, now micros) (*store.Store, *store.Manifest) {
	t.Helper()
	dir := t.TempDir() + "/fetch"
	must.OK(t, CreateStore(dir, "", store.Options{}))
	st, err := store.Open(dir, Kind, Version, store.Options{})
	must.OK(t, err)
	tx, _, err := st.Begin(t.Context(), "fetch", "r1")
	must.OK(t, err)
	must.OK(t, s.save(tx, now))
	m, err := tx.Commit(0, "", record.Ledger{Stages: []record.Stage{{Name: "mfetch"}}})
	must.OK(t, err)
	return st, m
}
