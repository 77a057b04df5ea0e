package driver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/canon"
	"mercator/pkg/fault"
	"mercator/pkg/merge"
)

// What add and again ask for waits in the crawl's inbox (pkg/crawl/inbox.go) and is taken in between two rounds: as a
// transaction add13 or again13, where 13 is the number in the inbox, through the same commands as a round, closed by a
// checkpoint of its own. A kill anywhere leaves a file in the inbox, whose transaction is gone on with, or is found
// closed, and a repetition of each command changes nothing.

// Request is what a person asks of a crawl.
type Request struct {
	Verb     string      `json:"verb"`               // add or again
	Outcomes []string    `json:"outcomes,omitempty"` // again: those last fetched with one of these,
	Statuses []uint16    `json:"statuses,omitempty"` // with one of these statuses or classes of them (history.Query),
	Before   record.Time `json:"before,omitempty"`   // or before this time,
	Rule     string      `json:"rule,omitempty"`     // or refused by this rule,
	Listed   bool        `json:"listed,omitempty"`   // or those that are listed, one a line, behind the request,
	Rows     bool        `json:"rows,omitempty"`     // as JSON lines, with further columns
}

// maxRequest bounds the first line of an inbox file, in bytes.
const maxRequest = 64 << 10

// Ask puts a request into the inbox and, if no driver is at work and no round is open, takes it in. told says what was
// done, or who will do it. lines writes the list.
func (d *Driver) Ask(ctx context.Context, r Request, lines func(io.Writer) error) (told string, err error) {
	head, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	if len(head) >= maxRequest {
		return "", &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a request of %d bytes", len(head)), Want: fmt.Sprintf("less than %d", maxRequest)}
	}
	// Nobody has to wait for who writes the list: it is whole before the crawl is locked.
	list, err := merge.TempFile("")
	if err != nil {
		return "", err
	}
	defer list.Close()
	out := bufio.NewWriter(list)
	fmt.Fprintf(out, "%s\n", head)
	if lines != nil {
		if err := lines(out); err != nil {
			return "", err
		}
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	number, err := d.Crawl.PutInbox(ctx, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(list, 0, math.MaxInt64))
		return err
	})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s%d", r.Verb, number)
	lock, err := d.Crawl.Hold(ctx, "mcrawl "+r.Verb, afterKill)
	if errors.Is(err, fault.Busy) {
		return name + ": waits: the running driver or the next run takes it in", nil
	}
	if err != nil {
		return "", err
	}
	defer lock.Close()
	d.processes.lock = lock
	st, err := d.Crawl.State()
	switch {
	case err != nil:
		return "", err
	case st.Checkpoint == 0:
		return fmt.Sprintf("%s: %q takes it in when it has put the seeds in", name, fault.Quote("mcrawl", "run", d.plan.crawl)), nil
	}
	said, err := d.take(ctx)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, name+":") }) {
		waiting, err := d.Crawl.Inbox()
		switch {
		case err != nil:
			return "", err
		case slices.Contains(waiting, number):
			said = append(said, fmt.Sprintf("%s: a round is open; %q ends it and takes this in", name, fault.Quote("mcrawl", "run", d.plan.crawl)))
		default: // another driver was quicker
			said = append(said, name+": was taken in")
		}
	}
	return strings.Join(said, "\n"), nil
}

// Take is for a driver that is no Driver, such as mercator.mk, and holds the crawl: it takes in what waits in the inbox.
func (d *Driver) Take(ctx context.Context) (said []string, err error) { return d.take(ctx) }

// take takes in what waits in the inbox, unless a round is open. It says what each did. The driver's lock is held.
func (d *Driver) take(ctx context.Context) (said []string, err error) {
	numbers, err := d.Crawl.Inbox()
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		line, err := d.takeOne(ctx, n)
		if err != nil || line == "" {
			return said, err
		}
		said = append(said, line)
	}
	return said, nil
}

