package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mercator/pkg/base/must"
)

// TestOnlyFlagsBecomeSettings: the name of a file and a URL stay as they are, whatever they have in them.
func TestOnlyFlagsBecomeSettings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	must.OK(t, os.Mkdir(dir, 0o777))
	for _, name := range []string{"CURRENT", "crawl.toml"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
	}
	s := &Std{Name: "mfetch", args: []string{dir}, keys: map[string]string{"timeout": "fetch.timeout", "max-body": "fetch.max_body", "allow-net": "network.allow_net"}}
	for message, want := range map[string]string{
		"missing--timeout.arrows.zst: no file":      "",
		"http://a.test/x--timeout is no good":       "",
		"http://a.test/?--timeout":                  "",
		"'a --timeout.arrows.zst': no file":         "",
		"no --timeout-of-mine":                      "",
		"a longer --timeout, or none":               "a longer fetch.timeout, or none",
		"say (--timeout).":                          "say (fetch.timeout).",
		"it ends by --timeout.":                     "it ends by fetch.timeout.",
		"allow it: --allow-net NETWORK":             `allow it: mcrawl set ` + dir + ` network.allow_net=NETWORK`,
		"allow it: --allow-net ::1/128":             `allow it: mcrawl set ` + dir + ` network.allow_net=::1/128`,
		"allow it: --allow-net 10.0.0.1/32,::1/128": `allow it: mcrawl set ` + dir + ` network.allow_net=10.0.0.1/32,::1/128`,
		"--timeout --max-body: of both a value":     "fetch.timeout fetch.max_body: of both a value",
	} {
		t.Run(message, func(t *testing.T) {
			if want == "" {
				want = message
			}
			if got, sets := s.inSettings(message); got != want || sets != strings.Contains(want, "mcrawl set") {
				t.Errorf("%s\n becomes %s\n want    %s", message, got, want)
			}
		})
	}

	// A list that is set keeps its members: the command that the message names replaces it.
	must.OK(t, os.WriteFile(filepath.Join(dir, "crawl.toml"), []byte("[network]\nallow_net = [\"10.0.0.0/8\"]\n"), 0o666))
	want := "allow it: mcrawl set " + dir + " network.allow_net=10.0.0.0/8,::1/128"
	if got, _ := s.inSettings("allow it: --allow-net ::1/128"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
