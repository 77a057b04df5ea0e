package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/localfault"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/rewind"
)

// Limits bound the contacts of a protocol module, whatever servers do, and hold what
// modules share. The zero value has the defaults.
type Limits struct {
	Timeout        time.Duration // of a whole contact; 0: DefaultTimeout
	ConnectTimeout time.Duration // of connecting, a handshake of TLS included; 0: DefaultConnectTimeout
	BodyMax        int64         // bytes kept of a document; 0: rewind.DefaultMax
	TempDir        string        // for documents beyond 64 KiB; "": the system's
	Guard          addrguard.Guard

	// Dial makes a connection; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Defaults of Limits.
const (
	DefaultTimeout        = time.Minute
	DefaultConnectTimeout = 20 * time.Second
)

// Failure is why a contact failed, with its outcome.
type Failure struct {
	Outcome   string // one of the record.Outcome constants
	Err       error
	Unreached bool // the address does not serve: the host's next may do
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Broken returns a Failure with the outcome "protocol-error".
func Broken(format string, args ...any) error {
	return &Failure{Outcome: record.OutcomeProtocol, Err: fmt.Errorf(format, args...)}
}

// Begin returns the context of one contact, which ends by the time limit.
func (l *Limits) Begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(l.Timeout, DefaultTimeout))
}

// Judge returns the Failure of an address that is not to be contacted.
func (l *Limits) Judge(addr netip.Addr) error {
	if ok, reason := l.Guard.Allowed(addr); !ok {
		return &Failure{Outcome: record.OutcomeAddress, Err: fmt.Errorf("%s is a %s address", addr, reason)}
	}
	return nil
}

// Connect opens a TCP connection, on which reading and writing end with ctx. The
// address is judged here, whoever gave it.
func (l *Limits) Connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if err := l.Judge(addr.Addr()); err != nil {
		return nil, err
	}
	dial := l.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	soon, cancel := context.WithTimeout(ctx, l.ConnectTime(ctx))
	defer cancel()
	conn, err := dial(soon, "tcp", addr.String())
	if err != nil {
		return nil, Unconnected(err)
	}
	// A proxy's handshake may have left one. A connection that is gone already says so
	// when it is used.
	_ = conn.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &bounded{conn, stop}, nil
}

// bounded is a connection that ends with a context.
type bounded struct {
	net.Conn
	stop func() bool
}

func (b *bounded) Close() error {
	b.stop()
	return b.Conn.Close()
}

// Classify makes a Failure of an error of the network: a timeout is one wherever it
// comes, everything else is what outcome says. What is no server's fault is no Failure: what
// this machine could not do (package localfault tells which errors those are), and what the
// operator is to mend, a *fault.Error.
func Classify(err error, outcome string) error {
	var known *Failure
	var operators *fault.Error
	if errors.As(err, &known) || errors.As(err, &operators) {
		return err
	}
	if _, ok := localfault.Of(err); ok {
		return err
	}
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		outcome = record.OutcomeTimeout
	}
	return &Failure{Outcome: outcome, Err: err}
}

// Unconnected makes a Failure of an error of connecting. That no connection came in time is one, too: a
// host's next address may do.
func Unconnected(err error) error {
	err = Classify(err, record.OutcomeConnect)
	if f, ok := errors.AsType[*Failure](err); ok {
		f.Outcome, f.Unreached = record.OutcomeConnect, true
	}
	return err
}

// Document is the body that a module fetches, kept within Limits.
type Document struct {
	*rewind.Stream
	Truncated string // as WARC-Truncated has it
}

// Close gives the memory back.
func (d *Document) Close() { _ = d.Stream.Close() }

// Keep reads a document until r ends, or as far as the limits allow. An error is one
// of this machine; what the network did is in Truncated.
func (l *Limits) Keep(r io.Reader) (*Document, error) {
	d := &Document{Stream: rewind.New(l.TempDir, l.BodyMax)}
	source := &source{r: r}
	_, err := d.ReadFrom(source)
	switch {
	case err != nil && source.err == nil:
		d.Close()
		return nil, err
	case err != nil:
		d.Truncated = Truncated(err)
	case d.Stream.Truncated():
		d.Truncated = httpmsg.TruncatedLength
	}
	return d, nil
}

// Truncated is how WARC-Truncated names what an error of the network did to a document.
func Truncated(err error) string {
	var f *Failure
	if errors.As(Classify(err, ""), &f) && f.Outcome == record.OutcomeTimeout {
		return httpmsg.TruncatedTime
	}
	return httpmsg.TruncatedDisconnect
}

// source remembers the error of a reader, so that it is told from one of the file.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// Reply makes the reply that a document is; media is its type.
func (d *Document) Reply(media string) *Reply {
	return &Reply{
		Outcome: record.OutcomeFetched, Media: media, Truncated: d.Truncated,
		Response: d.Stream, Length: d.Len(), Wire: d.Len(), Memory: d,
	}
}

// Failed makes the reply that an error is: a Failure has its outcome, any other is
// one of this machine and ends the run.
func Failed(err error) *Reply {
	r := &Reply{}
	r.Fail(err)
	return r
}

// Fail makes r the reply that an error is, as Failed does. What r.Error says already stays before it.
func (r *Reply) Fail(err error) {
	var f *Failure
	if !errors.As(err, &f) {
		r.Outcome, r.Err = record.OutcomeDeferred, err
		return
	}
	r.Outcome, r.Unreached = f.Outcome, f.Unreached
	r.Error = strings.TrimPrefix(r.Error+"; "+f.Error(), "; ")
}
