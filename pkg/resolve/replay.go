package resolve

import (
	"encoding/json"
	"io"
	"os"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/fault"
	"mercator/pkg/fingerprint"
	"mercator/pkg/merge"
)

// Replay answers from the DNS records of a saved round: what the columns of each
// host said then, they say again.
type Replay struct {
	file *os.File // in the layout of a cache file, with hosts for names; it has no folder entry
	txn  string
}

// OpenReplay reads the text/dns records of transaction txn from WARC files,
// sorting them within mem bytes. If the transaction ran more than once (a round
// that was abandoned), those of its last epoch count.
func OpenReplay(files []warc.Part, txn string, mem int64) (*Replay, error) {
	epoch := uint64(0)
	sorter := merge.NewSorter(mem, "")
	defer func() { sorter.Close() }()
	for _, part := range files {
		err := readHostnames(part, txn, func(e uint64, h warc.Hostname) error {
			if e < epoch {
				return nil
			}
			if e > epoch {
				sorter.Close()
				sorter, epoch = merge.NewSorter(mem, ""), e
			}
			value, err := json.Marshal(entry{Addr: h.Addr, Expires: h.Expires.Go(), Error: h.Error})
			if err != nil {
				return err
			}
			payload := append(append([]byte(h.Host), 0), value...)
			return sorter.Add(fingerprint.OfString(h.Host), payload)
		})
		if err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp("", "mercator-replay-")
	if err != nil {
		return nil, err
	}
	r := &Replay{file: f, txn: txn}
	if err := os.Remove(f.Name()); err != nil {
		r.Close()
		return nil, err
	}
	if err := r.fill(sorter); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// readHostnames calls each for the hosts that a file's rounds of that name saved.
func readHostnames(part warc.Part, txn string, each func(epoch uint64, h warc.Hostname) error) error {
	f, length, err := part.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	in := warc.NewReader(io.LimitReader(f, length), warc.ReaderOptions{Name: part.Path})
	defer in.Close()
	var round warc.Round
	current := false
	for {
		rec, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch rec.Type {
		case warc.TypeInfo:
			var ok bool
			if round, ok, err = warc.ReadRound(rec); err != nil {
				return err
			}
			current = ok && round.Txn == txn
		case warc.TypeResource:
			h, ok, err := warc.ReadHostname(rec)
			if err != nil {
				return err
			}
			if ok && current {
				if err := each(round.Epoch, h); err != nil {
					return err
				}
			}
		}
	}
}

func (r *Replay) fill(sorter *merge.Sorter) error {
	it, err := sorter.Sort()
	if err != nil {
		return err
	}
	w, err := record.NewWriter[record.Module](r.file, record.WriterOptions{Name: "temporary file", Level: record.Fast})
	if err != nil {
		return err
	}
	next := inOrder(it)
	var last string
	for {
		row, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if row.Name == last {
			continue // a round that was interrupted says it once more
		}
		last = row.Name
		if err := w.Write(&row); err != nil {
			return err
		}
	}
	_, err = w.Commit(record.Ledger{})
	return err
}

// open starts a pass over the saved answers.
func (r *Replay) open() (*cacheReader, error) {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return newCacheReader(r.file, "saved DNS records", io.NopCloser(nil))
}

func (r *Replay) lacks(host string) error {
	return &fault.Error{
		Class: fault.Conflict, File: "saved DNS records", Place: "transaction " + r.txn,
		Found: "no record of host " + host, Hint: "give --replay the crawl's fetch store, and the round's own --txn",
	}
}

// Close frees the temporary file.
func (r *Replay) Close() error { return r.file.Close() }
