// Command hour crawls a synthetic web with mcrawl for some time and reports whether the figures stay flat. bench/hour.sh runs it.
//
// It samples by the minute (by less in runs of under twenty): pages, URLs, rounds, files and bytes of the crawl folder by
// store, processor time, and the peak memory of each command. They are in CSV and SVG files; the verdict is on standard output.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mercator/pkg/base/durable"
	"mercator/pkg/config"
)

// Bounds of a flat run: figures of its last quarter in relation to its second. The first warms up.
const (
	leastRate   = 0.8  // pages a second
	mostRate    = 1.25 // the same: beyond, other work slowed the second quarter, which hides a fall
	mostGrowth  = 1.15 // bytes on disk a page, files a round
	mostInShort = 1.3  // the same in a run of under shortRun minutes, where a merge of runs more or less counts
	shortRun    = 20
	leastPoints = 8 // samples: two a quarter
)

var cores = float64(runtime.NumCPU())

// MiB that a command may take: the defaults of memory.fetch and memory.stages, and of --memory. mcrawl run has all commands of a round in it.
func bound(command string) float64 {
	const stages = 6 // beside mfetch
	switch {
	case strings.HasPrefix(command, "mfetch"):
		return float64(config.FetchMemory) / (1 << 20)
	case command == "mcrawl run":
		return float64(config.FetchMemory+stages*config.StagesMemory) / (1 << 20)
	}
	return float64(config.StagesMemory) / (1 << 20)
}

type options struct {
	bin, dir, out, name       string
	minutes                   float64
	size, pages, hosts, batch int
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of the commands")
	flag.StringVar(&o.dir, "dir", "", "empty folder for the crawl")
	flag.StringVar(&o.out, "out", ".", "folder of NAME.csv and NAME.svg")
	flag.StringVar(&o.name, "name", "small", "name of the web")
	flag.Float64Var(&o.minutes, "minutes", 60, "minutes of crawling")
	flag.IntVar(&o.size, "size", 4096, "median size of an HTML page, bytes")
	flag.IntVar(&o.pages, "pages", 30_000_000, "HTML pages of the web")
	flag.IntVar(&o.hosts, "hosts", 3000, "hosts of the web")
	flag.IntVar(&o.batch, "batch", 20_000, "URLs a round")
	flag.Parse()
	flat, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hour:", err)
	}
	if err != nil || !flat {
		os.Exit(1)
	}
}

// point is one sample. Counts are sums since the start.
type point struct {
	at                    time.Time
	pages, known, waiting float64
	rounds                float64
	ended                 time.Time          // the last of them
	received              float64            // bytes of replies
	files                 float64            // in the crawl folder
	bytes                 map[string]float64 // by folder in it
	ours, web, others     float64            // seconds of processor: mcrawl and its commands, mweb, all other processes
	rss                   map[string]float64 // MiB: the most since the point before
}

func (p point) disk() (sum float64) {
	for _, n := range p.bytes {
		sum += n
	}
	return sum
}

func run(o options) (flat bool, err error) {
	p, err := start(o)
	defer p.stop()
	if err != nil {
		return false, err
	}
	points, err := p.watch(o)
	if err != nil {
		return false, err
	}
	if err := write(o, points); err != nil {
		return false, err
	}
	if len(points) <= leastPoints {
		return false, fmt.Errorf("%s: %d samples, want more than %d: did the crawl end before its time? more pages (PAGES=) make it longer", o.name, len(points), leastPoints)
	}
	after, err := p.after(o)
	if err != nil {
		return false, err
	}
	return judge(os.Stdout, o, points, after, p.wrong()), nil
}

// wrong counts outcomes that no URL of this web has, which are of the crawler's or this machine's making.
func (p *processes) wrong() (wrong []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.last.Outcomes {
		if !slices.Contains([]string{"fetched", "robots-denied", "dns-failed"}, c.Reason) {
			wrong = append(wrong, fmt.Sprintf("%.0f URLs with the outcome %s, which this web does not have", c.N, c.Reason))
		}
	}
	if p.last.Deferred > 0 {
		wrong = append(wrong, fmt.Sprintf("%.0f URLs were deferred", p.last.Deferred))
	}
	return wrong
}

// --- the processes ------------------------------------------------------------

type processes struct {
	crawl string // folder of the crawl
	stats string // folder of what each command measures of itself
	web   *exec.Cmd
	run   *exec.Cmd

	mu    sync.Mutex
	last  status
	ended time.Time // the last round that was closed

	wait chan error // the end of the run
	log  bytes.Buffer
}

