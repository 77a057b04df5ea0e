package fingerprint_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mercator/pkg/base/fingerprint"
)

// web makes the URLs of a Zipf web: host k of hosts has about n/kˢ of n pages,
// under names without order.
func web(hosts, n int, s float64, rnd *rand.Rand) (urls [][2]string, size []int) {
	var sum float64
	for k := range hosts {
		sum += math.Pow(float64(k+1), -s)
	}
	for k := range hosts {
		host := fmt.Sprintf("www.host%d.example.com", k)
		pages := int(math.Round(float64(n) / sum * math.Pow(float64(k+1), -s)))
		for range pages {
			urls = append(urls, [2]string{host, fmt.Sprintf("http://%s/%x/%x.html", host, rnd.Uint32(), rnd.Uint32())})
		}
		size = append(size, pages)
	}
	return urls, size
}

// TestFalseAnswers holds the formulas of SPEC.md against what happens at reduced
// width: URL keys keep 6 of their 16 host bits and 16 of their 48 others, document
// keys 18 bits. The mean over 1,000 polynomials must be within 4 % of the
// formula, and its standard error below 1.5 %. The seed fixes the outcome.
func TestFalseAnswers(t *testing.T) {
	const polynomials, hostBits, urlBits, docBits = 1000, 6, 16, 18
	rnd := rand.New(rand.NewPCG(11, 12))
	urls, size := web(300, 4000, 1.1, rnd)
	n := float64(len(urls))
	var squares float64
	for _, s := range size {
		squares += float64(s) * float64(s)
	}
	within := squares / math.Exp2(urlBits+1)
	across := n * n / math.Exp2(hostBits+urlBits+1)
	documents := n * n / math.Exp2(docBits+1)
	t.Logf("URLs: %.2f within hosts, %.2f across hosts", within, across)

	url, doc := newTrial(within+across, hostBits+urlBits), newTrial(documents, docBits)
	for range polynomials {
		f := fingerprint.RandomPoly(rnd.Uint64)
		url.begin()
		doc.begin()
		for i, u := range urls {
			key := f.URLKey(u[0], u[1])
			url.ask(key>>(64-hostBits)<<urlBits | key&(1<<urlBits-1))
			doc.ask(f.DocKey(fingerprint.OfString(u[1]), int64(1000+i%500), false))
		}
	}
	for name, c := range map[string]*trial{"URLs": url, "documents": doc} {
		t.Run(name, func(t *testing.T) {
			mean, stderr := c.meanAndError()
			t.Logf("%s: %.3f ± %.3f false answers, by the formula %.3f", name, mean, stderr, c.want)
			if stderr > c.want*0.015 || math.Abs(mean-c.want) > c.want*0.04 {
				t.Errorf("%s: %.3f ± %.3f false answers, by the formula %.3f", name, mean, stderr, c.want)
			}
		})
	}
}

// TestFalseAnswersOfNumberedPages: page names that differ only in a number
// differ in few ways, and pairs that differ in the same way collide together. Most
// polynomials then have no false answer at all, few have many, and the mean
// stays below the formula.
func TestFalseAnswersOfNumberedPages(t *testing.T) {
	const polynomials, pages, bits = 3000, 300, 14
	rnd := rand.New(rand.NewPCG(13, 14))
	c := newTrial(float64(pages*pages)/math.Exp2(bits+1), bits)
	for range polynomials {
		f := fingerprint.RandomPoly(rnd.Uint64)
		c.begin()
		for i := range pages {
			c.ask(f.OfString(fmt.Sprintf("http://www.example.com/articles/%d.html", i)))
		}
	}
	mean, stderr := c.meanAndError()
	t.Logf("%.3f ± %.3f false answers, by the formula %.3f; none with %d of %d polynomials", mean, stderr, c.want, c.none, polynomials)
	if mean > c.want+3*stderr || mean < c.want/2 {
		t.Errorf("%.3f ± %.3f false answers, by the formula %.3f", mean, stderr, c.want)
	}
	if c.none < polynomials*2/3 {
		t.Errorf("no false answer with %d of %d polynomials, want most", c.none, polynomials)
	}
}

// trial counts the false answers of a set of keys of some bits, run by run.
type trial struct {
	want    float64
	seen    []uint32 // by key: the last run that had it
	run     uint32
	wrong   int // in this run
	squares float64
	sum     float64
	none    int // runs without any
}

func newTrial(want float64, bits int) *trial {
	return &trial{want: want, seen: make([]uint32, 1<<bits)}
}

func (c *trial) begin() {
	c.end()
	c.run++
}

func (c *trial) end() {
	if c.run > 0 && c.wrong == 0 {
		c.none++
	}
	c.sum += float64(c.wrong)
	c.squares += float64(c.wrong) * float64(c.wrong)
	c.wrong = 0
}

func (c *trial) ask(key uint64) {
	at := &c.seen[key%uint64(len(c.seen))]
	if *at == c.run {
		c.wrong++
	}
	*at = c.run
}

func (c *trial) meanAndError() (mean, stderr float64) {
	c.end()
	n := float64(c.run)
	mean = c.sum / n
	return mean, math.Sqrt((c.squares/n - mean*mean) / (n - 1))
}
