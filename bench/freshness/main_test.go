package main

import (
	"io"
	"math"
	"testing"
	"time"

	"mercator/pkg/base/must"
	"mercator/pkg/frontier"
)

// The schedule by rates keeps more copies fresh than the uniform one with about as many
// fetches: small batches have room for some more than the uniform one makes.
func TestRatesBeatUniform(t *testing.T) {
	s := setting{pages: 200, days: 240, every: 336 * time.Hour, round: 24 * time.Hour, seed: 1, queues: 3}
	uniform, err := crawl(s, frontier.Params{Policy: "revisit", Revisit: frontier.Revisit{MinInterval: s.every.String(), MaxInterval: s.every.String()}})
	must.OK(t, err)
	rates, err := crawl(s, frontier.Params{Policy: "revisit", Revisit: frontier.Revisit{MinInterval: s.round.String(), MaxInterval: (8 * s.every).String()}})
	must.OK(t, err)
	if rates.fetches > uniform.fetches+uniform.fetches/20 || rates.fresh < 1.1*uniform.fresh {
		t.Errorf("%d fetches, %.4f fresh by rates, %d and %.4f uniform", rates.fetches, rates.fresh, uniform.fetches, uniform.fresh)
	}
	// So does a crawl with priorities, of pages of the highest, by no more fetches in all.
	ranked, err := crawl(s, frontier.Params{Policy: "revisit", Priority: frontier.Priority{Queues: 3}, Revisit: frontier.Revisit{MinInterval: s.round.String(), MaxInterval: (8 * s.every).String()}})
	must.OK(t, err)
	if ranked.fetches > rates.fetches+rates.fetches/50 || ranked.by[0].fresh < 1.02*rates.by[0].fresh || ranked.by[0].fetches < rates.by[0].fetches*5/4 {
		t.Errorf("%d fetches, %+v with priorities, %d, %+v without", ranked.fetches, ranked.by, rates.fetches, rates.by)
	}
	// Four frontiers that each schedule a part of the hosts, with a quarter of each batch, keep nearly as many fresh, and know it.
	s.shards = 4
	parts, err := crawl(s, frontier.Params{Policy: "revisit", Revisit: frontier.Revisit{MinInterval: s.round.String(), MaxInterval: (8 * s.every).String()}})
	must.OK(t, err)
	if parts.pages != rates.pages || parts.fetches > rates.fetches || parts.fresh < 0.9*rates.fresh || math.Abs(parts.expected-rates.expected) > 0.05*rates.expected {
		t.Errorf("in four shards %d fetches of %d pages, %.4f fresh, %.4f expected, in one %d of %d, %.4f, %.4f", parts.fetches, parts.pages, parts.fresh, parts.expected, rates.fetches, rates.pages, rates.fresh, rates.expected)
	}
	if err := compare(io.Discard, setting{pages: 50, days: 6, every: 48 * time.Hour, round: 8 * time.Hour, seed: 2, queues: 2}); err != nil {
		t.Error(err)
	}
}

// With pages of one rate the best schedule is the uniform one, and pages that change
// far too often get nothing.
func TestBound(t *testing.T) {
	uniform := 1 - math.Exp(-1)
	if got := bound([]time.Duration{day, day}, 2); math.Abs(got-uniform) > 1e-6 {
		t.Errorf("%v of pages of one rate, want %v", got, uniform)
	}
	if got := bound([]time.Duration{day, 0, time.Second}, 1); math.Abs(got-(uniform+1)/3) > 1e-6 {
		t.Errorf("%v with pages that need no visit, want %v", got, (uniform+1)/3)
	}
}
