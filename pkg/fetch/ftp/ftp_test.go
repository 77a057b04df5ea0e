package ftp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
)

// server is an FTP server without sockets. It does what a good one does, except as say
// and data have it.
type server struct {
	files    map[string]string // by path
	listings map[string]string // by path of the directory, without slash
	say      map[string]string // answers, by command; "": the greeting
	hello    func(net.Conn)    // instead of all talk; nil: none
	data     func(net.Conn, string)

	mu     sync.Mutex
	log    []string // commands
	dialed []string
	wire   net.Conn // for data
}

func (s *server) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed = append(s.dialed, addr)
	client, own := net.Pipe()
	switch addr {
	case "127.0.0.1:21":
		go s.control(own)
	case "127.0.0.1:2001":
		s.wire = own
	default: // nobody answers
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return client, nil
}

// send brings text over the data connection.
func (s *server) send(text string) {
	s.mu.Lock()
	c := s.wire
	s.mu.Unlock()
	if s.data != nil {
		s.data(c, text)
		return
	}
	io.WriteString(c, text)
	c.Close()
}

func (s *server) control(c net.Conn) {
	defer c.Close()
	if s.hello != nil {
		s.hello(c)
		return
	}
	write := func(command, answer string) {
		if other, ok := s.say[command]; ok {
			answer = other
		}
		io.WriteString(c, answer)
	}
	write("", "220-Welcome\r\n220 to the server\r\n")
	dir := ""
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		s.log = append(s.log, line)
		s.mu.Unlock()
		command, arg, _ := strings.Cut(line, " ")
		path := dir + "/" + arg
		if strings.HasPrefix(arg, "/") {
			path = arg
		}
		switch command {
		case "USER":
			write(command, "331 password\r\n")
		case "PASS":
			write(command, "230 in\r\n")
		case "TYPE":
			write(command, "200 ok\r\n")
		case "CWD":
			if _, ok := s.listings[path]; !ok {
				write(command, "550 no such directory\r\n")
				continue
			}
			dir = path
			write(command, "250 ok\r\n")
		case "EPSV":
			write(command, "229 Entering (|||2001|)\r\n")
		case "PASV":
			write(command, "227 Entering Passive Mode (127,0,0,1,7,209).\r\n")
		case "RETR", "MLSD", "LIST":
			text, ok := s.files[path]
			if command != "RETR" {
				text, ok = s.listings[dir]
			}
			if _, told := s.say[command]; !ok || told {
				write(command, "550 no such file\r\n")
				continue
			}
			io.WriteString(c, "150 here it comes\r\n")
			s.send(text)
			write("226", "226 done\r\n")
		case "QUIT":
			return
		default:
			write(command, "502 what\r\n")
		}
	}
}

func get(t *testing.T, s *server, url string, change func(*Module)) (reply *fetch.Reply, body string) {
	t.Helper()
	return getIf(t, s, &fetch.Request{URL: url}, change)
}

func getIf(t *testing.T, s *server, req *fetch.Request, change func(*Module)) (reply *fetch.Reply, body string) {
	t.Helper()
	req.Host, req.Addr = "h.test", netip.MustParseAddr("127.0.0.1")
	synctest.Test(t, func(t *testing.T) {
		m := &Module{Limits: fetch.Limits{Dial: s.dial, Guard: addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}, Password: "me@test"}
		m.TempDir = t.TempDir()
		if change != nil {
			change(m)
		}
		start := time.Now()
		reply = m.Fetch(context.Background(), req)
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("the contact took %v", d)
		}
		if reply.Err != nil {
			t.Errorf("an error of this machine: %v", reply.Err)
		}
		if reply.Response != nil {
			b, err := io.ReadAll(reply.Response)
			if err != nil {
				t.Error(err)
			}
			body = string(b)
			reply.Memory.Close()
		}
	})
	return reply, body
}

func site() *server {
	return &server{
		files:    map[string]string{"/a.txt": "text of a", "/pub/b c.bin": "\x00\x01", "/etc/motd": "hi"},
		listings: map[string]string{"": "type=file; a.txt\r\n", "/pub": "type=file; b c.bin\r\n", "/etc": ""},
	}
}

