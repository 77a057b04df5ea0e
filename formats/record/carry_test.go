package record

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// valuesOf are the columns of a row, by name.
func valuesOf[T Row](row *T) map[string]any {
	values := map[string]any{}
	for _, c := range Fields[T]() {
		values[c.Name] = reflect.ValueOf(c.In(row)).Elem().Interface()
	}
	return values
}

// What a row gives to one of another kind: all columns of the same name but those that are named here.
func TestCarry(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	equal := func(t *testing.T, got, from, changed map[string]any) {
		t.Helper()
		for name, g := range got {
			want := reflect.Zero(reflect.TypeOf(g)).Interface()
			if v, ok := from[name]; ok {
				want = v
			}
			if v, ok := changed[name]; ok {
				want = v
			}
			if g != want {
				t.Errorf("%s is %v, want %v", name, g, want)
			}
		}
	}
	for range 50 {
		l, u, f := randomRow[Link](rng), randomRow[URL](rng), randomRow[Fetch](rng)
		t.Run("link to url", func(t *testing.T) {
			got := l.ToURL()
			equal(t, valuesOf(&got), valuesOf(&l), map[string]any{"via": l.SrcURL})
		})
		t.Run("url to fetch", func(t *testing.T) {
			got := u.ToFetch()
			equal(t, valuesOf(&got), valuesOf(&u), map[string]any{"role": RolePage, "addr": ""})
		})
		t.Run("fetch to url", func(t *testing.T) {
			got := f.ToURL()
			equal(t, valuesOf(&got), valuesOf(&f), map[string]any{"attempt": uint8(0), "addr": "", "etag": "", "last_modified": "", "last_content_fp": uint64(0)})
		})
	}
}
