package tell

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
	"mercator/pkg/config"
	"mercator/pkg/driver/setup"
	"mercator/pkg/extract"
	"mercator/pkg/frontier"
	"mercator/pkg/view/history"
	"mercator/pkg/web/canon"
	"mercator/pkg/web/httpmsg"
	"mercator/pkg/web/linkkind"
	"mercator/pkg/web/process"
)

// A crawl that ends without a useful page is an error, which says what happened to its first URL and which command to type next. A page is
// useful if it has a body and does more than lead elsewhere: by a redirect, by Refresh, or as a frame, without text, around a page of another site. Parts of pages are not useful alone.

// Bounds of memory. A crawl with more documents has fetched something. Further failed URLs are not reported.
const (
	documentsMax = 32
	visitedMax   = 1 << 12
	frameMax     = 4096 // bytes of a page that is only an iframe
)

// visit is the last fetch of a URL.
type visit struct {
	url, host, outcome, why string
	astray                  string // why nobody can go where it leads
	status                  uint16
	times                   int           // how often the URL was fetched
	document                bool          // a reply with a body, and no redirect
	html                    bool          // the document is HTML
	small                   bool          // the document has at most frameMax bytes
	row                     *record.Fetch // where a small document is archived; nil: it is not small
	to                      string        // the URL that it leads to; "": none
	by                      string        // how it leads there: "redirects to"

	followed  int    // links to other URLs that were followed
	links     int    // links for readers (a, area)
	frames    int    // links to frames
	link      string // the link for readers; "": there are several
	frame     string // the first frame that was not followed
	iframe    bool   // frame is an iframe: text of the page may be around it
	canonical string // a URL of another host that the page gives as its own
}

// visits are a crawl's visits, by URL and in the order of their first fetch.
type visits struct {
	of        map[string]*visit
	order     []*visit
	documents int
}

func (v *visits) addRow(row *record.Fetch, head bool) {
	if !row.OfPage() || row.Requisite > 0 || row.Outcome == record.OutcomeDeferred || row.Outcome == record.OutcomeParked {
		return
	}
	old := v.of[row.URL]
	if old != nil && old.document {
		return // it was fetched once
	}
	is := &visit{url: strings.Clone(row.URL), host: strings.Clone(row.Host), outcome: strings.Clone(row.Outcome), why: strings.Clone(row.Error), astray: strings.Clone(row.RedirectWhy()), status: row.Status}
	switch {
	case row.Outcome == record.OutcomeNotModified:
		is.document = true
	case row.RedirectURL != "":
		is.to, is.by = strings.Clone(row.RedirectURL), "redirects to"
	case row.Outcome == record.OutcomeFetched && row.Status < 300:
		is.document = row.BodyLength > 0 || head
		if is.html, is.small = strings.Contains(row.MIME, "html"), row.BodyLength <= frameMax; is.small {
			is.row = &record.Fetch{URL: is.url, MIME: strings.Clone(row.MIME), Charset: strings.Clone(row.Charset), BodyLength: row.BodyLength,
				WARCFilename: strings.Clone(row.WARCFilename), WARCOffset: row.WARCOffset, WARCLength: row.WARCLength}
		}
	}
	if is.document {
		v.documents++
	}
	if is.times = 1; old != nil {
		is.times += old.times
		*old = *is
	} else if len(v.order) < visitedMax || is.document && v.documents <= documentsMax {
		v.of[is.url] = is
		v.order = append(v.order, is)
	}
}

// addLink takes a link of a document; followed: it was not refused.
func (v *visits) addLink(l *record.Link, followed bool) {
	from := v.of[l.SrcURL]
	if from == nil || !from.document || l.SrcKey == l.Key && l.Key != 0 {
		return
	}
	if l.Requisite > 0 && l.Host != from.host {
		followed = false // as a part of this page alone
	}
	if followed && frontier.Follows(l.LinkKind) {
		from.followed++
	}
	switch l.LinkKind {
	case linkkind.Refresh:
		if from.to == "" {
			from.to, from.by = strings.Clone(l.URL), "leads by Refresh to"
		}
	case linkkind.Frame, linkkind.Iframe:
		if from.frames++; !followed && from.frame == "" && (l.LinkKind == linkkind.Frame || from.small) {
			from.frame, from.iframe = strings.Clone(l.URL), l.LinkKind == linkkind.Iframe
		}
	case linkkind.Canonical:
		if !followed && from.canonical == "" && l.Host != from.host {
			from.canonical = strings.Clone(l.URL)
		}
	case linkkind.A, linkkind.Area:
		if from.links++; from.links == 1 {
			from.link = strings.Clone(l.URL)
		} else if l.URL != from.link {
			from.link = ""
		}
	}
}