func TestGoodServer(t *testing.T) {
	for _, c := range []struct {
		name, url, body, media string
		status                 int
		say                    map[string]string
		commands               string
	}{
		{"file", "ftp://h.test/a.txt", "text of a", "application/octet-stream", 0, nil, "USER anonymous|PASS me@test|TYPE I|SIZE a.txt|MDTM a.txt|EPSV|RETR a.txt|QUIT"},
		{"file in a directory", "ftp://h.test/pub/b%20c.bin", "\x00\x01", "application/octet-stream", 0, nil, "USER anonymous|PASS me@test|CWD pub|TYPE I|SIZE b c.bin|MDTM b c.bin|EPSV|RETR b c.bin|QUIT"},
		{"absolute", "ftp://h.test/%2Fetc/motd", "hi", "application/octet-stream", 0, nil, "USER anonymous|PASS me@test|CWD /etc|TYPE I|SIZE motd|MDTM motd|EPSV|RETR motd|QUIT"},
		{"root", "ftp://h.test/", "type=file; a.txt\r\n", ListingType, 0, nil, "USER anonymous|PASS me@test|TYPE A|EPSV|MLSD|QUIT"},
		{"type d", "ftp://h.test/pub;type=d", "type=file; b c.bin\r\n", ListingType, 0, nil, "USER anonymous|PASS me@test|CWD pub|TYPE A|EPSV|MLSD|QUIT"},
		{"LIST", "ftp://h.test/pub/", "type=file; b c.bin\r\n", ListingType, 0, map[string]string{"MLSD": "500 what\r\n"},
			"USER anonymous|PASS me@test|CWD pub|TYPE A|EPSV|MLSD|EPSV|LIST|QUIT"},
		{"PASV", "ftp://h.test/a.txt", "text of a", "application/octet-stream", 0, map[string]string{"EPSV": "500 what\r\n"}, "USER anonymous|PASS me@test|TYPE I|SIZE a.txt|MDTM a.txt|EPSV|PASV|RETR a.txt|QUIT"},
		{"no password asked for", "ftp://h.test/a.txt", "text of a", "application/octet-stream", 0, map[string]string{"USER": "230 in\r\n"}, "USER anonymous|TYPE I|SIZE a.txt|MDTM a.txt|EPSV|RETR a.txt|QUIT"},
		{"not found", "ftp://h.test/x", "", "", 404, nil, ""},
		{"no such directory", "ftp://h.test/x/", "", "", 404, nil, ""},
		{"directory without slash", "ftp://h.test/pub", "", "", 301, nil, ""},
		{"directory of a type", "ftp://h.test/pub;type=i", "", "", 301, nil, ""},
		{"slow to begin", "ftp://h.test/a.txt", "text of a", "application/octet-stream", 0, map[string]string{"": "120 in 5 minutes\r\n120 soon\r\n220 now\r\n"}, ""},
		{"login refused", "ftp://h.test/a.txt", "", "", 401, map[string]string{"PASS": "530 no\r\n"}, ""},
		{"too many users", "ftp://h.test/a.txt", "", "", 503, map[string]string{"": "421 full\r\n"}, ""},
		{"text of many lines", "ftp://h.test/a.txt", "text of a", "application/octet-stream", 0, map[string]string{"PASS": "230-one\r\n 230 two\r\n231 three\r\n230 end\r\n"}, ""},
		{"LF alone, NUL", "ftp://h.test/a.txt", "text of a", "application/octet-stream", 0, map[string]string{"TYPE": "200 \x00ok\n"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := site()
			s.say = c.say
			r, body := get(t, s, c.url, nil)
			if r.Outcome != record.OutcomeFetched || r.Status != c.status || body != c.body || r.Media != c.media || r.Truncated != "" {
				t.Errorf("%+v, body %q", r, body)
			}
			if c.status == 301 && r.Redirect != "ftp://h.test/pub/" {
				t.Errorf("redirected to %q", r.Redirect)
			}
			if got := strings.Join(s.log, "|"); c.commands != "" && got != c.commands {
				t.Errorf("commands %s\nwant     %s", got, c.commands)
			}
			if strings.Contains(string(r.Sent), "me@test") || !strings.Contains(string(r.Sent), "\r\n") && !strings.Contains(string(r.Sent), "\n") {
				t.Errorf("conversation %q", r.Sent)
			}
		})
	}
}

