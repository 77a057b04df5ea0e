package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// maxMessage bounds a message of the browser, in bytes: a document and its text as JSON, or a picture.
const maxMessage = 128 << 20

// errGone says that the browser closed its end.
var (
	errGone    = errors.New("the browser has ended")
	errCrashed = errors.New("the page has crashed")
	errSlow    = errors.New("no answer in time")
	errFat     = errors.New("it took too much memory")
	errMany    = errors.New("it had too many processes")
)

// pipe speaks the DevTools protocol over two pipes: JSON messages, each ended by a zero byte. A pipe needs no port that others,
// or the pages themselves, could reach.
type pipe struct {
	to    *os.File
	event func(session, method string, params json.RawMessage) // must not call

	writing sync.Mutex // of to

	mu    sync.Mutex // guards what follows
	last  int
	waits map[int]chan<- message
	gone  chan struct{} // closed when the browser has ended
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

func newPipe(from, to *os.File, event func(session, method string, params json.RawMessage)) *pipe {
	p := &pipe{to: to, event: event, waits: map[int]chan<- message{}, gone: make(chan struct{})}
	go p.read(bufio.NewReaderSize(from, 1<<16))
	return p
}

func (p *pipe) read(in *bufio.Reader) {
	defer close(p.gone)
	for {
		text, err := readMessage(in)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text, &m) != nil {
			return
		}
		if m.ID == 0 {
			p.event(m.Session, m.Method, m.Params)
			continue
		}
		p.mu.Lock()
		wait := p.waits[m.ID]
		delete(p.waits, m.ID)
		p.mu.Unlock()
		if wait != nil {
			wait <- m
		}
	}
}

func readMessage(in *bufio.Reader) (text []byte, err error) {
	for {
		part, err := in.ReadSlice(0)
		if len(text)+len(part) > maxMessage {
			return nil, fmt.Errorf("a message of more than %d bytes", maxMessage)
		}
		text = append(text, part...)
		if err == nil {
			return bytes.TrimSuffix(text, []byte{0}), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// send asks for something and does not wait; the answer goes to wait, unless that is nil.
func (p *pipe) send(session, method string, params any, wait chan<- message) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.last++
	m := message{ID: p.last, Session: session, Method: method, Params: text}
	if wait != nil {
		p.waits[m.ID] = wait
	}
	p.mu.Unlock()
	if text, err = json.Marshal(m); err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if _, err := p.to.Write(append(text, 0)); err != nil {
		return errGone
	}
	return nil
}

// call asks for something and reads the answer into result; nil: it is of no interest.
func (p *pipe) call(ctx context.Context, session, method string, params, result any) error {
	wait := make(chan message, 1)
	if err := p.send(session, method, params, wait); err != nil {
		return err
	}
	select {
	case m := <-wait:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-p.gone:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
