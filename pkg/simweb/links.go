package simweb

// element is the HTML element that carries a link.
type element uint8

const (
	elemA element = iota
	elemArea
	elemFrame
	elemImage
	elemScript
	elemStyle
	elemNofollow // a rel=nofollow: only to what the page links to anyway
)

// link is an edge of the web: what it means, not how it is spelled.
type link struct {
	to   resource
	elem element
}

// appendLinks appends the links of a document that are to be followed. The
// oracle walks them; render writes them. Kinds without links append none.
func (w *Web) appendLinks(links []link, r resource) []link {
	add := func(to resource, e element) { links = append(links, link{to, e}) }
	host := origin(r.host)
	root := resource{host: host}
	switch r.kind {
	case kindPage:
		add(root, elemA)
		add(root, elemNofollow)
		pages := w.pages(host)
		for n := fanOut*int64(r.n) + 1; n <= fanOut*int64(r.n)+fanOut && n < int64(pages); n++ {
			add(resource{host: host, n: int32(n)}, elemA)
		}
		if r.n == 0 {
			links = w.appendRootLinks(links, host)
		}
		d := w.dice(saltLinks, resource{host: host, n: r.n})
		if w.Topics > 0 {
			return w.appendTopicalLinks(links, resource{host: host, n: r.n}, &d)
		}
		for range min(d.logNormal(w.Degree, 18), 400) {
			links = append(links, w.randomLink(&d, host))
		}
	case kindListed, kindFind, kindGuarded:
		add(root, elemA)
	case kindCalendar:
		add(root, elemA)
		add(resource{host, kindCalendar, r.n - 1, 0}, elemA)
		add(resource{host, kindCalendar, r.n + 1, 0}, elemA)
	case kindSession:
		add(root, elemA)
		for n := range int32(shopPages) {
			add(resource{host, kindSession, n, r.v}, elemA)
		}
		add(resource{host, kindSession, r.n, r.v + 1}, elemA)
	case kindDeep:
		add(resource{host, kindDeep, r.n + 1, 0}, elemA)
	case kindAlmanac:
		add(root, elemA)
		for n := almanacDays*int64(r.n) + 1; n <= almanacDays*int64(r.n)+almanacDays && n < almanacPages; n++ {
			add(resource{host, kindAlmanac, int32(n), 0}, elemA)
		}
	case kindEndless, kindMenu, kindWall:
		return w.appendRoughLinks(links, r)
	}
	return links
}

// appendRootLinks appends what only a root links to: other hosts, so that all
// are reached, and traps.
func (w *Web) appendRootLinks(links []link, host int32) []link {
	if position(host) == posLeader {
		block := int(host) / blockSize
		for h := int(host) + 1; h < min(int(host)+blockSize, w.Hosts); h++ {
			links = append(links, link{to: resource{host: int32(h)}})
		}
		for b := 2*block + 1; b <= 2*block+2 && b*blockSize < w.Hosts; b++ {
			links = append(links, link{to: resource{host: int32(b * blockSize)}})
		}
	}
	if w.count(host, kindCalendar) > 0 {
		links = append(links, link{to: resource{host, kindCalendar, w.months() / 2, 0}})
	}
	if w.count(host, kindSession) > 0 {
		links = append(links, link{to: resource{host, kindSession, 0, 0}})
	}
	if w.count(host, kindDeep) > 0 {
		links = append(links, link{to: resource{host, kindDeep, 0, 0}})
	}
	if w.count(host, kindAlmanac) > 0 {
		links = append(links, link{to: resource{host, kindAlmanac, 0, 0}})
	}
	for _, k := range []kind{kindEndless, kindMenu, kindWall} {
		for v := int32(0); w.count(host, k) > 0 && v < variants(k); v++ {
			links = append(links, link{to: resource{host, k, 0, v}})
		}
	}
	return links
}

func (w *Web) randomLink(d *dice, host int32) link {
	switch x := d.below(1000); {
	case x < 120: // off-host, rather to big hosts and to pages near the root
		h := d.skewed(int32(w.Hosts))
		return link{resource{host: h, n: d.skewed(w.pages(h))}, elemA}
	case x < 124:
		return link{resource{int32(d.below(noNames)), kindNoName, 0, int32(d.below(len(unresolved)))}, elemA}
	case x < 170:
		return w.pick(d, host, kindRedirect, elemA)
	case x < 180:
		return w.pick(d, host, kindMissing, elemA)
	case x < 185:
		return w.pick(d, host, kindError, elemA)
	case x < 205:
		return w.pick(d, host, kindGuarded, elemA)
	case x < 225:
		return w.pick(d, host, kindFind, elemA)
	case x < 375:
		l := w.pick(d, host, kindAsset, elemA)
		l.elem = assetElement(l.to.n)
		return l
	case x < 385:
		return w.pick(d, host, kindPage, elemFrame)
	case x < 395:
		return w.pick(d, host, kindPage, elemArea)
	}
	return w.pick(d, host, kindPage, elemA)
}

// assetElement is the element that carries a link to an asset.
func assetElement(n int32) element {
	switch extension(n) {
	case "css":
		return elemStyle
	case "gif", "jpg":
		return elemImage
	case "js":
		return elemScript
	}
	return elemA
}

func (w *Web) pick(d *dice, host int32, k kind, e element) link {
	return link{resource{host, k, d.skewed(w.count(host, k)), int32(d.below(int(variants(k))))}, e}
}

// redirection is where a redirect leads and its status.
func (w *Web) redirection(r resource) (to resource, status int) {
	d := w.dice(saltLinks, r)
	status = []int{301, 302, 303, 307, 308}[d.below(5)]
	next := resource{r.host, kindRedirect, r.n + 1, 0}
	back := resource{r.host, kindRedirect, r.n - 1, 0}
	last := next.n >= w.count(r.host, kindRedirect)
	switch x := r.n % 16; {
	case x == 1 && !last: // 1 and 2 redirect to each other
		return next, status
	case x == 2:
		return back, status
	case x == 5: // to itself
		return r, status
	case (x == 8 || x == 9) && !last: // a chain: 8, 9, 10, a page
		return next, status
	case x == 12:
		return resource{int32(d.below(noNames)), kindNoName, 0, 0}, status
	case x == 13:
		return w.pick(&d, r.host, kindMissing, elemA).to, status
	case x%2 == 0:
		h := d.skewed(int32(w.Hosts))
		return resource{host: h, n: d.skewed(w.pages(h))}, status
	}
	return w.pick(&d, r.host, kindPage, elemA).to, status
}

// listed is how many URLs the sitemaps of a host name: on a mirror all its
// pages, elsewhere pages that are found in no other way.
func (w *Web) listed(host int32) int32 {
	if position(host) == posMirror {
		return w.pages(host)
	}
	return w.pages(host)/20 + 1
}

// appendSitemapTargets appends what a sitemap names: the index its parts, a
// part its share of the host's pages.
func (w *Web) appendSitemapTargets(targets []resource, r resource) []resource {
	if r.n == 0 {
		for n := int32(1); n < w.count(r.host, kindSitemap); n++ {
			targets = append(targets, resource{r.host, kindSitemap, n, 0})
		}
		return targets
	}
	k := kindListed
	if position(r.host) == posMirror {
		k = kindPage
	}
	for i := (r.n - 1) * sitemapLines; i < min(r.n*sitemapLines, w.listed(r.host)); i++ {
		targets = append(targets, resource{r.host, k, i, 0})
	}
	return targets
}
