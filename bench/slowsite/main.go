// Command slowsite serves a site of small pages on loopback, each after a time, as a server does that is far away.
//
//	slowsite PAGES DELAY
//
// Page i links to the pages 30i+1 to 30i+30, and / to page 0. It prints the address that it serves at, and serves until it is ended.
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
	if len(os.Args) != 3 {
		return fmt.Errorf("want two arguments: pages and delay")
	}
	pages, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	delay, err := time.ParseDuration(os.Args[2])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(delay)
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			fmt.Fprint(w, `<a href="/0">begin</a>`)
			return
		}
		i, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || i >= pages {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "<title>%d</title>%s", i, strings.Repeat(fmt.Sprintf("<p>words of page %d\n", i), 50))
		for j := 30*i + 1; j <= min(30*i+30, pages-1); j++ {
			fmt.Fprintf(w, "<a href=\"/%d\">page %d</a>\n", j, j)
		}
	}))
}
