package stage

import (
	"fmt"
	"strings"
	"time"

	"mercator/formats/record"
	"mercator/pkg/base/trace"
)

// traceIn traces a row that comes in, unless the one that goes out says as much.
func (b *Batch[In, Out]) traceIn(row *In) {
	if b.spec.Shape == Filter && kindOf[In]() == kindOf[Out]() {
		return
	}
	b.trace("in", row)
}

func (b *Batch[In, Out]) trace(way string, row any) {
	if b.spec.Txn != "" {
		way += " " + b.spec.Txn
	}
	switch r := row.(type) {
	case *record.URL:
		if trace.On(r.URL) {
			trace.Say(b.spec.Name, r.URL, "%s: url%s", way, values(
				"depth", r.Depth, "priority", r.Priority, "attempt", r.Attempt, "due", r.Due, "addr", r.Addr, "addr_error", r.AddrError, "via", r.Via))
		}
	case *record.Fetch:
		if trace.On(r.URL) {
			trace.Say(b.spec.Name, r.URL, "%s: %s%s", way, r.Role, values("outcome", r.Outcome, "status", r.Status, "addr", r.Addr, "took", time.Duration(r.DurationUS)*time.Microsecond,
				"mime", r.MIME, "bytes", r.BodyLength, "duplicate", r.Duplicate, "redirect_url", r.RedirectURL, "retry_after", r.RetryAfter, "error", r.Error))
		}
	case *record.Link:
		if trace.On(r.URL) || trace.On(r.SrcURL) {
			trace.Say(b.spec.Name, r.URL, "%s: link%s", way, values("kind", r.LinkKind, "depth", r.Depth, "of", r.SrcURL))
		}
	}
}

// values are names and values, without those that are zero.
func values(pairs ...any) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		if t, ok := v.(record.Time); ok && t != 0 {
			v = t.Go().Format(time.RFC3339)
		}
		if text := fmt.Sprint(v); text != "" && text != "0" && text != "0s" && text != "false" {
			fmt.Fprintf(&b, " %s=%s", pairs[i], text)
		}
	}
	return b.String()
}
