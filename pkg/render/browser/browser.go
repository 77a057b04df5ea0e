// Package browser loads pages in headless Chromium, by the DevTools protocol, without a network.
//
// Whatever a page asks for is asked of render.Page.Answer: the archive of a crawl. The browser contacts nobody.
//
// # Invariants
//
//   - The browser has no network: on Linux, where the kernel allows it, no interface (a network namespace); everywhere no names, and a proxy
//     that is not there. It is spoken to by a pipe, so that there is no port either.
//   - A page has a context of its own (cookies, storage, caches) that ends with it. It can open no window, download nothing, and read no file.
//   - Time in the page begins at Page.Time and passes as the page needs it; its random numbers depend on its URL alone.
//   - Time, requests, bytes, and the memory and processes of a browser are bounded. What is over them ends the page, which is taken as it stood, or the browser.
//
// A Browser serves one goroutine, and has one page at a time.
package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
)

// Names are those under which Chromium is looked for.
var Names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}

// switches are the command-line switches of every browser; others have a value for each.
var switches = []string{
	"--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--mute-audio", "--hide-scrollbars", "--lang=en-US",
	// No network: no name has an address, and all go by a proxy that has none, loopback too.
	"--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=http://none.invalid:1", "--proxy-bypass-list=<-loopback>",
	"--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--disable-background-networking", "--disable-component-update", "--disable-sync",
	"--disable-domain-reliability", "--disable-client-side-phishing-detection", "--disable-breakpad", "--disable-crash-reporter", "--dns-prefetch-disable", "--no-pings",
	"--disable-default-apps", "--disable-extensions", "--block-new-web-contents", "--disable-notifications", "--disable-dev-shm-usage",
	// One process has all of a page's frames, so that one session sees what they ask for.
	"--disable-site-isolation-trials", "--disable-features=IsolateOrigins,site-per-process,Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,SpareRendererForSitePerProcess",
	"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--disk-cache-size=1",
}

// Options say how a browser is started.
type Options struct {
	Program string // a file, or a name in PATH; "": the first of Names that is there
	Memory  int64  // of all its processes, in bytes: a browser with more is ended; 0: any
	Procs   int    // a browser with more processes is ended; 0: maxProcs
}

// Browser is a running Chromium.
type Browser struct {
	Options
	cmd   *exec.Cmd
	pipe  *pipe
	dir   string // folder of the browser's profile
	agent string // user agent that pages see
	ended chan struct{}
	over  atomic.Pointer[error] // why it was ended
	page  atomic.Pointer[page]
	peak  atomic.Int64
}

// profiles begin with this and the number of the process that made them.
const profiles = "mrender-"

// maxParent bounds the name of the folder that profiles are in: Chromium has a socket there, and a socket's path has at most 107 bytes.
const maxParent = 107 - len("/mrender-4194304-4294967295/org.chromium.Chromium.XXXXXX/SingletonSocket")

// Start starts a browser.
func Start(ctx context.Context, o Options) (*Browser, error) {
	names := Names
	if o.Program != "" {
		names = []string{o.Program}
	}
	var path string
	var err error
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, &fault.Error{Class: fault.Usage, Found: "no browser " + o.Program, Want: "Chromium in PATH, or its file as render.browser", Hint: "sudo apt-get install chromium", Err: err}
	}
	parent := os.TempDir()
	if len(parent) > maxParent {
		parent = "/tmp"
	}
	removeLeft(parent)
	dir, err := os.MkdirTemp(parent, profiles+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	var b *Browser
	for _, apart := range []bool{true, false} {
		if b, err = start(ctx, path, dir, o, apart); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		os.RemoveAll(dir)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &fault.Error{Class: fault.Program, File: path, Found: err.Error(), Want: "a browser that answers", Hint: fault.Quote(path, "--headless", "--dump-dom", "about:blank")}
	}
	return b, nil
}

// removeLeft removes the profiles of processes that were killed.
func removeLeft(dir string) {
	list, _ := filepath.Glob(filepath.Join(dir, profiles+"*-*"))
	for _, path := range list {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), profiles), "-")
		if pid, err := strconv.Atoi(text); err == nil && durable.Gone(pid) {
			os.RemoveAll(path)
		}
	}
}

