package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fault"
)

// Actual is what became of a batch, to be compared with its plan.
type Actual struct {
	URLs     uint64        // that were contacted
	Duration time.Duration // from the first contact's start to the last one's end, robots.txt included
	Curve    []Point
	// Hosts are those whose ends the plan missed by most, the worst first.
	Hosts []Difference

	first record.Time
	f     *Frontier
	hosts *sorter // contacts, by host
}

// Difference is a host as it was planned and as it was.
type Difference struct {
	Host    string   `json:"host"`
	Planned HostPart `json:"planned"`
	Actual  HostPart `json:"actual"`
}

// HostPart is a host's part in a batch. All of its fields are 0 for a host without a contact.
type HostPart struct {
	Contacts uint64        // robots.txt included
	Contact  time.Duration // mean duration
	Gap      time.Duration // mean time between two
	End      time.Duration // of the last, from the batch's begin
}

// hostPart is that of a host with n contacts, that took so long together.
func hostPart(n uint64, began, end, worked time.Duration) HostPart {
	p := HostPart{Contacts: n, End: end}
	if n > 0 {
		p.Contact = worked / time.Duration(n)
	}
	if n > 1 {
		p.Gap = max(end-began-worked, 0) / time.Duration(n-1)
	}
	return p
}

// Measure tells how long the contacts of fetch records took. read gives them, io.EOF
// at the end. What it returns is to be closed.
func (f *Frontier) Measure(ctx context.Context, read func(*record.Fetch) error) (_ *Actual, err error) {
	ends := f.layout.sorter(smallSort)
	defer ends.Close()
	out := &Actual{f: f, hosts: f.layout.sorter(smallSort)}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	var last record.Time
	var t ticker
	var row record.Fetch
	var b []byte
	for {
		err := read(&row)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = t.err(ctx)
		}
		if err != nil {
			return nil, err
		}
		if row.Addr == "" || row.FetchTime <= 0 {
			continue // was not contacted
		}
		took := min(max(row.DurationUS, 0), longest)
		start := min(row.FetchTime, math.MaxInt64-longest) // whatever a record says
		end := start + record.Time(took)
		if last = max(last, end); out.first == 0 || start < out.first {
			out.first = start
		}
		if row.Role != record.RoleRobots {
			out.URLs++
			if err := ends.add(uint64(end), nil); err != nil {
				return nil, err
			}
		}
		b = binary.AppendUvarint(b[:0], uint64(start))
		b = binary.AppendUvarint(b, uint64(took))
		if err := out.hosts.add(hostOrder(row.Host), append(b, row.Host...)); err != nil {
			return nil, err
		}
	}
	if out.URLs == 0 {
		return nil, &fault.Error{Class: fault.Usage, Found: "fetch records without a contact", Want: "those of a batch that was fetched"}
	}
	out.Duration = out.since(last)
	c := newCurve(out.URLs)
	rows, err := ends.sorted()
	for ; err == nil && !rows.done; err = rows.take() {
		c.done(out.since(record.Time(rows.key)))
	}
	out.Curve = c.points
	return out, err
}

// since is how long after the first contact's start t is, which is not before it.
func (a *Actual) since(t record.Time) time.Duration {
	return times(uint64(t-a.first), time.Microsecond)
}

// Close frees what Measure holds for a plan.
func (a *Actual) Close() {
	if a.hosts != nil {
		a.hosts.Close()
		a.hosts = nil
	}
}

// comparison holds the contacts of hosts against what was planned of them. Both come by
// hostOrder, each host once.
type comparison struct {
	a    *Actual
	rows *peeker
	all  *sorter // what became of the hosts of a simulated batch, by their numbers in the simulation
	buf  []byte
}

func (a *Actual) compare() (*comparison, error) {
	rows, err := a.hosts.sorted()
	a.Hosts = nil
	return &comparison{a: a, rows: rows, all: a.f.layout.sorter(smallSort)}, err
}

func (c *comparison) close() { c.all.Close() }

// part is the part of the next host that was contacted.
func (c *comparison) part() (d Difference, err error) {
	var n uint64
	var worked time.Duration
	var first, last record.Time
	for order := c.rows.key; !c.rows.done && c.rows.key == order; n++ {
		b := c.rows.row
		start, k := binary.Uvarint(b)
		took, l := binary.Uvarint(b[k:])
		if n == 0 {
			d.Host, first = string(b[k+l:]), record.Time(start)
		}
		worked = later(worked, times(took, time.Microsecond))
		first, last = min(first, record.Time(start)), max(last, record.Time(start+took))
		if err := c.rows.take(); err != nil {
			return d, err
		}
	}
	d.Actual = hostPart(n, c.a.since(first), c.a.since(last), worked)
	return d, nil
}

// until passes over hosts before order, of which nothing was planned.
func (c *comparison) until(order uint64) error {
	for !c.rows.done && c.rows.key < order {
		d, err := c.part()
		if err != nil {
			return err
		}
		c.a.missed(d)
	}
	return nil
}

// planned takes in a host's plan. It is final, or that of a simulation is to come.
func (c *comparison) planned(order uint64, host string, p HostPart, final bool) (err error) {
	if err := c.until(order); err != nil {
		return err
	}
	d := Difference{Host: host}
	if !c.rows.done && c.rows.key == order {
		if d, err = c.part(); err != nil {
			return err
		}
	}
	if d.Planned = p; final {
		c.a.missed(d)
		return nil
	}
	c.buf = c.buf[:0]
	for _, x := range []uint64{d.Actual.Contacts, uint64(d.Actual.Contact), uint64(d.Actual.Gap), uint64(d.Actual.End)} {
		c.buf = binary.AppendUvarint(c.buf, x)
	}
	c.buf = append(c.buf, d.Host...)
	return c.all.add(uint64(c.all.rows), c.buf)
}

// finish compares what is left; sim has run, or is nil.
func (c *comparison) finish(sim *simulation) error {
	if err := c.until(math.MaxUint64); err != nil {
		return err
	}
	rows, err := c.all.sorted()
	for ; err == nil && !rows.done; err = rows.take() {
		b := rows.row
		number := func() uint64 {
			x, n := binary.Uvarint(b)
			b = b[n:]
			return x
		}
		d := Difference{Planned: sim.part(int(rows.key))}
		d.Actual = HostPart{Contacts: number(), Contact: time.Duration(number()), Gap: time.Duration(number()), End: time.Duration(number())}
		d.Host = string(b)
		c.a.missed(d)
	}
	return err
}

// missed keeps a host, if it is one of those whose end was missed by most.
func (a *Actual) missed(d Difference) {
	by := func(d *Difference) time.Duration { return max(d.Planned.End-d.Actual.End, d.Actual.End-d.Planned.End) }
	worse := func(x, y Difference) int { return cmp.Or(cmp.Compare(by(&y), by(&x)), cmp.Compare(x.Host, y.Host)) }
	if by(&d) == 0 || len(a.Hosts) == slowHosts && worse(a.Hosts[slowHosts-1], d) < 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(a.Hosts, d, worse)
	a.Hosts = slices.Insert(a.Hosts, at, d)
	a.Hosts = a.Hosts[:min(len(a.Hosts), slowHosts)]
}
