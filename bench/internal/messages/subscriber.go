package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/client"
)

// subscriberRole subscribes to an actor. It says that it has, and, with events, when its subscribers had
// them: a [fanOut].
const subscriberRole = "subscriber"

// subscriberSpec says how.
type subscriberSpec struct {
	URL string
	// Readers read what they get. Others subscribe as well, and read nothing with Slow.
	Readers, Others int
	Slow            bool
	// Events are published, so many in a second for so long; 0: none, and the subscriptions stay until the
	// role is asked to end.
	Events   float64
	Duration time.Duration
}

// fanOut has for each event the time from the call that publishes it until the last reader has it.
type fanOut []time.Duration

const (
	publisherID = "a0"
	// windowOfStream is how many bytes a subscriber has not read before its server waits for it: a few
	// events.
	windowOfStream = 16 << 10
)

// subscriber plays [subscriberRole].
func subscriber(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var s subscriberSpec
	must.Check(json.Unmarshal(raw, &s))
	subscribed, end := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer end()

	got := &arrivals{readers: s.Readers, had: map[int]int{}, last: map[int]time.Time{}}
	streams := must.Get(s.open(subscribed, s.Readers))
	idle := must.Get(s.open(subscribed, s.Others))
	for _, stream := range streams {
		reading.Go(func() { got.read(stream) })
	}
	if !s.Slow {
		for _, stream := range idle {
			reading.Go(func() {
				for stream.Receive() {
				}
			})
		}
	}
	must.Check(say(true))
	if s.Events == 0 {
		<-ctx.Done()
		return nil
	}
	fan, err := s.publish(ctx, got)
	must.Check(err)
	return say(fan)
}

type subscription = *connect.ServerStreamForClient[greenroomv1.SubscribeResponse]

// open opens n subscriptions, on connections of their own.
func (s subscriberSpec) open(ctx context.Context, n int) ([]subscription, error) {
	streams := make([]subscription, n)
	var service greenroomv1connect.ActorServiceClient
	for i := range streams {
		if i%streamsOfConnection == 0 {
			service = greenroomv1connect.NewActorServiceClient(&http.Client{Transport: &http.Transport{
				Protocols: unencrypted(), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: windowOfStream},
			}}, s.URL)
		}
		req := &greenroomv1.SubscribeRequest{Actor: &greenroomv1.ActorKey{Type: "Teller", Id: publisherID}}
		stream, err := service.Subscribe(ctx, connect.NewRequest(req))
		if err != nil {
			return nil, err
		}
		if !stream.Receive() {
			return nil, fmt.Errorf("subscription %d: %w", i, stream.Err())
		}
		streams[i] = stream
	}
	return streams, nil
}

// announced is an event of bench/tellguest.
type announced struct {
	N int `json:"n"`
}

// arrivals are the events that readers had. Its methods may be called concurrently.
type arrivals struct {
	readers int

	mu   sync.Mutex
	had  map[int]int       // how many readers had an event, by its number
	last map[int]time.Time // when the last of all readers had it
}

// read notes the events of a subscription, until it ends.
func (a *arrivals) read(stream subscription) {
	for stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			var event announced
			must.Check(json.Unmarshal(e.GetPayload(), &event))
			a.note(event.N)
		}
	}
}

func (a *arrivals) note(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.had[n]++; a.had[n] == a.readers {
		a.last[n] = time.Now()
	}
}

// all returns when the last reader had each of the events; ok is false if there are fewer than n.
func (a *arrivals) all(n int) (last map[int]time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.last), len(a.last) == n
}

// arrivalTimeout is how long readers may take for the last events.
const arrivalTimeout = time.Minute

// publish publishes events, and waits until all readers had them.
func (s subscriberSpec) publish(ctx context.Context, to *arrivals) (fanOut, error) {
	c, err := client.New(client.Config{URL: s.URL})
	if err != nil {
		return nil, err
	}
	defer must.Close(c.Close)
	var began []time.Time
	for first := time.Now(); time.Since(first) < s.Duration; {
		began = append(began, time.Now())
		if _, err := c.Invoke(ctx, "Teller", publisherID, "Announce", strconv.AppendInt(nil, int64(len(began)-1), 10)); err != nil {
			return nil, err
		}
		if err := load.Pause(ctx, time.Until(first.Add(time.Duration(float64(len(began))/s.Events*float64(time.Second))))); err != nil {
			return nil, err
		}
	}
	for deadline := time.Now().Add(arrivalTimeout); ; {
		last, ok := to.all(len(began))
		if ok {
			var took fanOut
			for n, at := range last {
				took = append(took, at.Sub(began[n]))
			}
			return took, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("of %d events %d reached all %d subscribers", len(began), len(last), to.readers)
		}
		if err := load.Pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
