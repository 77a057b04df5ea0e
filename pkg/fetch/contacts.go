package fetch

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// load reads the contact times that still lie ahead at now.
func (s *scheduler) load(st *store.Store, base *store.Manifest, now micros) error {
	var last record.Module
	return loadModules(st, base, roleContacts, func(row *record.Module) error {
		a, b, _ := strings.Cut(row.Value, " ")
		next, err1 := strconv.ParseInt(a, 10, 64)
		gap, err2 := strconv.ParseInt(b, 10, 64)
		addr, err3 := netip.ParseAddr(row.Name)
		switch {
		case row.Module != moduleHost && row.Module != moduleAddr:
			return badRow(clean(row.Module), "module "+moduleHost+" or "+moduleAddr)
		case row.Module == moduleAddr && err3 != nil:
			return badRow(clean(row.Name), "an IP address")
		case err1 != nil || err2 != nil || next < 0 || gap < 0:
			return badRow(clean(row.Value), "two numbers of microseconds")
		case last.Name != "" && compareContacts(&last, row) >= 0:
			return badRow("a row out of order", "each after "+clean(last.Name))
		}
		last = record.Module{Key: row.Key, Module: strings.Clone(row.Module), Name: strings.Clone(row.Name)}
		switch {
		case next <= now:
		case row.Module == moduleAddr:
			s.addrs[addr] = next
		default:
			s.contacts.put(last.Name, contact{next: next, required: gap}, now)
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
	slices.SortFunc(addrs, func(a, b record.Module) int { return compareContacts(&a, &b) })
	hosts := merge.NewSorter(sortMemory, s.contacts.far.dir)
	defer hosts.Close()
	if err := s.contacts.each(now, func(name string, c contact) error {
		b := binary.BigEndian.AppendUint64(nil, uint64(c.next))
		b = binary.BigEndian.AppendUint64(b, uint64(c.required))
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
		return saveHosts(sorted, write)
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
			row := contactRow(moduleHost, name, crowd[name].next, crowd[name].required)
			if err := write(&row); err != nil {
				return err
			}
		}
		clear(crowd)
		return nil
	}
	for {
		key, b, err := sorted.Next()
		if err == io.EOF {
			return flush()
		}
		if err != nil {
			return err
		}
		if key != last {
			if err := flush(); err != nil {
				return err
			}
			last = key
		}
		c := contact{next: micros(binary.BigEndian.Uint64(b)), required: micros(binary.BigEndian.Uint64(b[8:]))}
		if known, ok := crowd[string(b[16:])]; c.next > known.next && (ok || len(crowd) < crowdMax) {
			crowd[string(b[16:])] = c
		}
	}
}
