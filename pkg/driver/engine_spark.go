package driver

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
)

// spark runs tasks in one application of Spark, spark.py. It lives as long as the driver, since its start takes
// longer than most stages.
type spark struct {
	tasks
	app     *exec.Cmd // nil: not started
	in      io.WriteCloser
	answers chan []byte // closed at its end
	ended   chan error
	busy    bool // a stage runs
}

// maxAnswer bounds a line of spark.py, in bytes. A stage that failed in all shards takes some hundred bytes a shard.
const maxAnswer = 16 << 20

//go:embed spark.py
var sparkProgram []byte

// sparkStage is a stage as spark.py reads it.
type sparkStage struct {
	Command []string `json:"command"` // without the number of a shard
	Log     string   `json:"log"`
	Shards  []int    `json:"shards"`
}

// sparkAnswer is a line from spark.py.
type sparkAnswer struct {
	Error  string
	Failed []struct {
		Shard, Code int
		Node, Why   string
	}
}

func (s *spark) runStage(ctx context.Context, round, stage string, shards []int) (list []failed, err error) {
	if err := s.beginLogs(round); err != nil {
		return nil, err
	}
	if s.app == nil {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	s.d.opt.Reporter.Tasks(stage, map[string]uint64{"with Spark": uint64(len(shards))})
	line, err := json.Marshal(sparkStage{s.command(round, stage), s.log(round, stage, "%a"), shards})
	if err != nil {
		return nil, err
	}
	_, _ = s.in.Write(append(line, '\n')) // it fails if the application has ended, which the answer tells
	s.busy = true
	var answer sparkAnswer
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case line, more := <-s.answers:
		if !more {
			found, _, _ := lastWords(s.appLog())
			return nil, &fault.Error{File: "pyspark", Found: fmt.Sprintf("ended (%v): %s", <-s.ended, found), Hint: "its log is " + s.appLog() + "; engine.args in crawl.toml has its options"}
		}
		s.busy = false
		if err := json.Unmarshal(line, &answer); err != nil {
			return nil, &fault.Error{File: "pyspark", Found: fmt.Sprintf("the answer %.200q", line), Want: "JSON", Err: err}
		}
	}
	for _, f := range answer.Failed {
		list = append(list, failed{f.Shard, f.Node, max(f.Code, 0), f.Why})
	}
	if answer.Error != "" {
		for _, n := range shards {
			list = append(list, failed{shard: n, why: answer.Error})
		}
	}
	return list, nil
}

// appLog returns the path of the application's log.
func (s *spark) appLog() string { return filepath.Join(s.dir, logsDir, "spark.log") }

// start starts the application. Its program stays beside the logs.
func (s *spark) start() error {
	program := filepath.Join(s.dir, logsDir, "spark.py")
	if err := os.WriteFile(program, sparkProgram, 0o666); err != nil {
		return err
	}
	log, err := os.Create(s.appLog())
	if err != nil {
		return err
	}
	defer log.Close()
	s.app = exec.Command("pyspark", s.args...)
	s.app.Env = append(os.Environ(), "PYSPARK_DRIVER_PYTHON_OPTS="+fault.Quote(program))
	s.app.Stderr, s.app.SysProcAttr = log, coprocess.EndWithUs() // Ctrl-C is for the driver
	if s.in, err = s.app.StdinPipe(); err != nil {
		return err
	}
	out, err := s.app.StdoutPipe()
	if err != nil {
		return err
	}
	s.answers, s.ended = make(chan []byte), make(chan error, 1)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // see coprocess.EndWithUs
		defer runtime.UnlockOSThread()
		err := s.app.Start()
		if started <- err; err != nil {
			return
		}
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, maxAnswer)
		for lines.Scan() {
			if line := lines.Bytes(); len(line) > 0 && line[0] == '{' {
				s.answers <- append([]byte(nil), line...)
			}
		}
		if lines.Err() != nil {
			_ = s.in.Close() // it ends
			_, _ = io.Copy(io.Discard, out)
		}
		s.ended <- s.app.Wait()
		close(s.answers)
	}()
	return <-started
}

// close ends the application, with whatever it runs.
func (s *spark) close() {
	if s.app == nil || s.app.Process == nil {
		return
	}
	wait := 5 * time.Second
	_ = s.in.Close() // its end, if nothing runs
	if s.busy {
		wait = 0
	}
	ended := make(chan struct{})
	go func() {
		for range s.answers { // to tasks that are given up
		}
		close(ended)
	}()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-ended:
			return
		case <-time.After(wait):
			wait = 5 * time.Second
			_ = coprocess.SignalGroup(s.app.Process, signal)
		}
	}
}
