package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"mercator/pkg/base/fault"
)

// Value is a checked value of a setting that a host sheet gives.
type Value struct {
	Key  Key
	Text string
	Line int // in the file of sheets
	of   reflect.Value
}

// SheetKeys lists the settings that a sheet may give, in the order of crawl.toml.
func SheetKeys() []Key {
	return slices.DeleteFunc(append(Keys(), keysOf(reflect.TypeFor[OfSheets](), Key{})...), func(k Key) bool { return k.Sheet == "" })
}

// SheetValue reads the value of a setting in a sheet; it refuses (fault.Usage) what crawl.toml does, and settings of the whole crawl.
func SheetValue(name, text string) (v Value, err error) {
	var names []string
	for _, k := range SheetKeys() {
		if names = append(names, k.Name); k.Name == name {
			v.Key = k
		}
	}
	if v.Key.Name == "" {
		found, hint := "unknown setting "+fmt.Sprintf("%q", name), fault.DidYouMean(name, names)
		if _, known := keyAt(name); known {
			found, hint = name+", a setting of the whole crawl", "" // it is no slip of a key that sheets may give
		}
		return v, &fault.Error{Class: fault.Usage, Found: found, Want: "one that sheets may give: " + strings.Join(names, ", "), Hint: hint}
	}
	v.Text, v.of = text, reflect.New(v.Key.typ).Elem()
	if at := strings.IndexFunc(text, isInvisible); at >= 0 {
		return v, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("%s with the character %+q", name, []rune(text[at:])[0]), Want: "text that shows as it is"}
	}
	if _, err := v.Key.literal(text); err != nil { // which reads it, too
		return v, err
	}
	return v, v.Key.decodeValue(v.Key.parsed(text), v.of)
}

// Into sets those fields of a struct that are the values' settings. The later one wins; members of lists are added to those that are there.
func Into(to any, values []Value) {
	for _, v := range values {
		into(reflect.ValueOf(to).Elem(), v)
	}
}

func into(to reflect.Value, v Value) {
	for f, field := range to.Fields() {
		switch {
		case f.Type.Kind() == reflect.Struct:
			into(field, v)
		case f.Tag.Get("key") != v.Key.Name:
		case f.Type.Kind() == reflect.Slice:
			field.Set(reflect.AppendSlice(field.Slice3(0, field.Len(), field.Len()), v.of))
		default:
			field.Set(v.of)
		}
	}
}
