package fair

import (
	"errors"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// traced has a role make calls for that long, and returns those that began after the warmup.
func traced(b *bar.B, duration time.Duration, name string, spec any) (all []load.Traced) {
	b.Scope(func() {
		var began bool
		p := b.Start(name, spec, &began)
		b.Pause(b.Warmup)
		from := time.Now().UnixNano()
		b.Pause(duration)
		p.End()
		must.Check(p.Answer(&all))
		all = slices.DeleteFunc(all, func(t load.Traced) bool { return t.Began < from })
	})
	if len(all) == 0 {
		must.Check(errors.New("no call was made; measure longer: -duration 3s"))
	}
	return all
}
