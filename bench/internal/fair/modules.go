package fair

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
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
func deploys(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	return eachRun(ctx, r, func(run int, s *site) error {
		deploy := func() ([]load.Traced, error) {
			const enough = 2 // there are few of them
			return traced(ctx, r.Warmup, enough*r.Duration, deployRole, s.neighbour)
		}
		alone, err := deploy()
		if err != nil {
			return err
		}
		var beside []load.Traced
		count, err := during(ctx, s, heavy, time.Now(), func() (err error) {
			beside, err = deploy()
			return err
		})
		if err != nil {
			return err
		}
		rec.Note("%s, run %d: %s", heavy, run, count)
		compare(rec, heavy, run, alone, beside)
		return nil
	})
}

const (
	// smallTypes are those of the neighbour, heavyModules the tenant's.
	smallTypes, heavyModules = 8, 10
	// soon is how far apart the first calls of the neighbour are begun.
	soon = 100 * time.Millisecond
)

// restarts is fair.5. One server has the neighbour alone, the other one both.
func restarts(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	quiet, err := openTypes(ctx, r, 0)
	if err != nil {
		return err
	}
	defer quiet.close() //nolint:errcheck // it has measured
	loud, err := openTypes(ctx, r, heavyModules)
	if err != nil {
		return err
	}
	defer loud.close() //nolint:errcheck // it has measured
	for run := 1; run <= r.Runs; run++ {
		alone, err := firstCalls(ctx, quiet, 0)
		if err != nil {
			return err
		}
		beside, err := firstCalls(ctx, loud, heavyModules)
		if err != nil {
			return err
		}
		compare(rec, restart, run, alone, beside)
	}
	return nil
}

// openTypes starts a server with the neighbour's types and so many heavy modules of the
// tenant, and stops it.
func openTypes(ctx context.Context, r *rig.Rig, heavy int) (*site, error) {
	s, err := open(ctx, r)
	if err != nil {
		return nil, err
	}
	for n := range smallTypes {
		if err == nil {
			err = s.neighbour.Deploy(ctx, hostile.Idle(typeOf("Small", n), n))
		}
	}
	for n := range heavy {
		if err == nil {
			err = s.tenant.Deploy(ctx, hostile.Heavy(typeOf("Heavy", n), n))
		}
	}
	if err == nil {
		err = s.Stop()
	}
	if err != nil {
		_ = s.close()
		return nil, err
	}
	return s, nil
}

func typeOf(name string, n int) string { return fmt.Sprint(name, n) }

// firstCalls starts the server with an empty cache, has the tenant call its heavy modules, and
// returns the neighbour's first calls.
func firstCalls(ctx context.Context, s *site, heavy int) ([]load.Traced, error) {
	if err := os.RemoveAll(filepath.Join(s.dir, "data", "cache")); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	loud, err := s.tenant.Client()
	if err != nil {
		return nil, err
	}
	quiet, err := s.neighbour.Client()
	if err != nil {
		return nil, err
	}
	until, stop := context.WithCancel(ctx)
	defer stop()
	var calls sync.WaitGroup
	var asked atomic.Int64
	for n := range heavy {
		calls.Go(func() {
			for until.Err() == nil {
				asked.Add(1)
				_, _ = loud.Invoke(until, typeOf("Heavy", n), "x", "Do", nil)
			}
		})
	}
	// The neighbour's come after those of the tenant.
	if err := sleep(ctx, soon); err != nil {
		return nil, err
	}
	once, end := context.WithTimeout(ctx, smallTypes*soon-soon/2)
	defer end()
	all := load.Trace(once, load.TracePlan{Actors: smallTypes, Rate: float64(time.Second / soon), Timeout: time.Minute}, func(ctx context.Context, _, n, _ int) error {
		_, err := quiet.Invoke(ctx, typeOf("Small", n), "x", "Do", nil)
		return err
	})
	stop()
	calls.Wait()
	_, _ = loud.Close(), quiet.Close()
	return all, s.Kill()
}