// startTime is how long a browser may take until it answers.
const startTime = time.Minute

func start(ctx context.Context, path, dir string, o Options, apart bool) (b *Browser, err error) {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		ourOut.Close()
		return nil, err
	}
	args := append(switches[:len(switches):len(switches)], "--user-data-dir="+dir, "--js-flags=--max-old-space-size="+strconv.FormatInt(max(o.Memory>>21, 64), 10))
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium's sandbox is not for root
	}
	cmd := exec.Command(path, append(args, "about:blank")...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "TZ=UTC", "LANG=C.UTF-8", "DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:"}
	b = &Browser{cmd: cmd, dir: dir, ended: make(chan struct{}), Options: o}
	cmd.SysProcAttr = attributes(apart)
	started := make(chan error)
	go func() {
		// The thread that started a process has to live as long as it: see coprocess.EndWithUs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		theirIn.Close()
		theirOut.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed as a rule
			close(b.ended)
		}
	}()
	if err := <-started; err != nil {
		ourIn.Close()
		ourOut.Close()
		return nil, err
	}
	pipe := newPipe(ourIn, ourOut, b.event)
	b.pipe = pipe
	go func() {
		<-pipe.gone
		ourIn.Close()
	}()
	within, stop := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no answer for %v", startTime))
	defer stop()
	var version struct{ UserAgent string }
	if err := b.pipe.call(within, "", "Browser.getVersion", nil, &version); err != nil {
		b.endProcess()
		return nil, err
	}
	b.agent = strings.Replace(version.UserAgent, "Headless", "", 1)
	go b.watch()
	return b, nil
}

func (b *Browser) event(session, method string, params json.RawMessage) {
	if p := b.page.Load(); p != nil {
		p.event(session, method, params)
	}
}

// maxProcs bounds the processes of a browser: its own, those for graphics and networks, and some for a page. All frames and workers of a page share one.
const maxProcs = 24

// watch ends a browser that takes too much memory, or has too many processes.
func (b *Browser) watch() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-b.ended:
			return
		case <-tick.C:
			used, procs := usedBy(b.cmd.Process.Pid)
			b.peak.Store(max(b.peak.Load(), used))
			if b.Memory > 0 && used > b.Memory {
				b.over.Store(&errFat)
			} else if procs > cmp.Or(b.Procs, maxProcs) {
				b.over.Store(&errMany)
			} else {
				continue
			}
			b.kill()
			return
		}
	}
}

// usedBy returns the private memory of a group's processes, in bytes, and their number; 0 if the system does not tell.
func usedBy(group int) (memory int64, procs int) {
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range list {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // state, parent, group
		if fields := strings.Fields(rest); len(fields) < 3 || fields[2] != strconv.Itoa(group) || fields[0] == "Z" {
			continue
		}
		procs++
		statm, err := os.ReadFile(filepath.Join(filepath.Dir(file), "statm"))
		if fields := strings.Fields(string(statm)); err == nil && len(fields) > 2 {
			resident, _ := strconv.ParseInt(fields[1], 10, 64)
			shared, _ := strconv.ParseInt(fields[2], 10, 64)
			memory += (resident - shared) * int64(os.Getpagesize())
		}
	}
	return memory, procs
}

func (b *Browser) kill() { _ = coprocess.SignalGroup(b.cmd.Process, syscall.SIGKILL) }

func (b *Browser) endProcess() {
	b.kill()
	<-b.ended
	b.pipe.to.Close()
	for range 500 { // the others of its group end by themselves, and may still write
		if _, n := usedBy(b.cmd.Process.Pid); n == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	os.RemoveAll(b.dir)
}

// Peak is the most memory that its processes were seen to have, in bytes.
func (b *Browser) Peak() int64 { return b.peak.Load() }

// Close ends the browser: as it wants to end, so that it waits for its own processes, or after a while in any case.
func (b *Browser) Close() error {
	if b.pipe.send("", "Browser.close", nil, nil) == nil {
		select {
		case <-b.ended:
		case <-time.After(3 * time.Second):
		}
	}
	b.endProcess()
	return nil
}
