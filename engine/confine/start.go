package confine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Start runs start, which begins an instance, for at most limit. A start that takes longer than that is
// [actor.ErrDeadline] with a text that names the limit; one that the earlier deadline of ctx ends is as
// start returns it.
func Start(ctx context.Context, limit time.Duration, start func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := start(limited)
	end, _ := limited.Deadline()
	if callers, ok := ctx.Deadline(); !errors.Is(err, actor.ErrDeadline) || ok && !callers.After(end) {
		return err
	}
	return &actor.ReasonError{Condition: actor.ErrDeadline, Reason: fmt.Sprintf(
		"the guest did not start within %s; do less where it starts: in _initialize and the start function, which in Go initialize package variables and run init functions", limit)}
}
