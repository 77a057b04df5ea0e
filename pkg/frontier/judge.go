package frontier

import (
	"cmp"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/politeness"
	"mercator/pkg/web/httpmsg"
)

// Retries say how often and when a failed fetch is tried again.
type Retries struct {
	MaxAttempts int           // fetches of one URL, at least 1
	Delay       time.Duration // wait after the first failure; doubles with each further one, and below quickRetry grows by quickGrowth
	MaxDelay    time.Duration // longest wait of our own making
	LongestWait time.Duration // who asks for a longer one is parked; 0: politeness.LongestWait

	Of func(url, host string) (attempts int, delay time.Duration) // MaxAttempts and Delay of a URL that may have others; nil: none has
}

// DefaultRetries are three attempts, a minute and two minutes apart.
var DefaultRetries = Retries{MaxAttempts: 3, Delay: time.Minute, MaxDelay: 24 * time.Hour}

// A first wait of seconds is for what passes at once, such as a restart. What does not is tried again after minutes.
const (
	quickRetry  = time.Minute
	quickGrowth = 6
)

// verdict is the consequence of an outcome for its URL.
type verdict uint8

const (
	finish verdict = iota // the URL has its final outcome
	again                 // to be tried again, at a time
	putOff                // was not tried: back to its virtual time
	giveUp                // could be tried again, but no attempt is left
	park                  // waits, and no crawl waits for it: a setting refused it, or its server wants it later than LongestWait; no attempt of its own
)

// final reports whether the URL has its final outcome.
func (v verdict) final() bool { return v == finish || v == giveUp }

// judge decides about the URL of an outcome row and, for again and putOff, when
// it is due (0: at once). attempt is the number of attempts that had failed
// before. now stands in for the time of a contact that the row does not tell.
// It is a function of its arguments alone.
func (r Retries) judge(o *record.Fetch, attempt uint8, now record.Time) (verdict, record.Time) {
	ended := now
	if o.FetchTime != 0 {
		ended = o.FetchTime + record.Time(o.DurationUS)
	}
	far := o.RetryAfter-ended > record.Time(cmp.Or(r.LongestWait, politeness.LongestWait).Microseconds())
	switch o.Outcome {
	case record.OutcomeAddress, record.OutcomeDenied:
		if o.Error != record.EndsLogin {
			return park, 0
		}
	case record.OutcomeScheme:
		if strings.HasPrefix(o.URL, o.Error+":") {
			return park, 0 // else there is a module, and it cannot ask for this URL
		}
	case record.OutcomeDeferred, record.OutcomeParked:
		if far || o.Outcome == record.OutcomeParked {
			return park, o.RetryAfter
		}
		return putOff, o.RetryAfter
	}
	if !passing(o) {
		return finish, 0
	}
	most, wait := r.MaxAttempts, r.Delay
	if r.Of != nil {
		most, wait = r.Of(o.URL, o.Host)
	}
	if int(attempt)+1 >= most {
		return giveUp, 0
	}
	for i := uint8(0); i < attempt && wait < r.MaxDelay; i++ {
		if wait < quickRetry {
			wait = min(quickGrowth*wait, max(2*wait, quickRetry))
		} else {
			wait *= 2
		}
	}
	if far {
		return park, o.RetryAfter
	}
	due := ended + record.Time(min(wait, r.MaxDelay).Microseconds())
	return again, max(due, o.RetryAfter)
}

// Final reports whether an outcome row is the last word on its URL: it will not be tried again, unless a policy visits pages again or its host
// has an outage, which no row tells.
func (r Retries) Final(o *record.Fetch) bool {
	v, _ := r.judge(o, o.Attempt, 0)
	return v.final()
}

// passing reports whether the same fetch may succeed later: RFC 9110 section
// 15.6 for 5xx, section 8 for a document that did not end, package httpmsg for 4xx, RFC 9309 section 2.3.1.4 for robots.txt.
func passing(o *record.Fetch) bool {
	switch o.Outcome {
	case record.OutcomeFetched:
		// A document that our time-out cut may have no end, and the text of a redirect or an error tells nothing more.
		cut := o.Truncated == httpmsg.TruncatedDisconnect && o.Status < 300
		return httpmsg.NotNow(o.Status) || o.Status >= 500 || cut
	case record.OutcomeDNS:
		// The resolver's word, as in column addr_error. That a name does not exist,
		// or has no address, is an answer; a broken or silent server is none.
		switch o.Error {
		case "nxdomain", "no-address", "bad-name", "cname-chain":
			return false
		}
		return true
	case record.OutcomeConnect, record.OutcomeTimeout, record.OutcomeDisconnect, record.OutcomeRobotsUnreachable:
		return true
	}
	return false
}
