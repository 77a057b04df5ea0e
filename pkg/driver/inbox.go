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
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/driver/setup"
	"mercator/pkg/frontier"
)

// A request of mcrawl add or again waits in the crawl's inbox (pkg/crawl/inbox.go) until the round ends. Request 13 is then the
// transaction add13 or again13: it runs through the same commands as a round, and ends with a checkpoint of its own.
// A kill leaves the request in the inbox. The next run continues its transaction, or finds it closed; a
// command that is repeated changes nothing.

// Request is a user's request to a crawl.
type Request struct {
	Verb     string      `json:"verb"`               // add or again
	Outcomes []string    `json:"outcomes,omitempty"` // again: URLs with one of these last outcomes
	Statuses []uint16    `json:"statuses,omitempty"` // again: URLs with one of these last statuses, or classes of them (history.Query)
	Before   record.Time `json:"before,omitempty"`   // again: URLs last fetched before this time
	Rule     string      `json:"rule,omitempty"`     // again: URLs that this rule refused
	Listed   bool        `json:"listed,omitempty"`   // a list of URLs, one a line, follows the request
	Rows     bool        `json:"rows,omitempty"`     // the lines of the list are JSON, with further columns
}

// maxRequest bounds the first line of an inbox file, in bytes.
const maxRequest = 64 << 10

// Ask puts a request into the inbox and, if no driver is at work and no round is open, takes it in. lines writes
// the list. told says what was done, or who will do it.
func (d *Driver) Ask(ctx context.Context, r Request, lines func(io.Writer) error) (told string, err error) {
	head, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	if len(head) >= maxRequest {
		return "", &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a request of %d bytes", len(head)), Want: fmt.Sprintf("less than %d", maxRequest)}
	}
	// The list is complete before the crawl is locked: nobody waits for its writer.
	list, err := durable.TempFile("")
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
	if r.Verb == "add" {
		conf, err := d.settings()
		if err != nil {
			return "", err
		}
		given := io.NewSectionReader(list, int64(len(head)+1), math.MaxInt64-int64(len(head)+1))
		if err := setup.NoteSeeds(conf, given, "", r.Rows, true, d.opt.Warn); err != nil {
			return "", err
		}
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
		return name + ": waits: the running driver takes it in when its round ends, or else the next run", nil
	}
	if err != nil {
		return "", err
	}
	defer lock.Close()
	st, err := d.Crawl.State()
	switch {
	case err != nil:
		return "", err
	case st.Checkpoint == 0:
		return fmt.Sprintf("%s: waits until the seeds are in; put them in: %s", name, fault.Quote("mcrawl", "run", d.plan.crawl)), nil
	}
	said, err := d.Take(ctx)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, name+":") }) {
		waiting, err := d.Crawl.Inbox()
		switch {
		case err != nil:
			return "", err
		case slices.Contains(waiting, number):
			said = append(said, fmt.Sprintf("%s: a round is open; end it and take this in: %s", name, fault.Quote("mcrawl", "run", d.plan.crawl)))
		default: // another driver was quicker
			said = append(said, name+": was taken in")
		}
	}
	return strings.Join(said, "\n"), nil
}