// status is the part of a line of mcrawl --progress json that is used.
type status struct {
	Known    float64 `json:"known"`
	Pending  float64 `json:"pending"`
	Batches  float64 `json:"batches"`
	Replies  float64 `json:"replies"`
	Received float64 `json:"received_bytes"`
	Deferred float64 `json:"deferred"`
	Outcomes []struct {
		Reason string  `json:"reason"`
		N      float64 `json:"n"`
	} `json:"outcomes"`
}

// commands that mcrawl starts. Each is called through a script that has it measure itself.
var commands = []string{"mfrontier", "mresolve", "mfetch", "mfpset", "mextract", "murlset", "mckpt"}

func start(o options) (p *processes, err error) {
	p = &processes{crawl: filepath.Join(o.dir, "crawl"), stats: filepath.Join(o.dir, "stats"), wait: make(chan error, 1)}
	bin := filepath.Join(o.dir, "bin")
	for _, dir := range []string{p.stats, bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return p, err
		}
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return p, err
	}
	for _, c := range commands {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" --stats '%s'/$$\n", filepath.Join(o.bin, c), p.stats)
		if err := os.WriteFile(filepath.Join(bin, c), []byte(script), 0o755); err != nil {
			return p, err
		}
	}
	mcrawl := filepath.Join(bin, "mcrawl")
	if err := os.Symlink(filepath.Join(o.bin, "mcrawl"), mcrawl); err != nil {
		return p, err
	}

	web := []string{"--hosts", strconv.Itoa(o.hosts), "--pages", strconv.Itoa(o.pages), "--size", strconv.Itoa(o.size)}
	ready := filepath.Join(o.dir, "web.json")
	p.web = exec.Command(filepath.Join(o.bin, "mweb"), append([]string{"serve", "--dns", "127.0.0.1:0", "--ready", ready}, web...)...)
	p.web.Stderr = os.Stderr
	if err := p.web.Start(); err != nil {
		p.web = nil
		return p, err
	}
	var served struct {
		Port  int      `json:"port"`
		DNS   string   `json:"dns"`
		Seeds []string `json:"seeds"`
	}
	for range 300 {
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &served) == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if served.Port == 0 {
		return p, errors.New("mweb did not start")
	}
	seeds := filepath.Join(o.dir, "seeds.txt")
	if err := os.WriteFile(seeds, []byte(strings.Join(served.Seeds, "\n")+"\n"), 0o644); err != nil {
		return p, err
	}
	make := []string{"new", p.crawl, "--quiet", "--seeds", seeds}
	for _, s := range []string{"batch=" + strconv.Itoa(o.batch), "round_time=0s", "resolve.servers=" + served.DNS, "network.allow_net=127.0.0.0/8",
		"politeness.min_delay=0s", "politeness.delay_factor=0", "politeness.addr_delay=0s", "frontier.max_attempts=1"} {
		make = append(make, "--set", s)
	}
	if out, err := exec.Command(mcrawl, make...).CombinedOutput(); err != nil {
		return p, fmt.Errorf("mcrawl new: %w: %s", err, out)
	}

	p.run = exec.Command(mcrawl, "run", p.crawl, "--for", strconv.FormatFloat(o.minutes*60, 'f', 0, 64)+"s", "--progress", "json")
	lines, err := p.run.StderrPipe()
	if err != nil {
		return p, err
	}
	if err := p.run.Start(); err != nil {
		p.run = nil
		return p, err
	}
	go p.read(lines)
	return p, nil
}

// read takes in the lines of progress. Others are kept for an error.
func (p *processes) read(lines io.Reader) {
	in := bufio.NewScanner(lines)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var s status
		p.mu.Lock()
		if json.Unmarshal(in.Bytes(), &s) != nil {
			fmt.Fprintf(&p.log, "%s\n", in.Bytes())
		} else {
			if s.Batches > p.last.Batches {
				p.ended = time.Now()
			}
			p.last = s
		}
		p.mu.Unlock()
	}
	p.wait <- p.run.Wait()
}

func (p *processes) stop() {
	for _, c := range []*exec.Cmd{p.run, p.web} {
		if c != nil && c.Process != nil && c.ProcessState == nil {
			_ = c.Process.Signal(syscall.SIGTERM)
		}
	}
	if p.run != nil && p.run.ProcessState == nil {
		<-p.wait
	}
	if p.web != nil {
		_ = p.web.Wait()
	}
}

