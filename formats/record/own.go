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

// The user's own columns, x_NAME, are of url and fetch rows, and travel with their URL through a crawl. A row holds
// them in its column x: one JSON object, its names without x_ and in order, each value text, a number, true or
// false. Text shows them as columns.
const (
	MaxOwn      = 16   // own columns of a row
	MaxOwnBytes = 1024 // of the column x
)

const (
	ownColumn = "x"
	ownPrefix = "x_"
	maxOwn    = 64 // bytes of a name
)

// isOwn reports whether a name is the name of a user's own column.
func isOwn(name string) bool {
	rest, ok := strings.CutPrefix(name, ownPrefix)
	return ok && rest != "" && len(name) <= maxOwn && !strings.ContainsFunc(rest, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// ownValues reads a column x; nil if it is empty or holds no such object.
func ownValues(x string) map[string]any {
	if x == "" || len(x) > MaxOwnBytes {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(x))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil || len(values) > MaxOwn {
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
		if !isOwn(ownPrefix + name) {
			return nil
		}
	}
	return values
}

// ownText is the column x that holds the values; the error says what was wanted.
func ownText(values map[string]any) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > MaxOwn {
		return "", fmt.Errorf("%d columns x_NAME, want at most %d", len(values), MaxOwn)
	}
	b := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, name), ':')
		b = appendOwn(b, values[name])
	}
	if b = append(b, '}'); len(b) > MaxOwnBytes {
		return "", fmt.Errorf("columns x_NAME of %d bytes, want at most %d", len(b), MaxOwnBytes)
	}
	return string(b), nil
}

// appendOwn appends a value as JSON has it.
func appendOwn(b []byte, v any) []byte {
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

// ownString is a value as a table has it.
func ownString(v any) string {
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

// errOwn says what a column x is to hold.
var errOwn = errors.New("a JSON object of at most " + strconv.Itoa(MaxOwn) + " names and values, " + strconv.Itoa(MaxOwnBytes) + " bytes")
