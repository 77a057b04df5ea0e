package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"mercator/formats/record"
	"mercator/pkg/config"
	"mercator/pkg/driver/setup"
	"mercator/pkg/urlset"
	"mercator/pkg/view/history"
	"mercator/pkg/web/canon"
)

// bareRounds is how many rounds a bare seed has for a reply by https.
const bareRounds = 10

// bareSeed is a seed without a scheme, by https and by http.
type bareSeed struct {
	https, http, host string
	why               string // the last failure of a connection by https; "": there is none
	settled           bool   // there was a reply by https, or the URL by http is in
}

// fallBack asks for the seeds that named no scheme by http, as mcrawl add does, where connections by https failed and there was no
// reply. It is called between two rounds, after round n, and looks at the records alone, so that a run that was killed comes to the same.
func (d *Driver) fallBack(ctx context.Context, conf *config.Config, n uint64) (asked bool, err error) {
	if len(conf.File.BareSeeds) == 0 || d.byHTTP || d.plan.fromLinks || n < 1 || n > bareRounds {
		return false, nil
	}
	form, err := conf.Canon()
	if err != nil {
		return false, err
	}
	var seeds []*bareSeed
	for _, text := range conf.File.BareSeeds {
		if s := bareSeedOf(text, form); s != nil {
			seeds = append(seeds, s)
		}
	}
	kept, err := d.Crawl.Files()
	if err != nil {
		return false, err
	}
	queued, err := kept.Files("new")
	if err != nil {
		return false, err
	}
	for _, file := range queued {
		if err := history.Read(file, func(u *record.URL) error { settleQueued(seeds, u); return nil }); err != nil {
			return false, err
		}
	}
	fetched, err := kept.Files(d.Crawl.Outcomes())
	if err != nil {
		return false, err
	}
	for _, file := range fetched {
		if err := history.Read(file, func(row *record.Fetch) error { settleFetched(seeds, row); return nil }); err != nil {
			return false, err
		}
	}
	var urls []string
	d.byHTTP = true
	for _, s := range seeds {
		switch {
		case s.settled:
		case s.why == "":
			d.byHTTP = false
		default:
			urls = append(urls, s.http)
			d.opt.Reporter.Warning(fmt.Sprintf("mcrawl: no connection to %s: %s: %s is tried", s.https, s.why, s.http))
		}
	}
	if len(urls) == 0 {
		return false, nil
	}
	head, err := json.Marshal(Request{Verb: "add"})
	if err != nil {
		return false, err
	}
	_, err = d.Crawl.PutInbox(ctx, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n%s\n", head, strings.Join(urls, "\n"))
		return err
	})
	return err == nil, err
}

// bareSeedOf reads a member of the setting bare_seeds; nil: it is none of today's URLs.
func bareSeedOf(text string, form canon.Options) *bareSeed {
	seed, assumed, err := urlset.Seed(text, form)
	if err != nil || !assumed {
		return nil
	}
	s := new(bareSeed)
	if s.https, s.host, err = form.URL(seed); err != nil {
		return nil
	}
	if s.http, _, err = form.URL(setup.ByHTTP(text)); err != nil {
		return nil
	}
	return s
}

// settleQueued takes note of a URL that was put into the queue.
func settleQueued(seeds []*bareSeed, u *record.URL) {
	for _, s := range seeds {
		s.settled = s.settled || u.URL == s.http
	}
}

// settleFetched takes note of a contact, with robots.txt too.
func settleFetched(seeds []*bareSeed, row *record.Fetch) {
	if !strings.HasPrefix(row.URL, "https://") {
		return
	}
	for _, s := range seeds {
		switch {
		case s.host != row.Host:
		case row.Status > 0:
			s.settled = true
		case noTLS(row):
			s.why = strings.TrimSuffix(row.Outcome+": "+row.Error, ": ")
		}
	}
}

// noTLS reports whether a contact failed as if nobody spoke TLS at the port. Who has a certificate that does not verify, or refuses the
// handshake by an alert, does speak it.
func noTLS(row *record.Fetch) bool {
	switch row.Outcome {
	case record.OutcomeConnect, record.OutcomeTimeout, record.OutcomeDisconnect:
		return true
	case record.OutcomeTLS:
		return slices.ContainsFunc([]string{"does not look like a TLS handshake", "EOF", "connection reset", "broken pipe", "deadline exceeded", "i/o timeout"},
			func(part string) bool { return strings.Contains(row.Error, part) })
	}
	return false
}
