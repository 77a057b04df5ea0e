package words

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Reason says why the filter took a piece of text out.
type Reason string

// The reasons.
const (
	StopWord Reason = "stop word"
	Address  Reason = "url"
	EtAl     Reason = "et al."
	Year     Reason = "year"
	Volume   Reason = "volume"
	Pages    Reason = "page numbers"
	Journal  Reason = "journal abbreviation"
	Initials Reason = "author initials"
	Title    Reason = "title"
	TooLong  Reason = "too long"
)

// MaxWord bounds a word, in bytes.
const MaxWord = 64

// Piece is a piece of a text: a word that is kept, or what was taken out and why.
type Piece struct {
	Word   string `json:"word,omitempty"` // lower case; it has spaces if the text had it in quotes
	Out    string `json:"out,omitempty"`  // as it stood in the text
	Reason Reason `json:"reason,omitempty"`
}

// Filter is the words filter: it keeps the important words of a text. It takes out stop words and
// "bibliographic matter" (Singh and Tyagi). It serves many goroutines.
type Filter struct{ stop map[string]bool }

// NewFilter returns a filter with the project's English stop words and those in more.
func NewFilter(more []string) *Filter {
	f := &Filter{stop: map[string]bool{}}
	for _, w := range append(strings.Fields(stopWords), more...) {
		f.stop[fold(w)] = true
	}
	return f
}

const stopWords = `
a about above after again against all also although am among an and any are as at be because been
before can't being below between both but by can cannot could didn't did do does doesn't doing don't down during each
either else ever every few for from further get gets had has have having he her here hers herself
him himself his how however i if in into is isn't it it's its itself just let like many may me might
more most much must my myself neither no nor not of off often on once one only onto or other ought our
ours ourselves out over own per rather same shall she should since so some such than that the their
theirs them themselves then there therefore these they this those though through thus to too under
until up upon us very was wasn't we were what when where whether which while who whom whose why will with won't
within without would yet you your yours yourself yourselves`

// abbreviated are words as journals and proceedings abbreviate them (ISO 4, mostly), without their periods.
var abbreviated = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
acad acm adv am amer anal ann annu appl arch artif assoc astron astrophys behav biochem biol biophys
br brit bull cambr chem chim clin cogn commun comp comput conf contemp curr discov distrib ecol econ
edn electr electron eng environ eur exp fr fundam gen genet geol geophys ger hist ieee immunol ind
inf inform infect inst instrum int intell interact internat j jour jpn knowl lang lect lett linguist
mach mag manag math mech med meth microbiol mol natl nat netw neurosci nucl numer oper opt pharmacol
philos phys physiol pol proc prog psychol publ quart rep res retr rev roy sci ser simul soc softw
stat statist struct stud surg surv symp syst tech technol theor theoret toxicol trans transact univ
vet zool`) {
		m[w] = true
	}
	return m
}()

// keptDotted are names that look like initials.
var keptDotted = []string{"u.s.", "u.k.", "u.n.", "e.u.", "u.s.a."}

// rules claim ranges of the text, the first one first. Group 1, where there is one, is the range.
var rules = sync.OnceValue(func() []rule {
	return []rule{
		{Address, regexp.MustCompile(`(?i)\b(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>"]+`)},
		{EtAl, regexp.MustCompile(`(?i)\bet\.?\s+al\b\.?`)},
		{Volume, regexp.MustCompile(`(?i)\b(?:vol|no|nr|iss)\.\s*\d+(?:\s*\(\d+(?:[-–]\d+)?\))?|\b(?:volume|vol|issue)\s+\d+`)},
		{Volume, regexp.MustCompile(`\b\d{1,4}\s*\(\d{1,3}(?:[-–]\d+)?\)`)},
		{Year, regexp.MustCompile(`\b(?:1[5-9]|20)\d\d(?:\s*[-–/]\s*(?:(?:1[5-9]|20)\d\d|\d\d)\b|[a-z]?\b)`)},
		{Pages, regexp.MustCompile(`(?i)\bpp?\.\s*\d+(?:\s*[-–—]\s*\d+)?|\bpages?\s+\d+(?:\s*[-–—]\s*\d+)?|\b\d+\s*[-–—]\s*\d+\b`)},
		// A. Heydon; Heydon, A. M.
		{Initials, regexp.MustCompile(`(?:^|[^\p{L}\p{N}.])((?:\p{Lu}\.[\s-]?){1,4})\s?\p{Lu}\p{Ll}`)},
		{Initials, regexp.MustCompile(`\p{Lu}[\p{L}'’-]+,\s+((?:\p{Lu}\.[\s-]?){1,4})`)},
	}
})

type rule struct {
	reason Reason
	re     *regexp.Regexp
}

var (
	quoted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"([^"\n]{1,64})"|“([^”\n]{1,64})”`) })
	// Heydon A, Najork M. as medical journals have it: two or more, or one before "et al."
	authors = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:\p{Lu}[\p{L}'’-]+ \p{Lu}{1,3}(?:[,;.]\s*|\s*$)){2,}|\p{Lu}[\p{L}'’-]+ \p{Lu}{1,3},? et al`)
	})
	initial = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` (\p{Lu}{1,3})(?:[,;.]|\s*$| et al)`) })
	number  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,4}$`) })
	word    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[\p{L}\p{N}][\p{L}\p{M}\p{N}]*(?:[-'’._][\p{L}\p{N}][\p{L}\p{M}\p{N}]*)*[+#]{0,2}`)
	})
)