// Take carries out the requests of the inbox, unless a round is open, and ends an open raise. It says what each did. The caller
// holds the crawl as its driver.
func (d *Driver) Take(ctx context.Context) (said []string, err error) {
	if err := d.endRaise(ctx); err != nil {
		return nil, err
	}
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

// takeOne carries out the request of a number; it returns "" if that is not possible now.
func (d *Driver) takeOne(ctx context.Context, number uint64) (string, error) {
	file, err := d.Crawl.OpenInbox(number)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	const without = "move the file elsewhere, and the crawl goes on without it"
	in := bufio.NewReaderSize(file, maxRequest)
	head, err := in.ReadSlice('\n')
	var r Request
	if err == nil {
		err = json.Unmarshal(head, &r)
	}
	if err != nil || r.Verb != "add" && r.Verb != "again" {
		return "", &fault.Error{Class: fault.Corrupt, File: file.Name(), Place: "line 1", Found: "no request of mcrawl add or again", Err: err, Hint: without}
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
	if _, err := d.bounded(); err != nil { // of mcrawl add and again, too: commands run here
		return "", err
	}
	dir, err := d.Crawl.BeginRound(txn)
	if err != nil {
		return "", err
	}
	// The list is kept with what is new of it: it is what the set was asked, so an open transaction goes on with it.
	asked, left := filepath.Join(dir, "asked.txt"), filepath.Join(dir, "left-out.txt")
	if r.Rows {
		asked = filepath.Join(dir, "asked"+rowsExt)
	}
	if _, err := os.Stat(asked); !open || err != nil {
		err := d.stillURLs(txn, r.Rows, in, file.Name(), asked, left)
		if f := (*fault.Error)(nil); errors.As(err, &f) && f.Class == fault.Corrupt {
			f.Hint = without
		}
		if err != nil {
			return "", err
		}
	}
	bad, err := lineCount(left)
	if err != nil {
		return "", err
	}
	if r.Verb == "add" {
		var good newlines
		if good, err = lineCount(asked); err != nil {
			return "", err
		}
		err = d.addLists(ctx, txn, []string{asked}, good > 0 || bad == 0) // where all are left out, their list stays with the round
	} else if err = d.takeAgain(ctx, txn, r, asked, open); err == errNone {
		return txn + ": 0 into the queue" + d.none(&r), errors.Join(os.RemoveAll(dir), d.Crawl.DropInbox(number))
	} else if err != nil {
		err = d.wrapRoundError(txn, err)
	}
	if err != nil {
		return "", err
	}
	k, _, err := d.Crawl.Commit(ctx, txn, d.opt.Now(), 0)
	if err != nil {
		return "", err
	}
	seen := "known already"
	if r.Rule != "" { // links were asked for, not URLs
		seen += ": links to these or to URLs of the crawl"
	}
	text := txn + ": " + accounted(record.Ledger{Joined: k.Ledgers()}, seen)
	if bad > 0 {
		text += fmt.Sprintf(", %d left out: %s", bad, left)
	}
	if err := d.Crawl.DropInbox(number); err != nil {
		return "", err
	}
	if r.Verb == "again" {
		st, err := d.Crawl.Frontiers.Stat(ctx, frontier.StatOptions{})
		if err != nil {
			return text, err
		}
		parked := uint64(0)
		for _, p := range st.Parked {
			parked += p.URLs
		}
		if parked > 0 {
			text += fmt.Sprintf(", %d still parked, with their hosts: put them back: %s", parked, d.Crawl.Release())
		}
	}
	return text, nil
}

// none says why no URL is queued once more.
func (d *Driver) none(r *Request) string {
	if r.Rule != "" {
		return fmt.Sprintf(": what %q refused, today's rules refuse too, or it was queued since", r.Rule)
	}
	none := ": no URL that is done matches, and those that wait are not queued twice"
	if slices.ContainsFunc(r.Outcomes, frontier.Parks) {
		none += "; put back those that are parked with their host: " + d.Crawl.Release()
	}
	return none
}

// stillURLs writes the lines of a request's list that are URLs by the settings of now to asked. The settings may have changed since the request. Other
// lines go to left, each with a tab and the reason, and the first of them is reported.
func (d *Driver) stillURLs(txn string, rows bool, in io.Reader, file, asked, left string) error {
	form, err := d.Crawl.Form()
	if err != nil {
		return err
	}
	const most = 5
	bad := 0
	err = durable.WriteOutputBy(left, func(left io.Writer) error {
		return durable.WriteOutputBy(asked, func(asked io.Writer) error {
			return setup.EachLine(in, file, 1, func(line string) error {
				_, _, wrong, err := setup.SeedLine(line, rows, form)
				if err != nil {
					return err
				}
				if wrong == nil {
					_, err := fmt.Fprintln(asked, line)
					return err
				}
				if bad++; bad <= most {
					d.opt.Reporter.Warning(fmt.Sprintf("mcrawl: %s: %.200q is left out: %v", txn, line, wrong))
				}
				_, err = fmt.Fprintf(left, "%s\t%v\n", line, wrong)
				return err
			})
		})
	})
	if err == nil && bad == 0 {
		err = os.Remove(left)
	}
	return err
}

// accounted describes the outcomes of a request's URLs; known is the word for URLs that the crawl had seen.
func accounted(l record.Ledger, known string) string {
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
	}{{seen, known}, {waiting, "wait already"}, {other, "dropped"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return text
}

// newlines counts the newlines that are written to it.
type newlines int

func (n *newlines) Write(b []byte) (int, error) {
	*n += newlines(bytes.Count(b, []byte("\n")))
	return len(b), nil
}

// lineCount is how many lines a file has. A file that is not there has none.
func lineCount(file string) (n newlines, err error) {
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		defer in.Close()
		_, err = io.Copy(&n, in)
	}
	return n, err
}
