package words

import (
	"strings"
	"testing"
)

// shown is the words that are kept, and in brackets what is out and why.
func shown(pieces []Piece) string {
	var list []string
	for _, p := range pieces {
		if p.Word != "" {
			list = append(list, p.Word)
		} else {
			list = append(list, "["+p.Out+": "+string(p.Reason)+"]")
		}
	}
	return strings.Join(list, " ")
}

func TestFilter(t *testing.T) {
	f := NewFilter([]string{"Crawler"})
	for text, want := range map[string]string{
		"":                            "",
		"The Mouse and its maze":      "[The: stop word] mouse [and: stop word] [its: stop word] maze",
		"web crawler's crawlers":      "web [crawler's: stop word] crawlers",
		`a "State of  the art" mouse`: "[a: stop word] state of the art mouse",
		`"1984" by G. Orwell`:         "1984 [by: stop word] [G.: author initials] orwell",
		"TCP/IP node.js C++ c# e-mail field_mouse":    "tcp ip node.js c++ c# e-mail field mouse",
		"see http://example.org/a?b, www.example.org": "see [http://example.org/a?b,: url] [www.example.org: url]",
		// citations, as papers, Vancouver style and BibTeX have them
		"Heydon A, Najork M. Mercator. World Wide Web 1999; 2(4): 219-229.":         "heydon [A: author initials] najork [M: author initials] mercator world wide web [1999: year] [2(4): volume] [219-229: page numbers]",
		"A. Heydon and M. A. Najork, Mercator":                                      "[A.: author initials] heydon [and: stop word] [M. A.: author initials] najork mercator",
		"Brin, S., Page, L.: The anatomy, Comput. Netw. ISDN Syst. 30, pp. 107–117": "brin [S.: author initials] page [L.: author initials] [The: stop word] anatomy [Comput: journal abbreviation] [Netw: journal abbreviation] isdn [Syst: journal abbreviation] [30: volume] [pp. 107–117: page numbers]",
		"J. Comput. Sci. 12":                                                         "[J: journal abbreviation] [Comput: journal abbreviation] [Sci: journal abbreviation] [12: volume]",
		"Am J Med 1998-99, vol. 3, no. 12, p. 7":                                     "[Am: journal abbreviation] [J: journal abbreviation] [Med: journal abbreviation] [1998-99: year] [vol. 3: volume] [no. 12: volume] [p. 7: page numbers]",
		"Cho et al. 2000a; Cho ET AL, Lee J et al":                                   "cho [et al.: et al.] [2000a: year] cho [ET AL: et al.] lee [J: author initials] [et al: et al.]",
		"volume 4, issue 2, page 12, pages 3 - 9":                                    "[volume 4: volume] [issue 2: volume] [page 12: page numbers] [pages 3 - 9: page numbers]",
		`Heydon A, Najork M. "Mercator: a crawler". World Wide Web 1999`:             `heydon [A: author initials] najork [M: author initials] ["Mercator: a crawler": title] world wide web [1999: year]`,
		`Heydon and Najork, “Mercator: a crawler,” in Web, vol. 2, pp. 219-229`:      `heydon [and: stop word] najork [“Mercator: a crawler,”: title] [in: stop word] web [vol. 2: volume] [pp. 219-229: page numbers]`,
		`Orwell, G. (1949). "` + strings.Repeat("long ", 20) + `1984 end"`:           `orwell [G.: author initials] [1949: year] ["` + strings.Repeat("long ", 20) + `1984 end": title]`,
		`Cho et al. "One", Web 1998; Brin S, Page L. "Two", 30(1)`:                   `cho [et al.: et al.] ["One": title] web [1998: year] brin [S: author initials] page [L: author initials] ["Two": title] [30(1): volume]`,
		"Cho et al. 1998\n" + `"computer mouse"`:                                     `cho [et al.: et al.] [1998: year] computer mouse`,
		`A. Heydon "web crawler"`:                                                    `[A.: author initials] heydon web crawler`,
		`"web crawler" 1999`:                                                         `web crawler [1999: year]`,
		`"web crawler" by A. Heydon, 1999`:                                           `web crawler [by: stop word] [A.: author initials] heydon [1999: year]`,
		`A. Heydon ` + strings.Repeat("wrote and wrote ", 20) + `"web crawler" 1999`: `[A.: author initials] heydon ` + strings.Repeat("wrote [and: stop word] wrote ", 20) + `web crawler [1999: year]`,
		// what only looks like it
		"the U.S. army in room 101 of version 2": "[the: stop word] u.s army [in: stop word] room 101 [of: stop word] version 2",
		"Sci":                                    "sci",
		"windows 95, 64 bit":                     "windows 95 64 bit",
		"Research in medicine":                   "research [in: stop word] medicine",
		strings.Repeat("x", 65):                  "[" + strings.Repeat("x", 65) + ": too long]",
		"caf\u0065\u0301 \xff Ünïcode 中文":        "café ünïcode 中文",
	} {
		t.Run(text, func(t *testing.T) {
			if got := shown(f.Split(text)); got != want {
				t.Errorf("%q:\n%s, want\n%s", text, got, want)
			}
		})
	}
}

// FuzzFilter: every piece stands in the text, in its order.
func FuzzFilter(f *testing.F) {
	f.Add(`Heydon A, Najork M. "x" J. Comput. Sci. 12, pp. 3-4`)
	filter := NewFilter(nil)
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range filter.Split(text) {
			if (p.Word == "") == (p.Out == "") || (p.Out == "") != (p.Reason == "") {
				t.Errorf("%+v", p)
			}
			if p.Word != "" && (p.Word != fold(p.Word) || len(p.Word) > 4*MaxWord) {
				t.Errorf("word %q", p.Word)
			}
		}
	})
}
