package process

import (
	"context"
	"encoding/json"
	"strings"

	"mercator/pkg/web/markup"
)

// Bounds of what is kept of a form.
const (
	maxFields    = 200
	maxFieldName = 128  // bytes, of action too 1,024
	maxAction    = 1024 // bytes
)

// form is one form as it is reported.
type form struct {
	Action string  `json:"action"` // as it stands in the page; "": the page itself
	Method string  `json:"method"`
	Type   string  `json:"enctype,omitempty"`
	Fields []field `json:"fields"`
	Cut    bool    `json:"cut,omitempty"` // there are more fields
}

type field struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// formsModule reports each form of an HTML page as a JSON object: action, method,
// and its fields with names and types, in their order.
type formsModule struct{}

func (formsModule) Name() string    { return "forms" }
func (formsModule) Types() []string { return htmlTypes }
func (formsModule) New() Instance   { return formsModule{} }

func (formsModule) Process(_ context.Context, doc *Document, report func(key, value string)) error {
	r, err := readHTML(doc, formAttributes)
	if err != nil {
		return err
	}
	defer readers.Put(r)
	defer r.Close()
	var open *form
	put := func() {
		if open != nil {
			report("form", open.json())
		}
		open = nil
	}
	value := func(a markup.Attr) string { return string(cutBytes(r.Bytes(a), maxTitle)) }
	for {
		tok := r.Next()
		e := &r.Element
		switch {
		case tok == markup.TokenEnd:
			put()
			return nil
		case r.Inert() || e.Space != markup.SpaceHTML:
			continue
		case tok == markup.TokenClose && e.Tag == markup.TagForm:
			put()
			continue
		case tok != markup.TokenStart:
			continue
		}
		switch e.Tag {
		case markup.TagForm:
			if open != nil {
				continue // a form within a form is none
			}
			open = &form{Action: cut(value(markup.AttrAction), maxAction), Method: "get", Type: cut(strings.ToLower(value(markup.AttrEnctype)), maxFieldName), Fields: []field{}}
			if m := strings.ToLower(value(markup.AttrMethod)); m == "post" || m == "dialog" {
				open.Method = m
			}
		case markup.TagInput, markup.TagSelect, markup.TagTextarea, markup.TagButton:
			name := value(markup.AttrName)
			if open == nil || name == "" {
				continue // it is not sent
			}
			kind := e.Name
			switch t := strings.ToLower(value(markup.AttrType)); {
			case t != "" && (e.Tag == markup.TagInput || e.Tag == markup.TagButton):
				kind = t
			case e.Tag == markup.TagInput:
				kind = "text"
			case e.Tag == markup.TagButton:
				kind = "submit"
			}
			if len(open.Fields) == maxFields {
				open.Cut = true
				continue
			}
			open.Fields = append(open.Fields, field{cut(name, maxFieldName), cut(kind, maxFieldName)})
		}
	}
}

var formAttributes = markup.Want(1<<markup.AttrAction|1<<markup.AttrMethod|1<<markup.AttrEnctype|1<<markup.AttrName|1<<markup.AttrType, 0)

// json is the form in at most MaxValue bytes: fields that do not fit are left out.
func (f *form) json() string {
	for {
		b, err := json.Marshal(f)
		if err != nil {
			panic(err) // strings and bools only
		}
		if len(b) <= MaxValue || len(f.Fields) == 0 {
			return string(b)
		}
		f.Fields, f.Cut = f.Fields[:len(f.Fields)*3/4], true
	}
}
