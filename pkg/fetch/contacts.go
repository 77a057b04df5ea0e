package fetch

import (
	"cmp"
	"encoding/binary"
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
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
	"mercator/pkg/shard"
)

// keepHung is how long it is remembered that a host had to be put off.
const keepHung = micros(24 * time.Hour / time.Microsecond)

// jumped is how far a time may lie ahead of what a clock that goes right has set.
const jumped = micros(2 * time.Second / time.Microsecond)

// load reads the contact times that still lie ahead at now, of a shard those of all shards, and claims. A contact that ended later than now
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
	if err := s.loadFrom(st, base, now, false, func(host string, addr netip.Addr) { s.claims.add(own, host, addr) }); err != nil {
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
			err = s.loadFrom(other, base, now, true, func(host string, addr netip.Addr) { s.claims.add(n, host, addr) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadFrom reads the contact times of one store. others: it is that of another shard, which keeps them: this one does not save
// them, as nobody would ever take them out of a store whose shard does not contact the host.
func (s *scheduler) loadFrom(st *store.Store, base *store.Manifest, now micros, others bool, claim func(host string, addr netip.Addr)) error {
	var last record.Module
	put := s.contacts.put
	if others {
		put = s.contacts.putLater
	}
	return loadModules(st, base, roleContacts, func(row *record.Module) error {
		a, b, _ := strings.Cut(row.Value, " ")
		b, n, third := strings.Cut(b, " ")
		next, err1 := strconv.ParseInt(a, 10, 64)
		gap, err2 := strconv.ParseInt(b, 10, 64)
		hung := uint64(0)
		var err4 error
		if third {
			hung, err4 = strconv.ParseUint(n, 10, 8)
		}
		addr, err3 := netip.ParseAddr(row.Name)
		claimed, err5 := netip.ParseAddr(row.Value)
		isClaim, isReach := row.Module == moduleClaim, row.Module == moduleReach
		switch {
		case row.Module != moduleHost && row.Module != moduleAddr && !isClaim && !isReach:
			return badRow(clean(row.Module), "module "+moduleHost+", "+moduleAddr+", "+moduleClaim+" or "+moduleReach)
		case isClaim && err5 != nil:
			return badRow(clean(row.Value), "an IP address")
		case row.Module == moduleAddr && err3 != nil:
			return badRow(clean(row.Name), "an IP address")
		case !isClaim && !isReach && (err1 != nil || err2 != nil || next < 0 || gap < 0):
			return badRow(clean(row.Value), "two numbers of microseconds")
		case third && !isReach && (err4 != nil || hung < 1 || hung > hungMax || row.Module != moduleHost):
			return badRow(clean(row.Value), fmt.Sprintf("of a host a third number from 1 to %d, or none", hungMax))
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
		gap = min(gap, askedMax)
		if over := next - s.bounded(gap) - now; over > jumped {
			if over > s.ahead {
				s.ahead, s.aheadOf = over, last.Name
			}
			next = now + s.bounded(gap)
		}
		if next <= now {
			gap = 0 // was kept; somebody may have contacted the host since
		}
		switch {
		case next <= now && (hung == 0 || next <= now-keepHung):
		case row.Module == moduleAddr:
			s.addrs[addr] = max(s.addrs[addr], next)
		default:
			put(last.Name, contact{next: next, required: gap, hung: int(hung), copied: others}, now)
		}
		return nil
	})
}

func compareContacts(a, b *record.Module) int {
	return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
}

// Of the hosts whose names have one FP64, as people can make, contact times of so many are
// kept; and the memory in which hosts are sorted.
const (
	crowdMax   = 1 << 12
	sortMemory = 8 << 20
)

// save writes the contact times that lie ahead at now.
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
	hosts := merge.NewSorter(sortMemory, s.contacts.far.dir)
	defer hosts.Close()
	if err := s.contacts.each(now, func(name string, c contact) error {
		if c.copied {
			return nil
		}
		gap := max(c.required, c.next-now) // after an unclean stop a host waits longer; load takes a time further ahead for a wrong clock
		b := binary.BigEndian.AppendUint64(nil, uint64(c.next))
		b = append(binary.BigEndian.AppendUint64(b, uint64(gap)), byte(c.hung))
		return hosts.Add(fingerprint.OfString(name), append(b, name...))
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
			if c.hung > 0 {
				row.Value += " " + strconv.Itoa(c.hung)
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
		c := contact{next: micros(binary.BigEndian.Uint64(b)), required: micros(binary.BigEndian.Uint64(b[8:])), hung: int(b[16])}
		if known, ok := crowd[string(b[17:])]; c.next >= known.next && (ok || len(crowd) < crowdMax) {
			crowd[string(b[17:])] = c
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}
