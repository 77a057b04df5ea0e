package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"mercator/pkg/base/fault"
)

// A transport carries questions to one server in datagrams. It calls came, once each time that it is asked.
type transport interface {
	ask(q *question)
	close()
}

// A server that failed to answer so often in a row is passed over for a while, which
// doubles with each further failure.
const (
	tolerance   = 8
	firstPause  = time.Second
	longestWait = 30 * time.Second
)

// server is one of those that are asked.
type server struct {
	addr netip.AddrPort
	name string // that
	main transport
	gap  time.Duration

	mu       sync.Mutex
	failures int       // in a row
	pausedTo time.Time // not asked before, if another can be
	next     time.Time // when its rate allows the next question
}

// parseServer reads ADDR[:PORT].
func parseServer(s string, rate float64) (*server, error) {
	addr, err := parseAddr(s)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("DNS server %q", s), Want: "an IP address, with :PORT or without"}
	}
	srv := &server{addr: addr, name: addr.String(), main: &udp{addr: addr}}
	if rate > 0 {
		srv.gap = time.Duration(float64(time.Second) / rate)
	}
	return srv, nil
}

// parseAddr reads an address, in brackets or not, with a port or not.
func parseAddr(s string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil && ap.Port() > 0 {
		return ap, nil
	}
	in, opened := strings.CutPrefix(s, "[")
	in, closed := strings.CutSuffix(in, "]")
	a, err := netip.ParseAddr(in)
	if opened != closed {
		err = errors.New("one bracket")
	}
	return netip.AddrPortFrom(a, 53), err
}

// wait takes the next of the turns that the server's rate allows, and says how long it is
// until then.
func (s *server) wait() time.Duration {
	if s.gap == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	turn := s.next
	if turn.Before(now) {
		turn = now
	}
	s.next = turn.Add(s.gap)
	return turn.Sub(now)
}

// report counts whether the server did its work.
func (s *server) report(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		s.failures, s.pausedTo = 0, time.Time{}
		return
	}
	if s.failures++; s.failures >= tolerance {
		pause := min(firstPause<<min(s.failures-tolerance, 5), longestWait)
		s.pausedTo = time.Now().Add(pause)
	}
}

func (s *server) paused(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pausedTo.After(now)
}