// followFrames makes a document that is only a frame lead to the framed page. text reads a page's text, without its title.
func (v *visits) followFrames(text func(*record.Fetch) string) {
	for _, is := range v.order {
		if is.to == "" && is.frame != "" && is.followed == 0 && is.frames <= 2 && (is.links == 0 || is.link == is.frame) && !(is.iframe && text(is.row) != "") {
			is.to, is.by = is.frame, "is a frame around"
		}
	}
}

// follow returns the visits on the way from one to where it leads. circle: the way comes back to one of them.
func (v *visits) follow(is *visit) (path []*visit, circle bool) {
	for {
		path = append(path, is)
		next := v.of[is.to]
		if is.to == "" || next == nil {
			return path, false
		}
		if slices.Contains(path, next) {
			return path, true
		}
		is = next
	}
}

// ofUse reports whether a document is useful. Pages that refresh each other are.
func (v *visits) ofUse(is *visit) bool {
	if !is.document {
		return false
	}
	path, circle := v.follow(is)
	if circle {
		return !slices.ContainsFunc(path, func(p *visit) bool { return !p.document })
	}
	last := path[len(path)-1]
	return last.document && last.to == ""
}

// Fruitless is an error if the crawl, which is at its end, fetched no page of use. It is nil where nobody knows, since rounds are lost.
// Outside the crawl of a site any reply but a redirect is of use.
func (c *Crawl) Fruitless(conf *config.Config) error {
	site := setup.OfSite(c.Dir(), conf)
	v := &visits{of: map[string]*visit{}}
	kept, err := c.Files()
	if err != nil {
		return err
	}
	files, err := kept.Files(c.Outcomes()) // warns of what is lost
	if errors.Is(kept.AllThere(c.Outcomes()), fault.Corrupt) {
		return nil
	}
	for _, file := range files {
		if err == nil {
			err = history.Read(file, func(row *record.Fetch) error {
				if !site && row.OfPage() && row.RedirectURL == "" && (row.Outcome == record.OutcomeFetched || row.Outcome == record.OutcomeNotModified) {
					return errEnough
				}
				if v.addRow(row, conf.File.Fetch.Method == "HEAD"); v.documents > documentsMax {
					return errEnough
				}
				return nil
			})
		}
	}
	switch {
	case err == errEnough:
		return nil
	case err != nil || len(v.order) == 0:
		return err
	case !site && !slices.ContainsFunc(v.order, func(is *visit) bool { return is.to != "" }):
		return nil
	case v.documents > 0:
		for _, name := range []string{"refused", "links"} {
			files, err := kept.Files(name)
			if err != nil || kept.AllThere(name) != nil {
				return err
			}
			for _, file := range files {
				if err := history.Read(file, func(l *record.Link) error { v.addLink(l, name == "links"); return nil }); err != nil {
					return err
				}
			}
		}
		v.followFrames(c.textOf)
		if slices.ContainsFunc(v.order, v.ofUse) {
			if !c.noteLogin(v, conf) {
				c.noteElsewhere(v, conf)
			}
			return nil
		}
	}
	return c.whatHappened(v, conf)
}

// textOf is the text of a small page without its title; "" if it cannot be read.
func (c *Crawl) textOf(row *record.Fetch) string {
	documents := extract.DocumentsOf(c.Dir(), frameMax)
	defer documents.Close()
	doc, err := documents.Read(row)
	if err != nil || doc == nil {
		return ""
	}
	text, err := process.Text(doc, frameMax)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(text, process.Title(doc)))
}

// fewPages is how many documents a crawl has that seems to see no more of a site than the way to its login.
const fewPages = 3

