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
	"mercator/pkg/durable"
	"mercator/pkg/fault"
)

// batchFile says for which generation servers were contacted last: a decimal
// number and a line feed. It stands outside of the generations because it must
// hold for those that were abandoned too. A time behind the number says that the wait of the next batch counts from there: the
// run that made the contacts stopped by itself, or a later one that contacted nobody found that it had ended.
const batchFile = "BATCH"

// openBatch notes that contacts begin which the change tx will commit.
func (r *runner) openBatch(tx *store.Tx) error {
	if err := tx.Superseded(); err != nil {
		return err // a process that was suspended must not note an old one
	}
	r.contacted = true
	return durable.WriteFile(r.opt.Store.FS(), r.opt.Store.Path(batchFile), fmt.Appendf(nil, "%d\n", tx.Generation()))
}

// stopped notes, after a run that failed or was interrupted, from when the wait of the next batch counts: it then ends when the longest gap
// ends of the hosts that this run contacted. Where that cannot be noted, the next batch waits longer.
func (r *runner) stopped(tx *store.Tx) {
	if !r.contacted || tx.Fenced() || tx.Superseded() != nil {
		return
	}
	now, gap := r.now(), r.unknownGap()
	end := min(max(r.s.latest, now+r.s.addrDelay), now+gap)
	_ = durable.WriteFile(r.opt.Store.FS(), r.opt.Store.Path(batchFile), fmt.Appendf(nil, "%d %d\n", tx.Generation(), min(now, end-gap)))
}

// unknownGap is the gap after a contact that nothing is known of.
func (r *runner) unknownGap() micros {
	if r.opt.DelayFactor > 0 {
		return us(max(r.opt.MinDelay, r.opt.MaxDelay))
	}
	return us(r.opt.MinDelay)
}

// TakenOver notes in the store dir, a copy whose newest generation is given, that somebody may have contacted any host until
// now: the next batch then waits as after an interrupted one.
func TakenOver(dir string, newest uint64, now time.Time) error {
	return durable.WriteFile(durable.OS, filepath.Join(dir, batchFile), fmt.Appendf(nil, "%d %d\n", newest+1, now.UnixMicro()))
}

// unclean says whether contacts were made of which no committed contact times
// tell: the process that made them died, or failed, or was interrupted. All of them were made before ended: that
// is now, unless a run since noted an earlier time and contacted nobody, and it is noted for the next run.
func (r *runner) unclean(tx *store.Tx, now micros) (ended micros, err error) {
	begun, ended, err := readBatch(r.opt.Store)
	if begun == 0 || err != nil {
		return 0, err
	}
	for _, e := range tx.Base().Files {
		if e.Role == roleContacts && e.Born >= begun {
			return 0, nil
		}
	}
	if tx.Fenced() { // the time may be another machine's
		return now, nil
	}
	if ended > 0 && ended <= now { // else the clock was set back
		return ended, nil
	}
	return now, durable.WriteFile(r.opt.Store.FS(), r.opt.Store.Path(batchFile), fmt.Appendf(nil, "%d %d\n", begun, now))
}

// CheckStore reads what a fetch store holds outside of its generations, for mckpt verify.
func CheckStore(st *store.Store) error {
	_, _, err := readBatch(st)
	return err
}

// readBatch returns the generation in BATCH, 0 if there is none, and the time, 0 if there is none.
func readBatch(st *store.Store) (begun uint64, ended micros, err error) {
	path := st.Path(batchFile)
	f, err := st.FS().OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 64)) // more is no number either
	f.Close()
	if err != nil {
		return 0, 0, err
	}
	line, whole := strings.CutSuffix(string(b), "\n")
	number, at, timed := strings.Cut(line, " ")
	if begun, err = strconv.ParseUint(number, 10, 64); !whole {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && timed {
		var t uint64
		t, err = strconv.ParseUint(at, 10, 63)
		ended = micros(t)
	}
	if err != nil {
		return 0, 0, &fault.Error{Class: fault.Corrupt, File: path, Place: "line 1", Found: strconv.Quote(clean(string(b))), Want: "the number of a generation, and perhaps a time",
			Hint: "remove the file and wait for the longest delay before the next batch"}
	}
	return begun, ended, nil
}
