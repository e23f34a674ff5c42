package fair

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

// floodRole floods a server until it is asked to end, and returns what that came to then.
const floodRole = "flood"

// floodSpec says how to flood a server.
type floodSpec struct {
	App   hostile.App
	Flood string
	Due   time.Time // of its reminders
}

// floodCount is how often the server did what was asked for.
type floodCount struct{ Done, Refused int64 }

func (c floodCount) String() string {
	return fmt.Sprintf("the flood had %d of what it asked for, and was refused %d times", c.Done, c.Refused)
}

// flood plays [floodRole]. Its first answer says that all is prepared.
func flood(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var s floodSpec
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	lowerPriority()
	floods := hostile.Floods(s.Flood)
	if len(floods) != 1 {
		return fmt.Errorf("there is no flood %q", s.Flood)
	}
	var count hostile.Count
	run, err := floods[0].Prepare(ctx, s.App, s.Due, &count)
	if err != nil {
		return err
	}
	if err := say(true); err != nil {
		return err
	}
	run()
	return say(floodCount{count.Done.Load(), count.Refused.Load()})
}

// during floods the server while f runs.
func during(b *bar.B, s *site, flood string, due time.Time, f func()) (count floodCount) {
	b.Scope(func() {
		var prepared bool
		p := b.Start(floodRole, floodSpec{App: s.tenant, Flood: flood, Due: due}, &prepared)
		f()
		p.End()
		must.Check(p.Answer(&count))
	})
	return count
}
