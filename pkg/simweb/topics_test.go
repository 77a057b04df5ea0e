package simweb

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/web/pdf"
)

// A web without topics has the bytes that it had before there were any: results of earlier benchmarks stay comparable.
func TestWithoutTopics(t *testing.T) {
	w := mustNew(t, small)
	sum := sha256.New()
	for _, v := range w.Oracle() {
		fmt.Fprintf(sum, "%s %s %d\n", v.URL, v.Outcome, v.Status)
		if v.Status > 0 {
			sum.Write(w.appendBody(nil, v.r, 0))
		}
	}
	const want = "0ef3ef6c8da0ec641b260cf198a6722c0ee6ce0b6631ec0cad182ec9cd5f99a7"
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

var topical = Config{Seed: 3, Hosts: 60, Pages: 3000, Size: 512, Degree: 8, Port: 18080, Topics: 20}

// Linked pages share a topic far more often than two pages drawn by chance; every topic is reached, some through pages of none.
func TestTopicalLocality(t *testing.T) {
	w := mustNew(t, topical)
	pages, of := 0, make([]int, w.Topics+1)
	links, same, hubs, bridges := 0, 0, 0, 0
	for _, v := range w.Oracle() {
		if v.Status != 200 || v.r.kind != kindPage || position(v.r.host) == posMirror {
			continue
		}
		topic := w.topic(v.r)
		pages++
		of[topic]++
		to := make([]int, w.Topics+1)
		for _, l := range w.appendLinks(nil, v.r) {
			if l.to.kind != kindPage {
				continue
			}
			other := w.topic(l.to)
			to[other]++
			if topic > 0 {
				links++
				if other == topic {
					same++
				}
			}
		}
		for i, n := range to[1:] {
			switch {
			case n > 18 && i+1 == topic:
				hubs++
			case n > 5 && topic == 0:
				bridges++
			}
		}
	}
	chance, topics := 0.0, 0
	for _, n := range of[1:] {
		chance += float64(n) * float64(n)
		topics += n
	}
	chance /= float64(topics) * float64(pages)
	got := float64(same) / float64(links)
	t.Logf("%d pages, %d with a topic; a link of these leads to the same topic: %.3f, by chance %.3f; %d hubs, %d bridges", pages, topics, got, chance, hubs, bridges)
	if got < 5*chance || got > 0.7 || topics < pages/3 || topics > pages*9/10 || hubs < 10 || bridges < 10 {
		t.Errorf("%d pages, %d with a topic; same topic %.3f, by chance %.3f; %d hubs, %d bridges", pages, topics, got, chance, hubs, bridges)
	}
	for i, n := range of {
		if n == 0 {
			t.Errorf("no page of topic %d", i)
		}
	}
}

// What a page, a text, a PDF and a Word file say is mostly of their topic, and is read by the extraction of text.
func TestTopicWords(t *testing.T) {
	w := mustNew(t, topical)
	read, unclear := map[string]int{}, 0
	for _, v := range w.Oracle() {
		topic := w.topic(v.r)
		if v.Status != 200 || topic == 0 || v.r.kind == kindAsset && strings.Contains("gif jpg css js", extension(v.r.n)) {
			continue
		}
		body := string(w.appendBody(nil, v.r, 0))
		if w.contentType(v.r) == "application/pdf" {
			file, err := pdf.Open([]byte(body))
			must.OK(t, err)
			body, _ = file.Text(1 << 20)
		}
		count := func(topic int) (n int) {
			for _, word := range w.Vocabulary(topic) {
				n += strings.Count(body, " "+word)
			}
			return n
		}
		if own, other := count(topic), count(topic%w.Topics+1); own <= 2*other {
			unclear++
		}
		read[w.contentType(v.r)]++
	}
	if unclear > 20 {
		t.Errorf("%d documents of %v have as many words of another topic", unclear, read)
	}
	for _, mime := range []string{"text/html", "text/plain; charset=utf-8", "application/pdf", "application/msword", "application/xml"} {
		if read[mime] == 0 {
			t.Errorf("no %s", mime)
		}
	}
}
