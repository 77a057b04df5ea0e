package frontier

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
)

// ByDepth is the prioritizer that needs no program: priority is the number of links
// from a seed.
const ByDepth = "depth"

// ByScore is one more: of the front queues, a score of 1 is for the first, one of 0 for the last. URLs at depth 0 are for the first: nobody has scored
// a page that leads to them.
const ByScore = "score"

// Prioritizer says how new URLs get their priority and their score (Mercator's
// prioritizer). The zero value changes neither: a URL that was found on a page
// has the page's score, and priority 0.
type Prioritizer struct {
	// Command is "", ByDepth, ByScore, or a command for sh that gets a URL a line, as JSON with
	// the names of the record's columns, and answers each with a line "PRIORITY" or
	// "PRIORITY SCORE": 0 to 255, and a number. Without SCORE the score stays.
	Command string
	Timeout time.Duration // for an answer; 0: coprocess.DefaultTimeout
}

// askRows and askBytes bound the URLs that a program is asked for at once.
const (
	askRows  = 512
	askBytes = 256 << 10
)

// ranker gives URLs their priority, then hands them on in their order.
type ranker struct {
	Prioritizer
	program coprocess.Program
	text    *record.Text[record.URL]
	urls    []record.URL // not asked for yet
	lines   []byte       // of urls
	queues  int          // front queues of the policy
	out     func(*record.URL) error
}

// check refuses a prioritizer that a policy has no use for.
func (p Prioritizer) check(policy *policy) error {
	if p.Timeout < 0 {
		return &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("a prioritizer's answer within %v", p.Timeout), Want: "no negative time"}
	}
	ranks := func(a about) bool { return a.ranks }
	switch {
	case p.Command != "" && !policy.ranks:
		return policy.noUseFor("a prioritizer", ranks)
	case p.Command != "" && policy.priorities() == 1:
		return &fault.Error{Class: fault.Usage, Found: "a prioritizer for policy " + policy.name + " with one front queue", Want: "several front queues"}
	}
	return nil
}

// ranked makes a ranker for a policy of that many front queues. URLs go to out.
func (p Prioritizer) ranked(queues int, out func(*record.URL) error) (*ranker, error) {
	text, err := record.NewText[record.URL](nil, nil)
	if err != nil {
		return nil, err
	}
	return &ranker{Prioritizer: p, program: coprocess.Program{Command: p.Command, Timeout: p.Timeout}, text: text, queues: queues, out: out}, nil
}

// addURL takes a URL.
func (r *ranker) addURL(ctx context.Context, u *record.URL) error {
	switch r.Command {
	case ByDepth:
		u.Priority = uint8(min(u.Depth, math.MaxUint8))
		return r.out(u)
	case ByScore:
		byScore(u, r.queues)
		return r.out(u)
	case "":
		return r.out(u)
	}
	r.urls = append(r.urls, *u)
	r.lines = append(r.text.AppendJSON(r.lines, u, false), '\n')
	if len(r.urls) < askRows && len(r.lines) < askBytes {
		return nil
	}
	return r.ask(ctx)
}

// byScore gives a URL the priority of its score.
func byScore(u *record.URL, queues int) {
	if u.Priority = ScoreQueue(u.Score, queues); u.Depth == 0 {
		u.Priority = 0
	}
}

// ScoreQueue is the front queue of a score: each has an equal part of 0 to 1.
func ScoreQueue(score float32, queues int) uint8 {
	if !(score > 0) { // or not a number
		return uint8(queues - 1)
	}
	return uint8(min(int(float64(1-min(score, 1))*float64(queues)), queues-1))
}

// ask asks the program for the URLs at hand, and hands them on.
func (r *ranker) ask(ctx context.Context) error {
	name := func(k int) string { return r.urls[k].URL }
	err := r.program.Ask(ctx, r.lines, len(r.urls), name, func(k int, answer string) error {
		return parseRank(answer, &r.urls[k])
	})
	for i := 0; err == nil && i < len(r.urls); i++ {
		err = r.out(&r.urls[i])
	}
	clear(r.urls)
	r.urls, r.lines = r.urls[:0], r.lines[:0]
	return err
}

// parseRank reads an answer into u.
func parseRank(answer string, u *record.URL) error {
	fields := strings.Fields(answer)
	bad := fmt.Errorf("answer %q, want a priority of 0 to 255, and perhaps a score behind it", answer)
	if len(fields) < 1 || len(fields) > 2 {
		return bad
	}
	n, err := strconv.ParseUint(fields[0], 10, 8)
	if err != nil {
		return bad
	}
	u.Priority = uint8(n)
	if len(fields) == 2 {
		score, err := strconv.ParseFloat(fields[1], 32)
		if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
			return bad
		}
		u.Score = float32(score)
	}
	return nil
}

// rankRest hands on what is left, and waits for the program's end.
func (r *ranker) rankRest(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	return r.program.Close()
}

// close ends the program; its answers are of no use any more.
func (r *ranker) close() { r.program.Kill() }
