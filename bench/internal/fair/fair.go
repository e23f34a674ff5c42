// Package fair holds the bars of sharing: what one app notices of another that takes as much
// of the server as it is given (package hostile). One file for each kind of question.
//
// Each bar compares a neighbour beside a flood with the same neighbour alone. Floods come
// from a process of low priority, as those who send them have machines of their own.
package fair

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

// Roles are the parts that run in processes of their own.
func Roles() role.Roles { return role.Roles{floodRole: flood} }

// Bars returns the bars of this area in order.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "fair.1", Title: "calls, 200 a second, beside 500 actors of another app in endless loops, against the same calls alone",
			Checks: besides(endless), Run: calls(endless),
		},
		{
			Name: "fair.2", Title: "calls, 200 a second, beside replies of another app that nobody reads, and payloads to actors that spin, against the same calls alone",
			Checks: besides(unread, payloads), Run: calls(unread, payloads),
		},
		{
			Name: "fair.3", Title: "how late reminders fire, 100 a second, beside 100,000 reminders of another app, against the same reminders alone",
			Checks: []bar.Check{late(instant), late(failing)},
			Run:    lateness,
		},
	}
}

// The floods, by their names in package hostile.
const (
	endless  = "turns, endless"
	unread   = "replies, unread"
	payloads = "payloads"
	instant  = "reminders, one instant"
	failing  = "reminders, failing"
)

// target is how many times as long as without a flood a neighbour may wait beside one.
const target = 2

func p99(flood string) bar.Check {
	return bar.Check{Name: flood + ": p99", Unit: "ms", Want: bar.AtMost, Target: target}
}

func failures(flood string) bar.Check {
	return bar.Check{Name: flood + ": calls that fail", Unit: "calls", Want: bar.AtMost}
}

func late(flood string) bar.Check {
	return bar.Check{Name: flood + ": late, p99", Unit: "ms", Want: bar.AtMost, Target: target}
}

// besides are the checks of calls beside floods.
func besides(floods ...string) []bar.Check {
	var all []bar.Check
	for _, f := range floods {
		all = append(all, p99(f), failures(f))
	}
	return all
}

// site is a server with two apps.
type site struct {
	*rig.Server
	tenant, neighbour hostile.App
	remove            func()
}

// open starts a server with a token for each app, and deploys the neighbour's guest.
func open(ctx context.Context, r *rig.Rig) (*site, error) {
	dir, remove, err := r.Folder()
	if err != nil {
		return nil, err
	}
	s := &site{remove: remove}
	type token struct {
		Name   string `json:"name"`
		Role   string `json:"role"`
		Secret string `json:"token"`
		App    string `json:"app"`
	}
	var tokens []token
	for app, name := range map[*hostile.App]string{&s.tenant: "tenant", &s.neighbour: "neighbour"} {
		app.Name, app.Token = name, "token-of-the-"+name
		tokens = append(tokens, token{name, "deploy", app.Token, name})
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "tokens.json")
	const private = 0o600
	if err := os.WriteFile(file, text, private); err != nil {
		return nil, err
	}
	guest, err := r.BuildOnce(ctx, "bench/reminderguest")
	if err != nil {
		return nil, err
	}
	wasm, err := os.ReadFile(guest)
	if err != nil {
		return nil, err
	}
	if s.Server, err = r.Start(ctx, "--data-dir", filepath.Join(dir, "data"), "--tokens-file", file); err != nil {
		return nil, err
	}
	s.tenant.URL, s.neighbour.URL = s.URL, s.URL
	if err := s.neighbour.Deploy(ctx, wasm); err != nil {
		return nil, cmp.Or(s.close(), err)
	}
	return s, nil
}

// close kills the server: what the flood left has no claim to an orderly end.
func (s *site) close() error {
	defer s.remove()
	if err := s.Kill(); err != nil {
		return err
	}
	return s.Close()
}

// eachRun calls f with a fresh server in each run.
func eachRun(ctx context.Context, r *rig.Rig, f func(run int, s *site) error) error {
	for run := 1; run <= r.Runs; run++ {
		s, err := open(ctx, r)
		if err != nil {
			return err
		}
		err = f(run, s)
		if closeErr := s.close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// rate is of the neighbour's calls in a second: few, so that what it waits for is
	// not itself.
	rate = 200
	// actors are those that it calls.
	actors = 64
	// patience bounds each of its calls.
	patience = 30 * time.Second
)

// calls compares calls beside each flood with the same calls alone.
func calls(floods ...string) func(context.Context, *rig.Rig, *bar.Record) error {
	return func(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
		return eachRun(ctx, r, func(run int, s *site) error {
			alone, failed, err := s.call(ctx, r)
			if err != nil {
				return err
			}
			if rec.Measured("alone", run, alone); len(failed) > 0 {
				return fmt.Errorf("calls fail without a flood: %v", failed)
			}
			for _, flood := range floods {
				var beside load.Result
				count, err := s.during(ctx, flood, time.Now(), func() (err error) {
					beside, failed, err = s.call(ctx, r)
					return err
				})
				if err != nil {
					return err
				}
				rec.Measured(flood, run, beside)
				rec.Note("%s, run %d: %s", flood, run, count)
				n := 0
				for why, times := range failed {
					rec.Note("%s, run %d: %d calls failed: %s", flood, run, times, why)
					n += times
				}
				rec.Compare(p99(flood).Name, millis(beside.P99), millis(alone.P99))
				rec.Compare(failures(flood).Name, float64(n), 1)
			}
			return nil
		})
	}
}

// call makes the neighbour's calls, and returns those that fail by why they do.
func (s *site) call(ctx context.Context, r *rig.Rig) (load.Result, map[string]int, error) {
	p, err := role.Start(ctx, wire.TraceRole, wire.TraceSpec{
		Spec: wire.Spec{
			URL: s.URL, Protocol: wire.Unary, App: s.neighbour.Name, Token: s.neighbour.Token, Attempts: 1, Method: "Add", Payload: "1",
		},
		Trace: load.TracePlan{Actors: actors, Rate: rate, Timeout: patience},
	})
	if err != nil {
		return load.Result{}, nil, err
	}
	var began bool
	if err := p.Answer(&began); err != nil {
		return load.Result{}, nil, err
	}
	if err := sleep(ctx, r.Warmup); err != nil {
		return load.Result{}, nil, err
	}
	from := time.Now()
	if err := sleep(ctx, r.Duration); err != nil {
		return load.Result{}, nil, err
	}
	p.End()
	var all []load.Traced
	if err := p.Answer(&all); err != nil {
		return load.Result{}, nil, err
	}
	all = slices.DeleteFunc(all, func(t load.Traced) bool { return t.Began < from.UnixNano() })
	failed := map[string]int{}
	took := make([]time.Duration, len(all))
	for i, t := range all {
		if took[i] = time.Duration(t.Took); t.Error != "" {
			failed[t.Error]++
		}
	}
	return result(took, r.Duration), failed, p.Close()
}

// result is what a table shows of durations.
func result(took []time.Duration, of time.Duration) load.Result {
	slices.Sort(took)
	res := load.Result{Calls: int64(len(took)), Seconds: of.Seconds()}
	if n := len(took); n > 0 {
		const percent = 100
		res.P50, res.P99 = took[n/2], took[n*99/percent]
	}
	return res
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
