package robots

import (
	"strings"
	"time"

	"github.com/temoto/robotstxt"

	"mercator/pkg/fault"
)

// Policy is what one robots.txt means for one agent. Safe for many goroutines.
type Policy interface {
	Allowed(url string) bool // an absolute URL, or a path with its query
	CrawlDelay() time.Duration
	Sitemaps() []string
}

// Engine reads a robots.txt for an agent (a product token).
type Engine func(body []byte, agent string) Policy

// The engines' names.
const (
	EngineRFC9309 = "rfc9309" // this package: the default
	EngineTemoto  = "temoto"  // github.com/temoto/robotstxt, for comparison
)

// NewEngine returns the engine of that name; "" is EngineRFC9309.
func NewEngine(name string) (Engine, error) {
	switch name {
	case EngineRFC9309, "":
		return func(body []byte, agent string) Policy { return Parse(body).Group(agent) }, nil
	case EngineTemoto:
		return parseTemoto, nil
	}
	return nil, &fault.Error{Class: fault.Usage, Found: "robots engine " + name, Want: EngineRFC9309 + " or " + EngineTemoto}
}

type temoto struct {
	data  *robotstxt.RobotsData
	group *robotstxt.Group
}

// parseTemoto: that engine drops a whole file for one error in it; everything is
// then allowed.
func parseTemoto(body []byte, agent string) Policy {
	data, err := robotstxt.FromBytes(body[:min(len(body), BodyMax)])
	if err != nil {
		return &Group{}
	}
	return &temoto{data, data.FindGroup(agent)}
}

func (t *temoto) Allowed(url string) bool {
	path := pathOf(url)
	return path == "/robots.txt" || t.group.Test(path)
}

func (t *temoto) CrawlDelay() time.Duration { return max(t.group.CrawlDelay, 0) }

func (t *temoto) Sitemaps() []string {
	all := t.data.Sitemaps[:min(len(t.data.Sitemaps), sitemapsMax)]
	for i, s := range all {
		all[i] = strings.TrimSpace(s)
	}
	return all
}

// MaxAge is how long an answer to a request for robots.txt holds (RFC 9309 section 2.4).
const MaxAge = 24 * time.Hour

// RedirectsMax is how many redirects of robots.txt are followed, to other hosts
// too (RFC 9309 section 2.3.1.2).
const RedirectsMax = 5

// Verdict is what the attempt to fetch a robots.txt leads to.
type Verdict uint8

const (
	UseRules    Verdict = iota // Parse the body
	Follow                     // fetch the redirect's target as this host's robots.txt
	AllowAll                   // there are no rules (RFC 9309 section 2.3.1.3)
	DisallowAll                // nothing may be fetched now; ask again later (section 2.3.1.4)
)

func (v Verdict) String() string {
	return [...]string{"use rules", "follow", "allow all", "disallow all"}[v]
}

// Decide judges one attempt: the reply's status, 0 if no reply came, and how many
// redirects were followed before it. Too many requests (429) is a server that
// cannot answer now, as Google takes it, not one without rules.
func Decide(status, redirects int) Verdict {
	switch {
	case status >= 200 && status < 300:
		return UseRules
	case status >= 300 && status < 400 && status != 304:
		if redirects < RedirectsMax {
			return Follow
		}
		return AllowAll
	case status >= 400 && status < 500 && status != 429:
		return AllowAll
	}
	return DisallowAll
}
