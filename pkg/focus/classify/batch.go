package classify

import (
	"context"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/extract"
	"mercator/pkg/web/process"
)

// TopicColumn is the further column of fetch rows that has the document's topic.
const TopicColumn = "topic"

// Settings say how a batch is scored.
type Settings struct {
	Model   *Model
	Learned *Learned // of the batches before; the batch's pages are added, if not Taught
	Taught  bool     // the pages are those of the batches before
	Archive string   // fetch store with the WARC files
	MaxBody int64    // bytes of a decoded body; 0: extract.DefaultMaxBody
	Threads int      // 0: 1
	// Schema is the schema of the output: the input's, with TopicColumn (record.Schema.WithText).
	Schema *record.Schema
	Done   func() // after each row; may be nil
}

// Report has the counts of a batch that the ledger does not have.
type Report struct {
	Scored     uint64            `json:"scored"`               // documents
	Promised   uint64            `json:"promised,omitempty"`   // documents without text, which have the score that links promised
	Relevant   uint64            `json:"relevant"`             // Scored and Promised with a score of Relevant or more
	Topics     map[string]uint64 `json:"topics,omitempty"`     // relevant documents by topic
	Duplicates uint64            `json:"duplicates,omitempty"` // documents that were not scored, as duplicates
}

// Rows is a stage.Batch from fetch to fetch rows.
type Rows interface {
	Read(*record.Fetch) error
	Pass(*record.Fetch) error
}

// bodiesInFlight bounds the bodies, in bytes, of rows on their way.
const bodiesInFlight = 8 << 20

type job struct {
	row   record.Fetch
	cost  int64
	words Words
	what  what
	err   error
	done  chan struct{}
}

// what became of a row.
type what int

const (
	left      what = iota // its score and topic stay: there is no document, and may be one later or elsewhere
	nothing               // no document that counts: its score is 0
	duplicate             // of a document that was scored
	textless              // a document without text
	scored
)

// Batch scores all rows of a batch. They go out in their order, whatever the number of threads:
//
//	pages that were fetched (2xx)          score and topic of the document
//	documents without text, images         score that links promised, topic of the page that they were found on, or else of their name
//	duplicates                             score 0, no topic: the first of them was scored
//	style sheets, scripts, fonts           score 0: nobody looks for them
//	other replies, and those without body  score 0
//	not fetched, redirects, robots.txt     the score stays that of the page they were found on, for another attempt and for the target
//	fetched again, and as before           the score stays
//
// All rows are read before the first goes out: the batch's own pages are a part of what is learned. It ends with the first error; an archive that is damaged
// is one, a document is not.
func Batch(ctx context.Context, b Rows, s Settings) (Report, error) {
	s.Threads = max(s.Threads, 1)
	report := Report{Topics: make(map[string]uint64)}
	spool, err := durable.TempFile("")
	if err != nil {
		return report, err
	}
	defer spool.Close()
	rows, err := record.NewWriter[record.Fetch](spool, record.WriterOptions{Name: "temporary file", Level: record.Stored, Like: s.Schema})
	if err != nil {
		return report, err
	}
	l := s.Learned
	err = s.each(ctx, b.Read, func(j *job) error {
		if j.what == scored && !s.Taught {
			l.Add(fingerprint.OfString(j.row.URL), j.row.Score, j.words)
			if len(l.Pool) > poolRoom {
				s.Model.Fit(l)
			}
		}
		return rows.Write(&j.row)
	})
	if err != nil {
		return report, err
	}
	if _, err := rows.Commit(record.Ledger{}); err != nil {
		return report, err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return report, err
	}
	again, err := record.NewReader[record.Fetch](spool, record.ReaderOptions{Name: "temporary file"})
	if err != nil {
		return report, err
	}
	l.countEarly()
	scorer, unlike := NewScorer(s.Model.Fit(l)), l.tally()
	err = s.each(ctx, again.Read, func(j *job) error {
		topic := ""
		switch j.what {
		case scored:
			words, v := scorer.tellingWords(slices.Clone(j.words))
			r := scorer.result(len(words), v, j.row.Score)
			if j.row.Score = r.Score; r.Topic >= 0 {
				topic = s.Model.Topics[r.Topic].Name
				l.lead(j.row.URL, topic)
			}
			if r.Topic < 0 {
				unlike.add(j.words)
			}
			report.Scored++
		case textless:
			if j.row.Score >= Relevant {
				if topic = l.led(j.row.Via, s.Model); topic == "" {
					topic = scorer.named(process.FileName(j.row.URL))
				}
			}
			report.Promised++
		case duplicate:
			report.Duplicates++
			j.row.Score = 0
		case nothing:
			j.row.Score = 0
		}
		if topic != "" {
			report.Relevant++
			report.Topics[topic]++
		}
		j.row.Extra = s.Schema.AddText(j.row.Extra, TopicColumn, topic)
		if err := b.Pass(&j.row); err != nil {
			return err
		}
		if s.Done != nil {
			s.Done()
		}
		return nil
	})
	unlike.count()
	return report, err
}

// each calls take for each row with the words of its document, in their order, which threads read.
func (s Settings) each(ctx context.Context, read func(*record.Fetch) error, take func(*job) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bodies := semaphore.NewWeighted(bodiesInFlight)
	todo, order := make(chan *job, 2*s.Threads), make(chan *job, 2*s.Threads)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel() // before it is waited for
	for range s.Threads {
		workers.Go(func() {
			w := worker{documents: extract.NewDocuments(s.Archive, s.MaxBody), stem: stemmer{forms: s.Model.Forms}}
			defer w.documents.Close()
			for {
				select {
				case j, ok := <-todo:
					if !ok {
						return
					}
					j.what, j.words, j.err = w.read(&j.row)
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
			if readErr = read(&j.row); readErr != nil {
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
	for j := range order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if j.err != nil {
			return j.err
		}
		if err := take(j); err != nil {
			return err
		}
	}
	if readErr == io.EOF {
		readErr = nil
	}
	return readErr
}

type worker struct {
	documents *extract.Documents
	stem      stemmer
}

func (w *worker) read(row *record.Fetch) (what, Words, error) {
	switch {
	case !row.OfPage(), row.Outcome != record.OutcomeFetched, row.RedirectURL != "":
		return left, nil, nil
	case row.Duplicate && row.LastContentFP != 0 && row.ContentFP == row.LastContentFP:
		return left, nil, nil
	case row.Duplicate:
		return duplicate, nil, nil
	case row.Status < 200 || row.Status > 299:
		return nothing, nil, nil
	}
	doc, err := w.documents.Read(row)
	if err != nil || doc == nil {
		return nothing, nil, err
	}
	if pagePart(doc.MIME) {
		return nothing, nil, nil
	}
	texts, read := ReadTexts(doc)
	if !read {
		return textless, nil, nil
	}
	return scored, texts.words(&w.stem), nil
}