// watch samples until the run ends.
func (p *processes) watch(o options) (points []point, err error) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	every := time.Minute
	if o.minutes < shortRun {
		every = time.Duration(o.minutes * float64(time.Minute) / 20)
	}
	end := time.Now().Add(time.Duration(o.minutes * float64(time.Minute)))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first, err := p.sample(); ; {
		if err != nil {
			return nil, err
		}
		points = append(points, first)
		select {
		case <-interrupted:
			return nil, errors.New("interrupted")
		case err := <-p.wait:
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				return nil, fmt.Errorf("mcrawl run: %w: %s", err, p.log.String())
			}
			return points, nil
		case <-tick.C:
		}
		if time.Now().After(end.Add(every / 2)) { // the last round may take longer
			select {
			case err := <-p.wait:
				if err != nil {
					return nil, fmt.Errorf("mcrawl run: %w: %s", err, p.log.String())
				}
				return points, nil
			case <-interrupted:
				return nil, errors.New("interrupted")
			}
		}
		first, err = p.sample()
		if err == nil {
			err = room(o, append(slices.Clone(points), first), end)
		}
	}
}

// room is an error if the disk will be full before the end. The first tenth of a run is not asked: a web is dear at its beginning.
func room(o options, points []point, end time.Time) error {
	left, err := durable.Free(o.dir)
	if err != nil {
		return err
	}
	free := float64(left)
	from, to := points[len(points)/2], points[len(points)-1]
	need := (to.disk() - from.disk()) / max(1, to.at.Sub(from.at).Seconds()) * max(0, time.Until(end).Seconds())
	if early := to.at.Sub(points[0].at).Minutes() < o.minutes/10; free > 1e9 && (early || need < 0.95*free) {
		return nil
	}
	return fmt.Errorf("%s: the crawl will take %.1f GB more by its end, and %.1f GB are free: give fewer minutes, a smaller size than %d (SMALL=, LARGE=), or another TMPDIR=", o.dir, need/1e9, free/1e9, o.size)
}

// after are the commands that read a whole crawl: seconds and MiB of each.
func (p *processes) after(o options) (map[string][2]float64, error) {
	took := map[string][2]float64{}
	for _, words := range [][]string{{"mckpt", "verify", "--quiet", p.crawl}, {"mcrawl", "stats", "--json", p.crawl}, {"mcrawl", "report", p.crawl, "-o", filepath.Join(o.dir, "report.html")}} {
		began := time.Now()
		c := exec.Command(filepath.Join(o.bin, words[0]), words[1:]...)
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("%v: %w: %s", words, err, said.String())
		}
		usage := c.ProcessState.SysUsage().(*syscall.Rusage)
		took[words[0]+" "+words[1]] = [2]float64{time.Since(began).Seconds(), float64(usage.Maxrss) / 1024}
	}
	return took, nil
}

// --- samples --------------------------------------------------------------------

func (p *processes) sample() (point, error) {
	p.mu.Lock()
	s, ended := p.last, p.ended
	p.mu.Unlock()
	at := point{ended: ended, at: time.Now(), pages: s.Replies, known: s.Known, waiting: s.Pending, rounds: s.Batches, received: s.Received, bytes: map[string]float64{}, rss: map[string]float64{}}
	err := filepath.WalkDir(p.crawl, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		if durable.IsTemp(d.Name()) {
			return nil // being written, or the documents of a round on their way to mextract
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		store, _, _ := strings.Cut(strings.TrimPrefix(path, p.crawl+"/"), "/")
		if !slices.Contains(folders, store) {
			store = "other"
		}
		at.files++
		at.bytes[store] += float64(info.Size())
		return nil
	})
	if err != nil {
		return at, err
	}
	if err := p.memory(at.rss); err != nil {
		return at, err
	}
	return at, p.processor(&at)
}

// folders are the folders of a crawl that are measured one by one.
var folders = []string{"fetch", "rounds", "frontier", "urls", "content", "dns", "checkpoints"}

