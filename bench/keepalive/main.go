// Command keepalive fetches the URLs of a list by package http1 over kept connections
// and drops the replies: what fetching costs without politeness, archive and records.
//
//	keepalive CONNECTIONS < list
//
// A line of the list is a URL, a space and the address of its server. The hosts are
// dealt out to the connections; one connection at a time serves a host. It prints how
// many replies of status 200 came whole.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mercator/pkg/fetch"
	"mercator/pkg/fetch/addrguard"
	"mercator/pkg/fetch/http1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "keepalive:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("want one argument, the number of connections")
	}
	connections, err := strconv.Atoi(os.Args[1])
	if err != nil || connections < 1 {
		return fmt.Errorf("%q connections, want at least 1", os.Args[1])
	}
	guard := addrguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	client := &http1.Client{UserAgent: "keepalive", Limits: fetch.Limits{Guard: guard, BodyMax: 64 << 20}}
	lists := make([][]fetch.Request, connections)
	hosts := map[string]int{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		url, text, _ := strings.Cut(lines.Text(), " ")
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		if _, known := hosts[host]; !known {
			hosts[host] = len(hosts) % connections
		}
		c := hosts[host]
		lists[c] = append(lists[c], fetch.Request{URL: url, Addr: addr})
	}
	if err := lines.Err(); err != nil {
		return err
	}
	var whole atomic.Int64
	var all sync.WaitGroup
	for _, list := range lists {
		all.Go(func() {
			sessions := map[string]io.Closer{}
			for _, r := range list {
				host, _, _ := strings.Cut(r.URL[len("http://"):], "/")
				r.Session = sessions[host]
				reply := client.Fetch(context.Background(), &r)
				if reply.Response != nil && reply.Head.Status == 200 && reply.Truncated == "" {
					whole.Add(1)
				}
				reply.Memory.Close()
				sessions[host] = reply.Session
			}
			for _, session := range sessions {
				if session != nil {
					session.Close()
				}
			}
		})
	}
	all.Wait()
	fmt.Println(whole.Load())
	return nil
}
