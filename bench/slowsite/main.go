// Command slowsite serves a site of small pages on loopback, each after a time, as a server does that is far away.
//
//	slowsite PAGES DELAY [HOSTS]
//
// Page i links to the first 25 and to the pages 5i+1 to 5i+5, and / to page 0. It serves the site at HOSTS addresses (1), of 127.0.0.1 and upwards,
// all with one port. It prints them, one a line, and serves until it is ended.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "slowsite:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		return fmt.Errorf("want two or three arguments: pages, delay, hosts")
	}
	pages, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	delay, err := time.ParseDuration(os.Args[2])
	if err != nil {
		return err
	}
	hosts := 1
	if len(os.Args) == 4 {
		if hosts, err = strconv.Atoi(os.Args[3]); err != nil || hosts < 1 || hosts > 1<<16 {
			return fmt.Errorf("%q hosts, want 1 to 65536", os.Args[3])
		}
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(delay)
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			fmt.Fprintf(w, "<a href=\"/0\">%s</a>", r.Host)
			return
		}
		i, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || i >= pages {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "<title>%s %d</title>%s", r.Host, i, strings.Repeat(fmt.Sprintf("<p>words of page %d\n", i), 50))
		for j := range min(25, pages) { // what stands on each page of a site
			fmt.Fprintf(w, "<a href=\"/%d\">page %d</a>\n", j, j)
		}
		for j := 5*i + 1; j <= min(5*i+5, pages-1); j++ {
			fmt.Fprintf(w, "<a href=\"/%d\">page %d</a>\n", j, j)
		}
	})
	ended := make(chan error)
	port := 0
	for i := range hosts {
		l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:%d", i/250/250, i/250%250, 1+i%250, port))
		if err != nil {
			return err
		}
		port = l.Addr().(*net.TCPAddr).Port
		fmt.Println(l.Addr())
		go func() { ended <- http.Serve(l, handler) }()
	}
	return <-ended
}
