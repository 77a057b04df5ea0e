package fetch

import (
	"container/list"
	"reflect"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch/cookies"
)

// TestLedColumns: a URL that led elsewhere keeps all columns of its row over the file of cookies, but those that are made again.
func TestLedColumns(t *testing.T) {
	again := map[string]bool{"url_key": true, "host": true, "attempt": true, "due": true, "addr": true, "addr_expires": true, "addr_error": true,
		"etag": true, "last_modified": true, "last_content_fp": true}
	var want, got record.URL
	for _, c := range record.Fields[record.URL]() {
		switch v := reflect.ValueOf(c.In(&want)).Elem(); {
		case again[c.Name]:
		case v.Kind() == reflect.String:
			v.SetString("http://" + c.Name + ".test/")
		case v.CanUint():
			v.SetUint(3)
		case v.CanInt():
			v.SetInt(3)
		default:
			v.SetFloat(0.5)
		}
	}
	st := memoryStore(t)
	tx, _, err := st.Begin(t.Context(), "fetch", "")
	must.OK(t, err)
	r := &runner{opt: Options{Store: st, Access: Access{Cookies: cookies.New()}, Hooks: Hooks{Now: specNow.UTC}}}
	r.led.urls = map[string]*list.Element{}
	r.led.put(&led{row: want, due: 2})
	must.OK(t, r.saveCookies(tx))
	m, err := tx.Commit(0, "", record.Ledger{})
	must.OK(t, err)
	must.OK(t, loadCookies(st, m, func(cookies.Cookie) {}, func(e *led) { got = e.row }))
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
