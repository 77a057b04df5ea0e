package filter

import (
	"bufio"
	"bytes"
	"strings"
)

// never is a condition that no URL meets (RFC 6761 section 6.4).
const never = "host switched-off.invalid"

// Untrust switches the rules of a file off that run programs: such a rule stays, with its name, and applies to no URL. programs are their
// commands, includes the names of the files that the file includes, relative to path. A line that Load would refuse stays.
func Untrust(path string, text []byte) (clean []byte, programs, includes []string) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, MaxLine)
	p := &place{loader: &loader{Filter: &Filter{}}, name: path}
	var out bytes.Buffer
	for lines.Scan() {
		p.line++
		p.text = lines.Text()
		if p.line == 1 {
			p.text = strings.TrimPrefix(p.text, "\ufeff")
		}
		at := len(p.text) - len(strings.TrimLeft(p.text, " \t"))
		word := p.text[at:]
		if i := strings.IndexAny(word, " \t:"); i >= 0 {
			word = word[:i]
		}
		end := at + len(word)
		switch word {
		case "include":
			if words, err := p.scan(end); err == nil && len(words) > 0 && !words[0].is("default") {
				includes = append(includes, p.relative(words[0].text))
			}
		case "allow", "deny":
			colon := strings.IndexByte(p.text[end:], ':')
			if colon < 0 {
				break
			}
			end += colon + 1
			tokens, err := p.scan(end)
			if err != nil {
				break
			}
			runs := false
			for i, t := range tokens {
				if t.is("exec") && (i == 0 || tokens[i-1].ends()) {
					runs = true
					if i+1 < len(tokens) {
						programs = append(programs, tokens[i+1].text)
					}
				}
			}
			if runs {
				p.text = p.text[:end] + " " + never + " # " + strings.TrimSpace(p.text[end:])
			}
		}
		out.WriteString(p.text + "\n")
	}
	if lines.Err() != nil || len(programs) == 0 { // no file of rules, or nothing to switch off
		return text, nil, includes
	}
	return out.Bytes(), programs, includes
}