// ignoreGone lets files vanish while a folder is read.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// memory takes in what commands that ended said of themselves, and asks mcrawl and mweb.
func (p *processes) memory(most map[string]float64) error {
	files, err := os.ReadDir(p.stats)
	if err != nil {
		return err
	}
	for _, f := range files {
		var s struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
			Peak    float64  `json:"peak_rss_bytes"`
		}
		name := filepath.Join(p.stats, f.Name())
		b, err := os.ReadFile(name)
		if strings.HasPrefix(f.Name(), ".") || json.Unmarshal(b, &s) != nil {
			continue // being written
		}
		if err = cmp.Or(err, os.Remove(name)); err != nil {
			return err
		}
		if len(s.Args) > 0 && verb.MatchString(s.Args[0]) {
			s.Command += " " + s.Args[0]
		}
		most[s.Command] = max(most[s.Command], s.Peak/(1<<20))
	}
	for name, c := range map[string]*exec.Cmd{"mcrawl run": p.run, "mweb": p.web} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if m := highWater.FindSubmatch(b); err == nil && m != nil {
			kib, _ := strconv.ParseFloat(string(m[1]), 64)
			most[name] = kib / 1024
		}
	}
	return nil
}

var (
	verb      = regexp.MustCompile(`^[a-z]+$`)
	highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
)

// processor reads how long processes worked: ours, with those that ended, mweb, and the rest of the machine.
func (p *processes) processor(at *point) error {
	const hz = 100
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	own := 0.0
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // state ppid …, utime is the 12th
		time := func(from, n int) (sum float64) {
			for _, x := range f[from : from+n] {
				v, _ := strconv.ParseFloat(x, 64)
				sum += v / hz
			}
			return sum
		}
		switch {
		case pid == p.run.Process.Pid:
			at.ours += time(11, 4)
		case f[1] == strconv.Itoa(p.run.Process.Pid):
			at.ours += time(11, 4)
		case pid == p.web.Process.Pid:
			at.web = time(11, 2)
		case pid == os.Getpid():
			own = time(11, 2)
		}
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	all := 0.0
	for i, x := range strings.Fields(line)[1:] {
		if v, _ := strconv.ParseFloat(x, 64); i < 3 || i == 7 { // user, nice, system, steal: interrupts are told apart, and the loopback's are ours
			all += v / hz
		}
	}
	at.others = all - at.ours - at.web - own
	return nil
}

// --- what is printed -----------------------------------------------------------------

// span are the figures between two points.
type span struct {
	seconds, pages, rounds, disk, files, ours float64
	round                                     float64 // seconds of each round that ended
	rate, left                                float64 // pages/s; and of the time that others left of the machine
	state                                     float64 // bytes of the stores, without WARC files, a known URL, at its end
	bytes                                     map[string]float64
}

func between(a, b point) span {
	s := span{seconds: b.at.Sub(a.at).Seconds(), pages: b.pages - a.pages, rounds: b.rounds - a.rounds, disk: b.disk() - a.disk(), files: b.files - a.files, ours: b.ours - a.ours, bytes: map[string]float64{}}
	s.rate = s.pages / s.seconds
	s.left = s.pages / max(s.seconds-(b.others-a.others)/cores, s.seconds/100)
	if s.round = s.seconds / max(1, s.rounds); s.rounds > 0 && !a.ended.IsZero() {
		s.round = b.ended.Sub(a.ended).Seconds() / s.rounds
	}
	s.state = (b.disk() - b.bytes["fetch"] - b.bytes["rounds"]) / max(1, b.known)
	for _, f := range append(slices.Clone(folders), "other") {
		s.bytes[f] = (b.bytes[f] - a.bytes[f]) / max(1, s.pages)
	}
	return s
}

