package tell

import (
	"fmt"
	"io"
	"strings"

	"mercator/pkg/base/fault"
)

// StageStatus is the state of a stage.
type StageStatus struct {
	Stage string `json:"stage"`
	State string `json:"state"`           // done, ready or waits
	After string `json:"after,omitempty"` // the stage that it waits for
	Left  []int  `json:"left,omitempty"`  // shards in which the stage is to run; 0 in a crawl without shards
}

// RoundStatus is the state of a round's stages.
type RoundStatus struct {
	Round  string        `json:"round"`
	Shards int           `json:"shards"` // 0: the crawl has none
	Empty  bool          `json:"empty"`  // the frontier was empty when the round began: further rounds fetch nothing
	Stages []StageStatus `json:"stages"`
}

// table writes a line for each stage.
func (r *RoundStatus) table(w io.Writer) {
	fmt.Fprintln(w, Paint(w, StyleHeading, "round "+r.Round))
	for _, s := range r.Stages {
		line := fmt.Sprintf("  %-8s %s", s.Stage, s.State)
		if s.State == StageWaits {
			line += " for " + s.After
		}
		if s.State == StageReady && r.Shards > 0 && s.Stage != CommitStage {
			line += " in shard " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Left), " ", ","), "[]")
		}
		fmt.Fprintln(w, line)
	}
}

// Print writes it as a table, for the crawl of a folder, with the command that comes next.
func (r *RoundStatus) Print(w io.Writer, crawl string) error {
	r.table(w)
	var next []string
	for _, s := range r.Stages {
		if s.State == StageReady {
			next = []string{"mcrawl", "stage", crawl, s.Stage, "--round", r.Round}
			if r.Shards > 0 && s.Stage != CommitStage {
				next = append(next, "--shard", fmt.Sprint(s.Left[0]))
			}
		}
	}
	if r.Empty {
		_, err := fmt.Fprintln(w, "nothing is left to fetch")
		return err
	}
	if next == nil {
		return nil
	}
	_, err := fmt.Fprintln(w, "next:", Paint(w, styleCommand, fault.Quote(next...)))
	return err
}

// States of a stage.
const (
	StageDone  = "done"
	StageReady = "ready"
	StageWaits = "waits"
)

// CommitStage is the stage that closes a round. It is run once, as if by shard 0.
const CommitStage = "commit"
