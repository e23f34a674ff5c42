package metering

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	loading "github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const (
	languageConnections = 64
	languageActors      = 10_000
)

// languageChecks has a check for each language but Rust, whose guest is the
// baseline; TinyGo's only where it is installed.
func languageChecks() []bar.Check {
	checks := []bar.Check{{Name: "standard Go", Unit: "µs/call", Want: bar.AtMost, Target: 1.8}}
	if tinyGo() {
		checks = append(checks, bar.Check{Name: "TinyGo", Unit: "µs/call", Want: bar.AtMost, Target: 1.4})
	}
	return checks
}

func tinyGo() bool {
	_, err := exec.LookPath(guestbuild.TinyGo)
	return err == nil
}

// languages is metering.7: what the server takes for a call of the same counter,
// over HTTP and over many actors, so that nearly each turn comes to another actor
// than the one before in its instance.
func languages(ctx context.Context, r *rig.Rig, rec *bar.Record) (err error) {
	rust, _, err := r.Guest(ctx)
	if err != nil {
		return err
	}
	guests := []struct{ name, toolchain, module string }{{"Rust", "", rust}, {"standard Go", guestbuild.Go, ""}}
	if tinyGo() {
		guests = append(guests, struct{ name, toolchain, module string }{"TinyGo", guestbuild.TinyGo, ""})
	} else {
		rec.Note("TinyGo is not on PATH, and not measured")
	}
	servers := make([]*rig.Server, len(guests))
	defer func() {
		for _, s := range servers {
			if s != nil {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	for n, g := range guests {
		if g.module == "" {
			if g.module, err = r.Build(ctx, "bench/goguest", g.toolchain); err != nil {
				return err
			}
		}
		dir, _, err := r.Folder() // goes with the rig
		if err != nil {
			return err
		}
		if servers[n], err = r.ServeModule(ctx, g.module, "--data-dir", dir); err != nil {
			return err
		}
	}
	for run := range r.Runs {
		var baseline float64
		for n, g := range guests {
			s := servers[n]
			res, err := role.Call[loading.Result](ctx, wire.Role, wire.Spec{
				URL: s.URL, Protocol: wire.HTTP, Method: "Add", Payload: "1",
				Plan: loading.Plan{Outstanding: languageConnections, Actors: r.Count(languageActors), Warmup: r.Warmup, Duration: r.Duration,
					Watch: map[string]int{"server": s.PID}},
			})
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			rec.Measured(g.name, run+1, res)
			perCall := float64(res.CPU["server"].Microseconds()) / float64(res.Calls)
			if n == 0 {
				baseline = perCall
				continue
			}
			rec.Compare(g.name, perCall, baseline)
		}
	}
	return nil
}
