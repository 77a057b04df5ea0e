package http1

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
	"mercator/pkg/fetch"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	made := a.issue(func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid = "authority", true, true
	})
	a.key, a.cert = made.PrivateKey.(*ecdsa.PrivateKey), made.Leaf
	return a
}

// issue makes a certificate for example.com, changed by change. The first is signed by itself.
func (a *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(a.t, err)
	a.n++
	c := &x509.Certificate{SerialNumber: big.NewInt(a.n), DNSNames: []string{"example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	c.Subject.CommonName = "leaf"
	change(c)
	parent, signer := c, key
	if a.key != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must.OK(a.t, err)
	leaf, err := x509.ParseCertificate(der)
	must.OK(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestTLSCauses: the error of a handshake that failed begins with its cause.
func TestTLSCauses(t *testing.T) {
	trusted, stranger := newAuthority(t), newAuthority(t)
	good := trusted.issue(func(*x509.Certificate) {})
	secure := func(config *tls.Config) func(net.Conn) {
		return func(plain net.Conn) {
			conn := tls.Server(plain, config)
			if conn.Handshake() == nil {
				request(conn)
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}
	}
	with := func(cert tls.Certificate) func(net.Conn) {
		return secure(&tls.Config{Certificates: []tls.Certificate{cert}})
	}
	raw := func(says string) func(net.Conn) {
		return func(c net.Conn) {
			c.Read(make([]byte, 4096))
			io.WriteString(c, says)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
		}
	}
	alert := func(n byte) func(net.Conn) { return raw("\x15\x03\x03\x00\x02\x02" + string([]byte{n})) }
	// A ServerHello of SSLv3 that chooses TLS_RSA_WITH_3DES_EDE_CBC_SHA.
	sslv3 := raw("\x16\x03\x00\x00\x2a\x02\x00\x00\x26\x03\x00" + strings.Repeat("r", 32) + "\x00\x00\x0a\x00")
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		cause string // "": it is fetched
		again bool   // the outcome is one that may pass
	}{
		{name: "good", serve: with(good)},
		{name: "expired", serve: with(trusted.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), cause: causeExpired},
		{name: "not yet valid", serve: with(trusted.issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), cause: causeEarly},
		{name: "another name", serve: with(trusted.issue(func(c *x509.Certificate) { c.DNSNames = []string{"other.test"} })), cause: causeName},
		{name: "no name", serve: with(trusted.issue(func(c *x509.Certificate) { c.DNSNames = nil })), cause: causeName},
		{name: "self-signed", serve: with((&authority{t: t}).issue(func(*x509.Certificate) {})), cause: causeSelf},
		{name: "unknown authority", serve: with(stranger.issue(func(*x509.Certificate) {})), cause: causeAuthority},
		{name: "not for servers", serve: with(trusted.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} })), cause: causeInvalid},
		{name: "client certificate, TLS 1.3", serve: secure(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}), cause: causeClient},
		{name: "client certificate, TLS 1.2", serve: secure(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}), cause: causeClient},
		{name: "client certificate asked for", serve: secure(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequestClientCert})},
		{name: "handshake_failure", serve: alert(40), cause: causeCommon},
		{name: "protocol_version", serve: alert(70), cause: causeCommon},
		{name: "insufficient_security", serve: alert(71), cause: causeCommon},
		{name: "unrecognized_name", serve: alert(112), cause: causeServer},
		{name: "internal_error", serve: alert(80), cause: causeOther},
		{name: "SSLv3", serve: sslv3, cause: causeCommon},
		{name: "plain HTTP", serve: raw("HTTP/1.1 400 Bad Request\r\n\r\n"), cause: causePlain},
		{name: "SSH", serve: raw("SSH-2.0-OpenSSH_9.2p1\r\n"), cause: causeNoTLS},
		{name: "closed", serve: raw(""), cause: causeClosed, again: true},
		{name: "closed at once", serve: func(net.Conn) {}, cause: causeClosed, again: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, c.serve)
			client := testClient(t)
			client.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
			client.TLS.RootCAs.AddCert(trusted.cert)
			x := client.once(t.Context(), &fetch.Request{URL: "https://example.com:" + strings.Trim(url[strings.LastIndexByte(url, ':')+1:], "/") + "/", Addr: loopback})
			defer x.Close()
			want := record.OutcomeTLS
			switch {
			case c.cause == "":
				want = record.OutcomeFetched
			case c.again:
				want = record.OutcomeDisconnect
			}
			if x.Outcome != want || !strings.HasPrefix(x.Error, c.cause) || c.cause == "" && x.Error != "" {
				t.Errorf("%s (%s), want %s (%s…)", x.Outcome, x.Error, want, c.cause)
			}
			if x.Unreached != (c.cause != "") {
				t.Errorf("unreached: %v", x.Unreached)
			}
		})
	}
}

