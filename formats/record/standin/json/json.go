// Package json stands in for github.com/goccy/go-json, by a replace directive in go.mod. Arrow alone imports that, for values as JSON, which
// Mercator does not ask it for. Its tables are as long as the types of the program take room, and are made at each start: 1.8 MB, with
// which the collector began before main. Here is encoding/json under the names that Arrow uses.
package json

import (
	"encoding/json"
	"io"
)

type (
	Decoder            = json.Decoder
	Encoder            = json.Encoder
	Marshaler          = json.Marshaler
	Delim              = json.Delim
	UnmarshalTypeError = json.UnmarshalTypeError
	Number             = json.Number
	Unmarshaler        = json.Unmarshaler
	RawMessage         = json.RawMessage
)

func Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func NewDecoder(r io.Reader) *Decoder    { return json.NewDecoder(r) }
func NewEncoder(w io.Writer) *Encoder    { return json.NewEncoder(w) }