// TestConditional: a file is not sent again while size and time are what they were.
func TestConditional(t *testing.T) {
	const modified, same = "Tue, 01 Feb 2000 03:04:05 GMT", `"9"`
	facts := map[string]string{"SIZE": "213 9\r\n", "MDTM": "213 20000201030405.123\r\n"}
	for _, c := range []struct {
		name, etag, modified string
		say                  map[string]string
		want                 string // outcome
		knows                [2]string
	}{
		{"first time", "", "", facts, record.OutcomeFetched, [2]string{same, modified}},
		{"same", same, modified, facts, record.OutcomeNotModified, [2]string{same, modified}},
		{"same time, size not known then", "", modified, facts, record.OutcomeNotModified, [2]string{same, modified}},
		{"same time, other size", `"8"`, modified, facts, record.OutcomeFetched, [2]string{same, modified}},
		{"same size, other time", same, "Tue, 01 Feb 2000 03:04:06 GMT", facts, record.OutcomeFetched, [2]string{same, modified}},
		{"size alone", same, "", facts, record.OutcomeFetched, [2]string{same, modified}},
		{"no MDTM", same, modified, map[string]string{"SIZE": "213 9\r\n"}, record.OutcomeFetched, [2]string{same, ""}},
		{"no SIZE", same, modified, map[string]string{"MDTM": "213 20000201030405\r\n"}, record.OutcomeFetched, [2]string{"", modified}},
		{"nonsense", same, modified, map[string]string{"SIZE": "213 -9\r\n", "MDTM": "213 yesterday\r\n"}, record.OutcomeFetched, [2]string{}},
		{"another answer", same, modified, map[string]string{"SIZE": "200 9\r\n", "MDTM": "200 20000201030405\r\n"}, record.OutcomeFetched, [2]string{}},
		{"full", same, modified, map[string]string{"SIZE": "421 bye\r\n"}, record.OutcomeFetched, [2]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := site()
			s.say = c.say
			r, body := getIf(t, s, &fetch.Request{URL: "ftp://h.test/a.txt", ETag: c.etag, LastModified: c.modified}, nil)
			sent := slices.Contains(s.log, "RETR a.txt")
			switch {
			case c.name == "full" && r.Status == 503 && !sent:
			case r.Outcome != c.want || [2]string{r.ETag, r.LastModified} != c.knows || sent != (c.want == record.OutcomeFetched) || sent != (body == "text of a"):
				t.Errorf("%+v, body %q, commands %q", r, body, s.log)
			case !sent && r.Status != 304:
				t.Errorf("status %d", r.Status)
			}
		})
	}
}

func TestLogin(t *testing.T) {
	s := site()
	r, _ := get(t, s, "ftp://h.test/a.txt", func(m *Module) {
		m.Login = func(origin string) (string, string, bool) { return "anna", "secret", origin == "ftp://h.test" }
	})
	if !slices.Contains(s.log, "USER anna") || !slices.Contains(s.log, "PASS secret") || strings.Contains(string(r.Sent), "secret") {
		t.Errorf("commands %q, conversation %q", s.log, r.Sent)
	}
}

