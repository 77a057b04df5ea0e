package record

import (
	"strconv"
	"testing"
)

// A value of a server's is no formula to a spreadsheet, and comes back as it was.
func TestCSVCell(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "a=b": "a=b", "=1+2": "'=1+2", "+x": "'+x", "-x": "'-x", "@SUM(1)": "'@SUM(1)", "\t=x": "'\t=x", "\r=x": "'\r=x",
		"-1.5": "-1.5", "+3": "+3", "-1e-3": "-1e-3", "-1+cmd|' /C x'!A0": "'-1+cmd|' /C x'!A0", "-": "'-",
		"'": "'", "'a": "'a", "'=x": "''=x", "''=x": "'''=x", "'-1": "''-1", "' =x": "' =x",
	} {
		t.Run(strconv.Quote(value), func(t *testing.T) {
			if got := CSVCell(value); got != want || CSVValue(got) != value {
				t.Errorf("%q: %q, want %q; read again %q", value, got, want, CSVValue(got))
			}
		})
	}
}

func FuzzCSVCell(f *testing.F) {
	f.Add("'=x")
	f.Fuzz(func(t *testing.T, value string) {
		if got := CSVValue(CSVCell(value)); got != value {
			t.Errorf("%q became %q", value, got)
		}
	})
}
