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
	"github.com/greenroom-run/greenroom/bench/internal/must"
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
func Hollow(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var spec HollowSpec
	must.Check(json.Unmarshal(raw, &spec))
	work, end := spec.open(ctx)
	defer must.Close(end)
	s := must.Get(server.New(server.Config{
		Config:   edge.Config{Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)},
		Backends: rpc.Backends{Host: hollowHost{work}, Modules: noModules{}, Actors: noActors{}},
	}))
	must.Check(s.Start(ctx))
	must.Check(say("http://" + s.Addr().String()))
	<-ctx.Done()
	return s.Stop(context.WithoutCancel(ctx))
}

// open returns what is done for an actor, nil for nothing, and what ends it.
func (s HollowSpec) open(ctx context.Context) (work func(context.Context, int) error, end func() error) {
	var commit func(context.Context, int) error
	disconnect := func() error { return nil }
	switch {
	case s.Pebble != nil:
		row, closeDB := s.Pebble.Committer()
		commit, disconnect = func(_ context.Context, n int) error { return row(n) }, closeDB
	case s.SQL != nil:
		commit, disconnect = s.SQL.Committer(ctx)
	}
	if s.Guest == nil {
		return commit, disconnect
	}
	turn, endGuest := s.Guest.Open(ctx)
	return func(ctx context.Context, n int) error {
		if err := turn(ctx, n); err != nil || commit == nil {
			return err
		}
		return commit(ctx, n)
	}, func() error { return errors.Join(endGuest(), disconnect()) }
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
