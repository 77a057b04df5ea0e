package robots

import (
	"bytes"
	"time"

	"github.com/temoto/robotstxt"

	"mercator/pkg/base/fault"
)

// Policy is one robots.txt as it applies to one agent. Safe for many goroutines.
type Policy interface {
	Allowed(url string) bool // an absolute URL, or a path with its query
	CrawlDelay() time.Duration
}

// Engine reads a robots.txt for an agent (a product token).
type Engine func(body []byte, agent string) Policy

// The engines' names.
const (
	EngineRFC9309 = "rfc9309" // this package: the default
	EngineTemoto  = "temoto"  // github.com/temoto/robotstxt, for comparison; bounded by temotoRules
)

// temotoRules bounds the lines with a wildcard that temoto is given, in bytes of all together: it makes regular expressions of them and tries each for
// each URL, which takes time by these bytes times those of the URL. A file above the bound is judged by this package.
const temotoRules = 2048

// forTemoto reports whether a file is within the bound.
func forTemoto(body []byte) bool {
	bytesLeft := temotoRules
	for line := range bytes.FieldsFuncSeq(body, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if bytes.ContainsAny(line, "*$") {
			bytesLeft -= len(line)
		}
	}
	return bytesLeft >= 0
}

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

type temoto struct{ group *robotstxt.Group }

// parseTemoto: that engine drops a whole file for one error in it; everything is
// then allowed. A file above the bound is not given to it.
func parseTemoto(body []byte, agent string) Policy {
	if body = body[:min(len(body), BodyMax)]; !forTemoto(body) {
		return Parse(body).Group(agent)
	}
	data, err := robotstxt.FromBytes(body)
	if err != nil {
		return &Group{}
	}
	return &temoto{data.FindGroup(agent)}
}

func (t *temoto) Allowed(url string) bool {
	path := pathOf(url)
	return path == "/robots.txt" || t.group.Test(path)
}

func (t *temoto) CrawlDelay() time.Duration { return max(t.group.CrawlDelay, 0) }
