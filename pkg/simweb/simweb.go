// Package simweb is a synthetic web: every reply is a pure function of a seed
// and the URL, after the simulator of BUbiNG (Boldi, Marino, Santini, Vigna,
// 2014).
//
// A Web holds no page. A URL is parsed into a resource (host, kind, numbers);
// the resource's links, text and headers are drawn from a generator seeded by
// (seed, resource). So a web of a million pages costs no more memory than one
// of ten, any page can be made at any time in any order, and the links are
// known without parsing what was written: see Oracle.
//
// # Shape
//
//   - Host h has about 1/(h+1) as many pages as host 0 (Zipf). Out-degrees and
//     page sizes are log-normal.
//   - Hosts come in blocks of ten. The first of a block links to the roots of
//     the block and to the first hosts of two further blocks, so every host is
//     reached from the first. The eighth mirrors the second; about half of the
//     ninth forbid all robots.
//   - Page n of a host links to pages 8n+1 … 8n+8, so every page of a host is
//     reached from its root, and to random ones, mostly on its own host.
//   - The same target is spelled in many ways: relative, with dot segments,
//     upper case, user names, needless escapes, white space, entities, raw
//     bytes of the page's charset. Every spelling has the same canonical URL.
//
// # Invariants
//
//   - The set that a crawl reaches does not depend on its order: a document
//     has the same links whichever of its copies comes first, links marked
//     nofollow go only where others go too, and traps end by the shape of
//     their URLs, not by depth (the traps of Config.Traps after some 10^9 pages).
//   - No canonical URL is longer than 2,083 bytes, no body than 1 MiB.
//   - Without Config.Hard nothing depends on time or on earlier requests.
package simweb

import (
	"math/bits"
	"strconv"

	"mercator/pkg/base/fault"
)

// Suffix ends the name of every host of a synthetic web.
const Suffix = ".mweb.test"

// Config describes a web. Two equal Configs describe the same web.
type Config struct {
	Seed     uint64
	Hosts    int  // number of hosts that have a name, 1 to 1,000,000
	Pages    int  // HTML pages aimed at, over all hosts, before traps and mirrors
	Size     int  // median size of a page in bytes, 256 to 65,536
	Degree   int  // median number of random links on a page, 1 to 64
	Port     int  // of every URL; 0 or the scheme's default (80) leaves it out
	Sitemaps bool // robots.txt names sitemaps, and some pages are found only there
	Hard     bool // what depends on time and order; see Hard
	Changing bool // pages change at known rates (Lives); only with Hard
	Rough    bool // of each ten hosts one is slow, one dead, one hostile; and what rough.go has
	Traps    int  // hosts of each block of ten, from the last but mirrors, that have an almanac without end: 0 to 9
	Topics   int  // topics that pages are about, 2 to 1,000; 0: pages are about nothing
	Aliases  bool // names of mirrors are aliases (CNAME); see Lookup
}

// Default is the web of "mweb serve" without flags, but for the port.
var Default = Config{Seed: 1, Hosts: 50, Pages: 3000, Size: 4096, Degree: 8, Sitemaps: true}

// Web answers requests. It is safe for many goroutines.
type Web struct {
	Config
	harmonic float64 // sum of 1/(h+1), which turns Pages into the size of host 0
}

// New checks the configuration and returns its web. The cost is proportional
// to the number of hosts; the memory is constant.
func New(c Config) (*Web, error) {
	for _, v := range []struct {
		name        string
		value       int
		least, most int
	}{
		{"hosts", c.Hosts, 1, 1_000_000},
		{"pages", c.Pages, 1, 1_000_000_000},
		{"size", c.Size, 256, 65_536},
		{"degree", c.Degree, 1, 64},
		{"port", c.Port, 0, 65_535},
		{"traps", c.Traps, 0, blockSize - 1},
		{"topics", c.Topics, 0, 1000},
	} {
		if v.value < v.least || v.value > v.most {
			return nil, &fault.Error{Class: fault.Usage, Place: v.name, Found: strconv.Itoa(v.value),
				Want: strconv.Itoa(v.least) + " to " + strconv.Itoa(v.most)}
		}
	}
	if c.Topics == 1 {
		return nil, &fault.Error{Class: fault.Usage, Place: "topics", Found: "1", Want: "0, or 2 to 1000"}
	}
	if c.Changing && !c.Hard {
		return nil, &fault.Error{Class: fault.Usage, Place: "changing", Found: "pages that change without --hard", Want: "--hard"}
	}
	w := &Web{Config: c}
	for h := range c.Hosts {
		w.harmonic += 1 / float64(h+1)
	}
	return w, nil
}

