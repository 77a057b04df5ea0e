package frontier

import (
	"context"
	"fmt"
	"io"
	"slices"

	"mercator/formats/segment"
	"mercator/pkg/fault"
)

// Beside the batch that is out Next takes one more, of hosts that have none in the
// first: whoever fetches it keeps politeness without knowing of the other, and the
// outcomes of neither can concern a URL, or the order of a host's URLs, in the other.

// hostSet is a set of hosts by hostOrder, ascending. Two hosts of one order are taken
// for one.
type hostSet []uint64

func (h hostSet) has(host string) bool {
	_, found := slices.BinarySearch(h, hostOrder(host))
	return found
}

// away are the hosts of which a batch has no URLs because they are in flight: with
// Overlap all, else none.
func (s *state) away(ctx context.Context, fs files, o NextOptions) (hostSet, error) {
	if !o.Overlap {
		return nil, nil
	}
	var hosts hostSet
	for _, fl := range s.flights() {
		if err := hosts.add(ctx, fs, fl, MaxCapped); err != nil {
			return nil, err
		}
	}
	return slices.Clip(hosts.compact()), nil
}

func (h *hostSet) compact() hostSet {
	slices.Sort(*h)
	*h = slices.Compact(*h)
	return *h
}

// add adds the hosts of a batch in flight. At twice the number most the set is made
// one; so it never holds more, and is sorted once in as many rows.
func (h *hostSet) add(ctx context.Context, fs files, fl *flight, most int) error {
	r, file, err := openRun[segment.Entry](fs, fl.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	scan := r.Scan(segment.Start)
	var t ticker
	var e segment.Entry
	for {
		err := scan.Next(&e)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return err
		}
		if *h = append(*h, hostOrder(e.URL.Host)); len(*h) < 2*most {
			continue
		}
		if len(h.compact()) > most {
			break
		}
	}
	if n := len(h.compact()); n > most {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a batch in flight of more than %d hosts", most), Want: "fewer, for --overlap",
			Hint: "take smaller batches"}
	}
	return nil
}

// Out reports whether a batch is in flight.
func (f *Frontier) Out() (bool, error) {
	s, _, err := f.current()
	return err == nil && s.InFlight != nil, err
}

// room refuses another batch where there is none for it, and reports whether it is
// to be taken beside one that is out.
func (s *state) room(o NextOptions) (beside bool, err error) {
	switch {
	case s.InFlight == nil:
		return false, nil
	case s.Ahead != nil:
		return false, &fault.Error{Class: fault.Conflict, Found: fmt.Sprintf("two batches are in flight, %q and %q", s.InFlight.Txn, s.Ahead.Txn), Want: "one at most",
			Hint: fmt.Sprintf("finish the first round with \"mfrontier update --txn %s\"", s.InFlight.Txn)}
	case !o.Overlap:
		e := inFlight(s.InFlight)
		if s.InFlight.Txn != "" {
			e.Hint += ", or take a batch of other hosts beside it with --overlap"
		}
		return false, e
	case o.Txn == "" || s.InFlight.Txn == "":
		return false, &fault.Error{Class: fault.Usage, Found: "--overlap, and a batch without a name", Want: "--txn for both batches"}
	}
	return true, nil
}

// noneBeside says that a batch beside one that is out would be empty. That is no empty
// frontier, so there is no such batch.
func noneBeside(fl *flight) error {
	return &fault.Error{Class: fault.No, Found: fmt.Sprintf("no URL that is due and next is of another host than those of round %q", fl.Txn)}
}
