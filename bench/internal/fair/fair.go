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
	"errors"
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
func Roles() role.Roles { return role.Roles{floodRole: flood, deployRole: deployer} }

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
		{
			Name: "fair.4", Title: "deploys of a small module, two a second, beside 64 heavy uploads of another app, against the same deploys alone",
			Checks: besides(heavy), Run: deploys,
		},
		{
			Name: "fair.5", Title: "first calls of eight types after a restart with an empty cache, beside first calls of ten heavy modules of another app, against the same alone",
			Checks: besides(restart), Run: restarts,
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
	heavy    = "modules, heavy"
)

// restart is what fair.5 has in place of a flood.
const restart = "restart"

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
	dir               string // removed by remove
	remove            func()
}

// open starts a server with a token for each app, and deploys the neighbour's guest.
func open(ctx context.Context, r *rig.Rig) (*site, error) {
	dir, remove, err := r.Folder()
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, remove: remove}
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
			alone, err := s.call(ctx, r)
			if err != nil {
				return err
			}
			for _, flood := range floods {
				var beside []load.Traced
				count, err := s.during(ctx, flood, time.Now(), func() (err error) {
					beside, err = s.call(ctx, r)
					return err
				})
				if err != nil {
					return err
				}
				rec.Note("%s, run %d: %s", flood, run, count)
				compare(rec, flood, run, alone, beside)
			}
			return nil
		})
	}
}

// compare holds calls beside a flood against those alone.
func compare(rec *bar.Record, flood string, run int, alone, beside []load.Traced) {
	without, failed := summary(rec, "alone", run, alone)
	if failed > 0 {
		rec.Note("run %d: what failed without a flood is not held against it", run)
	}
	with, failed := summary(rec, flood, run, beside)
	rec.Compare(p99(flood).Name, millis(with.P99), millis(without.P99))
	rec.Compare(failures(flood).Name, float64(failed), 1)
}

// summary adds calls to the table, and those that failed to the notes.
func summary(rec *bar.Record, what string, run int, calls []load.Traced) (res load.Result, failed int) {
	reasons := map[string]int{}
	took := make([]time.Duration, len(calls))
	first, last := calls[0].Began, calls[0].Began
	for i, c := range calls {
		first, last = min(first, c.Began), max(last, c.Began)
		if took[i] = time.Duration(c.Took); c.Error != "" {
			reasons[c.Error]++
			failed++
		}
	}
	for why, times := range reasons {
		rec.Note("%s, run %d: %d of %d failed: %s", what, run, times, len(calls), why)
	}
	res = result(took, time.Duration(last-first))
	rec.Measured(what, run, res)
	return res, failed
}

// call makes the neighbour's calls.
func (s *site) call(ctx context.Context, r *rig.Rig) ([]load.Traced, error) {
	return traced(ctx, r.Warmup, r.Duration, wire.TraceRole, wire.TraceSpec{
		Spec: wire.Spec{
			URL: s.URL, Protocol: wire.Unary, App: s.neighbour.Name, Token: s.neighbour.Token, Attempts: 1, Method: "Add", Payload: "1",
		},
		Trace: load.TracePlan{Actors: actors, Rate: rate, Timeout: patience},
	})
}

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
