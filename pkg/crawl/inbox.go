package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
)

// What people ask of a crawl that may be running waits in files of the folder inbox, until a driver takes it in between
// two rounds. A file is complete when it has its name, a number. A driver takes them in by number, each as a transaction
// that has the number in its name, and deletes a file when the transaction's round is closed. So who is killed anywhere
// loses nothing, and finds out what is done already.
//
// No number is used twice. A new number is above all that wait, above the numbers in names of rounds that count or have files in
// rounds, and above the last checkpoint's.

// inboxDir is the folder in the crawl's.
const inboxDir = "inbox"

// PutInbox keeps what write writes until a driver takes it in, and returns its number.
func (c *Crawl) PutInbox(ctx context.Context, write func(io.Writer) error) (number uint64, err error) {
	err = c.locked(ctx, "mcrawl", func(cur store.Current) error {
		dir := c.path(inboxDir)
		if err := durable.MkdirAll(c.fs, dir); err != nil {
			return err
		}
		waiting, err := c.Inbox()
		if err != nil {
			return err
		}
		taken, err := c.takenIn()
		if err != nil {
			return err
		}
		number = max(cur.Last, taken) + 1
		if n := len(waiting); n > 0 {
			number = max(number, waiting[n-1]+1)
		}
		file, err := durable.Create(c.fs, c.inboxFile(number))
		if err != nil {
			return err
		}
		defer file.Abort()
		if err := write(file); err != nil {
			return err
		}
		return file.Commit()
	})
	return number, err
}

// takenIn is the highest number in a name addN or againN of rounds: of those that count, and of those that have files
// in rounds or in rounds/undone.
func (c *Crawl) takenIn() (highest uint64, err error) {
	names, err := c.Rounds()
	if err != nil {
		return 0, err
	}
	for _, dir := range []string{"", undoneDir} {
		list, err := c.fs.ReadDir(c.roundsPath(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		for _, e := range list {
			name, _, _ := strings.Cut(e.Name(), ".") // of the epoch
			names = append(names, name)
		}
	}
	for _, name := range names {
		if n, ok := numbered(name, "add"); ok {
			highest = max(highest, n)
		} else if n, ok := numbered(name, "again"); ok {
			highest = max(highest, n)
		}
	}
	return highest, nil
}

func (c *Crawl) inboxFile(number uint64) string {
	return c.path(filepath.Join(inboxDir, fmt.Sprintf("%06d", number)))
}

// Inbox lists the numbers of what waits, ascending.
func (c *Crawl) Inbox() (numbers []uint64, err error) {
	list, err := c.fs.ReadDir(c.path(inboxDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		if n, err := strconv.ParseUint(e.Name(), 10, 53); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// OpenInbox opens one of them.
func (c *Crawl) OpenInbox(number uint64) (durable.File, error) {
	return c.fs.OpenFile(c.inboxFile(number), os.O_RDONLY, 0)
}

// DropInbox deletes one that was taken in. If a crash brings it back, its transaction is closed all the same.
func (c *Crawl) DropInbox(number uint64) error { return c.fs.Remove(c.inboxFile(number)) }

// Closed reports whether a round of that name was closed, in the crawl as it is now.
func (c *Crawl) Closed(txn string) (bool, error) {
	frontier, look, err := c.viewFrontier()
	if err != nil || look.Open() == txn {
		return false, err
	}
	names, _, err := frontier.Names(look.Counts)
	return slices.Contains(names, txn), err
}

// OpenRound names the round that is open in the frontier; "" if there is none.
func (c *Crawl) OpenRound() (txn string, err error) {
	_, look, err := c.viewFrontier()
	if err != nil {
		return "", err
	}
	return look.Open(), nil
}

// viewFrontier looks at the frontier.
func (c *Crawl) viewFrontier() (frontier *store.Store, v *store.View, err error) {
	if frontier, err = c.frontier(); err == nil {
		v, err = frontier.Look()
	}
	return frontier, v, err
}

// Rounds lists the names of the rounds that count, in their order; an open one comes last.
func (c *Crawl) Rounds() ([]string, error) {
	frontier, look, err := c.viewFrontier()
	if err != nil {
		return nil, err
	}
	names, _, err := frontier.Names(look.Counts)
	return names, err
}
