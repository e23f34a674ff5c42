// Package chains holds the bars of chains: turns that call other actors, in one transaction
// with them.
//
// The guest is bench/bankguest, a counter in Rust with 200 bytes of state. A transfer takes one
// from a counter and adds it to another one by a call: two rows in one commit, with fsync. A
// single turn adds one to one counter.
package chains

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	accounts    = 10_000
	hotAccounts = 10
	stateBytes  = 200
	ballast     = stateBytes - 43 // beside the count, as package pipeline has it
	many        = 1024            // calls outstanding
	connections = 64              // of the transactions
	guest       = "bench/bankguest"
)

// Bars returns the bars of this area in order.
func Bars() []bar.Bar {
	return []bar.Bar{
		{
			Name: "chains.1", Title: "inside the host, 10,000 actors, 1,024 outstanding: processor time of a transfer against that of a single turn",
			Checks: []bar.Check{
				{Name: "embedded", Unit: "µs", Want: bar.AtMost, Target: 2.2},
				{Name: "PostgreSQL", Unit: "µs", Want: bar.AtMost, Target: 2.2},
			},
			Run: transferCosts,
		},
		{
			Name: "chains.2", Title: "PostgreSQL, 1,024 outstanding: transfers against transactions that lock two rows, on 64 connections",
			Checks: []bar.Check{
				{Name: "10,000 accounts", Unit: "transfers/s", Want: bar.AtLeast, Target: 6},
				{Name: "10,000 accounts, pipelined transactions", Unit: "transfers/s", Want: bar.AtLeast, Target: 6},
				{Name: "10 hot accounts", Unit: "transfers/s", Want: bar.AtLeast, Target: 20},
				{Name: "10 hot accounts, pipelined transactions", Unit: "transfers/s", Want: bar.AtLeast, Target: 20},
			},
			Run: transferRates,
		},
		{
			Name: "chains.3", Title: "two servers on PostgreSQL, the stream, 1,024 outstanding: processor time of a transfer to an actor of the other server against that of two single turns",
			Checks: []bar.Check{{Name: "forwarded", Unit: "µs", Want: bar.AtMost, Target: 2.5}},
			Run:    forwardedCosts,
		},
	}
}

// transferCosts is chains.1.
func transferCosts(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	module, err := r.BuildOnce(ctx, guest)
	if err != nil {
		return err
	}
	spec := inhost.Spec{Wasm: module, StateBytes: ballast}
	both := func(check string, run int, s inhost.Spec) error {
		s.Method, s.Payload = "Add", "1"
		turns, err := measured(ctx, rec, "single turns, "+check, run, inhost.Role, s)
		if err != nil {
			return err
		}
		s.Method, s.Payload, s.Transfers = "Transfer", "", true
		transfers, err := measured(ctx, rec, "transfers, "+check, run, inhost.Role, s)
		if err == nil {
			rec.Compare(check, micros(transfers.CPUPerCall()), micros(turns.CPUPerCall()))
		}
		return err
	}
	for run := 1; run <= r.Runs; run++ {
		dir, remove, err := r.Folder()
		if err != nil {
			return err
		}
		s := spec
		s.Plan, s.Dir = plan(r, many, accounts, nil), dir
		err = both("embedded", run, s)
		remove()
		if err != nil {
			return err
		}
		url, pid, err := r.Postgres(ctx)
		if err != nil {
			return err
		}
		s = spec
		s.Plan, s.StoreURL = plan(r, many, accounts, map[string]int{"PostgreSQL": pid}), url
		if err := both("PostgreSQL", run, s); err != nil {
			return err
		}
	}
	return nil
}

// transferRates is chains.2.
func transferRates(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	module, err := r.BuildOnce(ctx, guest)
	if err != nil {
		return err
	}
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	s, err := r.ServeModule(ctx, module, "--store", url)
	if err != nil {
		return err
	}
	return errors.Join(func() error {
		fill := wire.Spec{
			URL: s.URL, Protocol: wire.Stream, Method: "Fill", Payload: strconv.Itoa(ballast),
			Plan: load.Plan{Outstanding: many, Actors: r.Count(accounts), Once: true},
		}
		if _, err := role.Call[load.Result](ctx, wire.Role, fill); err != nil {
			return err
		}
		for run := 1; run <= r.Runs; run++ {
			for _, of := range []struct {
				name   string
				actors int
			}{{"10,000 accounts", accounts}, {"10 hot accounts", hotAccounts}} {
				if err := oneRate(ctx, r, rec, run, of.name, of.actors, url, map[string]int{"PostgreSQL": pid}, s); err != nil {
					return err
				}
			}
		}
		return nil
	}(), s.Close())
}

