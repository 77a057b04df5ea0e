package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"mercator/pkg/base/coprocess"
	"mercator/pkg/base/fault"
)

// stays is the word before a command that stays.
const stays = "stay"

// resident asks a program that stays: one for each thread, started for the first document.
//
// A question is a line of JSON, then the body, with the length that the line gives.
// The answer is one line: a JSON object with findings as its members. So a line end or a tab in
// a page cannot be taken for the end of an answer.
//
// A program that ends before it has answered is started again and asked again. The document
// that it ended at coprocess.Fruitless times has failed.
type resident struct {
	program coprocess.Program
	line    bytes.Buffer
}

// question is the line before a body. Length stands last, for programs that cut it out by hand.
type question struct {
	URL       string `json:"url"`
	Key       string `json:"url_key"`
	Type      string `json:"type"`
	Charset   string `json:"charset"`
	Status    int    `json:"status"`
	Truncated string `json:"truncated"`
	Length    int    `json:"length"`
}

func newResident(e *Exec) *resident {
	return &resident{program: coprocess.Program{
		Command: e.Command, Timeout: e.Limits.timeout(), Answer: e.Limits.output(), Deaths: math.MaxInt,
		Env: []string{"MERCATOR_EVENT=document"},
	}}
}

// Process asks the program for one document.
func (r *resident) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	r.line.Reset()
	enc := json.NewEncoder(&r.line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(question{
		doc.URL, fmt.Sprintf("%016x", doc.Key), doc.MIME, doc.Charset, doc.Status, doc.Truncated, len(doc.Body),
	}); err != nil {
		return err
	}
	err := r.program.AskAbout(ctx, r.line.Bytes(), doc.Body, doc.URL, func(answer string) error { return parseFindings(answer, report) })
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Hint != "" { // the finding has no place for a hint
		return fmt.Errorf("%s; %s", f.Found, f.Hint)
	} else if f != nil {
		return errors.New(f.Found)
	}
	return err
}

// Close ends the program.
func (r *resident) Close() error { return r.program.Close() }

// parseFindings reads an answer. A list is a finding for each of its values, null is none,
// and an object or a list within stays JSON.
func parseFindings(answer string, report func(key, value string)) error {
	bad := fmt.Errorf("answer %.80q, want a JSON object", answer)
	d := json.NewDecoder(strings.NewReader(answer))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return bad
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return bad
		}
		values := []json.RawMessage{raw}
		if raw[0] == '[' && json.Unmarshal(raw, &values) != nil {
			return bad
		}
		for _, v := range values {
			text := string(v)
			if v[0] == '"' && json.Unmarshal(v, &text) != nil {
				return bad
			}
			if text != "null" || v[0] == '"' {
				report(key.(string), text)
			}
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return bad
	}
	if _, err := d.Token(); err != io.EOF {
		return bad
	}
	return nil
}
