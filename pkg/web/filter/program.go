package filter

import (
	"fmt"
	"strconv"
	"strings"
)

// appendQuestion appends the line that the program of an exec test gets.
func appendQuestion(b []byte, c *Candidate) []byte {
	b = append(b, c.URL...)
	b = append(b, '\t')
	b = append(b, c.Host...)
	b = append(b, '\t')
	b = strconv.AppendUint(b, uint64(c.Depth), 10)
	b = append(b, '\t')
	b = appendField(b, c.Kind)
	b = append(b, '\t')
	b = appendField(b, c.MIME)
	return append(b, '\n')
}

// appendField appends a field. Control characters become spaces, so that tabs and line ends do not begin new fields.
func appendField(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c < ' ' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// parseAnswer reads what the program answers.
func parseAnswer(line string) (yes bool, why string, err error) {
	verdict, why, _ := strings.Cut(line, "\t")
	if verdict != "yes" && verdict != "no" {
		return false, "", fmt.Errorf("answer %q, want yes or no", verdict)
	}
	return verdict == "yes", why, nil
}
