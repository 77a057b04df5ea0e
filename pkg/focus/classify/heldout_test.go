package classify

import (
	"mime"
	"net/url"
	"testing"

	"mercator/pkg/process"
	"mercator/pkg/simweb"
)

// document is one of a made web.
type document struct {
	process.Document
	topic string // "" is none
}

// madeWeb are the documents of a web with topics.
func madeWeb(t testing.TB, hosts, pages int) (web *simweb.Web, docs []document) {
	t.Helper()
	web, err := simweb.New(simweb.Config{Seed: 3, Hosts: hosts, Pages: pages, Size: 512, Degree: 8, Port: 18080, Topics: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range web.Oracle() {
		if v.Status != 200 {
			continue
		}
		u, err := url.Parse(v.URL)
		if err != nil {
			t.Fatal(err)
		}
		r := web.Respond(nil, &simweb.Request{Method: "GET", Host: u.Host, Target: u.RequestURI()})
		m, params, err := mime.ParseMediaType(r.Type)
		if err != nil || r.Encoding != "" || m == "text/css" || m == "text/javascript" {
			continue
		}
		docs = append(docs, document{process.Document{URL: v.URL, MIME: m, Charset: params["charset"], Status: 200, Body: r.Body}, v.Topic})
	}
	return web, docs
}

// subjects are the two senses of the word mouse, with words of a dictionary.
func subjects(web *simweb.Web) (s []Subject) {
	for n := 1; n <= 2; n++ {
		words := map[string]float64{}
		for i, w := range web.Vocabulary(n) {
			words[w] = 1 / float64(1+i/4)
		}
		s = append(s, Subject{Name: web.TopicName(n), Query: "mouse", Words: words})
	}
	return s
}

// Precision and recall on documents that training has not seen, by kinds of training and of documents.
func TestHeldOut(t *testing.T) {
	web, docs := madeWeb(t, 40, 1500)
	for _, c := range []struct {
		name              string
		words, pages      bool
		precision, recall float64
	}{
		{"words of a dictionary", true, false, 0.9, 0.9},
		{"example pages", false, true, 0.9, 0.9},
		{"both", true, true, 0.9, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := subjects(web)
			if !c.words {
				for i := range s {
					s[i].Words = nil
				}
			}
			training, err := NewTraining(s)
			if err != nil {
				t.Fatal(err)
			}
			for i := range docs {
				if i%5 != 0 || !c.pages {
					continue
				}
				texts, ok := Texts(&docs[i].Document)
				if !ok || image(docs[i].MIME) {
					continue
				}
				topic := None
				if n, err := training.Topic(docs[i].topic); err == nil {
					topic = n
				}
				if _, err := training.Add(topic, texts[0]); err != nil {
					t.Fatal(err)
				}
			}
			m, err := training.Model()
			if err != nil {
				t.Fatal(err)
			}
			scorer := NewScorer(m)
			type tally struct{ right, wrong, missed, sense int }
			kinds := map[string]*tally{}
			all := &tally{}
			for i := range docs {
				if i%5 == 0 {
					continue
				}
				r, read := scorer.Document(&docs[i].Document, 0)
				k := kinds[docs[i].MIME]
				if k == nil {
					k = &tally{}
					kinds[docs[i].MIME] = k
				}
				wanted := docs[i].topic == m.Topics[0].Name || docs[i].topic == m.Topics[1].Name
				if r.Score < 0 || r.Score > 1 {
					t.Errorf("%s: score %v", docs[i].URL, r.Score)
				}
				for _, k := range []*tally{k, all} {
					switch said := read && r.Score >= 0.5; {
					case said && wanted:
						k.right++
						if m.Topics[r.Topic].Name != docs[i].topic {
							k.sense++
						}
					case said:
						k.wrong++
					case wanted:
						k.missed++
					}
				}
			}
			for mime, k := range kinds {
				t.Logf("%-40s %+v", mime, *k)
			}
			precision, recall := float64(all.right)/float64(all.right+all.wrong), float64(all.right)/float64(all.right+all.missed)
			t.Logf("%d words: precision %.3f, recall %.3f, the other sense %d of %d", len(m.Words), precision, recall, all.sense, all.right)
			if precision < c.precision || recall < c.recall || all.sense > all.right/20 {
				t.Errorf("%+v", *all)
			}
		})
	}
}

func BenchmarkDocument(b *testing.B) {
	web, docs := madeWeb(b, 40, 800)
	scorer := NewScorer(train(b, subjects(web)))
	bytes := 0
	for i := range docs {
		bytes += len(docs[i].Body)
	}
	b.SetBytes(int64(bytes / len(docs)))
	for i := 0; b.Loop(); i++ {
		scorer.Document(&docs[i%len(docs)].Document, 0)
	}
}
