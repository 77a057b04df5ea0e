package simweb

import (
	"strconv"
	"strings"
)

// A web with Config.Topics is one to try focused crawlers on.
//
//   - A page is about one topic, or about none. It takes its parent's topic more often than not; else the topic of its host's
//     root, another one, or none.
//   - Two of five random links of a page with a topic lead to pages of the same topic, most of them on other hosts. So linked
//     pages share a topic far more often than chance has it, as on the web: Davison, "Topical locality in the web", 2000;
//     Chakrabarti, Joshi, Punera, Pennock, "The structure of broad topics on the web", 2002; Menczer, "Lexical and
//     semantic clustering by web links", 2004. TestTopicalLocality measures both shares.
//   - One page in thirty with a topic is a hub: it has 24 more links to pages of its topic.
//   - One page in eight without a topic is a bridge: eight of its links lead to pages of one topic. Other pages of a topic
//     are reached only through pages of no topic or of another one.
//   - A topic has a language model: 40 words, the first ones more frequent. Half of the words of its pages, texts, PDF and
//     Word files are from it. The others are general, and one sentence in ten is of another topic.
//   - Anchor texts, alternative texts and names of files have words of the target's topic.
//
// The first two topics are the senses of the word mouse.

const (
	vocabulary   = 40  // words of a topic
	generalWords = 300 // words that belong to no topic
	topicTries   = 96  // candidates for the target of a topical link
	hubLinks     = 24
	bridgeLinks  = 8
)

// senses are the words of the first two topics. Both have "mouse".
var senses = [2]string{
	"mouse rodent rat tail whiskers mammal fur cheese burrow nest snout ears gnaw vermin hamster vole squirrel mice paws breed cage genus species trap cat owl field grain litter pups nocturnal pet tailless rodents murine mammals habitat forage hairless incisors",
	"mouse computer device cursor button click pad screen scroll pointer electronic wireless optical sensor keyboard usb wheel trackball desktop driver cable hardware software peripheral interface monitor drag icon window laptop ergonomic coordinates bluetooth receiver gaming user input hand-operated touchpad resolution",
}

var senseWords = [2][]string{strings.Fields(senses[0]), strings.Fields(senses[1])}

var syllables = strings.Fields("ba ke li mo nu ra se ti vo zu cha dre fli gor hin jal kam lor mes nor pel qua rin sto tam vel wim yor zan bru")

// TopicName is the name of a topic, 1 to Config.Topics: a word, a dot and its sense; "" of 0.
func (w *Web) TopicName(topic int) string {
	if topic == 0 {
		return ""
	}
	return w.word(topic, 0) + "." + w.Sense(topic)
}

// Sense tells the topics of one word apart.
func (w *Web) Sense(topic int) string {
	switch topic {
	case 1:
		return "rodent"
	case 2:
		return "device"
	}
	return "topic"
}

// Vocabulary returns the words of a topic, the most frequent first.
func (w *Web) Vocabulary(topic int) []string {
	words := make([]string, vocabulary)
	for i := range words {
		words[i] = w.word(topic, i)
	}
	return words
}

// word is word i of a topic, or of none.
func (w *Web) word(topic, i int) string {
	if topic == 1 || topic == 2 {
		return senseWords[topic-1][i]
	}
	d := w.dice(saltTopic, resource{host: int32(topic), n: int32(i), v: 9})
	var b [16]byte
	word := b[:0]
	for range 2 + i%2 {
		word = append(word, syllables[d.below(len(syllables))]...)
	}
	return string(append(word, 'a'+byte(topic%23))) // topics differ in their last letters too
}

// topic returns the topic of a document: 1 to Config.Topics, or 0 for none.
func (w *Web) topic(r resource) int {
	if w.Topics == 0 {
		return 0
	}
	host, n := origin(r.host), r.n
	switch r.kind {
	case kindPage:
	case kindAsset:
		n %= w.pages(host)
	default:
		return 0
	}
	for ; n > 0; n = (n - 1) / fanOut {
		d := w.dice(saltTopic, resource{host: host, n: n})
		switch x := d.below(100); {
		case x < 60: // the parent's
		case x < 75:
			return 0
		case x < 80:
			n = 1 // the root's
		default:
			return 1 + d.below(w.Topics)
		}
	}
	d := w.dice(saltTopic, resource{host: host})
	if d.below(3) == 0 {
		return 0
	}
	return 1 + d.below(w.Topics)
}

