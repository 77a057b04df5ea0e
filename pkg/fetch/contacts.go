package fetch

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/fingerprint"
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
			s.contacts[last.Name] = contact{next: next, required: gap}
		}
		return nil
	})
}

func compareContacts(a, b *record.Module) int {
	return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
}

// save writes the contact times that lie ahead at now.
func (s *scheduler) save(tx *store.Tx, now micros) error {
	var rows []record.Module
	add := func(module, name string, next, gap micros) {
		if next > now {
			rows = append(rows, record.Module{Key: fingerprint.OfString(name), Module: module, Name: name, Value: fmt.Sprintf("%d %d", next, gap)})
		}
	}
	for name, c := range s.contacts {
		add(moduleHost, name, c.next, c.required)
	}
	for addr, next := range s.addrs {
		add(moduleAddr, addr.String(), next, s.addrDelay)
	}
	for addr, a := range s.slots {
		add(moduleAddr, addr.String(), a.next, s.addrDelay)
	}
	slices.SortFunc(rows, func(a, b record.Module) int { return compareContacts(&a, &b) })
	return saveModules(tx, roleContacts, func(write func(*record.Module) error) error {
		for i := range rows {
			if err := write(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
