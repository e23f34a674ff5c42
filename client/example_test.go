package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/store"
)

// counters stands for a host with a deployed actor type.
type counters struct{}

func (counters) Invoke(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
	if inv.Method == "Remove" {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: &actor.GuestError{
			Status: actor.Status(connect.CodeFailedPrecondition), Code: "too_few", Message: "there are only 2",
		}}
	}
	return actor.Reply{Payload: actor.Payload{Data: []byte(`{"count":5}`)}, Version: 1}, nil
}

func (c counters) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	to.Answer(c.Invoke(ctx, inv))
	return nil
}

func (counters) Delete(context.Context, actor.Key) error            { return nil }
func (counters) View(context.Context, actor.Key) (host.View, error) { return host.View{}, nil }

// nothing stands for modules and listings, which no example asks for.
type nothing struct{ server.Modules }

func (nothing) ListActors(context.Context, store.ActorQuery) ([]store.ActorInfo, error) {
	return nil, nil
}

// serve runs a server and returns its URL.
func serve() (url string, stop func()) {
	s, err := server.New(server.Config{
		Addr: "127.0.0.1:0", Host: counters{}, Modules: nothing{}, Actors: nothing{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	if err := s.Start(context.Background()); err != nil {
		panic(err)
	}
	return "http://" + s.Addr().String(), func() { _ = s.Stop(context.Background()) }
}

func Example() {
	url, stop := serve()
	defer stop()

	c, err := client.New(client.Config{URL: url, IdempotencyKeys: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	type Add struct {
		Amount int `json:"amount"`
	}
	type Count struct {
		Count int `json:"count"`
	}
	count, err := client.Call[Count](context.Background(), c, "Counter", "alice", "Add", Add{Amount: 5})
	fmt.Println(count.Count, err)
	// Output: 5 <nil>
}

func ExampleError() {
	url, stop := serve()
	defer stop()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Invoke(context.Background(), "Counter", "alice", "Remove", []byte(`{"amount":9}`))
	var failure *client.Error
	if errors.As(err, &failure) && failure.Guest != nil {
		fmt.Println(failure.Code, failure.Guest.Code, failure.Message)
	}
	// Output: failed_precondition too_few there are only 2
}
