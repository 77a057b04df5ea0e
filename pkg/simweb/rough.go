package simweb

import (
	"bytes"
	"time"

	"mercator/formats/record"
)

// Positions in a block of what Config.Rough makes of hosts. Robots files are served as ever.
const (
	posDead    = 4 // closes connections without a byte; its root says nothing for roughSilence
	posLate    = 5 // replies after roughDelay
	posHostile = 9 // sends what is no HTTP
)

const (
	roughDelay   = 200 * time.Millisecond
	roughSilence = 4 * time.Second
)

// rough is the outcome that a crawl has to give a URL of a rough host, or "".
func (w *Web) rough(r resource) string {
	switch {
	case !w.Rough:
	case position(r.host) == posDead && r.kind == kindPage && r.n == 0:
		return record.OutcomeTimeout
	case position(r.host) == posDead:
		return record.OutcomeDisconnect
	case position(r.host) == posHostile:
		return record.OutcomeProtocol
	}
	return ""
}

// roughly is what a rough host sends instead of a reply; not a nil one.
func roughly(r resource) []byte {
	if position(r.host) != posHostile {
		return []byte{}
	}
	switch r.n % 3 {
	case 0:
		return bytes.Repeat([]byte{0, 0xff, '\n'}, 1000)
	case 1: // a head without end
		return append([]byte("HTTP/1.1 200 OK\r\n"), bytes.Repeat([]byte("X-Field: and one more\r\n"), 100_000)...)
	}
	return []byte("HTTP/1.1 -200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n")
}

// roughDelayOf is how long a rough host takes.
func (w *Web) roughDelayOf(q *Request) time.Duration {
	host, ok := w.parseHost(q.Host)
	if !w.Rough || !ok || q.Target == "/robots.txt" || q.Target == robotsMovedTo {
		return 0
	}
	switch {
	case position(host) == posLate:
		return roughDelay
	case w.rough(w.resolve(host, q.Target)) == record.OutcomeTimeout:
		return roughSilence
	}
	return 0
}
