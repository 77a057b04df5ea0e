package pipelines

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// pipe runs a line of shell in which the commands are found, and which must
// succeed.
func pipe(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Env = append(os.Environ(), "BIN="+bin, "PATH="+strings.TrimSuffix(bin, "/")+":.:"+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, stderr.String())
	}
	return string(out)
}

// TestOwnStage replaces what stands between mextract and murlset by awk. The
// books balance when the stage has a name, and mckpt verify names the gap when
// it has none.
func TestOwnStage(t *testing.T) {
	for _, named := range []bool{true, false} {
		dir := inRound2(t)
		saved := goldenCrawl + "/rounds/r2/"
		stage := "stage-awk.sh img a"
		if !named {
			stage = `mcat --format tsv | awk 'NR == 1 || !/mweb.test.*[?]/' | mcat --from tsv --kind link`
		}
		out := pipe(t, strings.NewReplacer("D", dir, "S/", saved, "F", goldenCrawl+"/fetch").Replace(`
			mresolve -q D/dns --txn r2 --replay F S/batch.arrows.zst |
			mfetch -q D/fetch --txn r2 --replay F |
			mfpset mark -q D/content --txn r2 --copy D/marked |
			mextract -q --warc F --txn r2 --copy D/links | `)+stage+strings.ReplaceAll(` |
			tee D/fewer | murlset new -q D/urls --txn r2 --copy D/new |
			mfrontier update -q D/frontier --txn r2 --outcomes D/marked --links D/links
			mckpt commit -q D --txn r2
			mcat --count D/links
			mcat --format tsv --columns link_kind D/links | grep -c -x -e img -e a
			mcat --count D/fewer
			mcat --format tsv --columns link_kind D/fewer | grep -c -x -e img -e a || true`, "D", dir))
		verify := exec.Command(bin+"mckpt", "verify", dir)
		text, err := verify.CombinedOutput()
		if named {
			var links, taken, left, missed int
			if _, err := fmt.Sscan(out, &links, &taken, &left, &missed); err != nil || taken == 0 || left == 0 || links-taken != left || missed != 0 {
				t.Errorf("links, those of the kinds, links left, those of the kinds: %q, %v", out, err)
			}
			if err != nil {
				t.Errorf("a named stage: %v\n%s", err, text)
			}
			if got := output(t, "mcat", "--trailer", dir+"/new"); !strings.Contains(got, `"drops":[{"reason":"kinds"`) || !strings.Contains(got, `"balanced":true`) {
				t.Errorf("the books of the stage: %s", got)
			}
		} else if err == nil || !strings.Contains(string(text), "gap") && !strings.Contains(string(text), "keeps no books") {
			t.Errorf("an unnamed stage: %v\n%s", err, text)
		}
	}
}
