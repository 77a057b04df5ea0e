package stats

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"mercator/formats/record"
	"mercator/pkg/merge"
)

// Host holds the figures of one host.
type Host struct {
	Name       string  `json:"host"`
	Attempts   uint64  `json:"attempts"`
	Replies    uint64  `json:"replies"`
	Documents  uint64  `json:"documents"`
	Bytes      int64   `json:"bytes"`
	Duplicates uint64  `json:"duplicates"`
	Errors     uint64  `json:"errors"`              // attempts that failed, and replies with status 500 to 599
	MeanUS     float64 `json:"mean_us"`             // mean duration of a contact that had a reply, microseconds
	Error      string  `json:"error,omitempty"`     // the last of the errors: its outcome, or its status
	ErrorURL   string  `json:"error_url,omitempty"` // where that was
	durationUS float64 // of all replies
}

// kept is Host as it is sorted in files.
type kept struct {
	*Host
	DurationUS float64 `json:"d"`
}

// plus adds what the same host did later.
func (h *Host) plus(o *Host) {
	h.Attempts, h.Replies, h.Documents, h.Bytes = h.Attempts+o.Attempts, h.Replies+o.Replies, h.Documents+o.Documents, h.Bytes+o.Bytes
	h.Duplicates, h.Errors, h.durationUS = h.Duplicates+o.Duplicates, h.Errors+o.Errors, h.durationUS+o.durationUS
	if o.Error != "" {
		h.Error, h.ErrorURL = o.Error, o.ErrorURL
	}
}

// hosts adds up by host. Those that do not fit wait in a sorter.
type hosts struct {
	of                        map[string]*Host
	sorter                    *merge.Sorter
	largest, failing, slowest top[Host]
}

func hostName(h *Host) string { return h.Name }

func newHosts(mem int64) hosts {
	return hosts{of: map[string]*Host{}, sorter: merge.NewSorter(mem, ""),
		largest: top[Host]{name: hostName, n: TopHosts, key: func(h *Host) float64 { return float64(h.Documents) }},
		failing: top[Host]{name: hostName, n: TopWorst, key: func(h *Host) float64 { return float64(h.Errors) }},
		slowest: top[Host]{name: hostName, n: TopWorst, key: func(h *Host) float64 { return h.MeanUS }}}
}

func (hs *hosts) addRow(r *record.Fetch) error {
	h := hs.of[r.Host]
	if h == nil {
		if len(hs.of) >= maxHosts {
			if err := hs.flush(); err != nil {
				return err
			}
		}
		h = &Host{Name: strings.Clone(r.Host)}
		hs.of[h.Name] = h
	}
	h.Attempts++
	if replied(r) {
		h.Replies++
		h.durationUS += float64(r.DurationUS)
	}
	if document(r) {
		h.Documents++
		h.Bytes += r.BodyLength
		if r.Duplicate {
			h.Duplicates++
		}
	}
	if failed(r) {
		h.Errors++
		h.Error, h.ErrorURL = r.Outcome, strings.Clone(r.URL)
		if replied(r) {
			h.Error = statusText(r.Status)
		}
	}
	return nil
}

// flush gives the hosts in memory to the sorter.
func (hs *hosts) flush() error {
	for _, h := range hs.of {
		row, err := json.Marshal(kept{h, h.durationUS})
		if err == nil {
			err = hs.sorter.Add(xxh3.HashString(h.Name), row)
		}
		if err != nil {
			return err
		}
	}
	clear(hs.of)
	return nil
}

// eachHost calls each for all hosts, each whole.
func (hs *hosts) eachHost(added error, each func(*Host)) (err error) {
	defer func() { err = errors.Join(err, hs.sorter.Close()) }()
	if added != nil {
		return added
	}
	if err := hs.flush(); err != nil {
		return err
	}
	it, err := hs.sorter.Sort()
	if err != nil {
		return err
	}
	var same []*Host // of one key
	var of uint64
	finish := func() {
		for _, h := range same {
			if h.Replies > 0 {
				h.MeanUS = h.durationUS / float64(h.Replies)
			}
			each(h)
		}
		same = same[:0]
	}
	if err := it.Each(func(key uint64, row []byte) error {
		k := kept{Host: new(Host)}
		if err := json.Unmarshal(row, &k); err != nil {
			return err
		}
		k.Host.durationUS = k.DurationUS
		if key != of {
			finish()
			of = key
		}
		if i := slices.IndexFunc(same, func(h *Host) bool { return h.Name == k.Host.Name }); i >= 0 {
			same[i].plus(k.Host)
		} else {
			same = append(same, k.Host)
		}
		return nil
	}); err != nil {
		return err
	}
	finish()
	return nil
}

func (hs *hosts) rank(h *Host) {
	if h.Documents > 0 {
		hs.largest.add(h)
	}
	if h.Errors > 0 {
		hs.failing.add(h)
	}
	if h.Replies >= 3 {
		hs.slowest.add(h)
	}
}
