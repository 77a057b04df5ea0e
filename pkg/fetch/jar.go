package fetch

import (
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/formats/store"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/fetch/cookies"
	"mercator/pkg/folder/shard"
)

// The file of role cookies has what lets a crawl into its sites: cookies, and URLs that may be asked again with them. It is
// secret: no copy needs it.
const (
	roleCookies  = "cookies"
	moduleCookie = "cookie"
	moduleLed    = "led"
)

// savedCookie is the value of a row cookie; its texts have a character for each byte.
type savedCookie struct {
	Name     string `json:"name,omitempty"`
	Value    string `json:"value,omitempty"`
	Path     string `json:"path"`
	HostOnly bool   `json:"host_only,omitempty"`
	Secure   bool   `json:"secure,omitempty"`
	Set      micros `json:"set"`
	Expires  micros `json:"expires,omitempty"`
}

// savedLed is the value of a row led.
type savedLed struct {
	Line       string      `json:"line"`
	Names      string      `json:"names"`
	Due        int         `json:"due,omitempty"`
	Depth      uint16      `json:"depth,omitempty"`
	Priority   uint8       `json:"priority,omitempty"`
	Score      float32     `json:"score,omitempty"`
	Discovered record.Time `json:"discovered,omitempty"`
	Hops       uint8       `json:"hops,omitempty"`
	Requisite  uint8       `json:"requisite,omitempty"`
	Sitemap    uint8       `json:"sitemap,omitempty"`
	Via        string      `json:"via,omitempty"`
	X          string      `json:"x,omitempty"`
}

// wide gives each byte a character, which JSON keeps; narrow is its reverse.
func wide(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

func narrow(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return "", false
		}
		b = append(b, byte(r))
	}
	return string(b), true
}

func strict(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badRow(clean(text), "a JSON object with its fields: "+err.Error())
	}
	if d.More() {
		return badRow(clean(text), "one JSON object")
	}
	return nil
}

// loadCookies reads the jar, and which URLs led elsewhere: in a shard also what the others have, since rounds may give it their hosts.
func (r *runner) loadCookies(base *store.Manifest) error {
	r.led.urls = map[string]*list.Element{}
	if r.opt.Cookies == nil {
		return nil
	}
	st := r.opt.Store
	if own, ok := shard.At(st.Dir()); ok {
		m, err := shard.Read(st.FS(), st.CrawlDir())
		if err != nil {
			return err
		}
		for n := range m.Shards {
			if n == own {
				continue
			}
			other := store.Folder(filepath.Join(shard.Dir(st.CrawlDir(), n), Kind), store.Options{FS: st.FS()})
			base, err := other.Current()
			if err == nil {
				err = r.loadCookiesFrom(other, base, true)
			}
			if err != nil {
				return err
			}
		}
	}
	err := r.loadCookiesFrom(st, base, false)
	r.led.dirty = false
	return err
}

func (r *runner) loadCookiesFrom(st *store.Store, base *store.Manifest, foreign bool) error {
	return loadCookies(st, base, func(c cookies.Cookie) {
		c.Foreign = foreign
		r.opt.Cookies.Put(c, r.started)
	}, func(e *led) {
		url, host, err := r.opt.Canon.URL(e.row.URL)
		if err != nil || url != e.row.URL {
			return // of other settings
		}
		e.row.Host, e.row.Key = strings.Clone(host), r.opt.Canon.URLKey(host, url)
		if e.foreign = foreign; foreign {
			e.due = 0 // the shard that keeps it asks it
		}
		r.led.put(e)
	})
}

// loadCookies calls cookie and redirected for the rows of a store's file. Of a URL that led elsewhere host and key are not set.
func loadCookies(st *store.Store, base *store.Manifest, cookie func(cookies.Cookie), redirected func(*led)) error {
	return loadModules(st, base, roleCookies, func(row *record.Module) error {
		switch row.Module {
		case moduleCookie:
			var s savedCookie
			if err := strict(row.Value, &s); err != nil {
				return err
			}
			name, ok1 := narrow(s.Name)
			value, ok2 := narrow(s.Value)
			path, ok3 := narrow(s.Path)
			if !ok1 || !ok2 || !ok3 || !strings.HasPrefix(path, "/") || s.Set < 0 || s.Expires < 0 {
				return badRow(clean(row.Value), "a path that begins with /, times that are not negative, and no character above U+00FF")
			}
			c := cookies.Cookie{Domain: strings.Clone(row.Name), HostOnly: s.HostOnly, Path: path, Name: name, Value: value, Secure: s.Secure, Set: time.UnixMicro(s.Set)}
			if s.Expires > 0 {
				c.Expires = time.UnixMicro(s.Expires)
			}
			cookie(c)
		case moduleLed:
			var s savedLed
			if err := strict(row.Value, &s); err != nil {
				return err
			}
			line, err1 := strconv.ParseUint(s.Line, 16, 64)
			names, err2 := strconv.ParseUint(s.Names, 16, 64)
			if errors.Join(err1, err2) != nil || s.Due < 0 || s.Due > againMax || len(s.Line) != 16 || len(s.Names) != 16 {
				return badRow(clean(row.Value), fmt.Sprintf("two checksums of 16 digits, and a number up to %d", againMax))
			}
			redirected(&led{asked: asked{line, names}, due: s.Due, row: record.URL{URL: strings.Clone(row.Name), Depth: s.Depth, Priority: s.Priority,
				Score: s.Score, Discovered: s.Discovered, Hops: s.Hops, Requisite: s.Requisite, Sitemap: s.Sitemap, Via: s.Via, X: s.X}})
		default:
			return badRow(clean(row.Module), "module "+moduleCookie+" or "+moduleLed)
		}
		return nil
	})
}

// saveCookies writes them. Where nothing has changed, the file of the round before stands.
func (r *runner) saveCookies(tx *store.Tx) error {
	if r.opt.Cookies == nil || !r.opt.Cookies.Dirty() && !r.led.dirty {
		return nil
	}
	put := func(write func(*record.Module) error, module, name string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return write(&record.Module{Key: fingerprint.OfString(name), Module: module, Name: name, Value: string(text)})
	}
	return saveModules(tx, roleCookies, func(write func(*record.Module) error) error {
		for _, c := range r.opt.Cookies.All(r.opt.Now()) {
			s := savedCookie{Name: wide(c.Name), Value: wide(c.Value), Path: wide(c.Path), HostOnly: c.HostOnly, Secure: c.Secure, Set: c.Set.UnixMicro()}
			if !c.Expires.IsZero() {
				s.Expires = c.Expires.UnixMicro()
			}
			if err := put(write, moduleCookie, c.Domain, s); err != nil {
				return err
			}
		}
		for at := r.led.order.Back(); at != nil; at = at.Prev() {
			e := at.Value.(*led)
			if e.foreign {
				continue
			}
			s := savedLed{Line: fmt.Sprintf("%016x", e.line), Names: fmt.Sprintf("%016x", e.names), Due: e.due, Depth: e.row.Depth, Priority: e.row.Priority, Score: e.row.Score,
				Discovered: e.row.Discovered, Hops: e.row.Hops, Requisite: e.row.Requisite, Sitemap: e.row.Sitemap, Via: e.row.Via, X: e.row.X}
			if err := put(write, moduleLed, e.row.URL, s); err != nil {
				return err
			}
		}
		return nil
	})
}
