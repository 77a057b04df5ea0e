package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// User columns, x_NAME, are of url and fetch rows, and travel with their URL through a crawl. A row holds
// them in its column x: one JSON object, its names without x_ and in order, each value text, a number, true or
// false. Text shows them as columns.
const (
	MaxUserColumns = 16   // user columns of a row
	MaxUserBytes   = 1024 // of the column x
)

const (
	userColumn  = "x"
	userPrefix  = "x_"
	maxUserName = 64 // bytes of a name
)

// isUserColumn reports whether a name is the name of a user column.
func isUserColumn(name string) bool {
	rest, ok := strings.CutPrefix(name, userPrefix)
	return ok && rest != "" && len(name) <= maxUserName && !strings.ContainsFunc(rest, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// userValues reads a column x; nil if it is empty or holds no such object.
func userValues(x string) map[string]any {
	if x == "" || len(x) > MaxUserBytes {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(x))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil || len(values) > MaxUserColumns {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	for name, v := range values {
		switch v.(type) {
		case string, json.Number, bool:
		default:
			return nil
		}
		if !isUserColumn(userPrefix + name) {
			return nil
		}
	}
	return values
}

// userText is the column x that holds the values; the error says what was wanted.
func userText(values map[string]any) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > MaxUserColumns {
		return "", fmt.Errorf("%d columns x_NAME, want at most %d", len(values), MaxUserColumns)
	}
	b := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, name), ':')
		b = appendUser(b, values[name])
	}
	if b = append(b, '}'); len(b) > MaxUserBytes {
		return "", fmt.Errorf("columns x_NAME of %d bytes, want at most %d", len(b), MaxUserBytes)
	}
	return string(b), nil
}

// appendUser appends a value as JSON has it.
func appendUser(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendJSONString(b, strings.ToValidUTF8(v, "\uFFFD"))
	case json.Number:
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// userString is a value as a table has it.
func userString(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// errUser says what a column x is to hold.
var errUser = errors.New("a JSON object of at most " + strconv.Itoa(MaxUserColumns) + " names and values, " + strconv.Itoa(MaxUserBytes) + " bytes")
