package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/store"
)

// claimed is a store in which actors stand for services.
type claimed struct {
	fakeLister
	mu     sync.Mutex
	actors map[string]string // IDs, by service
}

func (c *claimed) set(name, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.actors[name] = id
}

// release releases services in one step: a watch never reads some of them released and others not.
func (c *claimed) release(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.actors, name)
	}
}

func (c *claimed) ListServices(_ context.Context, q actor.ServiceQuery) (list []actor.Service, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := store.ValidateServiceQuery(&q); err != nil {
		return nil, err
	}
	for name, id := range c.actors {
		if name >= q.Prefix && name < store.TextAfter(q.Prefix) && q.App == "default" {
			list = append(list, actor.Service{Name: name, Actor: actor.Key{App: q.App, Type: "Worker", ID: id}, ClaimedAt: time.Unix(1, 0)})
		}
	}
	slices.SortFunc(list, func(a, b actor.Service) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// TestWatchServices: a watch has the services of its prefix at once, and again when one is claimed,
// moved or released, and ends when the server stops.
func TestWatchServices(t *testing.T) {
	c := &claimed{actors: map[string]string{"workers/1": "a", "mailer": "m"}}
	f := start(t, func(conf *Config) { conf.Actors = c })
	stream, err := greenroomv1connect.NewActorServiceClient(client(t, true), f.url).WatchServices(t.Context(), connect.NewRequest(&greenroomv1.WatchServicesRequest{Prefix: "workers/"}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	expect := func(want ...string) {
		t.Helper()
		if !stream.Receive() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
		var got []string
		for _, v := range stream.Msg().Services {
			got = append(got, v.Name+" "+v.Actor.GetType()+" "+v.Actor.GetId())
		}
		if !slices.Equal(got, want) || stream.Msg().More {
			t.Errorf("got %q, want %q", stream.Msg(), want)
		}
	}
	expect("workers/1 Worker a")
	c.set("mailer", "n") // which is not watched
	c.set("workers/0", "b")
	expect("workers/0 Worker b", "workers/1 Worker a")
	c.set("workers/1", "c")
	expect("workers/0 Worker b", "workers/1 Worker c")
	c.release("workers/0", "workers/1")
	expect()
	if err := f.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for stream.Receive() {
		t.Errorf("after the end: %v", stream.Msg())
	}
	if err := stream.Err(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
