// Package program is the protocol module that runs a program for each URL, so that a
// crawl takes in schemes that it does not know, or fetches one in another way.
//
// The program gets the URL as its last argument, and in the environment
// MERCATOR_URL, MERCATOR_HOST, MERCATOR_ADDR (the address that was judged, which it is
// to contact), MERCATOR_USER_AGENT, and MERCATOR_PROXY (the URL of --proxy), MERCATOR_ETAG
// and MERCATOR_LAST_MODIFIED where there are any. It writes what a CGI program writes (RFC 3875 section 6): header
// lines, an empty line, the document.
//
//	Content-Type: text/gemini     the document's media type; default application/octet-stream
//	Status: 404 Not found         default 200
//	Location: gemini://h.test/b   where the document is; default status 302
//	ETag: "a1"                    what the next request for the URL has as MERCATOR_ETAG;
//	Last-Modified: yesterday      and as MERCATOR_LAST_MODIFIED
//
// "Status: 304" answers a request that had one of them: the document is as it was.
//
// One that fetches http, https or ftp is asked for robots.txt first, and says that there
// is none by "Status: 404".
//
// It ends with status 0. Status 75 (EX_TEMPFAIL) says that the server could not be
// reached, and the URL is tried again in a later round ("connect-failed"). Status 126 or 127 is
// the shell's: there is no such program, and the run ends. Any other says that the URL cannot
// be had ("protocol-error"). The line on its standard error that says why (coprocess.Tail) is the row's error.
//
// MERCATOR_EVENT is "fetch". A program that keeps state (--exec-state) also runs for the
// events of processing modules (pkg/web/process, Exec): begin, commit and abort, without a URL.
// At fetch its folder, MERCATOR_MODULE_DIR, holds what begin left, and many programs read it at a time: what
// they write there is lost when mfetch is killed, since their URLs are not fetched again. Commit tells the
// program what became of its URLs.
//
// # Invariants
//
//   - No shell reads the URL.
//   - A program is killed, with all it has started in its process group, when its
//     time is over, when it wrote as much as is kept, and when it has ended.
//   - Head, document and standard error are bounded.
//
// Only the program knows whom it contacts: that it keeps to MERCATOR_ADDR and
// MERCATOR_PROXY is its duty.
package program

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
	"mercator/pkg/fetch"
)

const (
	headMax     = 64 << 10 // bytes of all header lines,
	lineMax     = 8 << 10  // bytes of a header line
	argumentMax = 64 << 10 // bytes of an argument; Linux takes 128 KiB
	tempFail    = 75       // EX_TEMPFAIL of sysexits.h
	cannotRun   = 126      // exit status of a shell for a file that is no program
	notFound    = 127      // exit status of a shell for a file that is not there
)

// Module fetches by a program. Many goroutines may use it.
type Module struct {
	fetch.Limits
	Command   string // for sh -c; the URL is appended as an argument
	UserAgent string
	Proxy     string // through which it is to contact servers, without name and password; "": none
	State     string // folder of a program that keeps state, which reads it; "": none
	Txn       string // name of the round
}

// Check implements fetch.Protocol. The program judges its URLs itself, as far as they
// can be arguments of one.
func (m *Module) Check(url string) error {
	if len(url) > argumentMax || strings.Contains(url, "\x00") {
		return fmt.Errorf("a URL of %d bytes, or one with NUL, is no argument for a program", len(url))
	}
	return nil
}

// Fetch implements fetch.Protocol.
func (m *Module) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	if ok, reason := m.Guard.Allowed(req.Addr); !ok {
		return &fetch.Reply{Outcome: record.OutcomeAddress, Error: fmt.Sprintf("%s is a %s address", req.Addr, reason)}
	}
	ctx, cancel := m.Begin(ctx)
	defer cancel()
	reply, err := m.run(ctx, req)
	if err != nil {
		return fetch.Failed(err)
	}
	return reply
}

