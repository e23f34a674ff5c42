package server

import (
	"bufio"
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// twoEvents publishes two events at once to each subscriber, and notes after which position it asks.
type twoEvents struct {
	newestFeed
	after chan actor.EventPosition
}

var bothEvents = []actor.Event{
	{Position: actor.EventPosition{Version: 8}, Life: 3, Name: "first", Payload: actor.Payload{Data: []byte("text"), ContentType: "text/plain"}, At: time.Unix(1e9, 0)},
	{Position: actor.EventPosition{Version: 8, Index: 1}, Name: "second"},
}

func (f twoEvents) Subscribe(ctx context.Context, _ actor.Key, after actor.EventPosition, _ time.Duration, deliver func([]actor.Event) error) error {
	f.after <- after
	if err := deliver(bothEvents); err != nil {
		return err
	}
	return actor.ErrPositionGone
}

func (f twoEvents) Read(_ context.Context, _ actor.Key, after actor.EventPosition) ([]actor.Event, error) {
	if after == bothEvents[1].Position {
		return nil, nil
	}
	return bothEvents[1:], nil
}

// TestSubscribeOverRPC: a subscription begins where it says, and its messages have all that is known of
// events; one that is malformed is refused.
func TestSubscribeOverRPC(t *testing.T) {
	feed := twoEvents{newestFeed{"a": {Version: 3}}, make(chan actor.EventPosition, 8)}
	f := start(t, func(c *Config) { c.Feed = feed })
	service := greenroomv1connect.NewActorServiceClient(client(t, true), f.url)
	subscribe := func(req *greenroomv1.SubscribeRequest) (got []*greenroomv1.SubscribeResponse, err error) {
		if req.Actor == nil {
			req.Actor = &greenroomv1.ActorKey{App: "default", Type: "T", Id: "a"}
		}
		stream, err := service.Subscribe(t.Context(), connect.NewRequest(req))
		if err != nil {
			return nil, err
		}
		for stream.Receive() {
			got = append(got, stream.Msg())
		}
		return got, stream.Err()
	}
	for _, tt := range []struct {
		from  *greenroomv1.SubscribeRequest
		after string
	}{
		{&greenroomv1.SubscribeRequest{}, "3-0"},
		{&greenroomv1.SubscribeRequest{From: &greenroomv1.SubscribeRequest_Start{Start: true}}, "0-0"},
		{&greenroomv1.SubscribeRequest{From: &greenroomv1.SubscribeRequest_After{After: "5-2"}}, "5-2"},
	} {
		got, err := subscribe(tt.from)
		wantError(t, err, connect.CodeOutOfRange, actor.ErrPositionGone.Kind())
		if after := (<-feed.after).String(); after != tt.after || len(got) != 2 || got[0].GetPosition() != tt.after || len(got[0].GetEvents()) != 0 {
			t.Errorf("reads after %s, and says %v, want %s", after, got, tt.after)
			continue
		}
		want := &greenroomv1.SubscribeResponse{Position: "8-1", Events: []*greenroomv1.ActorEvent{
			{Position: "8-0", Name: "first", Payload: []byte("text"), ContentType: "text/plain", PublishedAt: timestamppb.New(bothEvents[0].At), Life: 3},
			{Position: "8-1", Name: "second", PublishedAt: timestamppb.New(time.Time{})},
		}}
		if !proto.Equal(got[1], want) {
			t.Errorf("got %v, want %v", got[1], want)
		}
	}
	if got, err := subscribe(&greenroomv1.SubscribeRequest{KeptOnly: true}); err != nil || len(got) != 2 || len(got[1].GetEvents()) != 1 {
		t.Errorf("of what is kept: %v, %v", got, err)
	}
	for _, bad := range []*greenroomv1.SubscribeRequest{
		{From: &greenroomv1.SubscribeRequest_After{After: "five"}},
		{Actor: &greenroomv1.ActorKey{App: "default", Type: "T", Id: strings.Repeat("a", actor.MaxIDLen+1)}},
		{Actor: &greenroomv1.ActorKey{App: "default", Type: "a b", Id: "a"}},
	} {
		_, err := subscribe(bad)
		wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	}
}
