package segment

import (
	"encoding/json"
	"strconv"
	"time"

	"mercator/formats/record"
)

// MarshalJSON shows a host to people and programs, as "mfrontier hosts" and mcat
// do: times in RFC 3339, and places by front queue.
func (h *Host) MarshalJSON() ([]byte, error) {
	places := make(map[string]uint64, len(h.Last))
	for _, l := range h.Last {
		places[strconv.Itoa(int(l.Level))] = l.Place
	}
	return json.Marshal(struct {
		Host        string            `json:"host"`
		Discovered  uint64            `json:"discovered"`
		Unfinished  uint64            `json:"unfinished"`
		Finished    uint64            `json:"finished"`
		Fetched     uint64            `json:"fetched"`
		Retried     uint64            `json:"retried"`
		Deferred    uint64            `json:"deferred"`
		Dead        uint64            `json:"dead"`
		Contacts    uint64            `json:"contacts"`
		Failures    uint64            `json:"failures_in_a_row"`
		DurationUS  uint64            `json:"mean_duration_us"`
		SpreadUS    uint64            `json:"duration_spread_us"`
		DelayUS     uint64            `json:"mean_delay_us"`
		LastContact string            `json:"last_contact,omitempty"`
		ParkedUntil string            `json:"parked_until,omitempty"`
		Addr        string            `json:"addr,omitempty"`
		LastPlace   map[string]uint64 `json:"last_place"`
	}{h.Host, h.Discovered, h.Discovered - h.Finished, h.Finished, h.Fetched, h.Retried, h.Deferred, h.Dead, h.Contacts, h.Failures,
		h.DurationUS, h.SpreadUS, h.DelayUS, instant(h.LastContact), instant(h.ParkedUntil), h.Addr, places})
}

// MarshalJSON shows a domain to people and programs.
func (d *Domain) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Domain   string `json:"domain"`
		LinkedBy int    `json:"linked_by"`
		More     bool   `json:"linked_by_more,omitempty"`
		Round    uint64 `json:"given_until_round"`
		Used     uint64 `json:"given_in_round"`
	}{d.Domain, d.InDegree(), d.Many, d.Round, d.Used})
}

func instant(t record.Time) string {
	if t == 0 {
		return ""
	}
	return t.Go().Format(time.RFC3339Nano)
}
