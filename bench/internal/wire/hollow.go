package wire

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/bare"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
)

// HollowRole is Greenroom's server over a host that answers at once, or after a
// guest's turn or a bare commit.
const HollowRole = "hollow"

// HollowSpec says what to do before each answer: run a guest or not, and commit
// nothing, a row of a Pebble or one of a SQL database. Unless all are nil, one call
// may be outstanding.
type HollowSpec struct {
	Guest  *inhost.GuestSpec
	Pebble *bare.Pebble
	SQL    *bare.SQL
}

// Hollow plays [HollowRole]; it says its URL.
func Hollow(ctx context.Context, raw json.RawMessage, say func(any) error) (err error) {
	var spec HollowSpec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return err
	}
	work, end, err := spec.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s, err := server.New(server.Config{
		Config:   edge.Config{Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)},
		Backends: rpc.Backends{Host: hollowHost{work}, Modules: noModules{}, Actors: noActors{}},
	})
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := say("http://" + s.Addr().String()); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Stop(context.WithoutCancel(ctx))
}

// open returns what is done for an actor, nil for nothing, and what ends it.
func (s HollowSpec) open(ctx context.Context) (func(context.Context, int) error, func() error, error) {
	commit, disconnect, err := s.committer(ctx)
	if err != nil || s.Guest == nil {
		return commit, disconnect, err
	}
	turn, end, err := s.Guest.Open(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, disconnect())
	}
	work := func(ctx context.Context, n int) error {
		if err := turn(ctx, n); err != nil || commit == nil {
			return err
		}
		return commit(ctx, n)
	}
	return work, func() error { return errors.Join(end(), disconnect()) }, nil
}

// committer returns what commits for an actor, and what ends it.
func (s HollowSpec) committer(ctx context.Context) (commit func(context.Context, int) error, end func() error, err error) {
	switch {
	case s.Pebble != nil:
		row, end, err := s.Pebble.Committer()
		return func(_ context.Context, n int) error { return row(n) }, end, err
	case s.SQL != nil:
		row, end, err := s.SQL.Committer(ctx)
		return row, func() error { end(); return nil }, err
	}
	return nil, func() error { return nil }, nil
}

// hollowHost has something to do, or nothing.
type hollowHost struct {
	work func(ctx context.Context, target int) error
}

func (h hollowHost) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	if h.work != nil {
		n, err := strconv.Atoi(strings.TrimPrefix(inv.Key.ID, idPrefix))
		if err == nil {
			err = h.work(ctx, n)
		}
		if err != nil {
			return actor.Reply{}, err
		}
	}
	return actor.Reply{Payload: actor.Payload{Data: []byte("1")}, Version: 1}, nil
}

func (h hollowHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	to.Answer(h.Invoke(ctx, inv))
	return nil
}

func (hollowHost) Delete(context.Context, actor.Key) error { return actor.ErrActorNotFound }

func (hollowHost) View(context.Context, actor.Key) (host.View, error) {
	return host.View{}, actor.ErrActorNotFound
}

// Nobody calls these.
type (
	noModules struct{ rpc.Modules }
	noActors  struct{ rpc.Lister }
)
