package fetch

import (
	"fmt"
	"testing"
)

type fakeConn struct{ closed int }

func (c *fakeConn) Close() error { c.closed++; return nil }

func TestSessionsStayWithinTheirNumber(t *testing.T) {
	s := sessions{max: 2}
	var hosts [3]*host
	var conns [3]*fakeConn
	for i := range hosts {
		hosts[i], conns[i] = newHost(fmt.Sprint("h", i)), &fakeConn{}
	}
	for i := range 2 {
		if got, surplus := s.beginContact(hosts[i]); got != nil || surplus != nil {
			t.Fatalf("host %d: %v, %v; want a new connection", i, got, surplus)
		}
		if surplus := s.endContact(hosts[i], conns[i], 0); surplus != nil {
			t.Fatalf("host %d: its connection is not kept", i)
		}
	}
	if got, surplus := s.beginContact(hosts[0]); got != conns[0] || surplus != nil {
		t.Errorf("host 0 gets %v (surplus %v), want its own connection", got, surplus)
	}
	s.endContact(hosts[0], conns[0], restMax)
	if got, surplus := s.beginContact(hosts[2]); got != nil || surplus != conns[1] {
		t.Errorf("host 2 gets %v with surplus %v, want none, and the one that rested longest", got, surplus)
	}
	if surplus := s.endContact(hosts[2], conns[2], restMax+1); surplus != conns[2] {
		t.Error("a connection is kept over a long gap")
	}
	if s.takeResting(hosts[1]) != nil {
		t.Error("a surplus connection is still there")
	}
	s.closeAll()
	if conns[0].closed != 1 || s.resting != 0 || hosts[0].session != nil {
		t.Error("a connection that rests is not closed at the end")
	}
}
