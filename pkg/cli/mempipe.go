package cli

import (
	"context"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// MemoryPipe takes bytes from one command of this process to the next, as a pipe of the system does between two processes:
// it holds up to pipeHolds bytes, its reader meets io.EOF when its writer is done, and its writer EPIPE when its reader is.
type MemoryPipe struct {
	mu            sync.Mutex
	changed       sync.Cond
	held          []byte
	wrote, read   bool // the end of it is closed
	interrupted   error
	stopListening func() bool
}

// pipeHolds bounds what waits in a MemoryPipe, in bytes.
const pipeHolds = 1 << 20

// NewMemoryPipe makes a pipe whose ends fail once ctx has ended.
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
	for len(p.held) == 0 && len(b) > 0 {
		switch {
		case p.interrupted != nil:
			return 0, p.interrupted
		case p.read:
			return 0, fs.ErrClosed
		case p.wrote:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
	n := copy(b, p.held)
	if p.held = p.held[n:]; len(p.held) == 0 {
		p.held = p.held[:0:0]
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
		case p.read: // as the system says it of standard output
			return n, &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
		}
		if room := pipeHolds - len(p.held); room > 0 {
			part := b[:min(room, len(b))]
			p.held = append(p.held, part...)
			b, n = b[len(part):], n+len(part)
			p.changed.Broadcast()
			continue
		}
		p.changed.Wait()
	}
	return n, nil
}

// WriterDone says that nothing more comes.
func (p *MemoryPipe) WriterDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote = true
	p.changed.Broadcast()
}

// ReaderDone says that nobody reads any more.
func (p *MemoryPipe) ReaderDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read, p.held = true, nil
	p.stopListening()
	p.changed.Broadcast()
}
