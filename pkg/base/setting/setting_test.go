package setting

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"mercator/pkg/base/fault"
)

func TestCheck(t *testing.T) {
	type fields struct {
		Count    int           `range:"1 100000"`
		More     uint64        `range:"2"`
		Factor   float64       `range:"0 1000000"`
		Share    float64       `range:">0 1"`
		Part     float64       `range:"0 <1"`
		Rate     float64       `range:"0.001 1000000000" or:"0"`
		Delay    time.Duration `range:"0s 24h"`
		Timeout  time.Duration `range:">0s"`
		Size     Size          `range:"1M"`
		Interval string        `range:"1s 8760h" or:"never"`
		Word     string        `enum:"a,b,c"`
		Words    []string      `enum:"a,b"`
		Growth   *float64      `range:"0 1"`
	}
	two := 2.0
	for _, c := range []struct {
		name, field string
		value       any
		want        string
	}{
		{"least", "Count", 1, ""},
		{"greatest", "Count", 100000, ""},
		{"below", "Count", 0, "--x 0, want 1 to 100000"},
		{"above", "Count", 100001, "--x 100001, want 1 to 100000"},
		{"no greatest", "More", uint64(math.MaxUint64), ""},
		{"below a least alone", "More", uint64(1), "--x 1, want 2 or more"},
		{"not a number", "Factor", math.NaN(), "--x NaN, want 0 to 1000000"},
		{"infinite", "Factor", math.Inf(1), "--x +Inf, want 0 to 1000000"},
		{"above an open bound", "Share", 1e-9, ""},
		{"an open bound", "Share", 0.0, "--x 0, want more than 0, at most 1"},
		{"below an open bound", "Part", 0.9, ""},
		{"an open bound above", "Part", 1.0, "--x 1, want at least 0, less than 1"},
		{"one more value", "Rate", 0.0, ""},
		{"beside one more value", "Rate", 1e-9, "--x 1e-09, want 0, or 0.001 to 1000000000"},
		{"a whole day", "Delay", 24 * time.Hour, ""},
		{"a duration", "Delay", 25 * time.Hour, "--x 25h, want 0s to 24h"},
		{"no time", "Timeout", time.Duration(0), "--x 0s, want more than 0s"},
		{"a size", "Size", Size(512 << 10), "--x 512K, want 1M or more"},
		{"a crooked size", "Size", Size(1025), "--x 1025, want 1M or more"},
		{"a duration in a text", "Interval", "6h", ""},
		{"a word instead", "Interval", "never", ""},
		{"no duration", "Interval", "6x", `--x "6x", want never, or 1s to 8760h`},
		{"a short one", "Interval", "1ms", `--x "1ms", want never, or 1s to 8760h`},
		{"a word", "Word", "b", ""},
		{"no word", "Word", "", ""},
		{"another word", "Word", "d", `--x "d", want a, b or c`},
		{"a list", "Words", []string{"a", "b"}, ""},
		{"a member", "Words", []string{"a", "c"}, `--x "c", want a or b`},
		{"no value", "Growth", (*float64)(nil), ""},
		{"behind a pointer", "Growth", &two, "--x 2, want 0 to 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _ := reflect.TypeFor[fields]().FieldByName(c.field)
			err := Check("--x", f.Tag, reflect.ValueOf(c.value))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.Usage) || err.Error() != c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want Size
	}{{"0", 0}, {"64", 64}, {"64K", 64 << 10}, {"1m", 1 << 20}, {"1GiB", 1 << 30}, {"2TB", 2 << 40}, {"", -1}, {"-1", -1}, {"1.5M", -1}, {"9999999999T", -1}, {"M", -1}} {
		t.Run(c.text, func(t *testing.T) {
			got := Size(-1)
			if err := got.UnmarshalText([]byte(c.text)); (err != nil) != (c.want < 0) || got != c.want {
				t.Errorf("%d, %v; want %d", got, err, c.want)
			}
		})
	}
}
