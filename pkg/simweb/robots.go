package simweb

import "strings"

// policy is the kind of robots.txt that a host has.
type policy uint8

const (
	robotsRules     policy = iota // the rules below
	robotsMerged                  // the same, spread over two groups
	robotsMessy                   // the same, with BOM, CRLF, comments and odd case
	robotsMoved                   // the same, behind a redirect
	robotsMissing                 // 404: everything is allowed
	robotsForbidden               // 403: everything is allowed (RFC 9309 section 2.3.1.3)
	robotsEmpty                   // everything is allowed
	robotsAll                     // everything is denied
)

// policy draws a host's robots policy.
func (w *Web) policy(host int32) policy {
	d := w.dice(saltHost, resource{host: host})
	switch position(host) {
	case posLeader, posMirror:
		return robotsRules
	case posForbidden:
		if d.below(2) == 0 {
			return robotsAll
		}
	}
	return policy(d.below(int(robotsAll)))
}

func (w *Web) hasRules(host int32) bool   { return w.policy(host) <= robotsMoved }
func (w *Web) hasSitemap(host int32) bool { return w.Sitemaps && w.hasRules(host) }

// denied reports whether robots.txt forbids the resource.
func (w *Web) denied(r resource) bool {
	switch p := w.policy(r.host); {
	case r.kind == kindNoName:
		return false
	case p == robotsAll:
		return true
	case p <= robotsMoved:
		return r.kind == kindGuarded && guards[r.v].denied
	}
	return false
}

const otherAgents = "User-agent: OtherBot\nUser-agent: AnotherBot\nDisallow: /\n\n"

// The rules, in two halves so that robotsMerged can part them.
const (
	rules1 = "Disallow: /private/\nAllow: /private/open/\nDisallow: /*.cgi$\nDisallow: /tmp/*/secret\n"
	rules2 = "Disallow: /tie/\nAllow: /tie/\nDisallow: /%7Eann/\nDisallow: /q?x=\nDisallow: /caf\u00e9/secret\n"
)

// robotsMovedTo is where robotsMoved redirects to.
const robotsMovedTo = "/robots-moved.txt"

// robotsText is the body of a host's robots.txt, when there is one.
func (w *Web) robotsText(host int32) string {
	p := w.policy(host)
	switch p {
	case robotsAll:
		return "User-agent: *\nDisallow: /\n"
	case robotsEmpty:
		return ""
	}
	delay := ""
	if w.Hard && position(host) == posCrawlDelay {
		delay = "Crawl-delay: 1\n"
	}
	text := otherAgents + "User-agent: *\n" + delay + rules1 + rules2
	if p == robotsMerged {
		text = "User-agent: *\n" + delay + rules1 + "\n" + otherAgents + "User-agent: *\n" + rules2
	}
	if w.hasSitemap(host) {
		text += "\nSitemap: " + string(w.appendURL(nil, resource{host: host, kind: kindSitemap})) + "\n"
	}
	if p == robotsMessy {
		text = strings.NewReplacer("Disallow: ", "dISALLOW:\t", "User-agent: *", "USER-AGENT : * # everyone", "\n", "\r\n").Replace(text)
		text = "\ufeff# robots of this host\r\n" + text
	}
	return text
}
