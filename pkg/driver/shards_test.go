package driver

import (
	"context"
	"errors"
	"testing"
)

// A shard that waits for its turn to sort rows ends with its run.
func TestSendEnds(t *testing.T) {
	for range cap(exchangesAtOnce) {
		exchangesAtOnce <- struct{}{}
		defer func() { <-exchangesAtOnce }()
	}
	why := errors.New("interrupted")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if err := new(Driver).send(ctx, nil, ""); err != why {
		t.Error(err)
	}
}
