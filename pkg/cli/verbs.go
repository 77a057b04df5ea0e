package cli

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// verbs lists the names of the verbs of a grammar.
func verbs(grammar any) (names []string) {
	eachVerb(grammar, func(_ string, called []string, _ bool) { names = append(names, called[0]) })
	return names
}

// eachVerb calls f with the field of each verb of a grammar, its name and aliases, and whether it needs no name.
func eachVerb(grammar any, f func(field string, called []string, isDefault bool)) {
	t := reflect.TypeOf(grammar).Elem()
	for i := range t.NumField() {
		field := t.Field(i)
		if _, is := field.Tag.Lookup("cmd"); !is {
			continue
		}
		name := field.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		called := []string{name}
		if aliases := field.Tag.Get("aliases"); aliases != "" {
			called = append(called, strings.Split(aliases, ",")...)
		}
		_, isDefault := field.Tag.Lookup("default")
		f(field.Name, called, isDefault)
	}
}

// withoutOthers returns a pattern of fields for kong to leave out: verbs that are not the default and have no name among the arguments.
// Building the flags of all verbs would be most of a command's start. Help and manuals show all.
func withoutOthers(grammar any, args []string) string {
	var others []string
	kept := 0
	eachVerb(grammar, func(field string, called []string, isDefault bool) {
		if isDefault || slices.ContainsFunc(called, func(name string) bool { return slices.Contains(args, name) }) {
			kept++
			return
		}
		if _, isFlag := reflect.TypeFor[Common]().FieldByName(field); isFlag { // kong knows both by the same name
			return
		}
		others = append(others, regexp.QuoteMeta(field))
	})
	all := slices.ContainsFunc(args, func(arg string) bool {
		short := strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--")
		return short && strings.Contains(arg, "h") || strings.HasPrefix(arg, "--help") || strings.HasPrefix(arg, "--manuals")
	})
	if all || kept == 0 || len(args) == 0 || len(others) == 0 {
		return "^$"
	}
	return "^" + regexp.QuoteMeta(reflect.TypeOf(grammar).Elem().Name()) + `\.(` + strings.Join(others, "|") + ")$"
}
