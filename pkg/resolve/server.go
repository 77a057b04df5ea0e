package resolve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"mercator/pkg/fault"
)

// A transport carries questions to one server. It calls came, once each time that it is asked.
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
	name string
	main transport // UDP
	tcp  *tcp      // for what does not fit a datagram
	gap  time.Duration

	mu       sync.Mutex
	failures int       // in a row
	pausedTo time.Time // not asked before, if another can be
	next     time.Time // when its rate allows the next question
}

// parseServer reads ADDR[:PORT].
func parseServer(s string, cfg *Config, l large) (*server, error) {
	addr, err := parseAddr(s)
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("DNS server %q", s), Want: "an IP address, with :PORT or without"}
	}
	srv := &server{name: addr.String(), main: &udp{addr: addr}, tcp: newTCP(addr, l)}
	if cfg.Rate > 0 {
		srv.gap = time.Duration(float64(time.Second) / cfg.Rate)
	}
	return srv, nil
}

// parseAddr reads an address, in brackets or not, with a port or not.
func parseAddr(s string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		if ap.Port() == 0 {
			err = errors.New("port 0")
		}
		return ap, err
	}
	if in, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(in, "]"); !ok {
			return netip.AddrPort{}, fmt.Errorf("%q ends in no bracket", in)
		}
	}
	a, err := netip.ParseAddr(s)
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

func (s *server) close() {
	s.main.close()
	s.tcp.close()
}

// timedOut makes every kind of a deadline that passed os.ErrDeadlineExceeded.
func timedOut(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return os.ErrDeadlineExceeded
	}
	return err
}