// oneRate compares the transfers of a run among so many accounts with both kinds of transactions.
func oneRate(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, check string, actors int, url string, watch map[string]int, s *rig.Server) error {
	database := bare.SQL{URL: url, Plan: plan(r, connections, actors, watch), StateBytes: stateBytes}
	each, err := measured(ctx, rec, "transactions, a round trip for each statement, "+check, run, bare.TransferRole, database)
	if err != nil {
		return err
	}
	pipelined, err := measured(ctx, rec, "transactions, pipelined, "+check, run, bare.PipelinedRole, database)
	if err != nil {
		return err
	}
	calls := wire.Spec{URL: s.URL, Protocol: wire.Stream, Method: "Transfer", Transfers: true}
	calls.Plan = plan(r, many, actors, map[string]int{"PostgreSQL": watch["PostgreSQL"], "server": s.PID})
	transfers, err := measured(ctx, rec, "Greenroom, "+check, run, wire.Role, calls)
	if err == nil {
		rec.Compare(check, transfers.Rate(), each.Rate())
		rec.Compare(check+", pipelined transactions", transfers.Rate(), pipelined.Rate())
	}
	return err
}

// forwardedCosts is chains.3.
func forwardedCosts(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	module, err := r.BuildOnce(ctx, guest)
	if err != nil {
		return err
	}
	url, pid, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	c, err := r.ServeCluster(ctx, module, 2, "--store", url)
	if err != nil {
		return err
	}
	return errors.Join(func() error {
		if err := c.Settled(ctx); err != nil {
			return err
		}
		urls, actors := c.URLs(), r.Count(accounts)
		fill := wire.Spec{
			URL: urls[0], URLs: urls[1:], Protocol: wire.Stream, Method: "Fill", Payload: strconv.Itoa(ballast),
			Plan: load.Plan{Outstanding: many, Actors: actors, Once: true},
		}
		if _, err := role.Call[load.Result](ctx, wire.Role, fill); err != nil {
			return err
		}
		owners, err := role.Call[map[string][]int](ctx, wire.OwnersRole, wire.OwnersSpec{URL: urls[0], Method: "Get", Actors: actors})
		if err != nil {
			return err
		}
		here, there := owners[urls[0]], owners[urls[1]]
		n := min(len(here), len(there))
		if n < 2 {
			return fmt.Errorf("of %d actors the servers hold %d and %d; use more", actors, len(here), len(there))
		}
		watch := c.Watch()
		watch["PostgreSQL"] = pid
		for run := 1; run <= r.Runs; run++ {
			s := wire.Spec{URL: urls[0], Protocol: wire.Stream, Method: "Add", Payload: "1", Pick: here[:n], Plan: plan(r, many, accounts, watch)}
			turns, err := measured(ctx, rec, "single turns", run, wire.Role, s)
			if err != nil {
				return err
			}
			s.Method, s.Payload, s.Transfers, s.To = "Transfer", "", true, there[:n]
			s.Plan.Actors = n
			transfers, err := measured(ctx, rec, "transfers to the other server", run, wire.Role, s)
			if err != nil {
				return err
			}
			rec.Compare("forwarded", micros(transfers.CPUPerCall()), 2*micros(turns.CPUPerCall()))
		}
		return nil
	}(), c.Close())
}

// plan is one run's, with r's durations.
func plan(r *rig.Rig, outstanding, actors int, watch map[string]int) load.Plan {
	return load.Plan{Outstanding: outstanding, Actors: r.Count(actors), Warmup: r.Warmup, Duration: r.Duration, Watch: watch}
}

// measured plays a role once and puts it into the table.
func measured(ctx context.Context, rec *bar.Record, what string, run int, name string, spec any) (load.Result, error) {
	res, err := role.Call[load.Result](ctx, name, spec)
	if err != nil {
		return res, fmt.Errorf("%s: %w", what, err)
	}
	rec.Measured(what, run, res)
	return res, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
