package frontier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/durable/crashtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/stage"
)

// addBy adds URLs with the priorities that a prioritizer gives.
func (b *bench) addBy(txn string, p Prioritizer, urls ...record.URL) (record.Stage, error) {
	spec := stage.Spec{Name: "mfrontier add", Verb: "add", Store: b.f.Store(), Txn: txn, Shape: stage.Sink}
	res, err := stage.Run(context.Background(), spec, recordtest.In(txn, urls...), nil, b.adding(AddOptions{Limits: Limits{Depth: 9}, Prioritizer: p}))
	return res.Stage, err
}

func TestPrioritizer(t *testing.T) {
	const n = 3*askRows + 7
	var urls []record.URL
	for i := range n {
		u := newURL(fmt.Sprintf("h%d.test", i%5), fmt.Sprintf("%d?\"quoted\"", i), 1)
		u.Depth, u.Score = uint16(i%11), float32(i)
		urls = append(urls, u)
	}
	for name, c := range map[string]struct {
		command  string
		priority func(i int) uint8
		score    func(i int) float32
	}{
		"none":    {"", func(int) uint8 { return 1 }, func(i int) float32 { return float32(i) }},
		"depth":   {ByDepth, func(i int) uint8 { return uint8(i % 11) }, func(i int) float32 { return float32(i) }},
		"program": {`sed -u -E 's/.*"depth":([0-9]+).*/\1/'`, func(i int) uint8 { return uint8(i % 11) }, func(i int) float32 { return float32(i) }},
		// It sees the score of the page that the URL was found on.
		"score": {`sed -u -E 's/.*"score":([0-9]+).*/2 \10.5/'`, func(int) uint8 { return 2 }, func(i int) float32 { return float32(10*i) + 0.5 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true, Queues: 16}})
			ledger, err := b.addBy("seed", Prioritizer{Command: c.command}, urls...)
			must.OK(t, err)
			deep := uint64(n / 11)
			if ledger.In != n || ledger.Consumed != n-deep || fmt.Sprint(ledger.Drops) != fmt.Sprintf("[{%s %d}]", dropDepth, deep) {
				t.Errorf("ledger: %+v", ledger)
			}
			batch, err := b.next(1, NextOptions{N: n, Txn: "r1"})
			if err != nil || len(batch) != int(n-deep) {
				t.Fatal(len(batch), err)
			}
			number := map[string]int{}
			for i, u := range urls {
				number[u.URL] = i
			}
			for _, u := range batch {
				if i := number[u.URL]; u.Priority != c.priority(i) || u.Score != c.score(i) {
					t.Fatalf("%s: priority %d, score %v, want %d and %v", u.URL, u.Priority, u.Score, c.priority(i), c.score(i))
				}
			}
		})
	}
}

// The relevant URLs are served first, in queues of equal parts; seeds before all.
func TestByScore(t *testing.T) {
	for _, c := range []struct {
		score float32
		want  uint8
	}{{1, 0}, {2, 0}, {0.76, 0}, {0.74, 1}, {0.5, 2}, {0.26, 2}, {0.24, 3}, {0, 3}, {-1, 3}, {float32(math.NaN()), 3}, {float32(math.Inf(1)), 0}} {
		t.Run(fmt.Sprint(c.score), func(t *testing.T) {
			if got := ScoreQueue(c.score, 4); got != c.want {
				t.Errorf("score %v: queue %d, want %d", c.score, got, c.want)
			}
		})
	}
	b := open(t, crashtest.New(), Params{Priority: Priority{Strict: true, Queues: 4}})
	var urls []record.URL
	for i, score := range []float32{0.1, 0.9, 0.6, 0.3} {
		u := newURL(fmt.Sprintf("h%d.test", i), fmt.Sprint(i), 1)
		u.Depth, u.Score = 1, score
		urls = append(urls, u)
	}
	seed := newURL("seed.test", "seed", 1)
	_, err := b.addBy("seed", Prioritizer{Command: ByScore}, append(urls, seed)...)
	must.OK(t, err)
	batch, err := b.next(1, NextOptions{N: 9, Txn: "r1"})
	must.OK(t, err)
	var got []string
	for _, u := range batch {
		got = append(got, fmt.Sprint(u.Host, " ", u.Priority))
	}
	if want := "[h1.test 0 seed.test 0 h2.test 1 h3.test 2 h0.test 3]"; fmt.Sprint(got) != want && fmt.Sprint(got) != strings.Replace(want, "h1.test 0 seed.test 0", "seed.test 0 h1.test 0", 1) {
		t.Errorf("%v, want %s", got, want)
	}
}

// A program that fails is one error, and nothing has changed; then the same goes on without it.
func TestPrioritizerFails(t *testing.T) {
	b := open(t, crashtest.New(), Params{})
	var urls []record.URL
	for i := range 2 * askRows {
		urls = append(urls, newURL("a.test", fmt.Sprint(i), 0))
	}
	for command, want := range map[string]string{
		"sed -u -e s/.*/1/ -e 700q":               "it ended without an answer, asked for http://a.test/700", // in the second batch
		"cat > /dev/null":                         "no answer for 300ms, asked for http://a.test/0",
		"sed -u s/.*/256/":                        `answer "256", want a priority of 0 to 255`,
		"sed -u s/.*/-1/":                         "want a priority",
		"sed -u s/.*//":                           "want a priority",
		"sed -u 's/.*/1 NaN/'":                    "want a priority",
		"sed -u 's/.*/1 2 3/'":                    "want a priority",
		"sed -u 's/.*/1\\n1/'":                    "more answers than questions",
		"sed -u s/.*/1/; echo 1":                  "more answers than questions",
		"sed -u s/.*/1/; echo why >&2; exit 3":    "it ended with exit status 3",
		"echo cannot read my rules >&2; exit 127": "it ended without an answer",
	} {
		t.Run(command, func(t *testing.T) {
			timeout := time.Minute // a busy machine is slow to start and to end programs
			if strings.Contains(want, "300ms") {
				timeout = 300 * time.Millisecond
			}
			_, err := b.addBy("seed", Prioritizer{Command: command, Timeout: timeout}, urls...)
			if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.Program) {
				t.Errorf("%s: %v, want %q", command, err, want)
			}
			if c := b.counts(); c.Discovered != 0 {
				t.Fatalf("%s: %+v", command, c)
			}
		})
	}
	_, err := b.addBy("seed", Prioritizer{}, urls...)
	must.OK(t, err)
	// Repeated, it is not asked again.
	if _, err := b.addBy("seed", Prioritizer{Command: "exit 1"}, urls...); err != nil {
		t.Error(err)
	}
	b.check()
}

func TestPrioritizerRefusals(t *testing.T) {
	for _, p := range []Params{{Policy: dynamic}, {Policy: fifo}, {Priority: Priority{Queues: 1}}} {
		t.Run("policy "+p.Policy, func(t *testing.T) {
			b := open(t, crashtest.New(), p)
			if _, err := b.addBy("seed", Prioritizer{Command: ByDepth}); !errors.Is(err, fault.Usage) {
				t.Errorf("%+v: %v", p, err)
			}
		})
	}
	b := open(t, crashtest.New(), Params{})
	if _, err := b.addBy("seed", Prioritizer{Command: "cat", Timeout: -1}); !errors.Is(err, fault.Usage) {
		t.Error(err)
	}
}
