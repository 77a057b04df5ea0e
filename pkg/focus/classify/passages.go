package classify

import (
	"cmp"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"mercator/formats/record"
	"mercator/pkg/web/process"
)

// Passage is a part of a document's text that is about a topic.
type Passage struct {
	Topic              int // of the model
	Text               string
	Start, End         int // in the document's text, in bytes
	StartChar, EndChar int // in characters
	Weight             int // weight of the passage's words, in thousandths
}

const (
	strong      = 120              // weight of a word that makes a sentence a passage
	maxSize     = process.MaxValue // bytes of a passage; a longer sentence is cut
	maxPassages = 10_000           // of a document that are compared
)

// Passages finds the passages of a text: sentences with a word that speaks strongly for a topic, joined where they stand in one line with
// at most one sentence between. It returns the best of the text, at most limit, in the order of the text. A sentence ends at '.', '!', '?', or an
// ideographic full stop, behind which white space stands, and at the end of the line.
func (s *Scorer) Passages(text string, limit int) []Passage {
	var all []Passage
	about := s.Texts(Texts{Texts: []string{text}}, 0).Topic
	open := -1 // the passage that may go on
	since := 0 // sentences behind it
	for start := 0; start < len(text) && len(all) < maxPassages; {
		end, line := sentence(text, start)
		likely := about // where a word speaks for several topics
		if open >= 0 {
			likely = all[open].Topic
		}
		topic, weight := s.speaks(text[start:end], likely)
		joined := open >= 0 && since <= 1 && end-all[open].Start <= maxSize
		switch {
		case weight > 0 && joined && all[open].Topic == topic:
			all[open].End, all[open].Weight, since = end, all[open].Weight+weight, 0
		case weight > 0:
			for end-start > maxSize {
				end = start + maxSize
				for !utf8.RuneStart(text[end]) {
					end--
				}
			}
			all = append(all, Passage{Topic: topic, Start: start, End: end, Weight: weight})
			open, since = len(all)-1, 0
		default:
			since++
		}
		if start = end; line {
			open = -1
		}
		for start < len(text) && (text[start] == ' ' || text[start] == '\n') {
			if text[start] == '\n' {
				open = -1
			}
			start++
		}
	}
	if limit > 0 {
		all = best(all, limit)
	}
	at, chars := 0, 0
	to := func(i int) int {
		chars += utf8.RuneCountInString(text[at:i])
		at = i
		return chars
	}
	for i := range all {
		p := &all[i]
		p.Text = text[p.Start:p.End]
		p.StartChar = to(p.Start)
		p.EndChar = to(p.End)
	}
	return all
}

// best are the best of passages, in their order.
func best(all []Passage, limit int) []Passage {
	if len(all) <= limit {
		return all
	}
	slices.SortStableFunc(all, func(a, b Passage) int { return cmp.Compare(b.Weight, a.Weight) })
	all = all[:limit]
	slices.SortFunc(all, func(a, b Passage) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// sentence finds the end of the sentence that begins at start, and whether a line ends there.
func sentence(text string, start int) (end int, line bool) {
	for i := start; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		switch r {
		case '\n':
			return i - n, true
		case '。':
			return i, false
		case '.', '!', '?':
			if next, _ := utf8.DecodeRuneInString(text[i:]); i < len(text) && unicode.IsSpace(next) {
				return i, false
			}
		}
	}
	return len(text), true
}

// speaks is the topic that the words of a sentence speak for, of equal ones the likely one, and how much; 0 if no word does strongly.
func (s *Scorer) speaks(text string, likely int) (topic, weight int) {
	sums, is := make([]int, len(s.f.profiles)), make([]bool, len(s.f.profiles))
	for _, word := range (Texts{Texts: []string{text}}).words(&s.stem) {
		id, found := s.f.l.ids[word.Stem]
		if !found {
			continue
		}
		for i, p := range s.f.profiles {
			if int(id) < len(p) {
				w := int(math.Round(1000 * p[id]))
				sums[i] += w
				is[i] = is[i] || w >= strong
			}
		}
	}
	for i, sum := range sums {
		if is[i] && (sum > weight || sum == weight && sum > 0 && i == likely) {
			topic, weight = i, sum
		}
	}
	if !s.f.m.wants(topic) {
		return 0, 0
	}
	return topic, weight
}

// Columns of passages beside the columns of module rows: places in the document's text, as the module "text" and WET have it.
var passageColumns = record.NewSchema(record.KindModule,
	record.Column{Name: "start"}, record.Column{Name: "end"}, record.Column{Name: "start_char"}, record.Column{Name: "end_char"})

// PassageModule is the module of rows of passages. Their key is the topic.
const PassageModule = "passages"

// PassageSchema is the schema of passage rows.
func PassageSchema() *record.Schema { return passageColumns }

// Rows are the passages of a document as rows.
func (s *Scorer) Rows(row *record.Fetch, passages []Passage) (rows []record.Module) {
	for _, p := range passages {
		rows = append(rows, record.Module{URL: row.URL, Key: row.Key, Module: PassageModule, Name: s.f.m.Topics[p.Topic].Name, Value: p.Text,
			Extra: passageColumns.Extra(func(name string) uint64 {
				return uint64(map[string]int{"start": p.Start, "end": p.End, "start_char": p.StartChar, "end_char": p.EndChar}[name])
			})})
	}
	return rows
}
