package fetch

import (
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
)

// Kept is what a fetch store keeps of a host.
type Kept struct {
	Robots time.Time // when its robots.txt came; zero: none is kept
	Rules  []byte    // its text; nil: there was none, and all is allowed
	Next   time.Time // no contact before; zero: at any time
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
			next, _, _ := strings.Cut(row.Value, " ")
			n, err := strconv.ParseInt(next, 10, 64)
			if err != nil || n < 0 {
				return badRow(clean(row.Value), "two numbers of microseconds")
			}
			k.Next = time.UnixMicro(n).UTC()
		}
		return nil
	})
}