// TestOpenSSL: what servers of OpenSSL speak, and whether crypto/tls does.
func TestOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		needs.Skip(t, "openssl is not installed")
	}
	dir := t.TempDir()
	do := func(args ...string) {
		t.Helper()
		cmd := exec.Command(openssl, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v: %s", args, err, out)
		}
	}
	for name, key := range map[string][]string{"rsa": {"rsa:2048"}, "weak": {"rsa:512"}, "ec": {"ec", "-pkeyopt", "ec_paramgen_curve:P-256"}, "brainpool": {"ec", "-pkeyopt", "ec_paramgen_curve:brainpoolP256r1"}} {
		args := append([]string{"req", "-x509", "-nodes", "-newkey"}, key...)
		do(append(args, "-keyout", name+".key", "-out", name+".pem", "-days", "2", "-subj", "/CN=example.com", "-addext", "subjectAltName=DNS:example.com")...)
	}
	for _, c := range []struct {
		name  string
		cert  string // "": rsa
		args  string
		old   string // what the error says of a page that was had, "": nothing
		cause string // "": it is had
	}{
		{name: "TLS 1.3", args: "-tls1_3"},
		{name: "TLS 1.2", args: "-tls1_2"},
		{name: "ECDSA", cert: "ec", args: "-tls1_2"},
		{name: "TLS 1.1", args: "-tls1_1 -cipher ALL@SECLEVEL=0", old: "old TLS: TLS 1.1"},
		{name: "TLS 1.0", args: "-tls1 -cipher ALL@SECLEVEL=0", old: "old TLS: TLS 1.0"},
		{name: "RSA key exchange", args: "-tls1_2 -cipher AES128-GCM-SHA256", old: "TLS_RSA_WITH_AES_128_GCM_SHA256"},
		{name: "RSA key exchange, CBC", args: "-tls1_2 -cipher AES256-SHA", old: "TLS_RSA_WITH_AES_256_CBC_SHA"},
		{name: "CBC with SHA-1", args: "-tls1_2 -cipher ECDHE-RSA-AES128-SHA"},
		{name: "CBC with SHA-256", args: "-tls1_2 -cipher ECDHE-RSA-AES128-SHA256", old: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"},
		{name: "CBC with SHA-384", args: "-tls1_2 -cipher ECDHE-RSA-AES256-SHA384", cause: causeCommon},
		{name: "RSA key exchange, AES-256 with SHA-256", args: "-tls1_2 -cipher AES256-SHA256", cause: causeCommon},
		{name: "DHE", args: "-tls1_2 -cipher DHE-RSA-AES256-GCM-SHA384", cause: causeCommon},
		{name: "DHE, TLS 1.0", args: "-tls1 -cipher DHE-RSA-AES256-SHA:@SECLEVEL=0", cause: causeCommon},
		{name: "no authentication", args: "-tls1_2 -cipher ADH-AES256-GCM-SHA384:@SECLEVEL=0", cause: causeCommon},
		{name: "CCM", args: "-tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256", cause: causeCommon},
		{name: "X448", args: "-tls1_3 -curves X448", cause: causeCommon},
		{name: "P-521", args: "-tls1_3 -curves P-521"},
		{name: "brainpool", args: "-tls1_2 -cipher ECDHE -curves brainpoolP256r1", cause: causeCommon},
		{name: "brainpool certificate", cert: "brainpool", args: "-tls1_2", cause: causeCommon},
		{name: "512 bits", cert: "weak", args: "-tls1_2 -cipher ALL@SECLEVEL=0", cause: causeWeak},
		{name: "another name is wanted", args: "-cert2 ec.pem -key2 ec.key -servername other.test -servername_fatal", cause: causeServer},
		{name: "client certificate, TLS 1.2", args: "-tls1_2 -Verify 1", cause: causeClient},
		{name: "client certificate, TLS 1.3", args: "-tls1_3 -Verify 1", cause: causeClient},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert := "rsa"
			if c.cert != "" {
				cert = c.cert
			}
			port := serveProgram(t, dir, openssl, "s_server -accept 127.0.0.1:PORT -www -quiet -cert", cert+".pem", "-key", cert+".key", c.args)
			client := testClient(t)
			client.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
			text, err := os.ReadFile(filepath.Join(dir, cert+".pem"))
			if block, _ := pem.Decode(text); err != nil || block == nil {
				t.Fatal("no certificate: ", err)
			}
			client.TLS.RootCAs.AppendCertsFromPEM(text)
			x := client.once(t.Context(), &fetch.Request{URL: "https://example.com:" + port + "/", Addr: loopback})
			defer x.Close()
			want := record.OutcomeFetched
			if c.cause != "" {
				want = record.OutcomeTLS
			}
			if x.Outcome != want || !strings.HasPrefix(x.Error, c.cause) || !strings.Contains(x.Error, c.old) || c.old+c.cause == "" && x.Error != "" {
				t.Errorf("%s (%s), want %s (%s%s)", x.Outcome, x.Error, want, c.old, c.cause)
			}
		})
	}
}

