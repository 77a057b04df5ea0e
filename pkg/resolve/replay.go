package resolve

import (
	"io"

	"mercator/formats/warc"
	"mercator/pkg/base/fault"
)

// Replay answers from the DNS records of a saved round: what the columns of each host said then, they say again.
type Replay struct {
	saved   *learnt // by host; of aliases by name
	txn     string
	aliases bool // only they are saved: a name that is not there is none
}

// OpenReplay reads the text/dns records of transaction txn from WARC files, and keeps up to mem bytes of them in memory. If the transaction ran
// more than once (a round that was abandoned), the records of its last epoch count.
func OpenReplay(files []warc.Part, txn string, mem int64) (r *Replay, err error) {
	r = &Replay{saved: newLearnt(nil), txn: txn}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	epoch := uint64(0)
	for _, part := range files {
		err := readHostnames(part, txn, func(e uint64, h warc.Hostname) error {
			if e < epoch {
				return nil
			}
			if e > epoch {
				r.saved.Close()
				r.saved, epoch = newLearnt(nil), e
			}
			// A round that was interrupted says it once more.
			return r.saved.first(h.Host, &answer{addr: h.Addr, status: h.Error, expires: h.Expires}, mem)
		})
		if err != nil {
			return r, err
		}
	}
	return r, r.saved.flush()
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

func (r *Replay) lacks(host string) error {
	return &fault.Error{
		Class: fault.Conflict, File: "saved DNS records", Place: "transaction " + r.txn,
		Found: "no record of host " + host, Hint: "give --replay the crawl's fetch store, and the round's own --txn",
	}
}

// Close frees the disk.
func (r *Replay) Close() { r.saved.Close() }