// Seeds returns the canonical URLs from which everything is reached.
func (w *Web) Seeds() []string {
	seeds := []string{string(w.appendURL(nil, resource{}))}
	for b := 1; b <= 2 && b*blockSize < w.Hosts; b++ {
		seeds = append(seeds, string(w.appendURL(nil, resource{host: int32(b * blockSize)})))
	}
	return seeds
}

// Positions in a block of hosts.
const (
	blockSize    = 10
	posLeader    = 0 // links to its block and to two further ones
	posMirrored  = 1 // links absolutely only
	posCalendar  = 2
	posSession   = 3
	posIDN       = 5 // its name is not ASCII
	posAlias     = 6 // its name is an alias (CNAME)
	posMirror    = 7 // serves the pages of posMirrored
	posForbidden = 8 // one in two forbids all robots
)

func position(host int32) int { return int(host) % blockSize }

// origin returns the host that a host's pages come from: itself, or the host that it mirrors.
func origin(host int32) int32 {
	if position(host) == posMirror {
		return host - posMirror + posMirrored
	}
	return host
}

// months is the number of pages of a calendar. It is entered in the middle and leads on by one page: a crawl needs a round for each page of
// half of it, which the calendar of a small web spares.
func (w *Web) months() int32 {
	if w.Pages < 400 {
		return 12
	}
	return 36
}

// pages is the number of HTML pages of a host, its root included.
func (w *Web) pages(host int32) int32 {
	return int32(max(1, float64(w.Pages)/(w.harmonic*float64(host+1))))
}

// mix is a bijection of 64-bit values (the finalizer of SplitMix64). Its output
// looks random.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// dice is a stream of random numbers (SplitMix64).
type dice uint64

func (d *dice) roll() uint64 {
	*d += 0x9e3779b97f4a7c15
	return mix(uint64(*d))
}

// below returns a number in [0, n).
func (d *dice) below(n int) int {
	hi, _ := bits.Mul64(d.roll(), uint64(n))
	return int(hi)
}

// skewed returns a number in [0, n); the density falls as 1/√x.
func (d *dice) skewed(n int32) int32 {
	u := d.roll() >> 32
	return int32(u * u >> 32 * uint64(n) >> 32)
}

// Salts keep apart the random streams drawn for one resource.
const (
	saltShape = iota + 1
	saltLinks
	saltText
	saltReply
	saltHost
	saltSession
	saltChange
	saltTells
	saltTopic
)

func (w *Web) dice(salt uint64, r resource) dice {
	x := mix(w.Seed + salt*0x9e3779b97f4a7c15)
	x = mix(x ^ uint64(uint32(r.host)) ^ uint64(r.kind)<<32)
	return dice(mix(x ^ uint64(uint32(r.n)) ^ uint64(uint32(r.v))<<32))
}

// sixteenths[i] is 2^(i/16) in 16-bit fixed point. Floats would do, but are
// not the same to the last bit on every processor.
var sixteenths = [16]uint64{65536, 68438, 71468, 74632, 77936, 81386, 84990, 88752, 92682, 96785, 101070, 105545, 110218, 115098, 120194, 125515}

// logNormal draws a value with the given median. Its logarithm to base 2 has a
// standard deviation of octaves/16. It is at most 128 times off the median.
func (d *dice) logNormal(median, octaves int) int {
	x, sum := d.roll(), 0
	for range 8 { // the sum of 8 bytes is near enough to normal: mean 1,020, deviation 209
		sum += int(x & 255)
		x >>= 8
	}
	e := (sum-1020)*octaves/209 + 7*16
	e = min(max(e, 0), 14*16)
	return int(uint64(median) * sixteenths[e%16] << (e / 16) >> (16 + 7))
}
