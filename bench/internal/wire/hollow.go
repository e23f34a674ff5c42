package wire

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
)

// HollowRole is Greenroom's server over a host that answers at once.
const HollowRole = "hollow"

// Hollow plays [HollowRole]; it says its URL.
func Hollow(ctx context.Context, _ json.RawMessage, say func(any) error) error {
	s, err := server.New(server.Config{
		Addr: "127.0.0.1:0", Host: hollowHost{}, Modules: noModules{}, Actors: noActors{},
		Logger: slog.New(slog.DiscardHandler),
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

type hollowHost struct{}

func (hollowHost) Invoke(context.Context, actor.Invocation) (actor.Reply, error) {
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
	noModules struct{ server.Modules }
	noActors  struct{ server.Lister }
)
