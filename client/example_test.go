package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
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
type nothing struct{ rpc.Modules }

func (nothing) HasService(string) bool { return false }

func (nothing) Current(string, string) (actor.Deployment, *abi.TypeSpec, error) {
	return actor.Deployment{}, nil, actor.ErrTypeNotFound
}

func (nothing) ListServices(context.Context, actor.ServiceQuery) ([]actor.Service, error) {
	return nil, nil
}

func (nothing) ListActors(context.Context, store.ActorQuery) ([]store.ActorInfo, string, error) {
	return nil, "", nil
}

func (nothing) ScanActors(context.Context, store.ActorScan, func(*store.ScannedActor) bool) (int, string, error) {
	return 0, "", nil
}

// serve runs a server and returns its URL.
func serve() (url string, stop func()) { return serveWith(nil) }

func serveWith(reminders rpc.Reminders) (url string, stop func()) {
	s, err := server.New(server.Config{
		Config:   edge.Config{Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)},
		Backends: rpc.Backends{Host: counters{}, Modules: nothing{}, Actors: nothing{}, Reminders: reminders},
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

// noTurns runs none: these reminders are for subscribers.
func noTurns(context.Context, actor.Firing) error { return actor.ErrTypeNotFound }

// serveReminders runs a server with reminders, whose URL it returns.
func serveReminders() (url string, stop func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "reminders")
	if err != nil {
		panic(err)
	}
	st, err := embedded.Open(ctx, embedded.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	svc, err := reminder.New(reminder.Config{Store: st, Deliverer: remindertest.DeliverFunc(noTurns), Host: "here"})
	if err != nil {
		panic(err)
	}
	if err := svc.Start(ctx); err != nil {
		panic(err)
	}
	url, stopServer := serveWith(reminder.NewAdmin(svc, st))
	return url, func() {
		_ = svc.Stop(ctx)
		stopServer()
		_, _ = st.Close(), os.RemoveAll(dir)
	}
}

// A reminder without an actor: it waits for whoever subscribes to its name.
func ExampleClient_SubscribeReminders() {
	url, stop := serveReminders()
	defer stop()

	// From anywhere, in Go or with curl:
	reminders := greenroomv1connect.NewReminderServiceClient(http.DefaultClient, url)
	_, err := reminders.CreateReminder(context.Background(), connect.NewRequest(&greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{Type: "greenroom.subscription", Id: "invoices"},
		Name:  "eu",
		Spec: &greenroomv1.ReminderSpec{
			Payload:  []byte(`{"region":"eu"}`),
			Schedule: &greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_After{After: durationpb.New(10 * time.Millisecond)}},
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}

	// The program that does it:
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, done := context.WithCancel(context.Background())
	err = c.SubscribeReminders(ctx, client.Subscription{
		Names: []string{"invoices"},
		Do: func(_ context.Context, f client.Firing) error {
			fmt.Printf("%s %s %s, attempt %d\n", f.Subscription, f.Name, f.Payload, f.Attempt)
			done() // of this example; a program goes on
			return nil
		},
	})
	fmt.Println(err)
	// Output:
	// invoices eu {"region":"eu"}, attempt 1
	// context canceled
}
