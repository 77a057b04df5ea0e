package fetch

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/folder/stage"
)

// output is a row on its way to the writer.
type output struct {
	group  *group // records; nil: the archive has them already
	row    *record.Fetch
	made   string // ledger reason of a row that is not from a URL of the batch; "": a page
	weight int64
	whole  bool         // revisit records may refer to its payload
	place  bodies.Place // place of its document, for later commands
}

// writer brings what came of contacts into the archive, and their rows from there to the next stage.
type writer struct {
	b        *stage.Batch[record.URL, record.Fetch]
	onRow    func(row *record.Fetch) // may be nil
	count    func(row *record.Fetch) // gets rows that are on their way
	archive  *archive
	payloads *payloads           // nil: each payload is archived
	bodies   *bodies.Writer      // nil: the commands behind read the archive
	replies  *semaphore.Weighted // bytes of those that are encoded or wait
	out      chan *output
}

// emit encodes the contact's records, frees the reply and sends the row on.
func (w *writer) emit(ctx context.Context, row *record.Fetch, reply *Reply, made string, weight int64, place bodies.Place) error {
	var first *payload
	digest, whole := [16]byte{}, false
	if w.payloads != nil && reply != nil && reply.Media == "" && identifiable(row) {
		digest, whole = payloadDigest(row)
	}
	if whole {
		known, found, err := w.payloads.find(digest)
		if err != nil {
			reply.release()
			return err
		}
		if found {
			first, whole = &known, false
		}
	}
	group, err := encodeGroup(w.archive.enc, w.archive.round, row, reply, first)
	if reply != nil {
		reply.release()
	}
	if err != nil {
		return err
	}
	return w.send(ctx, &output{group: group, row: row, made: made, weight: weight, whole: whole, place: place})
}

func (w *writer) send(ctx context.Context, o *output) error {
	if o.row != nil {
		w.count(o.row)
	}
	select {
	case w.out <- o:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write appends groups to the archive in large writes and emits their rows once
// they are there.
func (w *writer) write(ctx context.Context) error {
	var pending []*output
	size := 0
	due := time.NewTimer(0) // when what is pending is written at the latest
	due.Stop()
	flush := func() error {
		due.Stop()
		if err := w.archive.w.Flush(); err != nil {
			return err
		}
		for i, o := range pending {
			pending[i] = nil
			w.replies.Release(o.weight)
			if o.row == nil {
				continue
			}
			EnterCut(w.b, o.row)
			if w.onRow != nil {
				w.onRow(o.row)
			}
			var err error
			if o.whole { // others may refer to it from here on, since it is in the file
				if err = w.payloads.addPayload(o.row); err != nil {
					return err
				}
			}
			if o.made != "" {
				err = w.b.Make(o.made, o.row)
			} else {
				err = w.b.Pass(o.row)
			}
			if err != nil {
				return err
			}
		}
		pending, size = pending[:0], 0
		return nil
	}
	for {
		var o *output
		var ok bool
		select {
		case o, ok = <-w.out:
		case <-due.C:
			if err := flush(); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !ok {
			return flush()
		}
		if o.group != nil {
			name, offset, err := w.archive.append(o.group)
			if err != nil {
				return err
			}
			if o.row != nil && o.group.length > 0 {
				o.row.WARCFilename, o.row.WARCOffset, o.row.WARCLength = name, offset, o.group.length
				if w.bodies != nil {
					w.bodies.Enter(o.row, o.place)
				}
			}
			size += len(o.group.b)
			o.group.free()
			o.group = nil
		}
		if len(pending) == 0 {
			due.Reset(pendingTime)
		}
		if pending = append(pending, o); size >= writeMax || len(pending) >= pendingMax {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// Unwritten is how many contacts may have ended and not be in the archive yet.
const Unwritten = queued + pendingMax

// What may be lost by a kill, besides what is with a connection.
const (
	queued      = 32
	writeMax    = 1 << 20 // bytes that are gathered before they are written
	pendingMax  = 32      // rows
	pendingTime = 2 * time.Millisecond
)

const (
	repliesMax = 24 << 20 // bytes of replies that are encoded or wait for the writer
	replyBase  = 8 << 10  // bytes that a small reply counts
)

// replyWeight returns the memory that a reply of n bytes takes: raw, compressed and as a row.
func replyWeight(n int64) int64 { return replyBase + 3*n }

// keptMax is the most that keep (nil: nothing) takes of a reply's body, decoded.
func keptMax(reply *Reply, keep *limited) int64 {
	switch {
	case keep == nil:
		return 0
	case reply.spoken() || reply.Head != nil && reply.Head.Codings() == "":
		return min(reply.Length, int64(keep.max))
	}
	return min(swollenMax(reply.Length), int64(keep.max))
}

// take waits for n bytes of a budget of so many, and returns how many it took: what is more than
// the whole budget goes alone.
func take(ctx context.Context, budget *semaphore.Weighted, n, whole int64) (int64, error) {
	n = min(n, whole)
	if n == 0 {
		return 0, nil
	}
	if err := budget.Acquire(ctx, n); err != nil {
		return 0, context.Cause(ctx)
	}
	return n, nil
}
