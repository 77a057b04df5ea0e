package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/cli"
	"mercator/pkg/config"
	"mercator/pkg/driver/pipe"
	"mercator/pkg/driver/setup"
	"mercator/pkg/merge"
	"mercator/pkg/view/history"
)

// Web is an embedded web, as mweb serves it.
type Web struct {
	Seed  uint64 `json:"seed"`
	Hosts int    `json:"hosts"`
	Pages int    `json:"pages"`
	Port  int    `json:"port"` // port in all URLs: a crawl needs the same one again
	DNS   string `json:"dns"`
}

// webFile, in a crawl folder, has the Web that is crawled.
const webFile = "web.json"

// flags describe the web to mweb.
func (w Web) flags() []string {
	return []string{"--seed", strconv.FormatUint(w.Seed, 10), "--hosts", strconv.Itoa(w.Hosts), "--pages", strconv.Itoa(w.Pages), "--port", strconv.Itoa(w.Port)}
}

// Try crawls an embedded web in dir, from its start or from where an earlier call was interrupted, and
// compares what was found with what there is: a difference is an error. With print it only writes the lines of a shell that do the same.
func Try(ctx context.Context, dir string, web Web, set []config.Pair, opt Options, print bool, out io.Writer) error {
	if err := web.reusePorts(dir); err != nil {
		return err
	}
	seeds, stop, err := web.serve(ctx, opt)
	if err != nil {
		return err
	}
	defer stop()
	if !print {
		fmt.Fprintf(out, "The embedded web: seed %d, %d hosts on 127.0.0.0/8, port %d.\n", web.Seed, web.Hosts, web.Port)
	}
	about, err := json.Marshal(web)
	if err != nil {
		return err
	}
	spec := setup.Spec{URLs: seeds, Files: map[string]string{webFile: string(about) + "\n"}, Set: set, Preset: []config.Pair{
		{Key: "network.allow_net", Value: "127.0.0.0/8"}, {Key: "resolve.servers", Value: web.DNS},
		{Key: "politeness.min_delay", Value: "20ms"}, {Key: "politeness.delay_factor", Value: "0"}, {Key: "politeness.addr_delay", Value: "0s"},
		{Key: "frontier.max_attempts", Value: "1"}, // its errors do not pass
	}}
	if print {
		return web.printCommands(out, dir, spec, opt)
	}
	if _, err := setup.Make(ctx, dir, spec, opt.Warn); err != nil {
		return err
	}
	d, err := Open(dir, opt)
	if err != nil {
		return err
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	return d.compare(ctx, web, out)
}

// printCommands writes the lines of a shell that serve the web at the same ports, crawl it, and compare the outcomes of pages with its oracle.
func (w Web) printCommands(out io.Writer, dir string, spec setup.Spec, opt Options) error {
	quote := func(name string) string { return fault.Quote(filepath.Clean(dir) + name) }
	serve := append([]string{"mweb", "serve", "--dns", w.DNS, "--ready", filepath.Clean(dir) + ".ready"}, w.flags()...)
	fmt.Fprintf(out, "rm -f %s && { %s > %s & } && web=$! && until [ -e %[1]s ]; do kill -0 $web || exit; sleep 0.1; done &&\n", quote(".ready"), fault.Quote(serve...), fault.Quote(os.DevNull))
	if err := setup.PrintMake(out, dir, spec, opt.Warn); err != nil {
		return err
	}
	run := []string{"mcrawl", "run", dir}
	if opt.Rounds > 0 {
		run = append(run, "--rounds", strconv.FormatUint(opt.Rounds, 10))
	}
	fmt.Fprintf(out, "%s\nkill $web\n", fault.Quote(run...))
	fmt.Fprintf(out, "%s | LC_ALL=C sort > %s\n", fault.Quote(append([]string{"mweb", "oracle"}, w.flags()...)...), quote(".oracle"))
	_, err := fmt.Fprintf(out, "mcat --format tsv --columns role,url,outcome,status %s | sed -n 's/^page\t//p' | LC_ALL=C sort | diff %s -\n", fault.Quote(dir), quote(".oracle"))
	return err
}

// reusePorts takes the ports of an earlier web from its crawl in dir. Any other crawl there is fault.Usage.
func (w *Web) reusePorts(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil {
		return nil
	}
	b, err := durable.ReadFile(durable.OS, filepath.Join(dir, webFile), 1<<16)
	var was Web
	if errors.Is(err, os.ErrNotExist) {
		return &fault.Error{Class: fault.Usage, File: dir, Found: "a crawl that is not of the embedded web", Want: "a new folder",
			Hint: "name another folder; or go on with this crawl: " + fault.Quote("mcrawl", "run", dir)}
	}
	if err == nil {
		err = json.Unmarshal(b, &was)
	}
	if err != nil {
		return err
	}
	w.Port, w.DNS = was.Port, was.DNS
	if *w != was {
		return &fault.Error{Class: fault.Usage, File: dir, Found: fmt.Sprintf("a crawl of another web: --seed %d --hosts %d --pages %d", was.Seed, was.Hosts, was.Pages), Want: "a new folder, or the same web",
			Hint: "name another folder, or give the same flags"}
	}
	return nil
}

// serve starts mweb, which ends at the latest with this program. It fills in the ports.
func (w *Web) serve(ctx context.Context, opt Options) (seeds []string, stop func(), err error) {
	hold, held, err := os.Pipe() // mweb ends when nobody holds this any more
	if err != nil {
		return nil, nil, err
	}
	ready, tell := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	words := append([]string{"mweb", "serve", "--until-stdin-closes"}, w.flags()...)
	if w.DNS != "" {
		words = append(words, "--dns", w.DNS)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := pipe.RunCommand(ctx, words, hold, tell, func(line string) { opt.Warn("%s", line) })
		if err == nil {
			err = errors.New("mweb ended")
		}
		tell.CloseWithError(err)
	}()
	stop = func() {
		cancel()
		ready.Close()
		<-ended
		hold.Close()
		held.Close()
	}
	var line struct {
		Port  int      `json:"port"`
		DNS   string   `json:"dns"`
		Seeds []string `json:"seeds"`
	}
	if err := json.NewDecoder(ready).Decode(&line); err != nil {
		stop()
		return nil, nil, fmt.Errorf("the embedded web did not start: %w", err)
	}
	go io.Copy(io.Discard, ready)
	w.Port, w.DNS = line.Port, line.DNS
	return line.Seeds, stop, nil
}

// compare compares what the crawl found with the oracle: a crawl at its end must have found all
// that there is, each URL with its outcome, once and as often more as mcrawl again asked for it; any other nothing else.
func (d *Driver) compare(ctx context.Context, web Web, out io.Writer) error {
	ended, err := d.Crawl.Frontiers.Empty(record.TimeOf(d.opt.Now()))
	if err != nil {
		return err
	}
	all := merge.NewSorter(triedMemory, "")
	defer all.Close()
	all.Ties = bytes.Compare
	add := func(side byte, url, is string) error {
		return all.Add(fingerprint.OfString(url), append([]byte(url+"\t"), append([]byte{side}, is...)...))
	}
	visits := 0
	files, err := d.Crawl.History(false)
	for _, f := range files {
		switch {
		case err != nil:
		case strings.HasPrefix(filepath.Base(f.Path), "again."):
			err = history.Read(f.Path, func(row *record.URL) error { return add(asked, row.URL, "") })
		case f.What == history.Fetched:
			err = history.Read(f.Path, func(row *record.Fetch) error {
				outcome, status := row.Outcome, row.Status
				switch {
				case row.Role != record.RolePage || outcome == record.OutcomeDeferred: // put off: it has no outcome yet
					return nil
				case outcome == record.OutcomeNotModified: // it is there as it was
					outcome, status = record.OutcomeFetched, 200
				}
				visits++
				return add(crawled, row.URL, fmt.Sprintf("%s\t%d", outcome, status))
			})
		}
	}
	if err != nil {
		return err
	}
	oracle := &cli.LineWriter{Emit: func(line string) {
		url, is, _ := strings.Cut(line, "\t")
		err = errors.Join(err, add(there, url, is))
	}}
	if err := pipe.RunCommand(ctx, append([]string{"mweb", "oracle"}, web.flags()...), nil, oracle, func(line string) { d.opt.Warn("%s", line) }); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	const most = 20 // differences that are shown
	var shown bytes.Buffer
	differ, known, urls := 0, 0, 0
	differs := func(sign, url, is string) {
		if differ++; differ <= most {
			fmt.Fprintf(&shown, "%s %s\t%s\n", sign, url, is)
		}
	}
	var url string      // the present URL
	var oracleIs string // the oracle's verdict on url
	var last string     // the last visit of url
	n := [3]int{}
	end := func() {
		switch known += n[there]; {
		case n[crawled] > 0:
			if urls++; ended && n[crawled] > 1+n[asked] {
				differs(">", url, last)
			}
		case ended && n[there] > 0:
			differs("<", url, oracleIs)
		}
		n = [3]int{}
	}
	it, err := all.Sort()
	for err == nil {
		var row []byte
		if _, row, err = it.Next(); err != nil {
			break
		}
		of, rest, _ := strings.Cut(string(row), "\t")
		if of != url {
			end()
			url = of
		}
		side, is := rest[0], rest[1:]
		switch n[side]++; {
		case side == there:
			oracleIs = is
		case side == crawled && (n[there] == 0 || is != oracleIs) && (n[crawled] == 1 || is != last):
			differs(">", url, is)
		}
		last = is
	}
	if end(); err == io.EOF {
		err = nil
	}
	switch {
	case err != nil:
		return err
	case differ > 0 || visits == 0:
		fmt.Fprintf(out, "\nThe crawl differs from the oracle (< oracle, > crawl):\n%s", shown.String())
		return &fault.Error{File: d.Crawl.Dir(), Found: fmt.Sprintf("%d lines differ from the oracle", differ)}
	case ended:
		fmt.Fprintf(out, "\nThe crawl equals the oracle: %d URLs, each with its outcome.\n", urls)
	default:
		fmt.Fprintf(out, "\nThe crawl is not at its end. Its %d visits, of %d URLs, had the outcomes that the oracle says; it knows %d URLs.\n", visits, urls, known)
	}
	return nil
}

// What compare knows of a URL, in the order in which it looks at it.
const (
	there   = iota // a line of the oracle
	asked          // it was queued once more
	crawled        // a visit
)

// triedMemory bounds the memory of sorts in compare, in bytes; the rest waits in temporary files.
const triedMemory = 16 << 20
