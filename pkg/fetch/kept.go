package fetch

import (
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/politeness"
)

// Kept has what a fetch store keeps of a host.
type Kept struct {
	Robots time.Time // when its robots.txt came; zero: none is kept
	Rules  []byte    // text of robots.txt; nil: the host had none, and all is allowed
	Next   time.Time // no contact before, whatever the delays are; zero: at any time

	Ended time.Time     // when the last contact ended; zero: not known
	Took  time.Duration // duration of the last contact
}

// May is when the host may be contacted by these rules; zero: at any time.
func (k *Kept) May(own politeness.Rules) time.Time {
	if gap := time.Duration(own.After(k.Took.Microseconds())) * time.Microsecond; !k.Ended.IsZero() && k.Ended.Add(gap).After(k.Next) {
		return k.Ended.Add(gap)
	}
	return k.Next
}

// KeptOf reads what a store keeps of a host by a scheme.
func KeptOf(st *store.Store, scheme, host string) (k Kept, err error) {
	base, err := st.Current()
	if err != nil {
		return k, err
	}
	err = loadRobots(st, base, func(row *record.Module, at time.Time, rules bool, text string) error {
		if row.Name == scheme+"://"+host {
			if k.Robots = at; rules {
				k.Rules = []byte(text)
			}
		}
		return nil
	})
	if err != nil {
		return k, err
	}
	return k, loadModules(st, base, roleContacts, func(row *record.Module) error {
		if row.Module == moduleHost && row.Name == host {
			c, err := parseContactRow(row)
			if err != nil {
				return err
			}
			if k.Next = time.UnixMicro(c.next).UTC(); c.ended > 0 {
				k.Ended, k.Took = time.UnixMicro(c.ended).UTC(), time.Duration(c.took)*time.Microsecond
			}
		}
		return nil
	})
}