// A quoted text is the title of a citation if, within citationSpan bytes of it, there are author initials or "et al." before it and
// a year, a volume or page numbers on either side, or two of these three.
var quotedTitle = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"\n]{1,300}"|“[^”\n]{1,300}”`) })

const citationSpan = 200

// titles takes the titles of citations out. The claims are sorted by from, and stay so.
func titles(text string, claims []claim) (left []claim) {
	done := 0 // of claims
	at := func(i int) int {
		n, _ := slices.BinarySearchFunc(claims, i, func(c claim, i int) int { return c.from - i })
		return n
	}
	for _, m := range quotedTitle().FindAllStringIndex(text, -1) {
		from, to := at(m[0]), at(m[1])
		authors, seen := 0, map[Reason]bool{}
		for i := at(m[0] - citationSpan); i < at(m[1]+citationSpan); i++ {
			switch c := claims[i]; {
			case i >= from && i < to:
			case strings.Contains(text[min(c.from, m[1]):max(c.from, m[0])], "\n"):
			case c.piece.Reason == Initials, c.piece.Reason == EtAl:
				if i < from {
					authors = 1
				}
			case c.piece.Reason == Year, c.piece.Reason == Volume, c.piece.Reason == Pages:
				seen[c.piece.Reason] = true
			}
		}
		if len(seen) > 0 && authors+len(seen) > 1 {
			left = append(append(left, claims[done:from]...), claim{m[0], m[1], Piece{Out: text[m[0]:m[1]], Reason: Title}})
			done = to
		}
	}
	return append(left, claims[done:]...)
}

// claim is a range of the text: a phrase that is kept, or a piece that is out.
type claim struct {
	from, to int
	piece    Piece
}

// Split returns the pieces of a text in their order. A phrase of up to 64 bytes in double quotes is one word, unless it is the title of a citation.
// Time and memory are linear in the text.
func (f *Filter) Split(text string) []Piece {
	text = norm.NFC.String(strings.ToValidUTF8(text, " "))
	var claims []claim
	rest := []byte(text) // without what is claimed
	add := func(from, to int, p Piece) {
		claims = append(claims, claim{from, to, p})
		for i := from; i < to; i++ {
			rest[i] = '\n' // no rule goes beyond, but those with \s
		}
	}
	out := func(from, to int, why Reason) {
		if piece := strings.TrimSpace(text[from:to]); !slices.Contains(keptDotted, strings.ToLower(piece)) {
			add(from, to, Piece{Out: piece, Reason: why})
		}
	}
	for _, m := range quoted().FindAllSubmatchIndex(rest, -1) {
		from, to := max(m[2], m[4]), max(m[3], m[5])
		if phrase := fold(text[from:to]); strings.IndexFunc(phrase, isWord) >= 0 {
			add(m[0], m[1], Piece{Word: phrase})
		}
	}
	for _, list := range authors().FindAllIndex(slices.Clone(rest), -1) {
		for _, m := range initial().FindAllSubmatchIndex(slices.Clone(rest[list[0]:list[1]]), -1) {
			out(list[0]+m[2], list[0]+m[3], Initials)
		}
	}
	for _, r := range rules() {
		for _, m := range r.re.FindAllSubmatchIndex(slices.Clone(rest), -1) {
			if len(m) > 2 {
				m = m[2:]
			}
			if next := word().Find(rest[m[1]:]); r.reason == Initials && abbreviated[strings.ToLower(string(next))] {
				continue // J. Comput. Sci.
			}
			out(m[0], m[1], r.reason)
		}
	}
	spans := word().FindAllIndex(rest, -1)
	short := func(i int) (listed, period bool) { // of spans[i]
		if i < 0 || i >= len(spans) {
			return false, false
		}
		from, to := spans[i][0], spans[i][1]
		return abbreviated[strings.ToLower(text[from:to])] && unicode.IsUpper(firstRune(text[from:])), to < len(text) && text[to] == '.'
	}
	journal := false // the word before is one of a journal's name
	for i, s := range spans {
		shown := text[s[0]:s[1]]
		beside := i > 0 && adjacent(text, spans, i-1)
		if journal && beside && number().MatchString(shown) { // Comput. Netw. 30
			out(s[0], s[1], Volume)
			journal = false
			continue
		}
		journal = false
		listed, period := short(i)
		before, _ := short(i - 1)
		after, _ := short(i + 1)
		// A sentence may end in "Res.", but not with another such word beside it.
		if listed && len(spans) > 1 && (period || before && beside || after && adjacent(text, spans, i)) {
			out(s[0], s[1], Journal)
			journal = true
			continue
		}
		w := strings.TrimSuffix(strings.TrimSuffix(fold(shown), "'s"), "’s")
		switch {
		case len(w) > MaxWord:
			out(s[0], s[1], TooLong)
		case f.stop[w]:
			out(s[0], s[1], StopWord)
		default:
			claims = append(claims, claim{s[0], s[1], Piece{Word: w}})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int { return a.from - b.from })
	claims = titles(text, claims)
	pieces := make([]Piece, len(claims))
	for i, c := range claims {
		pieces[i] = c.piece
	}
	return pieces
}

// Words are the words that Split keeps.
func (f *Filter) Words(text string) []string {
	var list []string
	for _, p := range f.Split(text) {
		if p.Word != "" {
			list = append(list, p.Word)
		}
	}
	return list
}

// adjacent reports whether only a space, or a period and a space, is between word i and the next.
func adjacent(text string, spans [][]int, i int) bool {
	return strings.TrimPrefix(text[spans[i][1]:spans[i+1][0]], ".") == " "
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

// fold is the form in which words are compared: NFC, lower case, single spaces, underscores as spaces.
func fold(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(norm.NFC.String(s)), "_", " ")), " ")
}