// loginName matches a segment of the path of a page where people log in.
var loginName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)/([\w-]*[_-])?(log|sign)[_-]?(in|on)([._-][\w.-]*)?(/|$)`)
})

func loginPage(page string) bool {
	u, err := url.Parse(page)
	return err == nil && loginName().MatchString(u.Path)
}

// noteLogin tells of a crawl of hardly any page that was asked to log in, by its first URL or by most of its pages: by status 401, or by a page that leads to
// one with the name of a login. It knows from the visits alone. A form with a password on a page of another name is not seen.
func (c *Crawl) noteLogin(v *visits, conf *config.Config) bool {
	if v.documents > fewPages || conf.File.Fetch.Login != "" {
		return false
	}
	dir := c.Dir()
	asked := slices.DeleteFunc(slices.Clone(v.order), func(is *visit) bool {
		form := cmp.Or(is.to, is.url)
		return is.status != 401 && !(loginPage(form) && v.of[form] != nil && (is == v.order[0] || is.to != ""))
	})
	if len(asked) == 0 || asked[0] != v.order[0] && 2*len(asked) <= v.documents {
		return false
	}
	is, few := asked[0], fmt.Sprintf("and the crawl has only %s", Count(uint64(v.documents), "page"))
	if is.status == 401 {
		c.warn("note: %s: status 401, %s: %s", is.url, few, c.passwordHint(is.url, fault.Quote("mcrawl", "again", dir, "--status", "401")+" && "+fault.Quote("mcrawl", "run", dir)))
		return true
	}
	form, says := is.url, " is a page to log in"
	if is.to != "" {
		form, says = is.to, " "+is.by+" "+is.to
	}
	_, _, path := canon.Split(form)
	c.warn("note: %s%s, %s: to have it log in, put a line \"%s form %s user=NAME&password=SECRET\", with the names of the form's fields, into %s, which nobody else may read (mfetch-fetch(1), Logins); then fetch again: %s",
		is.url, says, few, origin(form), path, filepath.Join(dir, "login.txt"),
		fault.Quote("mcrawl", "set", dir, "fetch.login=login.txt")+" && "+fault.Quote("mcrawl", "again", dir, "--older", "0s")+" && "+fault.Quote("mcrawl", "run", dir))
	return true
}

// passwordHint says how a crawl gets a name and a password for a URL, and then asks again.
func (c *Crawl) passwordHint(url, again string) string {
	dir := c.Dir()
	return fmt.Sprintf("put a name and a password, as a line \"%s USER:PASSWORD\", into %s, which nobody else may read (mfetch-fetch(1), Logins); then ask once more: %s", origin(url), filepath.Join(dir, "login.txt"), fault.Quote("mcrawl", "set", dir, "fetch.login=login.txt")+" && "+again)
}

// noteElsewhere tells of a crawl of one page that seems to be more elsewhere, or in a browser.
func (c *Crawl) noteElsewhere(v *visits, conf *config.Config) {
	if v.documents > 1 {
		return
	}
	for _, is := range v.order {
		switch {
		case !is.document || is.followed > 0:
		case is.canonical != "":
			c.warn("note: %s is the only page, and says that its URL is %s; crawl that site: %s", is.url, is.canonical, setup.SiteCommand(c.Dir(), conf, is.canonical))
		case is.html && is.links == 0 && !conf.File.Render.On():
			c.warn("note: %s is the only page, and has no link to follow; if a browser shows any, a script makes them: a crawl made with --render runs scripts", is.url)
		}
	}
}

// whatHappened is the error of a crawl without a page of use: of the URL that leads furthest on, or else of its first.
func (c *Crawl) whatHappened(v *visits, conf *config.Config) error {
	dir := c.Dir()
	first := v.order[0]
	path, circle := v.follow(first)
	for _, is := range v.order { // who leads out of the crawl says where to go on
		if p, c := v.follow(is); p[len(p)-1].to != "" && !c && (path[len(path)-1].to == "" || circle) {
			path, circle = p, c
		}
	}
	seed, last := path[0], path[len(path)-1]
	way := seed.url
	const most = 4 // steps that are told
	for i, is := range path[:min(len(path), most)] {
		if is.to != "" {
			way += []string{" ", ", which "}[min(i, 1)] + is.by + " " + is.to
		}
	}
	if len(path) > most {
		way += fmt.Sprintf(", and so on, %d steps to %s", len(path), cmp.Or(last.to, last.url))
	}
	again := func(by, what string) string {
		return fault.Quote("mcrawl", "again", dir, by, what) + " && " + fault.Quote("mcrawl", "run", dir)
	}
	e := &fault.Error{File: dir, Want: "pages"}
	switch {
	case circle:
		e.Found = fmt.Sprintf("the crawl is at its end, and no page was fetched: %s, in a circle", way)
		e.Hint = "ask once more: " + again("--status", "3xx")
		if !conf.File.Fetch.Cookies {
			e.Hint = "the server may want cookies; ask once more with them: " + fault.Quote("mcrawl", "set", dir, "fetch.cookies=true") + " && " + again("--status", "3xx")
		}
	case last.to != "":
		e.Found = fmt.Sprintf("the crawl is at its end, and %s, which it does not follow", way)
		e.Hint = c.otherSiteHint(conf, seed, last)
	default:
		e.Found = fmt.Sprintf("the crawl is at its end, and no page was fetched: %s: %s", way, last.happened())
		e.Hint = c.sameAgain(v, conf, last, again)
	}
	return e
}

// happened says how a visit ended that led nowhere.
func (is *visit) happened() string {
	switch {
	case is.outcome != record.OutcomeFetched:
		return strings.TrimSuffix(is.outcome+": "+is.why, ": ")
	case is.status == 300 && is.why == "":
		return "status 300: the server has several pages to choose from, and names none (Location)"
	case is.status == 304:
		return "status 304: not modified, though nobody asked for a change"
	case is.status == 305 || is.status == 306:
		return fmt.Sprintf("status %d: a proxy is to be used", is.status)
	case is.status >= 300 && is.status < 400 && is.astray != "":
		return fmt.Sprintf("status %d, and nobody can go where it leads (Location): %s", is.status, is.astray)
	case is.status >= 300 && is.status < 400:
		return fmt.Sprintf("status %d without a place to go to (Location)", is.status)
	case is.status >= 300:
		return fmt.Sprintf("status %d", is.status)
	}
	return fmt.Sprintf("an empty page (status %d)", is.status)
}

// otherSiteHint is the hint for a crawl where all URLs lead to a site outside its rules. If that site may lead back, as a login does, the command
// of the hint crawls both sites, with cookies.
func (c *Crawl) otherSiteHint(conf *config.Config, from, last *visit) string {
	_, host, err := canon.Options{}.URL(last.to)
	switch scope, _ := setup.ScopeOf(c.Dir()); {
	case err != nil || host == "" || host == last.host && scope != setup.Prefixes:
		return "see which rule refuses it: " + fault.Quote("mcrawl", "refused", c.Dir())
	case host == last.host:
		return "crawl what is there: " + setup.SiteCommand(c.Dir(), conf, last.to)
	}
	urls := []string{last.to}
	_, _, rest := canon.Split(last.to)
	folder, _, err := setup.Site(urls, setup.Hosts, true)
	_, taken := os.Stat(folder)
	switch {
	case canon.RegisteredDomain(host) == canon.RegisteredDomain(from.host), strings.Contains(rest, from.host), strings.Contains(rest, url.QueryEscape(from.host)):
		urls = []string{from.url, last.to}
	case last.status == 302, last.status == 303, last.status == 307, err == nil && taken == nil:
		urls = append(urls, from.url)
	default:
		return "crawl that site: " + setup.SiteCommand(c.Dir(), conf, urls...)
	}
	return "crawl both sites, with cookies, in case one leads to the other: " + setup.SiteCommand(c.Dir(), conf, urls...)
}

// sameAgain is the hint for a URL that was asked for in vain. What was tried before it does not name again.
func (c *Crawl) sameAgain(v *visits, conf *config.Config, last *visit, again func(by, what string) string) string {
	dir := c.Dir()
	why := last.outcome + ": " + last.why
	other := "have another URL fetched: " + fault.Quote("mcrawl", "add", dir, "URL") + " && " + fault.Quote("mcrawl", "run", dir)
	switch {
	case strings.Contains(why, "certificate of an unknown authority") || strings.Contains(why, "self-signed certificate"):
		return fmt.Sprintf("put the certificate that you trust into %s, then ask once more: %s", filepath.Join(dir, "ca.pem"), fault.Quote("mcrawl", "set", dir, "fetch.tls_ca=ca.pem")+" && "+again("--outcome", last.outcome))
	case strings.HasPrefix(last.url, "https://") && strings.Contains(why, record.OutcomeTLS) || strings.HasPrefix(last.url, "https://") && strings.Contains(why, record.OutcomeConnect):
		byHTTP := "http://" + strings.TrimPrefix(last.url, "https://")
		return "try http: " + fault.Quote("mcrawl", "add", dir, byHTTP) + " && " + fault.Quote("mcrawl", "run", dir)
	case last.outcome == record.OutcomePort:
		return "no setting allows the port"
	case last.outcome == record.OutcomeRobotsDenied:
		return fmt.Sprintf("robots.txt forbids it to this crawler; when it allows it, go on: %s", again("--outcome", last.outcome))
	case last.outcome != record.OutcomeFetched:
		return "ask once more: " + again("--outcome", last.outcome)
	case last.status == 401 && conf.File.Fetch.Login == "":
		return c.passwordHint(last.url, again("--status", "401"))
	case last.status == 401:
		return fmt.Sprintf("the server takes no name and password of %s: when that is mended, ask once more: %s", conf.File.Fetch.Login, again("--status", "401"))
	case last.status == 404 || last.status == 410:
		if front := origin(last.url) + "/"; v.of[front] == nil {
			return "begin at the site's first page: " + fault.Quote("mcrawl", "add", dir, front) + " && " + fault.Quote("mcrawl", "run", dir)
		} else if front != last.url {
			return fmt.Sprintf("the site's first page was asked for, too: %s", other)
		}
	}
	if last.times > 1 && last.status < 500 && !httpmsg.NotNow(last.status) {
		return fmt.Sprintf("it was asked for %d times: %s", last.times, other)
	}
	return "ask once more: " + again("--status", fmt.Sprint(last.status))
}

// origin is a URL's scheme and authority.
func origin(url string) string {
	scheme, host, _ := canon.Split(url)
	return scheme + "://" + host
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough examples")