func (m *Module) run(ctx context.Context, req *fetch.Request) (*fetch.Reply, error) {
	if err := m.Check(req.URL); err != nil {
		return nil, &fetch.Failure{Outcome: record.OutcomeScheme, Err: err}
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	p, err := m.start(ctx, req)
	if err != nil {
		return nil, err
	}
	reply, doc, err := m.read(bufio.NewReaderSize(p.out, lineMax), req)
	full := doc != nil && doc.Truncated != ""
	late := ctx.Err() != nil
	if err != nil || full {
		kill()
	}
	said, ended := p.wait()
	late = late || ctx.Err() != nil && err == nil && !full
	var exit *exec.ExitError
	switch {
	case late:
		err = &fetch.Failure{Outcome: record.OutcomeTimeout, Err: errors.New("the program did not end in time")}
	case full || err != nil && ended == nil:
	case errors.As(ended, &exit) && exit.ExitCode() == tempFail:
		err = &fetch.Failure{Outcome: record.OutcomeConnect, Err: errors.New(cmp.Or(said.Why(), "the program could not reach the server"))}
	case errors.As(ended, &exit) && (exit.ExitCode() == cannotRun || exit.ExitCode() == notFound):
		err = &fault.Error{Class: fault.Program, Place: "--exec " + m.Command, Found: fmt.Sprintf("status %d: %s", exit.ExitCode(), cmp.Or(said.Why(), "no message")), Want: "a program that can be run",
			Hint: "what was fetched is kept: mend the command, and run this again"}
	case errors.As(ended, &exit) && exit.ExitCode() > 0:
		err = fetch.Broken("%s", cmp.Or(said.Why(), fmt.Sprintf("the program ended with status %d", exit.ExitCode())))
	case ended != nil && err == nil:
		err = fetch.Broken("the program: %v", ended)
	}
	if err != nil {
		if doc != nil {
			doc.Close()
		}
		return nil, err
	}
	return reply, nil
}

// process is a program that runs.
type process struct {
	out, messages *os.File // files that the program writes to
	ended         chan error
	said          chan *coprocess.Tail
	forget        func() bool
}

// start starts the program for a URL. It is killed when ctx ends.
func (m *Module) start(ctx context.Context, req *fetch.Request) (*process, error) {
	cmd := exec.Command("/bin/sh", "-c", m.Command+` "$@"`, "mfetch", req.URL)
	cmd.Env = append(os.Environ(), "MERCATOR_URL="+req.URL, "MERCATOR_HOST="+req.Host, "MERCATOR_ADDR="+req.Addr.String(),
		"MERCATOR_USER_AGENT="+m.UserAgent, "MERCATOR_PROXY="+m.Proxy, "MERCATOR_ETAG="+argument(req.ETag), "MERCATOR_LAST_MODIFIED="+argument(req.LastModified),
		"MERCATOR_EVENT=fetch", "MERCATOR_TXN="+m.Txn, "MERCATOR_MODULE_DIR="+m.State)
	// A group of its own, so that its children end with it.
	cmd.SysProcAttr = coprocess.Apart()
	p := &process{ended: make(chan error, 1), said: make(chan *coprocess.Tail, 1)}
	var stdout, stderr *os.File
	var err error
	if p.out, stdout, err = os.Pipe(); err != nil {
		return nil, err
	}
	defer stdout.Close()
	if p.messages, stderr, err = os.Pipe(); err != nil {
		p.out.Close()
		return nil, err
	}
	defer stderr.Close()
	// As files, so that Wait waits for the program alone, and not for children that it
	// has left with them.
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		p.out.Close()
		p.messages.Close()
		return nil, err
	}
	end := func() { _ = coprocess.SignalGroup(cmd.Process, syscall.SIGKILL) }
	spare := context.AfterFunc(ctx, end)
	// A child in another group may hold the pipe.
	p.forget = context.AfterFunc(ctx, func() { _ = p.out.SetReadDeadline(time.Unix(1, 0)) })
	go func() {
		err := cmd.Wait()
		spare() // its number may become another's
		end()   // what it has left running
		p.ended <- err
	}()
	go func() {
		said := &coprocess.Tail{}
		_, _ = io.Copy(said, p.messages) // what came by its end counts
		p.said <- said
	}()
	return p, nil
}

// wait returns the program's standard error, and how the program ended.
func (p *process) wait() (said *coprocess.Tail, ended error) {
	ended = <-p.ended
	_ = p.messages.SetReadDeadline(time.Now().Add(time.Second))
	said = <-p.said
	p.forget()
	p.out.Close()
	p.messages.Close()
	return said, ended
}

// read takes in what the program writes for a request.
func (m *Module) read(in *bufio.Reader, req *fetch.Request) (*fetch.Reply, *fetch.Document, error) {
	media, location, status := "application/octet-stream", "", 0
	etag, modified := "", ""
	for left := headMax; ; {
		line, err := in.ReadSlice('\n')
		if left -= len(line); err == bufio.ErrBufferFull || left < 0 {
			return nil, nil, fetch.Broken("the program's header has more than %d bytes, or a line more than %d", headMax, lineMax)
		}
		if err != nil {
			return nil, nil, fetch.Broken("the program's output ended before an empty line")
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-type":
			media = cmp.Or(value, media)
		case "location":
			location = value
		case "etag":
			etag = value
		case "last-modified":
			modified = value
		case "status":
			number, _, _ := strings.Cut(value, " ")
			if status, err = strconv.Atoi(number); err != nil || status < 200 || status > 599 {
				return nil, nil, fetch.Broken("the program's status is %.20q", value)
			}
		default:
			if !ok {
				return nil, nil, fetch.Broken("the program wrote %.60q for a header line", text)
			}
		}
	}
	if location != "" && status == 0 {
		status = http.StatusFound
	}
	doc, err := m.Keep(in)
	if err != nil {
		return nil, nil, err
	}
	reply := doc.Reply(media)
	if status == http.StatusNotModified && (req.ETag != "" || req.LastModified != "") {
		reply = &fetch.Reply{Outcome: record.OutcomeNotModified, Memory: doc}
	}
	reply.Status, reply.Redirect, reply.ETag, reply.LastModified = status, location, etag, modified
	return reply, doc, nil
}

// argument is s as far as a program can be given it.
func argument(s string) string {
	if len(s) > argumentMax {
		return ""
	}
	return strings.ReplaceAll(s, "\x00", "")
}
