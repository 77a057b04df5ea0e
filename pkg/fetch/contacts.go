package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/folder/shard"
	"mercator/pkg/merge"
)

// keepHung is how long it is remembered that a host had to be put off.
const keepHung = micros(24 * time.Hour / time.Microsecond)

// jumped is how far a time may lie ahead of what a clock that goes right has set.
const jumped = micros(2 * time.Second / time.Microsecond)

// load reads claims and the contact times that still lie ahead at now; a shard reads the files of all shards. A contact that ended later than now
// was told by a clock that was wrong, or is now: the host waits for its gap from now on.
func (s *scheduler) load(st *store.Store, base *store.Manifest, now micros) error {
	own, ok := shard.At(st.Dir())
	if !ok {
		return s.loadFrom(st, base, now, false, func(string, netip.Addr) {})
	}
	m, err := shard.Read(st.FS(), st.CrawlDir())
	if err != nil {
		return err
	}
	s.claims = &claims{owners: m, own: own, mine: map[string]netip.Addr{}, hosts: map[string]bool{}, addrs: map[netip.Addr]bool{}, next: map[string]netip.Addr{}}
	if err := s.loadFrom(st, base, now, false, func(host string, addr netip.Addr) { s.claims.addClaim(own, host, addr) }); err != nil {
		return err
	}
	// A host that another shard has contacted may have a new address, which this shard owns.
	for n := range m.Shards {
		if n == own {
			continue
		}
		other := store.Folder(filepath.Join(shard.Dir(st.CrawlDir(), n), Kind), store.Options{FS: st.FS()})
		base, err := other.Current()
		if err == nil {
			err = s.loadFrom(other, base, now, true, func(host string, addr netip.Addr) { s.claims.addClaim(n, host, addr) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadFrom reads the contact times of one store. others: the store belongs to another shard. This one
// does not save these times: it never contacts the hosts, so nothing would ever remove them.
func (s *scheduler) loadFrom(st *store.Store, base *store.Manifest, now micros, others bool, claim func(host string, addr netip.Addr)) error {
	var last record.Module
	put := s.contacts.put
	if others {
		put = s.contacts.putLater
	}
	return loadModules(st, base, roleContacts, func(row *record.Module) error {
		addr, err := netip.ParseAddr(row.Name)
		claimed, claimErr := netip.ParseAddr(row.Value)
		isClaim, isReach := row.Module == moduleClaim, row.Module == moduleReach
		switch {
		case row.Module != moduleHost && row.Module != moduleAddr && !isClaim && !isReach:
			return badRow(clean(row.Module), "module "+moduleHost+", "+moduleAddr+", "+moduleClaim+" or "+moduleReach)
		case isClaim && claimErr != nil:
			return badRow(clean(row.Value), "an IP address")
		case row.Module == moduleAddr && err != nil:
			return badRow(clean(row.Name), "an IP address")
		case last.Name != "" && compareContacts(&last, row) >= 0:
			return badRow("a row out of order", "each after "+clean(last.Name))
		}
		last = record.Module{Key: row.Key, Module: strings.Clone(row.Module), Name: strings.Clone(row.Name)}
		if isClaim {
			claim(last.Name, claimed)
			return nil
		}
		if isReach {
			return s.reaches.load(last.Name, row.Value, others, now)
		}
		c, err := parseContactRow(row)
		if err != nil {
			return err
		}
		c.required = min(c.required, askedMax)
		if row.Module == moduleAddr {
			c.next += s.addrDelay - c.required // from the end of the contact on, what is to be left now
			c.required = s.addrDelay
		}
		if over := c.next - s.bounded(c.required) - now; over > jumped {
			if over > s.ahead {
				s.ahead, s.aheadOf = over, last.Name
			}
			c.next = now + s.bounded(c.required)
		}
		if row.Module == moduleAddr {
			s.awaitAddr(addr, c.next, now)
			return nil
		}
		c.ended = min(c.ended, now)
		s.before = max(s.before, c.ended)
		if c.ended > 0 {
			own := s.rules(last.Name)
			gap := own.After(c.took)
			if own.NoRobots && c.required > s.longest { // a host of one's own, which asked for a wait that the crawl does not grant
				c.next, c.required = 0, 0
			}
			c.serverGap = c.required
			c.next, c.required = max(c.next, c.ended+s.bounded(gap)), max(c.required, gap)
			s.awaitAddr(c.addr, c.ended+s.addrDelay, now)
		}
		if c.next <= now {
			c.required = 0 // was kept; somebody may have contacted the host since
		}
		if c.copied = others; c.counts(now) || c.recent(now) {
			put(last.Name, c, now)
		}
		return nil
	})
}

// awaitAddr notes that an address is not contacted before next.
func (s *scheduler) awaitAddr(addr netip.Addr, next, now micros) {
	if addr.IsValid() && next > now {
		s.addrs[addr] = max(s.addrs[addr], next)
	}
}

// parseContactRow reads the value of a row of a host or an address. What version 1.0 wrote of a host has no last contact.
func parseContactRow(row *record.Module) (c contact, err error) {
	fields := strings.Split(row.Value, " ")
	if len(fields) == 6 {
		if c.addr, err = netip.ParseAddr(fields[5]); err != nil {
			return c, badRow(clean(row.Value), "an IP address behind five numbers")
		}
		fields = fields[:5]
	}
	var n [5]micros
	for i, f := range fields[:min(len(fields), len(n))] {
		v, e := strconv.ParseUint(f, 10, 63)
		n[i], err = micros(v), errors.Join(err, e)
	}
	c.next, c.required, c.timeouts, c.ended, c.took = n[0], n[1], int(n[2]), n[3], n[4]
	switch many := len(fields); {
	case err != nil || many != 2 && (row.Module == moduleAddr || many != 3 && many != 5):
		return c, badRow(clean(row.Value), "two numbers of microseconds, and of a host perhaps a third, or five and an IP address")
	case many == 3 && n[2] == 0 || n[2] > timeoutsMax:
		return c, badRow(clean(row.Value), fmt.Sprintf("a third number from 1 to %d, or none", timeoutsMax))
	}
	return c, nil
}

func compareContacts(a, b *record.Module) int {
	return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
}

// crowdMax bounds the hosts that share one FP64 and have their contact times kept: such names can be made on purpose.
// sortMemory bounds the memory of the sort of hosts.
const (
	crowdMax   = 1 << 12
	sortMemory = 8 << 20
)

// save writes the contact times that lie ahead at now, and last contacts.
func (s *scheduler) save(tx *store.Tx, now micros) error {
	if s.contacts.err != nil {
		return s.contacts.err
	}
	var addrs []record.Module
	add := func(addr netip.Addr, next micros) {
		if next > now {
			addrs = append(addrs, contactRow(moduleAddr, addr.String(), next, s.addrDelay))
		}
	}
	for addr, next := range s.addrs {
		add(addr, next)
	}
	for addr, a := range s.slots {
		add(addr, a.next)
	}
	if s.claims != nil {
		addrs = append(addrs, s.claims.rows()...)
	}
	slices.SortFunc(addrs, func(a, b record.Module) int { return compareContacts(&a, &b) })
	hosts := merge.NewSorter(sortMemory, s.contacts.onDisk.dir)
	defer hosts.Close()
	if err := s.contacts.each(now, func(name string, c contact) error {
		if c.copied {
			return nil
		}
		if own := s.rules(name).After(c.took); c.ended > 0 && c.required <= own && c.next <= c.ended+s.bounded(own) {
			c.next, c.required = c.ended+s.bounded(c.serverGap), c.serverGap // its own delays are computed anew
		}
		c.required = max(c.required, c.next-now) // after an unclean stop a host waits longer; load takes a time further ahead for a wrong clock
		return hosts.Add(fingerprint.OfString(name), c.append(nil, name))
	}); err != nil {
		return err
	}
	sorted, err := hosts.Sort()
	if err != nil {
		return err
	}
	return saveModules(tx, roleContacts, func(write func(*record.Module) error) error {
		for i := range addrs {
			if err := write(&addrs[i]); err != nil {
				return err
			}
		}
		if err := saveHosts(sorted, write); err != nil {
			return err
		}
		for _, row := range s.reaches.rows() {
			if err := write(&row); err != nil {
				return err
			}
		}
		return nil
	})
}

func contactRow(module, name string, next, gap micros) record.Module {
	return record.Module{Key: fingerprint.OfString(name), Module: module, Name: name, Value: fmt.Sprintf("%d %d", next, gap)}
}

// saveHosts writes hosts that come by FP64, each once, with its latest time.
func saveHosts(sorted *merge.Iter, write func(*record.Module) error) error {
	crowd := map[string]contact{} // of one FP64
	last := uint64(0)
	flush := func() error {
		for _, name := range slices.Sorted(maps.Keys(crowd)) {
			c := crowd[name]
			row := contactRow(moduleHost, name, c.next, c.required)
			if c.timeouts > 0 || c.ended > 0 {
				row.Value += " " + strconv.Itoa(c.timeouts)
			}
			if c.ended > 0 {
				row.Value += fmt.Sprintf(" %d %d", c.ended, c.took)
			}
			if c.ended > 0 && c.addr.IsValid() {
				row.Value += " " + c.addr.String()
			}
			if err := write(&row); err != nil {
				return err
			}
		}
		clear(crowd)
		return nil
	}
	err := sorted.Each(func(key uint64, b []byte) error {
		if key != last {
			if err := flush(); err != nil {
				return err
			}
			last = key
		}
		c, name := parseContact(b)
		if known, ok := crowd[string(name)]; max(c.next, c.ended) >= max(known.next, known.ended) && (ok || len(crowd) < crowdMax) {
			crowd[string(name)] = c
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}
