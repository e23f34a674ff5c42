// Package inhost calls actors inside the process that hosts them, with no
// network between: what the host itself costs.
package inhost

import (
	"context"
	"strconv"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// Role hosts actors and calls them.
const Role = "in-host"

// Spec says what to host and how to load it.
type Spec struct {
	Dir, StoreURL string // one of them
	Wasm          string // path of the module
	Plan          load.Plan
	StateBytes    int
	Method        string
	Payload       string // JSON
	ReadOnly      bool
	// Transfers has each call go to the first actor of a pair, with the number of the second
	// as the payload.
	Transfers bool
	// Reminders has the process deliver reminders as well.
	Reminders bool

	observers []host.Events
}

// Load plays [Role]: it calls every actor once, which fills and activates it,
// and then measures.
func Load(ctx context.Context, s Spec) (res load.Result, err error) {
	s.during(ctx, func(h *host.Host, r *reminderParts) {
		r.begin(ctx)
		res = s.drive(ctx, h)
	})
	return res, nil
}

// during hosts the actors, filled and activated, while f runs. Reminders have not begun;
// r is nil without.
func (s Spec) during(ctx context.Context, f func(h *host.Host, r *reminderParts)) {
	st := s.open(ctx)
	p := assemble(ctx, st, s.Wasm)
	defer must.Close(p.end)
	cfg := p.host
	cfg.MaxActivations = 2 * s.Plan.Actors
	cfg.Observers = s.observers
	cfg.Pipeline.CallersCommit = s.StoreURL == "" // as package node has it
	var reminders *reminderParts
	if s.Reminders {
		reminders = &reminderParts{store: st}
		reminders.renew(0)
		cfg.Reminders = reminders
	}
	h := must.Get(host.New(cfg))
	must.Check(h.Start(ctx))
	defer must.Close(func() error { return h.Stop(ctx) })

	fill := Spec{
		Plan:   load.Plan{Outstanding: 256, Actors: s.Plan.Actors, Once: true},
		Method: "Fill", Payload: strconv.Itoa(s.StateBytes),
	}
	must.Get(load.Drive(ctx, fill.Plan, fill.call(h)))
	if reminders != nil {
		reminders.host = h
		defer must.Close(func() error { return reminders.Stop(ctx) }) // of the service that there is by then
	}
	f(h, reminders)
}

// drive measures the calls.
func (s Spec) drive(ctx context.Context, h *host.Host) load.Result {
	if s.Plan.Outstanding == 1 {
		return must.Get(load.Drive(ctx, s.Plan, s.call(h)))
	}
	return must.Get(load.DriveBegun(ctx, s.Plan, s.begin(h)))
}

func (s Spec) open(ctx context.Context) store.Store {
	if s.StoreURL != "" {
		return must.Get(sqlstore.Open(ctx, sqlstore.Config{URL: s.StoreURL, Logger: quiet}))
	}
	return must.Get(embedded.Open(ctx, embedded.Config{Dir: s.Dir, Logger: quiet}))
}

// call waits for each call, as a caller that has a goroutine for it.
func (s Spec) call(h *host.Host) load.Call {
	invocation := s.invocations()
	return func(ctx context.Context, worker, target, n int) error {
		_, err := h.Invoke(ctx, invocation(worker, target, n))
		return err
	}
}

// begin waits for none, as the server does for the invocations of a stream.
func (s Spec) begin(h *host.Host) load.Begin {
	invocation := s.invocations()
	return func(ctx context.Context, worker, target, n int, done func(error)) {
		h.Begin(ctx, invocation(worker, target, n), receiver(done))
	}
}

// invocations returns what makes the calls of the plan.
func (s Spec) invocations() func(worker, target, n int) actor.Invocation {
	keys := make([]actor.Key, s.Plan.Actors)
	for i := range keys {
		keys[i] = actor.Key{App: actor.DefaultApp, Type: "Counter", ID: "c" + strconv.Itoa(i)}
	}
	payload := actor.Payload{Data: []byte(s.Payload)}
	return func(worker, target, n int) actor.Invocation {
		payload := payload
		if s.Transfers {
			from, to := load.Pair(worker, n, s.Plan.Actors)
			target, payload.Data = from, strconv.AppendInt(nil, int64(to), 10)
		}
		return actor.Invocation{ID: "bench", Key: keys[target], Method: s.Method, Payload: payload, ReadOnly: s.ReadOnly}
	}
}
