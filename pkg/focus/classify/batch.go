package classify

import (
	"context"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/pkg/extract"
)

// TopicColumn is the further column of fetch rows that has the document's topic.
const TopicColumn = "topic"

// Settings say how a batch is scored.
type Settings struct {
	Model   *Model
	Archive string // fetch store with the WARC files
	MaxBody int64  // bytes of a decoded body; 0: extract.DefaultMaxBody
	Threads int    // 0: 1
	// Schema is that of the rows that go out: the input's, with TopicColumn (record.Schema.WithText).
	Schema *record.Schema
	Done   func() // after each row; may be nil
}

// Report is what happened beside the ledger.
type Report struct {
	Scored     uint64            `json:"scored"`               // documents
	Images     uint64            `json:"images,omitempty"`     // of them
	Relevant   uint64            `json:"relevant"`             // of them, with a score of Relevant or more
	Topics     map[string]uint64 `json:"topics,omitempty"`     // of these
	Duplicates uint64            `json:"duplicates,omitempty"` // that were not scored
	Unread     uint64            `json:"unread,omitempty"`     // documents in which no text can be found: other types, and damaged ones
}

// Rows is a stage.Batch from fetch to fetch rows.
type Rows interface {
	Read(*record.Fetch) error
	Pass(*record.Fetch) error
}

// bodiesInFlight bounds the bodies, in bytes, of rows on their way.
const bodiesInFlight = 8 << 20

type job struct {
	row    record.Fetch
	cost   int64
	result Result
	what   what
	err    error
	done   chan struct{}
}

// what became of a row.
type what int

const (
	left      what = iota // its score and topic stay: there is no document, and may be one later or elsewhere
	nothing               // no document that counts: its score is 0
	duplicate             // of a document that was scored
	unread                // a document in which nothing can be read
	scored
)

// Batch scores all rows of a batch. They go out in their order, whatever the number of threads:
//
//	pages that were fetched (2xx)          score and topic of the document
//	duplicates                             score 0, no topic: the first of them was scored
//	documents in which no text is found    score 0
//	other replies, and those without body  score 0
//	not fetched, redirects, robots.txt     the score stays that of the page they were found on, for another attempt and for the target
//	fetched again, and as before           the score stays
//
// It ends with the first error; an archive that is damaged is one, a document is not.
func Batch(ctx context.Context, b Rows, s Settings) (Report, error) {
	s.Threads = max(s.Threads, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bodies := semaphore.NewWeighted(bodiesInFlight)
	todo, order := make(chan *job, 2*s.Threads), make(chan *job, 2*s.Threads)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel() // before it is waited for
	for range s.Threads {
		workers.Go(func() {
			w := worker{scorer: NewScorer(s.Model), documents: extract.NewDocuments(s.Archive, s.MaxBody)}
			defer w.documents.Close()
			for {
				select {
				case j, ok := <-todo:
					if !ok {
						return
					}
					j.what, j.result, j.err = w.score(&j.row)
					bodies.Release(j.cost)
					close(j.done)
				case <-ctx.Done(): // the reader may wait for a pipe, and ends when that does
					return
				}
			}
		})
	}
	var readErr error // set before order is closed
	go func() {
		defer close(order)
		defer close(todo)
		limit := s.MaxBody
		if limit <= 0 {
			limit = extract.DefaultMaxBody
		}
		for {
			j := &job{done: make(chan struct{})}
			if readErr = b.Read(&j.row); readErr != nil {
				return
			}
			j.cost = min(max(j.row.BodyLength, 0), limit, bodiesInFlight)
			// In the order of the input, so that the row which the output waits for has its part.
			if readErr = bodies.Acquire(ctx, j.cost); readErr != nil {
				return
			}
			for _, c := range []chan *job{order, todo} {
				select {
				case c <- j:
				case <-ctx.Done():
					readErr = context.Cause(ctx)
					return
				}
			}
		}
	}()
	report := Report{Topics: make(map[string]uint64)}
	for j := range order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return report, context.Cause(ctx)
		}
		if j.err != nil {
			return report, j.err
		}
		report.count(j, s.Model)
		if j.what != left {
			j.row.Score = j.result.Score
		}
		topic := ""
		if j.what == scored && j.result.Topic >= 0 {
			topic = s.Model.Topics[j.result.Topic].Name
		}
		j.row.Extra = s.Schema.AddText(j.row.Extra, TopicColumn, topic)
		if err := b.Pass(&j.row); err != nil {
			return report, err
		}
		if s.Done != nil {
			s.Done()
		}
	}
	if readErr == io.EOF {
		readErr = nil
	}
	return report, readErr
}

func (r *Report) count(j *job, m *Model) {
	switch j.what {
	case duplicate:
		r.Duplicates++
	case unread:
		r.Unread++
	case scored:
		r.Scored++
		if image(j.row.MIME) {
			r.Images++
		}
		if j.result.Score >= Relevant {
			r.Relevant++
			if j.result.Topic >= 0 {
				r.Topics[m.Topics[j.result.Topic].Name]++
			}
		}
	}
}

type worker struct {
	scorer    *Scorer
	documents *extract.Documents
}

func (w *worker) score(row *record.Fetch) (what, Result, error) {
	switch {
	case !row.OfPage(), row.Outcome != record.OutcomeFetched, row.RedirectURL != "":
		return left, Result{}, nil
	case row.Duplicate && row.LastContentFP != 0 && row.ContentFP == row.LastContentFP:
		return left, Result{}, nil
	case row.Duplicate:
		return duplicate, Result{}, nil
	case row.Status < 200 || row.Status > 299:
		return nothing, Result{}, nil
	}
	doc, err := w.documents.Read(row)
	if err != nil || doc == nil {
		return nothing, Result{}, err
	}
	r, read := w.scorer.Document(doc, row.Score)
	if !read {
		return unread, Result{}, nil
	}
	return scored, r, nil
}
