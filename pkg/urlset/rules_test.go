package urlset_test

import (
	"context"
	"errors"
	"testing"

	"mercator/formats/record"
	"mercator/formats/record/recordtest"
	"mercator/pkg/base/fault"
	"mercator/pkg/folder/stage"
	"mercator/pkg/urlset"
	"mercator/pkg/web/canon"
)

// The rules of a set's first URLs hold for all, in both ways, whatever a caller looked at before.
func TestRules(t *testing.T) {
	for _, w := range []way{{mem: 1 << 20}, {mem: 1 << 20, online: true, together: 1}} {
		st := newStore(t)
		add := func(form canon.Options, links ...record.Link) error {
			in := recordtest.Reader[record.Link](t, recordtest.Stream(t, record.WriterOptions{}, links...))
			var out recordtest.Output
			var stats urlset.Stats
			_, err := stage.Run(context.Background(), w.spec(st, "new", ""), in, []stage.Output{&out}, body(w, st, urlset.Options[record.Link]{Convert: urlset.FromLink, Canon: form}, &stats))
			return err
		}
		ruled := canon.Options{KeyRules: canon.WWW, URLRules: canon.Tracking}
		for _, step := range []struct {
			form    canon.Options
			links   []record.Link
			refused bool
		}{
			{form: canon.Options{}}, // no URL
			{form: ruled, links: []record.Link{link("http://a.test/", 1)}},
			{form: canon.Options{URLRules: canon.Tracking}, links: []record.Link{link("http://a.test/2", 2)}, refused: true},
			{form: canon.Options{KeyRules: canon.WWW}, refused: true},
			{form: ruled, links: []record.Link{link("http://a.test/2", 2)}},
		} {
			if err := add(step.form, step.links...); errors.Is(err, fault.Conflict) != step.refused || err != nil && !step.refused {
				t.Errorf("online %v: rules %v and %v: %v", w.online, step.form.KeyRules, step.form.URLRules, err)
			}
		}
	}
}
