package extract

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"mercator/formats/record"
	"mercator/pkg/web/filter"
	"mercator/pkg/web/process"
)

// DefaultMaxBody bounds a document's decoded body, in bytes: as mfetch --max-body does. With
// it documents made to cost memory take mextract to some 58 of its 64 MiB.
const DefaultMaxBody = 10 << 20

// manyFailures is after how many documents of a batch a module that fails on them is told of before the end.
const manyFailures = 10

// Settings say how a batch is extracted. The zero value takes bodies from the
// rows, filters nothing and runs no modules.
type Settings struct {
	Links      Options
	Filter     *filter.Filter     // nil: every URL is wanted
	Modules    []process.Selected // processing modules
	Duplicates bool               // extract documents that are marked duplicate, too; style sheets are in any case
	Archive    string             // fetch store with the WARC files; "": rows have their bodies, as those of WARCInput do
	MaxBody    int64              // bytes of a decoded body; 0: DefaultMaxBody
	Threads    int                // workers; 0: 1
	Alone      bool               // the process does nothing else: memory of a large document goes back to the system after it
	Raw        bool               // links stay as they are written, for Resolve: see BaseColumn

	WARC *WARCInput // what Rows reads, where that is WARC files: it has the headers; nil: those are read from Archive

	// Finding takes what modules report, in the order of the rows; nil without
	// modules.
	Finding func(*record.Module) error
	// Failing is told of a module that has failed on manyFailures documents, with the report so far; may be nil.
	Failing func(module string, report Report)
	// Refused takes the links that are refused, in the order of the rows: link rows with the column "refused" (RefusedColumn).
	// It has the name of the filter's rule, or the ledger's reason. nil: nobody wants them.
	Refused func(*record.Link) error
	// Score makes, for each thread once its first row is there, what gives a link its score by that of its page and the link's text. nil: it has the page's.
	Score func() (func(page float32, text string) float32, error)
	// Done is called after each row; may be nil.
	Done func()
}

// RefusedColumn is the further column of rows of refused links.
var RefusedColumn = record.NewSchema(record.KindLink, record.Column{Name: "refused", Text: true})

// Rows is a stage.Batch from fetch to link rows.
type Rows interface {
	Read(*record.Fetch) error
	Make(reason string, row *record.Link) error
	Drop(reason string)
	Consume()
	Refuse(reason string, n uint64)
}

// Report has the counts of a batch that the ledger does not have.
type Report struct {
	Bytes          uint64            `json:"body_bytes"`                // of bodies searched
	Cut            map[string]uint64 `json:"bodies_cut,omitempty"`      // not searched to the end, by reason
	ModuleFailures map[string]uint64 `json:"module_failures,omitempty"` // documents, by module
	FirstFailures  map[string]string `json:"-"`                         // the first of these documents, and why, by module
	ModuleEnds     map[string]string `json:"module_ends,omitempty"`     // errors of resident programs when they had to end, by module
}

// Reasons why a document is not searched to its end, beside the values of the column
// truncated. In the ledger they are refusals with the prefix "cut-".
const (
	CutMaxBody = "max-body" // the document is longer than Settings.MaxBody
	CutTag     = "tag"      // the search ended at a token that is too long
)

// bodiesInFlight bounds the bodies, in bytes, of rows on their way: many pages of a
// usual size, and one at a time of the longest. Finding its links takes about three
// times as much memory as a body.
const bodiesInFlight = 8 << 20

// chunkRows bounds the links that wait for their turn in one piece.
const chunkRows = 256

// chunks has the memory of chunks that were written.
var chunks = sync.Pool{New: func() any { return new([]record.Link) }}

// job is one row on its way through a worker. Its output comes in chunks, so that
// a page with very many links does not wait in memory as a whole.
type job struct {
	row    record.Fetch
	header http.Header
	cost   int64      // the document's part of bodiesInFlight
	chunks chan chunk // the last one has the ending
}

type chunk struct {
	links    []record.Link
	refused  []record.Link
	findings []record.Module
	end      *ending // with the last chunk
}

// ending has what becomes of the row itself.
type ending struct {
	drop    string // reason; "": consumed
	refused map[string]uint64
	failed  map[string]string // why, by module
	bytes   int
	cut     string // why the document was not searched to its end; ""
	err     error
}

