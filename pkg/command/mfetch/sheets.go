package mfetch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/config/sheet"
	"mercator/pkg/fetch"
	"mercator/pkg/fetch/http1"
	"mercator/pkg/fetch/program"
	"mercator/pkg/web/canon"
)

// Sheets reads the sheets at path for URLs of these schemes, and refuses values that no client takes; nil where path is "".
func Sheets(path string, schemes *canon.Schemes) (*sheet.Sheets, error) {
	sheets, err := sheet.Load(path, schemes)
	if err != nil {
		return nil, err
	}
	return sheets, sheets.Check(func(v config.Value) (err error) {
		switch v.Key.Name {
		case "fetch.headers":
			_, err = http1.ParseHeader(v.Text)
		case "fetch.proxy":
			if v.Text != "" { // none
				_, err = http1.ParseProxy(v.Text, nil)
			}
		}
		return err
	})
}

// variants are modules as sheets want them: of each set of sheets that hold for a URL there is one for each scheme. They hold no
// connections, so that those which are not in use may be forgotten.
type variants struct {
	sheets *sheet.Sheets
	make   func(sheets []int) (map[string]fetch.Protocol, error)
	mu     sync.Mutex
	known  map[string]map[string]fetch.Protocol
}

// variantsMax bounds variants.known.
const variantsMax = 256

// variant is a module with the settings that sheets give to a URL.
type variant struct {
	fetch.Protocol
	scheme string
	of     *variants
}

// Fetch implements fetch.Protocol.
func (v *variant) Fetch(ctx context.Context, req *fetch.Request) *fetch.Reply {
	p, err := v.of.get(v.of.sheets.Of(req.URL, req.Host), v)
	if err != nil {
		return &fetch.Reply{Err: err}
	}
	return p.Fetch(ctx, req)
}

func (v *variants) get(sheets []int, of *variant) (fetch.Protocol, error) {
	if len(sheets) == 0 {
		return of.Protocol, nil
	}
	name := fmt.Sprint(sheets)
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.known[name]
	if all == nil {
		var err error
		if all, err = v.make(sheets); err != nil {
			return nil, err
		}
		if len(v.known) == variantsMax {
			clear(v.known)
		}
		v.known[name] = all
	}
	return all[of.scheme], nil
}

// replaced are header lines of a crawl, without those that sheets give by the same names, and the lines of these.
func replaced(all, own []string) []string {
	name := func(line string) string {
		name, _, _ := strings.Cut(line, ":")
		return strings.ToLower(strings.TrimSpace(name))
	}
	all = slices.DeleteFunc(slices.Clone(all), func(line string) bool {
		return slices.ContainsFunc(own, func(other string) bool { return name(other) == name(line) })
	})
	return append(all, own...)
}

// sheeted makes the modules obey sheets. It returns the longest time that a contact may take, too.
func (c *fetchCmd) sheeted(protocols map[string]fetch.Protocol, sheets *sheet.Sheets, schemes *canon.Schemes, like *http1.Client) (map[string]fetch.Protocol, time.Duration, error) {
	longest := c.Timeout
	if sheets == nil {
		return protocols, longest, nil
	}
	v := &variants{sheets: sheets, known: map[string]map[string]fetch.Protocol{}, make: func(of []int) (map[string]fetch.Protocol, error) {
		own := *c
		sheets.Apply(of, &own.Fetch)
		own.Header = replaced(c.Header, own.Header[len(c.Header):])
		var alone config.OfSheets
		sheets.Apply(of, &alone)
		own.noRobots = alone.IgnoresRobots()
		proxy := own.Proxy
		own.Login, own.TLSCA, own.Proxy = "", "", "" // were read when the batch began
		client, err := own.client(like.Now)
		if err != nil {
			return nil, err
		}
		client.Share(like)
		if own.Proxy = proxy; proxy != "" {
			if client.Proxy, err = http1.ParseProxy(proxy, like.Logins); err != nil {
				return nil, err
			}
		}
		return own.protocols(client, schemes)
	}}
	for i := range sheets.All {
		var own config.Fetch
		sheets.Apply([]int{i}, &own)
		longest = max(longest, own.Timeout)
	}
	all := map[string]fetch.Protocol{}
	for scheme, p := range protocols {
		if _, own := p.(*program.Module); !own {
			p = &variant{p, scheme, v}
		} else if sheets.Gives("robots.policy") && fetch.HasRobots(scheme) {
			return nil, 0, &fault.Error{Class: fault.Usage, File: c.Sheets, Found: "robots.policy beside a program that fetches " + scheme, Want: "none: the program's User-Agent does not say so"}
		}
		all[scheme] = p
	}
	return all, longest, nil
}
