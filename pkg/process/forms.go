package process

import (
	"context"
	"encoding/json"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
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
	text, err := htmlText(doc)
	if err != nil {
		return err
	}
	var open *form
	put := func() {
		if open != nil {
			report("form", open.json())
		}
		open = nil
	}
	z := newTokenizer(text)
	for {
		tt := z.Next()
		if tt == html.ErrorToken {
			put()
			return nil
		}
		if tt != html.StartTagToken && tt != html.SelfClosingTagToken && tt != html.EndTagToken {
			continue
		}
		name, more := z.TagName()
		tag := atom.Lookup(name)
		if tt == html.EndTagToken {
			if tag == atom.Form {
				put()
			}
			continue
		}
		switch tag {
		case atom.Noscript:
			z.NextIsNotRawText()
		case atom.Form:
			if open != nil {
				continue // a form within a form is none
			}
			a := attributes(z, more, "action", "method", "enctype")
			open = &form{Action: cut(a["action"], maxAction), Method: "get", Type: cut(strings.ToLower(a["enctype"]), maxFieldName), Fields: []field{}}
			if m := strings.ToLower(a["method"]); m == "post" || m == "dialog" {
				open.Method = m
			}
		case atom.Input, atom.Select, atom.Textarea, atom.Button:
			if open == nil {
				continue
			}
			a := attributes(z, more, "name", "type")
			if a["name"] == "" {
				continue // it is not sent
			}
			kind := tag.String()
			switch t := strings.ToLower(a["type"]); {
			case t != "" && (tag == atom.Input || tag == atom.Button):
				kind = t
			case tag == atom.Input:
				kind = "text"
			case tag == atom.Button:
				kind = "submit"
			}
			if len(open.Fields) == maxFields {
				open.Cut = true
				continue
			}
			open.Fields = append(open.Fields, field{cut(a["name"], maxFieldName), cut(kind, maxFieldName)})
		}
	}
}

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

// attributes reads those of a start tag that are named; of one that is there twice
// the first counts.
func attributes(z *html.Tokenizer, more bool, names ...string) map[string]string {
	a := make(map[string]string, len(names))
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		for _, n := range names {
			if string(k) == n {
				if _, twice := a[n]; !twice {
					a[n] = string(v[:min(len(v), maxTitle)])
				}
			}
		}
	}
	return a
}