// forever writes text until the client goes.
func forever(text string) func(net.Conn) {
	return func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

func stall(c net.Conn) { io.Copy(io.Discard, c) }

func TestHostileServers(t *testing.T) {
	const file = "ftp://h.test/a.txt"
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		name      string
		hello     func(net.Conn)
		say       map[string]string
		data      func(net.Conn, string)
		outcome   string
		truncated string
		status    int
		url       string
	}{
		{name: "endless lines", hello: forever("220-more\r\n"), outcome: record.OutcomeProtocol},
		{name: "endless line", hello: forever("220 more"), outcome: record.OutcomeProtocol},
		{name: "line of 64 KiB", say: map[string]string{"USER": "331 " + long + "\r\n"}, outcome: record.OutcomeProtocol},
		{name: "lines of zeros", hello: forever("\x00\x00\r\n"), outcome: record.OutcomeProtocol},
		{name: "silence", hello: stall, outcome: record.OutcomeTimeout},
		{name: "closes at once", hello: func(c net.Conn) {}, outcome: record.OutcomeDisconnect},
		{name: "another protocol", hello: func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n") }, outcome: record.OutcomeProtocol},
		{name: "number below 100", say: map[string]string{"TYPE": "099 x\r\n"}, outcome: record.OutcomeProtocol},
		{name: "number above 599", say: map[string]string{"TYPE": "600 x\r\n"}, outcome: record.OutcomeProtocol},
		{name: "1xx for ever", say: map[string]string{"TYPE": "100 x\r\n"}, outcome: record.OutcomeProtocol},
		{name: "PASV to another address", say: map[string]string{"EPSV": "500 x\r\n", "PASV": "227 (10,0,0,1,7,209)\r\n"}, outcome: record.OutcomeProtocol},
		{name: "PASV with few numbers", say: map[string]string{"EPSV": "500 x\r\n", "PASV": "227 (127,0,0,1,7)\r\n"}, outcome: record.OutcomeProtocol},
		{name: "PASV with large numbers", say: map[string]string{"EPSV": "500 x\r\n", "PASV": "227 (127,0,0,1,7,256)\r\n"}, outcome: record.OutcomeProtocol},
		{name: "PASV without numbers", say: map[string]string{"EPSV": "500 x\r\n", "PASV": "227\r\n"}, outcome: record.OutcomeProtocol},
		{name: "EPSV to a port of mail", say: map[string]string{"EPSV": "229 (|||25|)\r\n"}, outcome: record.OutcomeProtocol},
		{name: "EPSV with an address", say: map[string]string{"EPSV": "229 (|1|10.0.0.1|2001|)\r\n"}, outcome: record.OutcomeProtocol},
		{name: "EPSV without a port", say: map[string]string{"EPSV": "229 ((((\r\n"}, outcome: record.OutcomeProtocol},
		{name: "EPSV above 65535", say: map[string]string{"EPSV": "229 (|||65536|)\r\n"}, outcome: record.OutcomeProtocol},
		{name: "nobody on the data port", say: map[string]string{"EPSV": "229 (|||2002|)\r\n"}, outcome: record.OutcomeConnect},
		{name: "data without an end", data: func(c net.Conn, _ string) { forever("data")(c) }, outcome: record.OutcomeFetched, truncated: "length"},
		{name: "data that stops", data: func(c net.Conn, _ string) { io.WriteString(c, "da"); stall(c) }, outcome: record.OutcomeFetched, truncated: "time"},
		{name: "421 in mid-transfer", data: func(c net.Conn, _ string) { io.WriteString(c, "da"); c.Close() }, say: map[string]string{"226": "421 bye\r\n"},
			outcome: record.OutcomeFetched, truncated: "disconnect"},
		{name: "426 in mid-transfer", data: func(c net.Conn, _ string) { c.Close() }, say: map[string]string{"226": "426 cut\r\n"}, outcome: record.OutcomeFetched, truncated: "disconnect"},
		{name: "no word after the data", data: func(c net.Conn, _ string) { c.Close() }, say: map[string]string{"226": ""}, outcome: record.OutcomeFetched, truncated: "time"},
		{name: "RETR done before it began", say: map[string]string{"RETR": "226 done\r\n"}, outcome: record.OutcomeProtocol},
		{name: "all commands unknown", say: map[string]string{"MLSD": "500\r\n", "LIST": "500\r\n"}, outcome: record.OutcomeFetched, status: 501, url: "ftp://h.test/"},
		{name: "busy", say: map[string]string{"RETR": "450 busy\r\n"}, outcome: record.OutcomeFetched, status: 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := site()
			s.hello, s.say, s.data = c.hello, c.say, c.data
			if c.url == "" {
				c.url = file
			}
			r, body := get(t, s, c.url, func(m *Module) { m.BodyMax = 100_000 })
			if r.Outcome != c.outcome || r.Truncated != c.truncated || r.Status != c.status {
				t.Errorf("outcome %q (%s), truncated %q, status %d; want %q, %q, %d", r.Outcome, r.Error, r.Truncated, r.Status, c.outcome, c.truncated, c.status)
			}
			if strings.Contains(r.Error, " :") {
				t.Errorf("error %q", r.Error)
			}
			if len(body) > 100_000 || len(r.Sent) > talkMax+1000 || len(r.Error) > 10_000 {
				t.Errorf("%d bytes of body, %d of conversation, %d of error", len(body), len(r.Sent), len(r.Error))
			}
			for _, addr := range s.dialed {
				if !strings.HasPrefix(addr, "127.0.0.1:") || strings.HasSuffix(addr, ":25") {
					t.Errorf("connected to %s", addr)
				}
			}
		})
	}
}

func TestGuard(t *testing.T) {
	s := site()
	r, _ := get(t, s, "ftp://h.test/a.txt", func(m *Module) { m.Guard = addrguard.Guard{} })
	if r.Outcome != record.OutcomeAddress || len(s.dialed) > 0 {
		t.Errorf("outcome %q, connected to %q", r.Outcome, s.dialed)
	}
}

func TestCheckRefusesLineEnds(t *testing.T) {
	m := &Module{}
	for _, bad := range []string{"%0D%0ADELE x", "a%0Ab", "a%00", "d%0D/a", "a%zz"} {
		if m.Check("ftp://h.test/"+bad) == nil {
			t.Errorf("%s was taken", bad)
		}
		if r, _ := get(t, site(), "ftp://h.test/"+bad, nil); r.Outcome != record.OutcomeScheme {
			t.Errorf("%s: outcome %q", bad, r.Outcome)
		}
	}
	if err := m.Check("ftp://h.test/a/b;type=i"); err != nil {
		t.Error(err)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add("220 x\r\n331 y\r\n230 z\r\n200 a\r\n229 (|||2001|)\r\n150 b\r\n226 c\r\n")
	f.Add("220-x\r\n 220\r\n220 \r\n500\r\n")
	f.Add("227 (1,2,3,4,5,6)")
	f.Fuzz(func(t *testing.T, text string) {
		c := &client{in: bufio.NewReaderSize(strings.NewReader(text), lineMax)}
		for range 10 {
			code, words, err := c.answer("X")
			if err != nil {
				break
			}
			if code < 100 || code > 399 || strings.Contains(words, "\n") {
				t.Fatalf("%d %q", code, words)
			}
			_, _ = passiveAddr(words)
			if port, err := extendedPort(words); err == nil && !strings.Contains(words, fmt.Sprint(port)) {
				t.Fatalf("port %d of %q", port, words)
			}
		}
	})
}
