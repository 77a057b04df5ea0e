package robots

import (
	"time"

	"github.com/temoto/robotstxt"

	"mercator/pkg/fault"
)

// Policy is what one robots.txt means for one agent. Safe for many goroutines.
type Policy interface {
	Allowed(url string) bool // an absolute URL, or a path with its query
	CrawlDelay() time.Duration
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

type temoto struct{ group *robotstxt.Group }

// parseTemoto: that engine drops a whole file for one error in it; everything is
// then allowed.
func parseTemoto(body []byte, agent string) Policy {
	data, err := robotstxt.FromBytes(body[:min(len(body), BodyMax)])
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
