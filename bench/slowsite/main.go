// Command slowsite serves a site of small pages on loopback, each after a time, as a server does that is far away.
//
//	slowsite PAGES DELAY [HOSTS]
//
// DELAY is a time, or two as in 20ms-2s: each host then has a time of its own between them, spread evenly by its logarithm, and each page from half of it to twice.
// Page i links to the first 25 and to the pages 5i+1 to 5i+5, and / to page 0. It serves the site at HOSTS addresses (1), of 127.0.0.1 and upwards,
// all with one port. It prints them, one a line, and serves until it is ended.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
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

// delay is how long replies take.
type delay struct{ min, max time.Duration }

func parseDelay(text string) (d delay, err error) {
	from, to, two := strings.Cut(text, "-")
	if d.min, err = time.ParseDuration(from); err != nil {
		return d, err
	}
	d.max = d.min
	if two {
		if d.max, err = time.ParseDuration(to); err == nil && (d.min <= 0 || d.max < d.min) {
			err = fmt.Errorf("%s, want a time above 0 and a longer one", text)
		}
	}
	return d, err
}

// of is the delay of a page of a host: the same in each run.
func (d delay) of(host, path string) time.Duration {
	if d.min == d.max {
		return d.min
	}
	name, _, _ := strings.Cut(host, ":") // ports change
	of := float64(d.min) * math.Pow(float64(d.max)/float64(d.min), fraction(name))
	return time.Duration(of * math.Pow(4, fraction(name+path)-0.5))
}

// fraction is a number of 0 to 1 that the text decides.
func fraction(text string) float64 {
	sum := sha256.Sum256([]byte(text))
	return float64(binary.BigEndian.Uint32(sum[:])) / math.MaxUint32
}

func run() error {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		return fmt.Errorf("want two or three arguments: pages, delay, hosts")
	}
	pages, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	delay, err := parseDelay(os.Args[2])
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
		time.Sleep(delay.of(r.Host, r.URL.Path))
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