// write makes the CSV file and the plots.
func write(o options, points []point) error {
	var names []string
	for _, p := range points {
		names = append(names, slices.Collect(maps.Keys(p.rss))...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	head := []string{"minute", "pages", "pages_s", "pages_s_alone", "known", "waiting", "rounds", "s_a_round", "cpu_us_a_page", "others_cpu", "files", "body_bytes_a_page"}
	for _, f := range append(slices.Clone(folders), "other") {
		head = append(head, f+"_bytes")
	}
	for _, n := range names {
		head = append(head, strings.ReplaceAll(n, " ", "_")+"_mib")
	}
	file, err := os.Create(filepath.Join(o.out, o.name+".csv"))
	if err != nil {
		return err
	}
	defer file.Close()
	w := csv.NewWriter(file)
	if err := w.Write(head); err != nil {
		return err
	}
	for i, b := range points[1:] {
		a := points[i]
		s := between(a, b)
		row := []float64{b.at.Sub(points[0].at).Minutes(), b.pages, s.rate, s.left, b.known, b.waiting, b.rounds, s.round, 1e6 * s.ours / max(1, s.pages), (b.others - a.others) / s.seconds, b.files, (b.received - a.received) / max(1, s.pages)}
		for _, f := range append(slices.Clone(folders), "other") {
			row = append(row, b.bytes[f])
		}
		for _, n := range names {
			row = append(row, b.rss[n])
		}
		var cells []string
		for _, v := range row {
			cells = append(cells, strconv.FormatFloat(v, 'f', max(0, 2-len(strconv.Itoa(int(v)))/3), 64))
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	if w.Flush(); w.Error() != nil {
		return w.Error()
	}
	if err := file.Close(); err != nil {
		return err
	}
	return plot(filepath.Join(o.out, o.name+".svg"), points)
}

// judge prints the figures by quarter and reports whether they are flat.
func judge(out io.Writer, o options, points []point, after map[string][2]float64, wrong []string) bool {
	n := len(points) - 1
	at := func(quarter int) point { return points[n*quarter/4] }
	last := points[n]
	fmt.Fprintf(out, "%s: %.0f pages in %.0f s, %.0f pages/s (%.0f of the time that other processes left), %.0f URLs known, %.0f wait, %.0f rounds of %d; a reply has %.1f KB\n", o.name,
		last.pages, last.at.Sub(points[0].at).Seconds(), between(points[0], last).rate, between(points[0], last).left, last.known, last.waiting, last.rounds, o.batch, last.received/max(1, last.pages)/1000)
	fmt.Fprintf(out, "\n| quarter | pages/s | alone | µs of processor a page | s a round | bytes a page | WARC | rounds | state, a known URL | files a round |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var q [5]span
	for i := 1; i <= 4; i++ {
		s := between(at(i-1), at(i))
		q[i] = s
		fmt.Fprintf(out, "| %d | %.0f | %.0f | %.0f | %.1f | %.0f | %.0f | %.0f | %.0f | %.1f |\n", i, s.rate, s.left, 1e6*s.ours/max(1, s.pages), s.round, s.disk/max(1, s.pages), s.bytes["fetch"], s.bytes["rounds"], s.state, s.files/max(1, s.rounds))
	}
	most := map[string]float64{}
	for _, p := range points {
		for name, mib := range p.rss {
			most[name] = max(most[name], mib)
		}
	}
	for name, a := range after {
		most[name] = a[1]
	}
	fmt.Fprintf(out, "\n| command | MiB | bound |\n|---|--:|--:|\n")
	for _, name := range slices.Sorted(maps.Keys(most)) {
		fmt.Fprintf(out, "| %s", name)
		if a, once := after[name]; once {
			fmt.Fprintf(out, " (once: %.1f s)", a[0])
		}
		if name == "mweb" {
			fmt.Fprintf(out, " | %.0f | none |\n", most[name])
			continue
		}
		fmt.Fprintf(out, " | %.0f | %.0f |\n", most[name], bound(name))
		if most[name] > bound(name) {
			wrong = append(wrong, fmt.Sprintf("%s took %.0f MiB, over its bound of %.0f", name, most[name], bound(name)))
		}
	}
	check := func(what string, to, from, least, most float64) {
		if ratio := to / max(from, 1e-9); ratio < least || ratio > most {
			wrong = append(wrong, fmt.Sprintf("%s: %.4g in the last quarter, %.4g in the second: %.2f times", what, to, from, ratio))
		}
	}
	check("pages/s of the time that others left", q[4].left, q[2].left, leastRate, 1e9)
	growth := mostGrowth
	if o.minutes < shortRun {
		growth = mostInShort
	} else if q[4].left > mostRate*q[2].left {
		wrong = append(wrong, fmt.Sprintf("no verdict: %.0f pages/s of the time that others left in the last quarter, %.0f in the second: other work slowed the second, and a fall would not show. Run it again", q[4].left, q[2].left))
	}
	check("bytes on disk a page", q[4].disk/max(1, q[4].pages), q[2].disk/max(1, q[2].pages), 0, growth)
	check("files a round", q[4].files/max(1, q[4].rounds), q[2].files/max(1, q[2].rounds), 0, growth)
	fmt.Fprintln(out)
	for _, w := range wrong {
		fmt.Fprintln(out, "WRONG:", w)
	}
	if len(wrong) == 0 {
		fmt.Fprintln(out, "flat")
	}
	return len(wrong) == 0
}
