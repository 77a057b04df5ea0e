package urlset

import (
	"strings"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/web/canon"
)

// Entries of a set's state: the rules of canon.Options by which the URLs in it were made. They
// stand there from its first URLs on, and cannot be changed: by other rules, what was seen would not be known again.
const (
	keyRules = "key_rules"
	urlRules = "url_rules"
)

// CheckRules refuses (fault.Conflict) options with other rules than the set's URLs have. A set
// without rules in its manifest takes any.
func CheckRules(st *store.Store, m *store.Manifest, o canon.Options) error {
	for _, r := range []struct {
		name string
		is   canon.Rules
	}{{keyRules, o.KeyRules}, {urlRules, o.URLRules}} {
		if was, found := m.State[r.name]; found && was != r.is.String() {
			return &fault.Error{Class: fault.Conflict, File: st.Dir(), Place: "urls." + r.name, Found: orNone(r.is.String()), Want: orNone(was) + ", by which the URLs of the set were made",
				Hint: "the rules of a crawl cannot change: restore them in crawl.toml, and repeat what was extracted by other rules"}
		}
	}
	return nil
}

// rulesOf are the key rules by which the URLs of the set were made.
func rulesOf(st *store.Store, m *store.Manifest) (form canon.Options, err error) {
	if was := m.State[keyRules]; was != "" {
		if form.KeyRules, err = canon.ParseRules(strings.Split(was, ",")); err != nil {
			return form, &fault.Error{Class: fault.Corrupt, File: st.Dir(), Place: keyRules, Err: err}
		}
	}
	return form, nil
}

func orNone(rules string) string {
	if rules == "" {
		return "no rules"
	}
	return rules
}

// NoteRules keeps the rules with the set's first URLs.
func NoteRules(tx *store.Tx, o canon.Options) {
	tx.SetState(keyRules, o.KeyRules.String())
	tx.SetState(urlRules, o.URLRules.String())
}
