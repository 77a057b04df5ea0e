package mfrontier

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/cli"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/frontier"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mfrontier": func() { os.Exit(Command.Main("")) }, "outcomes": outcomes, "records": records, "found": found, "shown": shown})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": clitest.Exits, "hosts": hosts, "resident": resident}})
}

// hosts N FILE: a URL of each of so many hosts.
func hosts(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b []byte
	for i := range n {
		b = fmt.Appendf(b, "http://h%d.example%d.test/\n", i, i%997)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

// resident FILE MIB: the command that wrote these --stats had at most so much memory.
func resident(ts *testscript.TestScript, _ bool, args []string) {
	var stats struct {
		Peak uint64 `json:"peak_rss_bytes"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &stats))
	most, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	if stats.Peak == 0 || stats.Peak > most<<20 {
		ts.Fatalf("%.1f MiB resident, want at most %d", float64(stats.Peak)/(1<<20), most)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// outcomes TXN OUTCOME stands in for the stages between next and update: it reads
// a batch and writes a fetch record with that outcome for each URL.
func outcomes() {
	r, err := record.NewReader[record.URL](os.Stdin, record.ReaderOptions{Name: "batch"})
	check(err)
	w, err := record.NewWriter[record.Fetch](os.Stdout, record.WriterOptions{Txn: os.Args[1], Now: r.Schema().Now})
	check(err)
	n := uint64(0)
	var u record.URL
	for ; ; n++ {
		err := r.Read(&u)
		if err == io.EOF {
			break
		}
		check(err)
		check(w.Write(&record.Fetch{URL: u.URL, Key: u.Key, Host: u.Host, Attempt: u.Attempt, Role: record.RolePage, Outcome: os.Args[2], Addr: "127.0.0.1", FetchTime: r.Schema().Now, DurationUS: 2000}))
	}
	_, hash, err := w.Finish()
	check(err)
	in := r.Trailer()
	l := in.Ledger
	l.Stages = append(l.Stages, record.Stage{Name: "outcomes", Txn: os.Args[1], In: n, InHash: in.Hash.String(), Passed: n, Out: n, OutHash: hash.String()})
	_, err = w.Commit(l)
	check(err)
}

// records KIND TXN [N] writes a record stream of N empty rows, or none.
func records() {
	n := 0
	var err error
	if len(os.Args) > 3 {
		n, err = strconv.Atoi(os.Args[3])
		check(err)
	}
	if os.Args[1] == "url" {
		err = empty[record.URL](os.Args[2], n)
	} else {
		err = empty[record.Link](os.Args[2], n)
	}
	check(err)
}

func empty[T record.Row](txn string, n int) error {
	w, err := record.NewWriter[T](os.Stdout, record.WriterOptions{Txn: txn})
	if err != nil {
		return err
	}
	for range n {
		if err := w.Write(new(T)); err != nil {
			return err
		}
	}
	_, hash, err := w.Finish()
	if err != nil {
		return err
	}
	_, err = w.Commit(record.Ledger{Stages: []record.Stage{{Name: "records", Txn: txn, Out: uint64(n), OutHash: hash.String()}}})
	return err
}

// found reads lines of a URL and the page it was found on, and writes url records.
func found() {
	w, err := record.NewWriter[record.URL](os.Stdout, record.WriterOptions{})
	check(err)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		u, via, _ := strings.Cut(lines.Text(), " ")
		host, _, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
		check(w.Write(&record.URL{URL: u, Host: host, Key: fingerprint.URLKey(host, u), Via: via}))
	}
	_, _, err = w.Finish()
	check(err)
	_, err = w.Commit(record.Ledger{})
	check(err)
}

// shown prints url records: the URL and the column refused, and then what the last stage refused or made.
func shown() {
	r, err := record.NewReader[record.URL](os.Stdin, record.ReaderOptions{Name: "rows"})
	check(err)
	var u record.URL
	for {
		if err := r.Read(&u); err == io.EOF {
			break
		} else {
			check(err)
		}
		fmt.Println(strings.TrimSpace(u.URL + " " + u.Extra.Text("refused")))
	}
	stages := r.Trailer().Ledger.Stages
	last := stages[len(stages)-1]
	fmt.Println(last.Name, last.Txn, "made", last.Made, "refused", last.Refused)
}

// TestDefaultPoliteness: what the flags say by default is what package frontier says.
func TestDefaultPoliteness(t *testing.T) {
	var g grammar
	parser, err := kong.New(&g, kong.Vars{"memory": ""}, kong.Bind(&cli.Std{}))
	must.OK(t, err)
	_, err = parser.Parse([]string{"next", "crawl/frontier"})
	must.OK(t, err)
	got, _, err := g.Next.politeness(g.Next.Scheme)
	if err != nil || !reflect.DeepEqual(got, frontier.DefaultPoliteness) {
		t.Errorf("%+v, want %+v", got, frontier.DefaultPoliteness)
	}
}
