package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
)

// ErrReaderGone is the error of writes to a MemoryPipe after its reader has ended.
var ErrReaderGone = errors.New("the reader has had enough")

// MemoryPipe takes bytes from one command of this process to the next, as a pipe of the system does between two processes:
// it holds up to pipeHolds bytes, its reader meets io.EOF when its writer is done, and its writer ErrReaderGone when its reader is.
type MemoryPipe struct {
	mu                     sync.Mutex
	changed                sync.Cond
	ring                   []byte
	at, held               int // of ring: where what waits begins, and how much it is
	writerDone, readerDone bool
	interrupted            error
	stopListening          func() bool
}

// pipeHolds bounds what waits in a MemoryPipe, in bytes; it begins with room for pipeBegins.
const pipeHolds, pipeBegins = 1 << 20, 32 << 10

// NewMemoryPipe makes a pipe. Both its ends fail once ctx has ended.
func NewMemoryPipe(ctx context.Context) *MemoryPipe {
	p := &MemoryPipe{}
	p.changed.L = &p.mu
	p.stopListening = context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.interrupted = context.Cause(ctx)
		p.changed.Broadcast()
	})
	return p
}

// Read reads what there is.
func (p *MemoryPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held == 0 && len(b) > 0 {
		switch {
		case p.interrupted != nil:
			return 0, p.interrupted
		case p.readerDone:
			return 0, fs.ErrClosed
		case p.writerDone:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
	n := copy(b, p.ring[p.at:min(p.at+p.held, len(p.ring))])
	if p.held -= n; p.held == 0 {
		p.at = 0
	} else {
		p.at = (p.at + n) % len(p.ring)
	}
	p.changed.Broadcast()
	return n, nil
}

// Write waits for room.
func (p *MemoryPipe) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 {
		switch {
		case p.interrupted != nil:
			return n, p.interrupted
		case p.readerDone:
			return n, ErrReaderGone
		}
		if p.held == len(p.ring) && p.held < pipeHolds {
			p.ring = append(append(make([]byte, 0, max(pipeBegins, 2*p.held)), p.ring[p.at:]...), p.ring[:p.at]...)
			p.ring, p.at = p.ring[:cap(p.ring)], 0
		}
		if p.held == len(p.ring) {
			p.changed.Wait()
			continue
		}
		end := (p.at + p.held) % len(p.ring)
		part := copy(p.ring[end:min(len(p.ring), end+len(p.ring)-p.held)], b)
		p.held, b, n = p.held+part, b[part:], n+part
		p.changed.Broadcast()
	}
	return n, nil
}

// WriterDone says that nothing more comes.
func (p *MemoryPipe) WriterDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writerDone = true
	p.changed.Broadcast()
}

// ReaderDone says that nobody reads any more.
func (p *MemoryPipe) ReaderDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readerDone, p.ring, p.at, p.held = true, nil, 0, 0
	p.stopListening()
	p.changed.Broadcast()
}