// serveProgram runs a server in dir until the test ends, and returns its port, which stands for PORT in args.
func serveProgram(t *testing.T, dir, name string, args ...string) (port string) {
	for range 5 { // another program may take the port
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		_, port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
		var said bytes.Buffer
		cmd := exec.Command(name, strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "PORT", port))...)
		cmd.Dir, cmd.Stderr = dir, &said
		must.OK(t, cmd.Start())
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		t.Cleanup(func() { cmd.Process.Kill(); <-ended })
		for {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				c.Close()
				return port
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Millisecond):
				continue
			}
			break
		}
		t.Log(said.String())
	}
	t.Fatalf("%s does not listen", name)
	return ""
}

// TestMisdirected: after status 421 the connection is not used again.
func TestMisdirected(t *testing.T) {
	var conns atomic.Int32
	url := serve(t, func(c net.Conn) {
		n := conns.Add(1)
		for range 3 {
			request(c)
			status := "200 OK"
			if n == 1 {
				status = "421 Misdirected Request"
			}
			if _, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok", status); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	client := testClient(t)
	var conn Conn
	defer conn.Close()
	for i, want := range []int{421, 200, 200} {
		x := client.do(context.Background(), &fetch.Request{URL: url, Addr: loopback}, &conn)
		if x.head.Status != want || conns.Load() != int32(min(i+1, 2)) {
			t.Errorf("contact %d: status %d on connection %d", i, x.head.Status, conns.Load())
		}
		x.Close()
	}
}

// TestClientCertificate: a server that wants a certificate of ours gets the one in the file of logins, and another server does not.
func TestClientCertificate(t *testing.T) {
	a := newAuthority(t)
	leaf := a.issue(func(*x509.Certificate) {})
	ours := a.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := &tls.Config{Certificates: []tls.Certificate{leaf}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
	port := strings.TrimSuffix(serve(t, func(c net.Conn) { echo(tls.Server(c, config)) })[len("http://127.0.0.1"):], "/")
	key, err := x509.MarshalPKCS8PrivateKey(ours.PrivateKey)
	must.OK(t, err)
	dir := t.TempDir()
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	for name, text := range map[string]string{"ours.pem": string(text), "login.txt": "https://example.com" + port + " certificate ours.pem\n", "bad.txt": "https://example.com certificate login.txt\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if _, err := ReadLogins(filepath.Join(dir, "bad.txt")); fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), "login.txt: certificate for https://example.com") {
		t.Error(err)
	}
	must.OK(t, os.Chmod(filepath.Join(dir, "ours.pem"), 0o644))
	if _, err := ReadLogins(filepath.Join(dir, "login.txt")); fault.ClassOf(err) != fault.Usage || fault.HintOf(err) != "chmod 600 "+filepath.Join(dir, "ours.pem") {
		t.Errorf("a key that others may read: %v", err)
	}
	must.OK(t, os.Chmod(filepath.Join(dir, "ours.pem"), 0o600))
	for _, with := range []bool{true, false} {
		client := testClient(t)
		client.TLS = &tls.Config{RootCAs: roots}
		want := record.OutcomeTLS
		if with {
			want = record.OutcomeFetched
			client.Logins, err = ReadLogins(filepath.Join(dir, "login.txt"))
			must.OK(t, err)
		}
		x := client.once(t.Context(), &fetch.Request{URL: "https://example.com" + port + "/", Addr: loopback})
		if x.Outcome != want {
			t.Errorf("with a certificate %v: %s (%s)", with, x.Outcome, x.Error)
		}
		x.Close()
	}
}
