package mresolve

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
	"mercator/pkg/folder/shard"
	"mercator/pkg/resolve"
	"mercator/pkg/web/canon"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mresolve": func() { os.Exit(Command.Main("")) }})
}

// TestScripts runs testdata/script with two name servers on loopback: $DNS, and
// $MUTE, which never answers. In $DNS aN.test has the address 127.0.0.N, cN.test and www.aN.test are aliases of that,
// anything else does not exist.
func TestScripts(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		asked := strings.ToLower(q.Question[0].Name)
		name := strings.Replace(asked, "www.a", "c", 1)
		if len(name) == len("a1.test.") && (name[0] == 'a' || name[0] == 'c') && name[2:] == ".test." {
			if name[0] == 'c' {
				m.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: asked, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 3600}, Target: "a" + name[1:]}}
				name = "a" + name[1:]
			}
			if q.Question[0].Qtype == dns.TypeA {
				m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(127, 0, 0, name[1]-'0')})
			}
		} else {
			m.Rcode = dns.RcodeNameError
		}
		if err := w.WriteMsg(m); err != nil {
			t.Log(err)
		}
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { s.Shutdown() })
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { mute.Close() })
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"links": func(ts *testscript.TestScript, _ bool, args []string) { links(ts, args[0], args[1]) },
			"rows":  func(ts *testscript.TestScript, _ bool, args []string) { rows(ts, args[0], args[1]) },
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("DNS", pc.LocalAddr().String())
			e.Setenv("MUTE", mute.LocalAddr().String())
			return nil
		},
	})
}

// links makes a stream of link records, one of each URL that stands on a line.
func links(ts *testscript.TestScript, from, to string) {
	out, err := os.Create(ts.MkAbs(to))
	ts.Check(err)
	defer out.Close()
	w, err := record.NewWriter[record.Link](out, record.WriterOptions{})
	ts.Check(err)
	for i, line := range strings.Fields(ts.ReadFile(from)) {
		url, host, err := canon.URL(line)
		ts.Check(err)
		ts.Check(w.Write(&record.Link{URL: url, Host: host, Key: fingerprint.URLKey(host, url), Text: strconv.Itoa(i), LinkKind: "a"}))
	}
	_, err = w.Commit(record.Ledger{})
	ts.Check(err)
}

// rows writes number, URL, host and alias of each link of a stream.
func rows(ts *testscript.TestScript, from, to string) {
	in, err := os.Open(ts.MkAbs(from))
	ts.Check(err)
	defer in.Close()
	r, err := record.NewReader[record.Link](in, record.ReaderOptions{})
	ts.Check(err)
	var out strings.Builder
	for {
		var l record.Link
		if err := r.Read(&l); err == io.EOF {
			break
		} else {
			ts.Check(err)
		}
		if l.Key != fingerprint.URLKey(l.Host, l.URL) {
			ts.Fatalf("%s has the key of another", l.URL)
		}
		fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprint(l.Text, " ", l.URL, " ", l.Host, " ", l.Extra.Text(resolve.AliasColumn))))
	}
	ts.Check(os.WriteFile(ts.MkAbs(to), []byte(out.String()), 0o666))
}

// TestRateOfShard: what the shards of a crawl ask together keeps to the rate.
func TestRateOfShard(t *testing.T) {
	dir := t.TempDir()
	m, err := shard.New(4)
	must.OK(t, err)
	data, err := m.Encode()
	must.OK(t, err, os.WriteFile(shard.File(dir, 1), data, 0o666), store.CreateCurrent(durable.OS, dir, 1))
	for _, c := range []struct {
		dns        string
		rate, want float64
	}{{"shard/002/dns", 200, 50}, {"shard/002/dns", 0, 0}, {"shard/002/dns", 0.001, 0.001}, {"dns", 200, 200}} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			if got, err := ofShard(filepath.Join(dir, c.dns), c.rate); got != c.want || err != nil {
				t.Errorf("%s, rate %v: %v, %v, want %v", c.dns, c.rate, got, err, c.want)
			}
		})
	}
}
