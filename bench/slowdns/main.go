// Command slowdns is a name server on loopback that takes its time, for bench/dns.sh and dns-share.sh:
// each question is answered with one address, or as --forward answers it, after --delay,
// but for one name of --dead, which is never answered.
package main

import (
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"
)

func main() {
	delay := flag.Duration("delay", 200*time.Millisecond, "time from a question to its answer")
	dead := flag.Uint("dead", 0, "one name in this many is never answered; 0: all are")
	forward := flag.String("forward", "", "name server whose answers are given (ADDR:PORT)")
	flag.Parse()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err == nil {
		err = pc.(*net.UDPConn).SetReadBuffer(8 << 20)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowdns:", err)
		os.Exit(1)
	}
	fmt.Println(pc.LocalAddr())
	s := dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		name := q.Question[0].Name
		h := fnv.New32()
		h.Write([]byte(strings.ToLower(name)))
		if *dead > 0 && h.Sum32()%uint32(*dead) == 0 {
			return
		}
		m := new(dns.Msg)
		m.SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(127, 0, 0, 1)}}
		}
		time.Sleep(*delay)
		if *forward != "" {
			var err error
			if m, err = dns.Exchange(q, *forward); err != nil {
				return // as if it had been lost
			}
		}
		w.WriteMsg(m)
	})}
	fmt.Fprintln(os.Stderr, "slowdns:", s.ActivateAndServe())
	os.Exit(1)
}
