// Package chains holds the bars of chains: turns that call other actors, in one transaction
// with them.
//
// The guest is bench/bankguest, a counter in Rust with 200 bytes of state. A transfer takes one
// from a counter and adds it to another one by a call: two rows in one commit, with fsync. A
// single turn adds one to one counter.
package chains

import (
	"fmt"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
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
			Run: bar.Of(transferCosts),
		},
		{
			Name: "chains.2", Title: "PostgreSQL, 1,024 outstanding: transfers against transactions that lock two rows, on 64 connections",
			Checks: []bar.Check{
				{Name: "10,000 accounts", Unit: "transfers/s", Want: bar.AtLeast, Target: 6},
				{Name: "10,000 accounts, pipelined transactions", Unit: "transfers/s", Want: bar.AtLeast, Target: 6},
				{Name: "10 hot accounts", Unit: "transfers/s", Want: bar.AtLeast, Target: 20},
				{Name: "10 hot accounts, pipelined transactions", Unit: "transfers/s", Want: bar.AtLeast, Target: 20},
			},
			Run: bar.Of(transferRates),
		},
		{
			Name: "chains.3", Title: "two servers on PostgreSQL, the stream, 1,024 outstanding: processor time of a transfer to an actor of the other server against that of two single turns",
			Checks: []bar.Check{{Name: "forwarded", Unit: "µs", Want: bar.AtMost, Target: 2.5}},
			Run:    bar.Of(forwardedCosts),
		},
	}
}

// transferCosts is chains.1.
func transferCosts(b *bar.B) {
	spec := inhost.Spec{Wasm: b.BuildOnce(guest), StateBytes: ballast}
	both := func(check string, run int, s inhost.Spec) {
		s.Method, s.Payload = "Add", "1"
		turns := b.Measure("single turns, "+check, run, inhost.Role, s)
		s.Method, s.Payload, s.Transfers = "Transfer", "", true
		transfers := b.Measure("transfers, "+check, run, inhost.Role, s)
		b.Compare(check, bar.Micros(transfers.CPUPerCall()), bar.Micros(turns.CPUPerCall()))
	}
	b.Each(func(run int) {
		s := spec
		s.Plan, s.Dir = b.Plan(many, accounts, nil), b.Folder()
		both("embedded", run, s)
		url, pid := b.Postgres()
		s.Plan.Watch, s.Dir, s.StoreURL = map[string]int{"PostgreSQL": pid}, "", url
		both("PostgreSQL", run, s)
	})
}

// transferRates is chains.2.
func transferRates(b *bar.B) {
	url, pid := b.Postgres()
	s := b.Serve(b.BuildOnce(guest), "--store", url)
	bar.Call[load.Result](b, wire.Role, wire.Spec{URL: s.URL}.Fill(0, b.Count(accounts), ballast))
	b.Each(func(run int) {
		for _, of := range []struct {
			check  string
			actors int
		}{{"10,000 accounts", accounts}, {"10 hot accounts", hotAccounts}} {
			database := bare.SQL{URL: url, Plan: b.Plan(connections, of.actors, map[string]int{"PostgreSQL": pid}), StateBytes: stateBytes}
			each := b.Measure("transactions, a round trip for each statement, "+of.check, run, bare.TransferRole, database)
			pipelined := b.Measure("transactions, pipelined, "+of.check, run, bare.PipelinedRole, database)
			transfers := b.Measure("Greenroom, "+of.check, run, wire.Role, wire.Spec{
				URL: s.URL, Protocol: wire.Stream, Method: "Transfer", Transfers: true,
				Plan: b.Plan(many, of.actors, map[string]int{"PostgreSQL": pid, "server": s.PID}),
			})
			b.Compare(of.check, transfers.Rate(), each.Rate())
			b.Compare(of.check+", pipelined transactions", transfers.Rate(), pipelined.Rate())
		}
	})
}

// forwardedCosts is chains.3.
func forwardedCosts(b *bar.B) {
	url, pid := b.Postgres()
	c := b.ServeCluster(b.BuildOnce(guest), 2, "--store", url)
	urls, actors := c.URLs(), b.Count(accounts)
	bar.Call[load.Result](b, wire.Role, wire.Spec{URL: urls[0], URLs: urls[1:]}.Fill(0, actors, ballast))
	owners := bar.Call[map[string][]int](b, wire.OwnersRole, wire.OwnersSpec{URL: urls[0], Method: "Get", Actors: actors})
	here, there := owners[urls[0]], owners[urls[1]]
	n := min(len(here), len(there))
	if n < 2 {
		must.Check(fmt.Errorf("of %d actors the servers hold %d and %d; use more", actors, len(here), len(there)))
	}
	watch := c.Watch()
	watch["PostgreSQL"] = pid
	b.Each(func(run int) {
		s := wire.Spec{URL: urls[0], Protocol: wire.Stream, Method: "Add", Payload: "1", Pick: here[:n], Plan: b.Plan(many, accounts, watch)}
		turns := b.Measure("single turns", run, wire.Role, s)
		s.Method, s.Payload, s.Transfers, s.To = "Transfer", "", true, there[:n]
		s.Plan.Actors = n
		transfers := b.Measure("transfers to the other server", run, wire.Role, s)
		b.Compare("forwarded", bar.Micros(transfers.CPUPerCall()), 2*bar.Micros(turns.CPUPerCall()))
	})
}
