package fetch

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
)

// Seal gives each WARC file of the store its final name, and returns how many had none. No
// generation changes, since a manifest does not say which of its two names a file has
// now. The next batch begins a new file. While a round is open, even if its batch was
// killed, Seal fails with fault.Conflict: the batch goes on with the file that it has begun.
//
// Seal cuts bytes behind the longest length that a generation has of a file. A batch that was
// killed and then abandoned left them, and they may end in the middle of a record. A file that no
// generation has stays as it is: the next change deletes it. In a shard a superseded process may still
// write to a file, so the committed part is copied to the final name.
func Seal(ctx context.Context, st *store.Store) (sealed int, err error) {
	lock, err := st.Lock(ctx, "seal")
	if err != nil {
		return 0, err
	}
	defer lock.Close() // nothing was written through it
	v, err := st.Settle()
	if err != nil {
		return 0, err
	}
	if txn := v.Open(); txn != "" {
		return 0, unfinished(st, st.Dir(), "round "+txn+" is open")
	}
	list, err := st.FS().ReadDir(st.Dir())
	if err != nil {
		return 0, err
	}
	shard := st.Shard() != ""
	var held map[string]int64 // of every generation; made where it is needed
	for _, e := range list {
		name, open := strings.CutSuffix(e.Name(), openSuffix)
		if !open {
			continue
		}
		fi, err := st.FS().Stat(st.Path(e.Name()))
		if err != nil {
			return sealed, err
		}
		f := v.Counts.File(name)
		ours := f != nil && f.Epoch == v.Current.Epoch // of the present epoch
		newest := ours && !slices.ContainsFunc(v.Counts.Files, func(e store.Entry) bool {
			return e.Role == roleWARC && e.Growing && e.Epoch == f.Epoch && store.MadeBefore(name, e.Path)
		})
		if ours && f.Length != fi.Size() && (newest || !shard) {
			return sealed, unfinished(st, st.Path(e.Name()), "the tail of a batch that was interrupted")
		}
		length := fi.Size()
		if ours {
			length = f.Length
		} else if shard || f == nil || f.Length != length {
			if held == nil {
				if held, err = heldLengths(st); err != nil {
					return sealed, err
				}
			}
			var ok bool
			if length, ok = held[name]; !ok {
				continue
			}
		}
		if shard && !newest && (!ours || f.Growing) {
			err = sealCopy(st, name, length)
		} else if err = shorten(st, e.Name(), fi, length); err == nil {
			err = st.FS().Rename(st.Path(e.Name()), st.Path(name))
		}
		if err != nil {
			return sealed, err
		}
		sealed++
	}
	if sealed == 0 {
		return 0, nil
	}
	return sealed, st.FS().SyncDir(st.Dir())
}

func unfinished(st *store.Store, file, found string) error {
	return &fault.Error{Class: fault.Conflict, File: file, Found: found, Want: "a crawl between two rounds",
		Hint: "finish the round: " + fault.Quote("mcrawl", "run", st.Root()) + "; or drop it: " + fault.Quote("mckpt", "abandon", st.Root())}
}

// heldLengths is the most that a generation of the store has of each WARC file.
func heldLengths(st *store.Store) (map[string]int64, error) {
	generations, err := st.Generations()
	if err != nil {
		return nil, err
	}
	held := map[string]int64{}
	for _, g := range generations {
		m, err := st.At(g)
		if err != nil {
			return nil, err
		}
		for _, e := range m.WithRole(roleWARC) {
			held[e.Path] = max(held[e.Path], e.Length)
		}
	}
	return held, nil
}

// shorten cuts a file that is longer.
func shorten(st *store.Store, name string, fi fs.FileInfo, length int64) error {
	if fi.Size() <= length {
		return nil // one that is shorter is damaged, which verify tells
	}
	f, err := st.FS().OpenFile(st.Path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(length); err != nil {
		return err
	}
	return f.Sync()
}
