package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
)

// several is the guest of a turn that [actor.MethodAll] asks for: it calls actors, the turn's own
// among them, and its reply has all replies. What migrates the state is the instance.
type several struct {
	engine.Instance
	turn *run
}

// Run implements [engine.Instance].
func (s *several) Run(ctx context.Context, frame *abi.Turn, calls engine.Calls) error {
	if frame.What == abi.WhatMigrate {
		return s.Instance.Run(ctx, frame, calls)
	}
	replies, err := s.turn.by.all(s.turn)
	if err != nil {
		return err
	}
	if calls.Reply("", actor.EncodePayloads(replies)) != 0 {
		return fmt.Errorf("%w: the replies have more than %d bytes together", actor.ErrPayloadTooLarge, actor.MaxCallBytes)
	}
	return nil
}

// all runs the calls that t asks for, in order. Before the first one runs, the chain has all their
// actors. An error is that of one call, an [*actor.CallError], or ends the chain.
func (cs *chains) all(t *run) ([]actor.Payload, error) {
	inv := &t.call.inv
	calls := make([]*call, len(t.call.list))
	failed := func(i int, err error) error {
		var decided *decidedError
		switch {
		case errors.As(err, &decided):
			return decided.err
		case t.Context().Err() != nil:
			return ofTurn(t.Context().Err())
		case endsChain(err):
			return err
		}
		one := &t.call.list[i]
		return &actor.CallError{Index: i, Key: one.Key, Method: one.Method, Err: err}
	}
	cs.of(t)
	for i := range calls {
		one := &t.call.list[i]
		calls[i] = &call{request: request{
			ctx: t.Context(), op: opEnlist, cause: actor.CauseCall, arrived: time.Now(), atomic: true,
			inv: actor.Invocation{ID: inv.ID, Key: one.Key, Method: one.Method, Payload: one.Payload, Trace: inv.Trace.Child()},
		}}
		if err := cs.ready(t, calls[i]); err != nil {
			return nil, failed(i, err)
		}
	}
	replies := make([]actor.Payload, len(calls))
	for i, c := range calls {
		var err error
		if replies[i], err = cs.run(t, c); err != nil {
			return nil, failed(i, err)
		}
	}
	return replies, nil
}

// ready gives the chain the actor of a call that is to run later, if the call can be run.
func (cs *chains) ready(t *run, c *call) error {
	m := t.chain.member(c.inv.Key)
	if m != nil {
		_, err := m.served.method(&c.inv)
		return err
	}
	s, _, err := cs.admission.find(c)
	if err != nil {
		if s, _, err = cs.admission.findNew(c, err); err != nil {
			return err
		}
	}
	if m, err = cs.acquire(t, c, s); err == nil {
		m.served = s
		err = cs.forwarding.moved(cs.begin(t, c.ctx, m))
	}
	var apart *actor.GuestError // no guest has run
	if errors.As(err, &apart) && apart.Code == abi.CallNotAtomic {
		err = &actor.ReasonError{Condition: actor.ErrNotAtomic, Reason: apart.Message}
	}
	return err
}
