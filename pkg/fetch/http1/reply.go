package http1

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/rewind"
)

// reply reads one reply from a connection.
type reply struct {
	conn io.Reader
	s    *rewind.Stream
	x    *exchange
}

// more reads once from the connection into the stream. n is 0 only with an error,
// or when the stream is full.
func (r *reply) more() (n int, err error) {
	free, err := r.s.Space()
	if err != nil {
		return 0, &localError{err}
	}
	if len(free) == 0 {
		return 0, nil
	}
	for empty := 0; n == 0 && err == nil; empty++ {
		if empty > 100 {
			return 0, io.ErrNoProgress
		}
		n, err = r.conn.Read(free)
	}
	r.s.Wrote(n)
	r.x.Wire += int64(n)
	if n > 0 {
		err = nil // it comes again with the next read
	}
	return n, err
}

// readHead reads the head of the final reply to the stream's start.
func (r *reply) readHead() error {
	searched := 0
	for interim := 0; ; {
		if r.s.Len() == 0 {
			if err := r.wait(); err != nil {
				return err
			}
		}
		b := r.s.Start()
		switch {
		case interim == 0 && httpmsg.Bare(b):
			r.x.head = httpmsg.BareHead()
			return nil
		case isSettings(b):
			return &fetch.Failure{Outcome: record.OutcomeProtocol, Err: errTwo}
		case !httpmsg.Plausible(b):
			return fetch.Broken("reply begins %.40q, want an HTTP status line", b)
		}
		end := httpmsg.HeadEnd(b, searched)
		if end < 0 {
			searched = len(b)
			if err := r.wait(); err != nil {
				return err
			}
			continue
		}
		head := &r.x.head
		if err := head.Parse(b[:end]); err != nil {
			return &fetch.Failure{Outcome: record.OutcomeProtocol, Err: err}
		}
		if head.Status >= 200 {
			return nil
		}
		if interim++; interim > interimMax || head.Status == 101 {
			return fetch.Broken("interim reply %d with status %d, want a final one", interim, head.Status)
		}
		if err := r.s.DropStart(end); err != nil {
			return &localError{err}
		}
		searched = 0
	}
}

// wait reads more of the head.
func (r *reply) wait() error {
	n, err := r.more()
	switch {
	case n > 0:
		return nil
	case err == nil:
		return fetch.Broken("no end of the head in %d bytes", r.s.Len())
	case errors.Is(err, io.EOF):
		return &fetch.Failure{Outcome: record.OutcomeDisconnect, Err: fmt.Errorf("connection closed after %d bytes of the head: %w", r.s.Len(), io.EOF)}
	}
	var local *localError
	if errors.As(err, &local) {
		return err
	}
	return fetch.Classify(err, record.OutcomeDisconnect)
}

// readBody reads the body as its framing says, up to max bytes of the wire.
// complete: the reply has come whole, with nothing after it.
func (r *reply) readBody(max int64) (complete bool, err error) {
	head := int64(r.x.head.Size)
	framing, length := r.x.head.Framing()
	if r.x.NoBody {
		framing = httpmsg.NoBody
	}
	r.s.SetMax(head + max)
	over := r.s.Len() > head+max // all of it came with the head
	r.s.Cut(head + max)
	switch framing {
	case httpmsg.NoBody:
		return r.endAt(head) && !over, nil
	case httpmsg.ByLength:
		r.s.Expect(head + min(length, max))
		for r.s.Len()-head < length {
			if stop, err := r.step(); stop || err != nil {
				return false, err
			}
		}
		return r.endAt(head+length) && !over, nil
	case httpmsg.ByChunks:
		complete, err := r.readChunks(head)
		return complete && !over, err
	}
	if over {
		r.x.Truncated = httpmsg.TruncatedLength
		return false, nil
	}
	for {
		n, err := r.more()
		switch {
		case n > 0:
		case err == nil:
			r.overflow()
			return false, nil
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // TLS without its own end
			return false, nil
		default:
			return false, r.cut(err)
		}
	}
}

// overflow records that the stream is full, unless the reply ends just there.
func (r *reply) overflow() {
	var one [1]byte
	if n, err := r.conn.Read(one[:]); n > 0 || !errors.Is(err, io.EOF) {
		r.x.Wire += int64(n)
		r.x.Truncated = httpmsg.TruncatedLength
	}
}

// step reads on in an unfinished body. stop: its end will never be reached.
func (r *reply) step() (stop bool, err error) {
	n, err := r.more()
	switch {
	case n > 0:
		return false, nil
	case err == nil:
		r.x.Truncated = httpmsg.TruncatedLength
		return true, nil
	}
	return true, r.cut(err)
}

// cut records why the body ended early. An error of this machine is returned,
// since it is none of the server's fault.
func (r *reply) cut(err error) error {
	var local *localError
	if errors.As(err, &local) {
		return err
	}
	r.x.Truncated = fetch.Truncated(err)
	return nil
}

// localError is a failure of the backing file, which is none of the server's.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// endAt cuts what came after the reply's end and reports whether nothing did.
func (r *reply) endAt(end int64) bool {
	exact := r.s.Len() == end
	r.s.Cut(end)
	return exact
}

func (r *reply) readChunks(at int64) (complete bool, err error) {
	var c httpmsg.Chunked
	var part [8 << 10]byte
	for {
		for at < r.s.Len() {
			n, err := r.s.ReadAt(part[:min(int64(len(part)), r.s.Len()-at)], at)
			if err != nil && err != io.EOF {
				return false, &localError{err}
			}
			for p := part[:n]; len(p) > 0; {
				_, used, err := c.Next(p)
				if err != nil {
					// How much more had come by now is chance.
					r.s.Cut(at + int64(used))
					r.x.Truncated, r.x.Error = httpmsg.TruncatedUnspecified, strings.TrimPrefix(r.x.Error+"; "+err.Error(), "; ")
					return false, nil
				}
				at += int64(used)
				p = p[used:]
				if c.Done() {
					return r.endAt(at), nil
				}
			}
		}
		if stop, err := r.step(); stop || err != nil {
			return false, err
		}
	}
}