// takeOne takes in the file of a number; "" if it cannot be now.
func (d *Driver) takeOne(ctx context.Context, number uint64) (string, error) {
	file, err := d.Crawl.OpenInbox(number)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, maxRequest)
	head, err := in.ReadSlice('\n')
	var r Request
	if err == nil {
		err = json.Unmarshal(head, &r)
	}
	if err != nil || r.Verb != "add" && r.Verb != "again" {
		return "", &fault.Error{Class: fault.Corrupt, File: d.plan.path("inbox", fmt.Sprintf("%06d", number)), Found: "no request of mcrawl add or again", Err: err,
			Hint: "move the file elsewhere, and the crawl goes on without it"}
	}
	txn := fmt.Sprintf("%s%d", r.Verb, number)
	closed, err := d.Crawl.Closed(txn)
	if err != nil {
		return "", err
	}
	if closed {
		return txn + ": was taken in before", d.Crawl.DropInbox(number)
	}
	st, err := d.Crawl.State()
	if err != nil {
		return "", err
	}
	open := slices.Contains(st.Rounds, txn)
	if len(st.Rounds) > 0 && !open {
		return "", nil
	}
	dir, err := d.Crawl.BeginRound(txn)
	if err != nil {
		return "", err
	}
	// The list is kept with what is new of it: it is what the set was asked.
	asked := "asked.txt"
	if r.Rows {
		asked = "asked.jsonl"
	}
	list, err := os.Create(filepath.Join(dir, asked))
	if err != nil {
		return "", err
	}
	defer list.Close()
	good, bad, err := d.stillURLs(txn, r.Rows, in, list)
	if err != nil {
		return "", err
	}
	if good == 0 && bad > 0 && !open {
		return fmt.Sprintf("%s: all %d left out", txn, bad), d.Crawl.DropInbox(number)
	}
	if r.Verb == "add" {
		if err := d.addLists(ctx, txn, []string{list.Name()}); err != nil {
			return "", err
		}
	} else if _, err = list.Seek(0, io.SeekStart); err == nil {
		err = d.takeAgain(ctx, txn, dir, r, list, open)
	}
	if err != nil {
		return "", d.wrong(txn, err)
	}
	k, _, err := d.Crawl.Commit(ctx, txn, d.opt.Now(), 0)
	if err != nil {
		return "", err
	}
	text := txn + ": " + accounted(record.Ledger{Joined: k.Ledgers()})
	if bad > 0 {
		text += fmt.Sprintf(", %d left out", bad)
	}
	return text, d.Crawl.DropInbox(number)
}

// stillURLs copies the lines of a list that are URLs by today's settings, which may be others than when they were asked
// for. It names the first of those that are not.
func (d *Driver) stillURLs(txn string, rows bool, in io.Reader, out io.Writer) (good, bad int, err error) {
	form, err := d.Form()
	if err != nil {
		return 0, 0, err
	}
	err = eachLine(in, func(line string) error {
		row := struct{ URL string }{line}
		if rows {
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				return err
			}
		}
		if _, _, wrong := form.URL(row.URL); wrong != nil {
			if bad++; bad > 5 {
				return nil
			}
			d.opt.Teller.Said("mcrawl", fmt.Sprintf("mcrawl: %s: %.200q is left out: %v", txn, line, wrong))
			return nil
		}
		good++
		_, err := fmt.Fprintln(out, line)
		return err
	})
	return good, bad, err
}

// accounted says what became of the URLs of a request.
func accounted(l record.Ledger) string {
	var queued, seen, waiting, released, other uint64
	var walk func(l record.Ledger)
	walk = func(l record.Ledger) {
		for _, j := range l.Joined {
			walk(j)
		}
		for _, s := range l.Stages {
			if s.Name == "mfrontier add" {
				queued += s.Consumed
			}
			for _, drop := range s.Drops {
				switch drop.Reason {
				case "seen":
					seen += drop.N
				case "waiting":
					waiting += drop.N
				case "released":
					released += drop.N
				default:
					other += drop.N
				}
			}
		}
	}
	walk(l)
	text := fmt.Sprintf("%d into the queue", queued+released)
	for _, c := range []struct {
		n    uint64
		what string
	}{{seen, "known already"}, {waiting, "wait already"}, {other, "dropped"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return text
}

// Form is what the crawl's URLs look like.
func (d *Driver) Form() (canon.Options, error) {
	conf, err := d.settings()
	if err != nil {
		return canon.Options{}, err
	}
	return conf.Canon()
}

// eachLine calls each for the lines of a list.
func eachLine(in io.Reader, each func(string) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 && line[0] != '#' {
			if err := each(string(line)); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}
