package fetch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/politeness"
)

// batchFile says for which generation servers were contacted last: a decimal
// number and a line feed. It stands outside of the generations because it must
// hold for those that were abandoned too. Two times may stand behind the number: when the run that
// made the contacts had ended, and until when no host is contacted.
const batchFile = "BATCH"

// openBatch notes that contacts begin which the change tx will commit.
func (r *runner) openBatch(tx *store.Tx) error {
	if err := tx.Superseded(); err != nil {
		return err // a process that was suspended must not note an old one
	}
	r.contacted = true
	return durable.WriteFile(r.opt.Store.FS(), r.opt.Store.Path(batchFile), fmt.Appendf(nil, "%d\n", tx.Generation()))
}

// stopped notes, after a run that failed or was interrupted, when it ended, and when the longest gap ends of the hosts that it contacted. Where that
// cannot be noted, the next batch waits longer.
func (r *runner) stopped(tx *store.Tx) {
	if !r.contacted || tx.Fenced() || tx.Superseded() != nil {
		return
	}
	now := r.now()
	end := min(max(r.s.latest, now+r.s.addrDelay), now+us(r.opt.Unknown()))
	_ = durable.WriteFile(r.opt.Store.FS(), r.opt.Store.Path(batchFile), fmt.Appendf(nil, "%d %d %d\n", tx.Generation(), now, end))
}

// TakenOver notes in the store dir, a copy with newest as its last generation, that another process may have contacted any
// host until now. The next batch then waits as after an interrupted one.
func TakenOver(dir string, newest uint64, now time.Time) error {
	return durable.WriteFile(durable.OS, filepath.Join(dir, batchFile), fmt.Appendf(nil, "%d %d\n", newest+1, now.UnixMicro()))
}

// uncleanGap reports whether contacts were made that are missing from the committed contact
// times: the process that made them died, or failed, or was interrupted. All of them were made before ended, and
// each host is left alone for gap from then on. That is now, unless an earlier time was noted; it is noted for the next run.
func (r *runner) uncleanGap(tx *store.Tx, now micros) (ended, gap micros, err error) {
	begun, ended, until, err := notedBatch(r.opt.Store, tx.Base())
	if begun == 0 || err != nil {
		return 0, 0, err
	}
	gap = us(r.opt.Unknown())
	if tx.Fenced() { // the time may be another machine's
		return now, gap, nil
	}
	if ended > 0 && ended <= now { // else the clock was set back
		if until > 0 {
			gap = max(until-ended, us(r.opt.MinDelay))
		}
		return ended, gap, nil
	}
	return now, gap, durable.WriteFile(r.opt.Store.FS(), r.opt.Store.Path(batchFile), fmt.Appendf(nil, "%d %d\n", begun, now))
}

// notedBatch is readBatch, but 0 if base, the newest generation, already holds the batch's contact times.
func notedBatch(st *store.Store, base *store.Manifest) (begun uint64, ended, until micros, err error) {
	begun, ended, until, err = readBatch(st)
	for _, e := range base.Files {
		if e.Role == roleContacts && e.Born >= begun {
			return 0, 0, 0, err
		}
	}
	return begun, ended, until, err
}

// Hold is until when a run would contact no host, since the one before did not end well; zero: it did. Where nobody knows when that one ended,
// the next run begins the wait.
func Hold(st *store.Store, now time.Time, p politeness.Policy) (time.Time, error) {
	base, err := st.Current()
	if err != nil {
		return time.Time{}, err
	}
	begun, ended, until, err := notedBatch(st, base)
	switch {
	case begun == 0 || err != nil:
		return time.Time{}, err
	case until > 0:
		return time.UnixMicro(max(until, ended+us(p.MinDelay))).UTC(), nil
	case ended > 0:
		now = time.UnixMicro(ended)
	}
	return now.Add(p.Unknown()).UTC(), nil
}

// CheckStore reads what a fetch store holds outside of its generations, for mckpt verify.
func CheckStore(st *store.Store) error {
	if _, _, _, err := readBatch(st); err != nil {
		return err
	}
	return checkTails(st)
}

// checkTails refuses a WARC file with its final name if the bytes behind the committed part are not whole records: only a
// file of whole records gets that name. Other files have the length that their manifest says, which package crawl compares.
func checkTails(st *store.Store) error {
	v, err := st.Look()
	if err != nil {
		return nil // crawl.Verify tells what is wrong with it
	}
	for _, e := range v.Counts.WithRole(roleWARC) {
		if !e.Growing {
			continue
		}
		if err := checkTail(st, e); err != nil && !errors.Is(err, fs.ErrNotExist) { // it has its other name, or is told as missing
			return err
		}
	}
	return nil
}

func checkTail(st *store.Store, e store.Entry) error {
	path := st.Path(e.Path)
	f, err := st.FS().OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() <= e.Length {
		return err
	}
	r := warc.NewReader(io.NewSectionReader(f, e.Length, fi.Size()-e.Length), warc.ReaderOptions{Name: path, Offset: e.Length})
	defer r.Close()
	for err == nil {
		if _, err = r.Next(); err == nil {
			err = r.Finish()
		}
	}
	if err == io.EOF {
		return nil
	}
	if fault.ClassOf(err) == "" {
		return err
	}
	return &fault.Error{Class: fault.Corrupt, File: path, Place: fmt.Sprintf("byte %d", r.Good()), Found: fmt.Sprintf("%d bytes that are no whole record", fi.Size()-r.Good()), Want: "the end of the file", Err: err,
		Hint: "cut them off: " + fault.Quote("truncate", "-s", strconv.FormatInt(r.Good(), 10), path)}
}

// readBatch returns the generation in BATCH, 0 if there is none, and the times behind it, 0 if there are none.
func readBatch(st *store.Store) (begun uint64, ended, until micros, err error) {
	path := st.Path(batchFile)
	f, err := st.FS().OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, 0, nil
	}
	if err != nil {
		return 0, 0, 0, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 96)) // more is no number either
	f.Close()
	if err != nil {
		return 0, 0, 0, err
	}
	line, whole := strings.CutSuffix(string(b), "\n")
	fields := strings.Split(line, " ")
	var numbers [3]uint64
	for i, field := range fields[:min(len(fields), len(numbers))] {
		n, e := strconv.ParseUint(field, 10, 63)
		numbers[i], err = n, errors.Join(err, e)
	}
	ended, until = micros(numbers[1]), micros(numbers[2])
	if err != nil || !whole || len(fields) > len(numbers) || len(fields) == len(numbers) && until < ended {
		return 0, 0, 0, &fault.Error{Class: fault.Corrupt, File: path, Place: "line 1", Found: strconv.Quote(clean(string(b))), Want: "the number of a generation, and perhaps one or two times",
			Hint: "wait for the longest delay (politeness.max_delay) before the next batch, and remove the file: " + fault.Quote("rm", path)}
	}
	return numbers[0], ended, until, nil
}