// Batch extracts links, and findings of modules, from all rows of a batch. Rows
// come out in the order of the input whatever the number of threads. It ends with
// the first error; an archive that is damaged is one, a page that is not.
//
//	robots rows      consumed; links to the sitemaps they name, at depth 1
//	redirects        consumed; one link to the target, at the row's own depth
//	not fetched      dropped, by outcome
//	other status     dropped, "status-4xx"
//	duplicates       dropped, "duplicate", unless Settings.Duplicates; style sheets are
//	                 searched all the same, but not by modules
//	without a body   dropped, "no-body", unless their header has links
//	denied by a rule for documents   dropped, "filter:NAME" of the rule
//	pages            consumed; their links, at the row's depth + 1, but at its own depth where hopOf says so
func Batch(ctx context.Context, b Rows, s Settings) (Report, error) {
	if s.MaxBody <= 0 {
		s.MaxBody = DefaultMaxBody
	}
	s.Threads = max(s.Threads, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	window := 2 * s.Threads
	// Rows take their part in the order of the input, so that the row which the output
	// waits for has always got its part.
	bodies := semaphore.NewWeighted(bodiesInFlight)
	todo := make(chan *job, window)
	order := make(chan *job, window)
	var workers sync.WaitGroup
	type closing struct {
		modules map[string]error
		err     error
	}
	closed := make(chan closing, s.Threads)
	for range s.Threads {
		workers.Go(func() {
			w := newWorker(s)
			defer func() {
				modules, err := w.close()
				closed <- closing{modules, err}
			}()
			for {
				select {
				case j, ok := <-todo:
					if !ok {
						return
					}
					w.run(ctx, j, bodies)
				case <-ctx.Done():
					return
				}
			}
		})
	}

	var readErr error // set before order is closed
	go func() {
		defer close(order)
		defer close(todo)
		for {
			j := &job{chunks: make(chan chunk, 1)}
			reserved := int64(0)
			if s.WARC != nil { // the row brings its body, however long
				reserved = bodiesInFlight * 3 / 4
			}
			if readErr = bodies.Acquire(ctx, reserved); readErr != nil {
				return
			}
			if err := b.Read(&j.row); err != nil {
				if err != io.EOF {
					readErr = err
				}
				return
			}
			if s.WARC != nil {
				j.header = s.WARC.Header()
			}
			j.cost = min(max(int64(len(j.row.Body)), min(j.row.BodyLength, s.MaxBody)), bodiesInFlight)
			if readErr = bodies.Acquire(ctx, max(j.cost-reserved, 0)); readErr != nil {
				return
			}
			bodies.Release(max(reserved-j.cost, 0))
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

	report := Report{Cut: make(map[string]uint64), ModuleFailures: make(map[string]uint64), FirstFailures: make(map[string]string), ModuleEnds: make(map[string]string)}
	for j := range order {
		if err := settle(ctx, b, s, j, &report); err != nil {
			// Workers end at once. The reader may be waiting for a pipe, and ends
			// when that does.
			cancel()
			workers.Wait()
			return report, err
		}
	}
	workers.Wait()
	for range s.Threads {
		c := <-closed
		if readErr == nil {
			readErr = c.err
		}
		for name, err := range c.modules {
			report.ModuleEnds[name] = err.Error()
		}
	}
	return report, readErr
}

// settle writes the output of one row and enters it in the ledger.
func settle(ctx context.Context, b Rows, s Settings, j *job, report *Report) error {
	for {
		var c chunk
		select {
		case c = <-j.chunks:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i := range c.links {
			if err := b.Make(c.links[i].LinkKind, &c.links[i]); err != nil {
				return err
			}
		}
		for i := range c.refused {
			if err := s.Refused(&c.refused[i]); err != nil {
				return err
			}
		}
		for _, rows := range [][]record.Link{c.links, c.refused} {
			if cap(rows) > 0 {
				clear(rows)
				chunks.Put(&rows)
			}
		}
		for i := range c.findings {
			if err := s.Finding(&c.findings[i]); err != nil {
				return err
			}
		}
		e := c.end
		if e == nil {
			continue
		}
		if e.err != nil {
			return e.err
		}
		for _, reason := range slices.Sorted(maps.Keys(e.refused)) { // the ledger may not hold all
			b.Refuse(reason, e.refused[reason])
		}
		for _, m := range slices.Sorted(maps.Keys(e.failed)) {
			if report.ModuleFailures[m]++; report.ModuleFailures[m] == 1 {
				report.FirstFailures[m] = j.row.URL + ": " + e.failed[m]
			}
			if report.ModuleFailures[m] == manyFailures && s.Failing != nil {
				s.Failing(m, *report)
			}
		}
		report.Bytes += uint64(e.bytes)
		if e.cut != "" {
			report.Cut[e.cut]++
			b.Refuse("cut-"+e.cut, 1)
		}
		if e.drop != "" {
			b.Drop(e.drop)
		} else {
			b.Consume()
		}
		if s.Done != nil {
			s.Done()
		}
		return nil
	}
}
