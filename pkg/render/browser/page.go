package browser

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"mercator/pkg/render"
)

//go:embed inject.js
var inject string

// page is a page that is being loaded.
type page struct {
	render.Page
	pipe            *pipe
	session, frame  string
	queue           chan event
	budget, crashed chan struct{}
	mu              sync.Mutex
	requests        int
	bytes           int64
	cut             string
	begun           bool // the page's document was asked for
}

type event struct {
	session, method string
	params          json.RawMessage
}

// Load loads a page. errGone or an error of the protocol says that the browser is of no use any more.
func (b *Browser) Load(ctx context.Context, what render.Page) (r render.Result, err error) {
	within, stop := context.WithTimeoutCause(ctx, what.Timeout+graceTime, errSlow)
	defer stop()
	defer context.AfterFunc(within, b.kill)() // it may not even read what we write
	defer func() {
		if why := b.over.Load(); err != nil && why != nil {
			err = *why
		}
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	do := func(method string, params args) {
		if err == nil {
			err = b.pipe.call(within, made.SessionID, method, params, &made)
		}
	}
	if do("Target.createBrowserContext", args{"disposeOnDetach": true}); err != nil {
		return r, err
	}
	defer func() {
		b.page.Store(nil)
		made.SessionID = ""
		do("Target.disposeBrowserContext", args{"browserContextId": made.BrowserContextID})
	}()
	do("Browser.setDownloadBehavior", args{"behavior": "deny", "browserContextId": made.BrowserContextID})
	do("Target.createTarget", args{"url": "about:blank", "browserContextId": made.BrowserContextID, "width": 1280, "height": 800})
	if do("Target.attachToTarget", args{"targetId": made.TargetID, "flatten": true}); err != nil {
		return r, err
	}
	p := &page{Page: what, pipe: b.pipe, session: made.SessionID, frame: made.TargetID, queue: make(chan event, 4096), budget: make(chan struct{}, 1), crashed: make(chan struct{})}
	serving, done := context.WithCancel(within)
	var served sync.WaitGroup
	served.Go(func() { p.serve(serving) })
	end := func() { done(); served.Wait() } // Page.Answer is not called after Load
	defer end()
	b.page.Store(p)
	seed := fnv.New32a()
	seed.Write([]byte(what.URL))
	do("Page.enable", nil)
	do("Inspector.enable", nil)
	do("Fetch.enable", args{"patterns": []args{{"urlPattern": "*"}}})
	do("Target.setAutoAttach", args{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true})
	do("Emulation.setUserAgentOverride", args{"userAgent": b.agent})
	do("Page.addScriptToEvaluateOnNewDocument", args{"source": strings.TrimRight(inject, "\n") + "(" + strconv.Itoa(int(seed.Sum32())) + ")"})
	if do("Emulation.setVirtualTimePolicy", args{"policy": "pause", "initialVirtualTime": float64(what.Time.UnixMicro()) / 1e6}); err != nil {
		return r, err
	}
	limit, cancel := context.WithTimeoutCause(within, what.Timeout, errSlow)
	defer cancel()
	if err := p.run(limit); err != nil && limit.Err() == nil || within.Err() != nil {
		return r, err
	} else if err != nil {
		p.cutShort(render.CutTime)
	}
	if err := p.takeDocument(within, &r); err != nil {
		return r, err
	}
	end()
	r.Cut, r.Requests, r.Bytes = p.cut, p.requests, p.bytes
	return r, nil
}

type args map[string]any

// graceTime bounds the reading of a page after its time is up.
const graceTime = 10 * time.Second

// step is the page's own time for what a behaviour has begun.
const step = time.Second

// run loads the page, lets its time pass, and behaves as a reader who wants to see more of it.
func (p *page) run(ctx context.Context) error {
	if err := p.call(ctx, "Page.navigate", args{"url": p.URL}, nil); err != nil {
		return err
	}
	if err := p.live(ctx, p.Wait); err != nil {
		return err
	}
	for _, b := range []struct {
		times int
		js    string
	}{{p.More, more}, {p.Scroll, scroll}} {
		last := -1
		for range b.times {
			var n int
			if err := p.evaluate(ctx, b.js, &n); err != nil {
				return err
			}
			if n < 0 || n == last { // there is nothing more, or nothing came of it
				break
			}
			last = n
			if err := p.draw(ctx); err != nil {
				return err
			}
			if err := p.live(ctx, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// live lets time pass, and the page be drawn. Its time passes too fast for frames, by which it learns what can be seen.
func (p *page) live(ctx context.Context, d time.Duration) error {
	for range 2 {
		if err := p.pass(ctx, d/2); err != nil {
			return err
		}
		if err := p.draw(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *page) draw(ctx context.Context) error {
	within, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	var drawn bool
	err := p.evaluate(within, "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))", &drawn)
	if within.Err() != nil && ctx.Err() == nil {
		return nil // it is not drawn while a style sheet is missing
	}
	return err
}

// pass lets time pass in the page.
func (p *page) pass(ctx context.Context, d time.Duration) error {
	if err := p.call(ctx, "Emulation.setVirtualTimePolicy", args{"policy": "pauseIfNetworkFetchesPending", "budget": d.Milliseconds(), "maxVirtualTimeTaskStarvationCount": 100_000}, nil); err != nil {
		return err
	}
	select {
	case <-p.budget:
		return nil
	case <-p.crashed:
		return errCrashed
	case <-p.pipe.gone:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *page) call(ctx context.Context, method string, params args, result any) error {
	return p.pipe.call(ctx, p.session, method, params, result)
}

// evaluate runs a script of ours, in a world of its own: the page cannot change what it finds.
func (p *page) evaluate(ctx context.Context, js string, result any) error {
	var world struct{ ExecutionContextID int }
	if err := p.call(ctx, "Page.createIsolatedWorld", args{"frameId": p.frame, "worldName": "mrender"}, &world); err != nil {
		return err
	}
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	if err := p.call(ctx, "Runtime.evaluate", args{"expression": js, "contextId": world.ExecutionContextID, "returnByValue": true, "awaitPromise": true}, &got); err != nil {
		return err
	}
	if got.ExceptionDetails != nil {
		return fmt.Errorf("a script of ours: %s", got.ExceptionDetails.Text)
	}
	return json.Unmarshal(got.Result.Value, result)
}

// The scripts that are run in a page.
var (
	//go:embed document.js
	document string // function of a number of characters that reads the document
	//go:embed scroll.js
	scroll string // goes to its end: how high it is
	//go:embed more.js
	more string // clicks on what loads more: how many elements there were, or -1
)

// takeDocument takes the page as it stands.
func (p *page) takeDocument(ctx context.Context, r *render.Result) error {
	// A script that does not end would let nothing else run.
	if err := p.pipe.send(p.session, "Runtime.terminateExecution", nil, nil); err != nil {
		return err
	}
	var got struct{ HTML, Text string }
	if err := p.evaluate(ctx, strings.TrimRight(document, "\n")+"("+strconv.Itoa(p.Document)+")", &got); err != nil {
		return err
	}
	r.HTML, r.Text = got.HTML, got.Text
	if !p.Screenshot {
		return nil
	}
	var shot struct{ Data []byte }
	if err := p.call(ctx, "Page.captureScreenshot", args{"format": "png"}, &shot); err != nil {
		return err
	}
	r.Screenshot = shot.Data
	return nil
}

// event takes an event of the browser. It must not wait.
func (p *page) event(session, method string, params json.RawMessage) {
	switch method {
	case "Emulation.virtualTimeBudgetExpired":
		select {
		case p.budget <- struct{}{}:
		default:
		}
	case "Inspector.targetCrashed":
		if session == p.session {
			close(p.crashed)
		}
	case "Fetch.requestPaused", "Page.javascriptDialogOpening", "Target.attachedToTarget":
		select {
		case p.queue <- event{session, method, params}:
		default: // beyond all bounds: the request waits, and the page is ended by its time
		}
	}
}

// serve works on events until the page is taken.
func (p *page) serve(ctx context.Context) {
	for {
		select {
		case e := <-p.queue:
			p.handle(e)
		case <-ctx.Done():
			return
		}
	}
}

func (p *page) handle(e event) {
	send := func(session, method string, params args) { _ = p.pipe.send(session, method, params, nil) }
	switch e.method {
	case "Page.javascriptDialogOpening":
		send(e.session, "Page.handleJavaScriptDialog", args{"accept": false})
	case "Target.attachedToTarget": // a worker, or a frame in a process of its own
		var t struct{ SessionID string }
		if json.Unmarshal(e.params, &t) == nil {
			send(t.SessionID, "Fetch.enable", args{"patterns": []args{{"urlPattern": "*"}}})
			send(t.SessionID, "Runtime.runIfWaitingForDebugger", nil)
		}
	case "Fetch.requestPaused":
		var r struct {
			RequestID, FrameID, ResourceType string
			Request                          struct {
				URL, Method string
				Headers     map[string]string
			}
		}
		if json.Unmarshal(e.params, &r) != nil {
			return
		}
		q := &render.Request{URL: r.Request.URL, Method: r.Request.Method, Type: r.ResourceType, Origin: r.Request.Headers["Origin"], Wanted: r.Request.Headers["Access-Control-Request-Headers"]}
		if q.Type == "Document" && r.FrameID == p.frame {
			q.Away, p.begun = p.begun, true
		}
		a := p.answer(q)
		if a.Status < 200 || a.Status > 599 || q.Away {
			reason := "Failed"
			if q.Away {
				reason = "Aborted" // the page stays
			}
			send(e.session, "Fetch.failRequest", args{"requestId": r.RequestID, "errorReason": reason})
			return
		}
		var list []args
		for name, values := range a.Header {
			for _, v := range values { // the browser would refuse the whole answer for others
				if httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(v) && utf8.ValidString(v) {
					list = append(list, args{"name": name, "value": v})
				}
			}
		}
		send(e.session, "Fetch.fulfillRequest", args{"requestId": r.RequestID, "responseCode": a.Status, "responseHeaders": list, "body": base64.StdEncoding.EncodeToString(a.Body)})
	}
}

// answer asks for the answer to a request, within the bounds.
func (p *page) answer(q *render.Request) (a render.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(q.URL, "data:") || strings.HasPrefix(q.URL, "blob:") {
		return a
	}
	if p.requests++; p.requests > p.Requests {
		p.cut = render.CutRequests
		return a
	}
	a = p.Answer(q)
	if p.bytes += int64(len(a.Body)); p.bytes > p.Bytes {
		p.cut = render.CutBytes
		return render.Answer{}
	}
	return a
}

func (p *page) cutShort(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == "" {
		p.cut = reason
	}
}
