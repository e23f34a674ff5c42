package fair

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

// deployRole deploys small modules, all different, at a steady rate until it is asked to
// end, and returns the outcome of each then.
const deployRole = "deploys"

// deployPlan is how it does. A deploy may take as long as a module may take to compile, and
// more.
var deployPlan = load.TracePlan{Actors: 1, Rate: 2, Timeout: time.Minute}

// deployer plays [deployRole]. Its first answer says that it has begun.
func deployer(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var app hostile.App
	if err := json.Unmarshal(raw, &app); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	if err := say(true); err != nil {
		return err
	}
	seeds := int(time.Now().UnixNano())
	return say(load.Trace(ctx, deployPlan, func(ctx context.Context, _, _, n int) error {
		return app.Deploy(ctx, hostile.Idle("Small", seeds+n))
	}))
}

// deploys is fair.4.
func deploys(b *bar.B) {
	eachRun(b, func(run int, s *site) {
		const enough = 2 // there are few of them
		deploy := func() []load.Traced { return traced(b, enough*b.Duration, deployRole, s.neighbour) }
		beside(b, s, heavy, run, deploy(), deploy)
	})
}

const (
	// smallTypes are those of the neighbour, heavyModules the tenant's.
	smallTypes, heavyModules = 8, 10
	// soon is how far apart the first calls of the neighbour are begun.
	soon = 100 * time.Millisecond
)

// restarts is fair.5. One server has the neighbour alone, the other one both.
func restarts(b *bar.B) {
	quiet, loud := openTypes(b, 0), openTypes(b, heavyModules)
	b.Each(func(run int) {
		compare(b, restart, run, firstCalls(b, quiet, 0), firstCalls(b, loud, heavyModules))
	})
}

// openTypes starts a server with the neighbour's types and so many heavy modules of the
// tenant, and stops it.
func openTypes(b *bar.B, heavy int) *site {
	s := open(b)
	for n := range smallTypes {
		must.Check(s.neighbour.Deploy(b.Context(), hostile.Idle(typeOf("Small", n), n)))
	}
	for n := range heavy {
		must.Check(s.tenant.Deploy(b.Context(), hostile.Heavy(typeOf("Heavy", n), n)))
	}
	must.Check(s.Stop())
	return s
}

func typeOf(name string, n int) string { return fmt.Sprint(name, n) }

// firstCalls starts the server with an empty cache, has the tenant call its heavy modules, and
// returns the neighbour's first calls.
func firstCalls(b *bar.B, s *site, heavy int) []load.Traced {
	must.Check(os.RemoveAll(filepath.Join(s.dir, "data", "cache")))
	must.Check(s.Start(b.Context()))
	loud, quiet := must.Get(s.tenant.Client()), must.Get(s.neighbour.Client())
	until, stop := context.WithCancel(b.Context())
	defer stop()
	var calls sync.WaitGroup
	for n := range heavy {
		calls.Go(func() {
			for until.Err() == nil {
				_, _ = loud.Invoke(until, typeOf("Heavy", n), "x", "Do", nil)
			}
		})
	}
	b.Pause(soon) // the neighbour's calls come after those of the tenant
	once, end := context.WithTimeout(b.Context(), smallTypes*soon-soon/2)
	defer end()
	all := load.Trace(once, load.TracePlan{Actors: smallTypes, Rate: float64(time.Second / soon), Timeout: time.Minute}, func(ctx context.Context, _, n, _ int) error {
		_, err := quiet.Invoke(ctx, typeOf("Small", n), "x", "Do", nil)
		return err
	})
	stop()
	calls.Wait()
	_, _ = loud.Close(), quiet.Close()
	must.Check(s.Kill())
	return all
}
