package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"mercator/pkg/base/durable"
)

// stats is the content of --stats.
type stats struct {
	mu     sync.Mutex
	values map[string]any
}

// Stat adds a value to what --stats writes.
func (s *Std) Stat(key string, value any) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	if s.stats.values == nil {
		s.stats.values = map[string]any{}
	}
	s.stats.values[key] = value
}

// flagValues are all flags that apply, as text, whether the command line,
// crawl.toml or the default set them.
func flagValues(kctx *kong.Context) map[string]string {
	values := map[string]string{}
	for _, f := range kctx.Flags() {
		if f.Name != "help" && f.Name != "version" {
			values[f.Name] = ""
			if v := reflect.Indirect(f.Target); v.IsValid() { // a pointer is nil where nothing set it
				values[f.Name] = fmt.Sprint(v.Interface())
			}
		}
	}
	return values
}

// writeStats writes the --stats file: a JSON object with the command's own
// values and, of the process, flags, elapsed_s, cpu_s, peak_rss_bytes and exit_code.
func (s *Std) writeStats(started time.Time, err error) error {
	if s.Common.Stats == "" {
		return nil
	}
	s.Stat("command", s.Name)
	s.Stat("args", s.args)
	s.Stat("version", buildInfo())
	s.Stat("started", started.UTC().Format(time.RFC3339Nano))
	s.Stat("elapsed_s", time.Since(started).Seconds())
	s.Stat("exit_code", exitCode(err))
	if err != nil {
		s.Stat("error", err.Error())
	}
	if cpu, rss, known := used(); known {
		s.Stat("cpu_s", cpu.Seconds())
		s.Stat("peak_rss_bytes", rss)
	}
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	b, jerr := json.MarshalIndent(s.stats.values, "", "  ")
	if jerr != nil {
		return jerr
	}
	return durable.WriteOutput(s.Common.Stats, append(b, '\n'))
}

// startProfile begins what --profile asks for. The profile is held in memory: a
// few hundred kilobytes, whatever the command's run time.
func (s *Std) startProfile() error {
	if s.Common.Profile == "" {
		return nil
	}
	return pprof.StartCPUProfile(&s.profile)
}

// writeProfile writes the --profile file.
func (s *Std) writeProfile() error {
	if s.Common.Profile == "" {
		return nil
	}
	pprof.StopCPUProfile()
	return durable.WriteOutput(s.Common.Profile, s.profile.Bytes())
}
