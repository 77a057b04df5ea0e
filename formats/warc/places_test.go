package warc

import "testing"

func TestPlaces(t *testing.T) {
	type place struct {
		file           string
		offset, length int64
		plain          bool
	}
	of := func(list ...place) (p Places) {
		for _, r := range list {
			p.Add(r.file, r.offset, r.length, r.plain)
		}
		return p
	}
	a, b, c := place{"a", 0, 10, false}, place{"a", 10, 10, true}, place{"b", 0, 10, false}
	all := of(a, b, c)
	if got := of(c, a, b); got != all {
		t.Errorf("in another order %v, want %v", got, all)
	}
	joined := of(a)
	joined.Join(of(b, c))
	if joined != all {
		t.Errorf("in two parts %v, want %v", joined, all)
	}
	for name, other := range map[string]Places{
		"a file": of(a, b, place{"c", 0, 10, false}), "an offset": of(a, b, place{"b", 1, 10, false}), "a length": of(a, b, place{"b", 0, 11, false}),
		"a plain one": of(a, b, place{"b", 0, 10, true}), "one less": of(a, b), "one twice": of(a, b, b),
	} {
		t.Run(name, func(t *testing.T) {
			if other == all {
				t.Errorf("%s makes no difference", name)
			}
		})
	}
}

func TestPlacesText(t *testing.T) {
	for _, p := range []Places{{}, {3, 1, 0xfedcba9876543210}, {1 << 63, 1 << 63, 1}} {
		t.Run(p.String(), func(t *testing.T) {
			if got, ok := ParsePlaces(p.String()); !ok || got != p {
				t.Errorf("%q is read as %v, %t", p, got, ok)
			}
		})
	}
	for _, s := range []string{"", "1", "1 0", "1 0 x", "1 0 00000000000000011", "-1 0 0000000000000001", "1 0 0000000000000001 ", "01 0 0000000000000001", "1  0 0000000000000001"} {
		if p, ok := ParsePlaces(s); ok {
			t.Errorf("%q is read as %v", s, p)
		}
	}
}

func TestPlain(t *testing.T) {
	refers := []Field{{FieldProfile, ProfileIdenticalPayload}, {FieldRefersToFilename, "a.warc.gz"}, {FieldRefersToOffset, "7"}}
	for name, c := range map[string]struct {
		rec  Record
		want bool
	}{
		"a reply":        {Record{Type: TypeResponse, ContentType: MediaResponse}, true},
		"not modified":   {Record{Type: TypeRevisit, ContentType: MediaResponse}, true},
		"a repeat":       {Record{Type: TypeRevisit, ContentType: MediaResponse, Fields: refers}, false},
		"a document":     {Record{Type: TypeResource, ContentType: "text/plain"}, false},
		"said to be one": {Record{Type: TypeResource, ContentType: MediaResponse}, false},
		"no new version": {Record{Type: TypeRevisit, ContentType: "text/plain"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.rec.Plain(); got != c.want {
				t.Errorf("plain: %t, want %t", got, c.want)
			}
		})
	}
}
