package frontier

import (
	"encoding/json"
	"time"
)

// In JSON the times of plans are microseconds, as those of records are.

// MarshalJSON shows it to people and programs.
func (p *Plan) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		URLs      uint64     `json:"urls"`
		Hosts     uint64     `json:"hosts"`
		Addresses uint64     `json:"addresses"`
		Measured  uint64     `json:"measured"`
		Duration  int64      `json:"duration_us"`
		Low       int64      `json:"low_us"`
		High      int64      `json:"high_us"`
		ByHost    int64      `json:"by_host_us"`
		ByAddr    int64      `json:"by_addr_us"`
		ByWork    int64      `json:"by_work_us"`
		Tail      int64      `json:"tail_us"`
		Slow      []PlanHost `json:"slow_hosts"`
		Curve     []Point    `json:"curve,omitzero"`
		Actual    *Actual    `json:"actual,omitempty"`
	}{p.URLs, p.Hosts, p.Addresses, p.Measured, us(p.Duration), us(p.Low), us(p.High), us(p.ByHost), us(p.ByAddr), us(p.ByWork), us(p.Tail), append([]PlanHost{}, p.Slow...), p.Curve, p.Actual})
}

// MarshalJSON shows it as Plan's.
func (h PlanHost) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Host     string `json:"host"`
		URLs     uint64 `json:"urls"`
		Measured bool   `json:"measured"`
		Took     int64  `json:"took_us"`
	}{h.Host, h.URLs, h.Measured, us(h.Took)})
}

// MarshalJSON shows it as Plan's.
func (p Point) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At   int64  `json:"at_us"`
		URLs uint64 `json:"urls"`
	}{us(p.At), p.URLs})
}

// MarshalJSON shows it as Plan's.
func (a *Actual) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		URLs     uint64       `json:"urls"`
		Duration int64        `json:"duration_us"`
		Curve    []Point      `json:"curve,omitzero"`
		Hosts    []Difference `json:"hosts"`
	}{a.URLs, us(a.Duration), a.Curve, append([]Difference{}, a.Hosts...)})
}

// MarshalJSON shows it as Plan's.
func (p HostPart) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Contacts uint64 `json:"contacts"`
		Contact  int64  `json:"contact_us"`
		Gap      int64  `json:"gap_us"`
		End      int64  `json:"end_us"`
	}{p.Contacts, us(p.Contact), us(p.Gap), us(p.End)})
}

func us(d time.Duration) int64 { return d.Microseconds() }