// appendTopicalLinks appends the random links of a page of a web with topics.
func (w *Web) appendTopicalLinks(links []link, r resource, d *dice) []link {
	topic, extra := w.topic(r), 0
	t := w.dice(saltTopic, resource{host: r.host, n: r.n, v: 1})
	switch {
	case topic > 0 && t.below(30) == 0:
		extra = hubLinks
	case topic == 0 && t.below(8) == 0:
		extra = bridgeLinks
	}
	for range min(d.logNormal(w.Degree, 18), 400) {
		if topic > 0 && d.below(5) < 2 {
			links = append(links, w.topicalLink(d, r.host, topic))
		} else {
			links = append(links, w.randomLink(d, r.host))
		}
	}
	if topic == 0 {
		topic = 1 + t.below(w.Topics)
	}
	for range extra {
		links = append(links, w.topicalLink(d, r.host, topic))
	}
	return links
}

// topicalLink leads to a document of a topic, if it finds one.
func (w *Web) topicalLink(d *dice, host int32, topic int) (l link) {
	for range topicTries {
		h := host
		if d.below(10) < 7 {
			h = origin(d.skewed(int32(w.Hosts)))
		}
		l = link{resource{host: h, n: int32(d.below(int(w.pages(h))))}, elemA}
		if d.below(6) == 0 {
			l.to.kind, l.to.n = kindAsset, int32(d.below(int(w.count(h, kindAsset))))
			l.elem = assetElement(l.to.n)
		}
		if w.topic(l.to) == topic {
			break
		}
	}
	return l
}

// appendWord appends a word of a topic.
func (w *Web) appendWord(b []byte, topic int, d *dice) []byte {
	if topic == 0 {
		return append(b, w.word(0, int(d.skewed(generalWords)))...)
	}
	return append(b, w.word(topic, int(d.skewed(vocabulary)))...)
}

// appendTalk appends a sentence of a document about a topic.
func (w *Web) appendTalk(b []byte, topic int, d *dice) []byte {
	if d.below(10) == 0 {
		topic = d.below(w.Topics + 1)
	}
	for i := range 6 + d.below(6) {
		if i > 0 {
			b = append(b, ' ')
		}
		about := topic
		if d.below(2) == 0 {
			about = 0
		}
		b = w.appendWord(b, about, d)
	}
	return append(b, ". "...)
}

// appendLabel appends what an anchor or an alternative text says of a document.
func (w *Web) appendLabel(b []byte, r resource) []byte {
	d := w.dice(saltTopic, resource{host: r.host, kind: r.kind, n: r.n, v: 2})
	b = append(w.appendWord(b, w.topic(r), &d), ' ')
	return w.appendWord(b, w.topic(r), &d)
}

// fileWord is in the name of an asset's file.
func (w *Web) fileWord(r resource) string {
	d := w.dice(saltTopic, resource{host: r.host, kind: r.kind, n: r.n, v: 3})
	return string(w.appendWord(nil, w.topic(r), &d))
}

// appendNotes appends the text of an asset about a topic.
func (w *Web) appendNotes(b []byte, r resource) []byte {
	d := w.dice(saltText, r)
	for range 12 {
		b = w.appendTalk(b, w.topic(r), &d)
	}
	return b
}

// appendPDF appends a file of one page about a topic.
func (w *Web) appendPDF(b []byte, r resource) []byte {
	d := w.dice(saltText, r)
	text := []byte("BT /F1 12 Tf 50 800 Td 14 TL\n")
	for range 12 {
		text = append(w.appendTalk(append(text, '('), w.topic(r), &d), ") Tj T*\n"...)
	}
	text = append(text, "ET"...)
	b = append(b, "%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj\n"+
		"3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 600 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>> endobj\n4 0 obj <</Length "...)
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(append(append(b, ">> stream\n"...), text...), "\nendstream endobj\n5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj\n% "...)
	b = w.appendURL(b, r)
	return append(b, "\ntrailer <</Root 1 0 R>>\n%%EOF\n"...)
}
