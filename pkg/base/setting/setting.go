// Package setting checks the values of flags and settings against the tags of the struct fields that hold them.
//
// A field says once what it takes:
//
//	Connections int `key:"fetch.connections" default:"256" range:"1 100000" help:"Connections at a time."`
//
// Package config makes settings of crawl.toml from fields that have the tag key, and package cli flags from all.
//
//	range  the least and the greatest value: "1 100000", "0s 24h"; "1": no greatest; ">0s 24h": above the first; "0 <1": below the second
//	or     one more value that is taken: "0", "never"
//	enum   the words that are taken, with commas between
package setting

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"mercator/pkg/base/fault"
)

// Wrong is the error of a value that a flag ("--connections") or a setting ("fetch.connections") does not take. It is fault.Usage.
func Wrong(name string, value any, want string) *fault.Error {
	return &fault.Error{Class: fault.Usage, Found: Named(name, value), Want: want}
}

// Named is a flag or a setting with its value, in an error.
func Named(name string, value any) string { return name + " " + Text(value) }

// Text is a value as people write it: "text", 25h, 64M.
func Text(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case time.Duration:
		text := v.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	case Size:
		for i, unit := range []string{"T", "G", "M", "K"} {
			if of := Size(1) << (40 - 10*i); v != 0 && v%of == 0 {
				return fmt.Sprint(int64(v/of)) + unit
			}
		}
	}
	return fmt.Sprint(value)
}

// Tags are the tags of a field: a reflect.StructTag, or kong's copy of one.
type Tags interface{ Get(key string) string }

// Want describes the values that the tags allow, beside the value's type; "" if they set no bounds.
func Want(tags Tags) string {
	if words := tags.Get("enum"); words != "" {
		return Or(strings.Split(words, ","))
	}
	span := tags.Get("range")
	if span == "" {
		return ""
	}
	least, most, bounded := strings.Cut(span, " ")
	above := strings.HasPrefix(least, ">")
	least = strings.TrimPrefix(least, ">")
	below := strings.HasPrefix(most, "<")
	want := least + " to " + most
	switch {
	case below:
		want = "at least " + least + ", less than " + strings.TrimPrefix(most, "<")
	case above && bounded:
		want = "more than " + least + ", at most " + most
	case above:
		want = "more than " + least
	case !bounded:
		want = least + " or more"
	}
	if or := tags.Get("or"); or != "" {
		want = or + ", or " + want
	}
	return want
}

// Or lists words in a sentence: "a, b or c".
func Or(words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Check refuses a value that the tags range, or and enum do not allow. A nil pointer and an empty text of an enum are no values.
func Check(name string, tags Tags, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	words := tags.Get("enum")
	if words != "" && v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if err := Check(name, tags, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if words != "" && v.String() != "" && !slices.Contains(strings.Split(words, ","), v.String()) ||
		words == "" && tags.Get("range") != "" && !within(tags.Get("range"), tags.Get("or"), v) {
		return Wrong(name, v.Interface(), Want(tags))
	}
	return nil
}

// within reports whether v is in a span, or the one more value. A text that a field holds is a duration.
func within(span, or string, v reflect.Value) bool {
	if or != "" && (v.Kind() == reflect.String && v.String() == or || fmt.Sprint(v.Interface()) == or) {
		return true
	}
	least, most, bounded := strings.Cut(span, " ")
	above := strings.HasPrefix(least, ">")
	compare := func(bound string) (sign int, ok bool) {
		b, err := parse(bound, v.Type())
		if err != nil {
			panic(fmt.Sprintf("range %q of a %v: %v", span, v.Type(), err))
		}
		return order(v, b)
	}
	low, ok := compare(strings.TrimPrefix(least, ">"))
	if !ok || low < 0 || above && low == 0 {
		return false
	}
	if !bounded {
		return true
	}
	high, ok := compare(strings.TrimPrefix(most, "<"))
	return ok && (high < 0 || high == 0 && !strings.HasPrefix(most, "<"))
}

// parse reads a bound for a value of a type.
func parse(bound string, t reflect.Type) (v reflect.Value, err error) {
	switch {
	case t.Kind() == reflect.String || t == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(bound)
		return reflect.ValueOf(d), err
	case t == reflect.TypeFor[Size]():
		var s Size
		err := s.UnmarshalText([]byte(bound))
		return reflect.ValueOf(s), err
	}
	f, err := strconv.ParseFloat(bound, 64)
	return reflect.ValueOf(f), err
}

// order compares a value with a bound; NaN and a text that is no duration compare with nothing.
func order(v, bound reflect.Value) (sign int, ok bool) {
	if v.Kind() == reflect.String {
		d, err := time.ParseDuration(v.String())
		if err != nil {
			return 0, false
		}
		v = reflect.ValueOf(d)
	}
	switch {
	case bound.Kind() != reflect.Float64: // a duration or a size, both whole
		return sgn(v.Int() < bound.Int(), v.Int() > bound.Int()), true
	case v.CanFloat():
		return sgn(v.Float() < bound.Float(), v.Float() > bound.Float()), v.Float() == v.Float()
	case v.CanUint():
		return sgn(float64(v.Uint()) < bound.Float(), float64(v.Uint()) > bound.Float()), true
	}
	return sgn(float64(v.Int()) < bound.Float(), float64(v.Int()) > bound.Float()), true
}

func sgn(less, more bool) int {
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}
