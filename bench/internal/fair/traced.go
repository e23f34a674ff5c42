package fair

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

// traced has a role make calls for that long, and returns those that began after the warmup.
func traced(ctx context.Context, warmup, duration time.Duration, name string, spec any) ([]load.Traced, error) {
	p, err := role.Start(ctx, name, spec)
	if err != nil {
		return nil, err
	}
	var began bool
	if err := p.Answer(&began); err != nil {
		return nil, err
	}
	if err := sleep(ctx, warmup); err != nil {
		return nil, err
	}
	from := time.Now().UnixNano()
	if err := sleep(ctx, duration); err != nil {
		return nil, err
	}
	p.End()
	var all []load.Traced
	if err := p.Answer(&all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t load.Traced) bool { return t.Began < from })
	if len(all) == 0 {
		return nil, errors.New("no call was made; measure longer: -duration 3s")
	}
	return all, p.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
