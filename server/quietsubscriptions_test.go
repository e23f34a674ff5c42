package server

import (
	"bufio"
	"context"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
)

// quietFeed publishes one event to each subscriber, and then nothing for a while.
type quietFeed struct{ newestFeed }

var onlyEvent = actor.Event{Position: actor.EventPosition{Version: 7, Index: 1}, Name: "only", Payload: actor.Payload{Data: []byte("text"), ContentType: "text/plain"}}

func (quietFeed) Subscribe(ctx context.Context, _ actor.Key, _ actor.EventPosition, idle time.Duration, deliver func([]actor.Event) error) error {
	if idle <= 0 || idle > 30*time.Second { // proxies end what is quiet for longer
		return actor.ErrUnavailable
	}
	for _, events := range [][]actor.Event{{onlyEvent}, nil} {
		if err := deliver(events); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestQuietSubscription: a stream without events says that it lives, a subscription of ActorService with
// the position that it has reached.
func TestQuietSubscription(t *testing.T) {
	f := start(t, func(c *Config) { c.Feed = quietFeed{newestFeed{"a": {Version: 3}}} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := greenroomv1connect.NewActorServiceClient(client(t, true), f.url).Subscribe(ctx, connect.NewRequest(&greenroomv1.SubscribeRequest{
		Actor: &greenroomv1.ActorKey{App: "default", Type: "T", Id: "a"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		position string
		events   int
	}{{"3-0", 0}, {"7-1", 1}, {"7-1", 0}} {
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		if m := stream.Msg(); m.GetPosition() != want.position || len(m.GetEvents()) != want.events {
			t.Errorf("message %d: %v, want %+v", i, m, want)
		}
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/v2.0/actors/default/T/a/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got []string
	want := []string{"retry: 1000", "id: 3-0", "", "id: 7-1", "event: only", "data: text", "", ":", ""}
	for lines := bufio.NewScanner(res.Body); len(got) < len(want) && lines.Scan(); {
		got = append(got, lines.Text())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTooManySubscriptions: those beyond the bound are refused with a typed error, until others end.
func TestTooManySubscriptions(t *testing.T) {
	f := start(t, func(c *Config) { c.Feed, c.MaxSubscriptions = quietFeed{newestFeed{}}, 3 })
	service := greenroomv1connect.NewActorServiceClient(client(t, true), f.url)
	subscribe := func(ctx context.Context) error {
		stream, err := service.Subscribe(ctx, connect.NewRequest(&greenroomv1.SubscribeRequest{Actor: &greenroomv1.ActorKey{App: "default", Type: "T", Id: "a"}}))
		if err != nil {
			return err
		}
		stream.Receive()
		return stream.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 3 {
		if err := subscribe(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, subscribe(t.Context()), connect.CodeResourceExhausted, failure.KindStreamFull)
	cancel()
	for subscribe(t.Context()) != nil { // until the server sees that they have ended
		runtime.Gosched()
	}
}
