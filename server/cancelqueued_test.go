package server

import (
	"context"
	"errors"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
)

// fiveServers is a cluster with four other hosts.
type fiveServers struct{ fakeCluster }

func (fiveServers) Others() (others []actor.Host) {
	for _, name := range []string{"south", "north", "west", "east"} {
		others = append(others, actor.Host{ID: actor.HostID("id-" + name), Name: name})
	}
	return others
}

// someAnswer are the hosts of fiveServers, two of which do not answer.
type someAnswer struct{ noCalls }

func (someAnswer) CancelQueued(_ context.Context, at actor.HostID, of actor.Key) (host.Cancelled, error) {
	switch {
	case at == "id-south", at == "id-north":
		return host.Cancelled{}, errors.New("away")
	case of != (actor.Key{App: "shop", Type: "T", ID: "a"}):
		return host.Cancelled{}, nil
	}
	return host.Cancelled{Calls: 10, Tells: 20, Begun: make([]actor.ReminderID, 30)}, nil
}

// TestCancelQueuedAtAllServers: what other servers have cancelled counts, messages whose turns run there are left alone, and
// servers that do not answer are named.
func TestCancelQueuedAtAllServers(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Messages, c.Queues, c.Cluster, c.Interconnect = &fakeMessages{}, queues{}, fiveServers{}, someAnswer{}
	})
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	res, err := c.CancelQueued(t.Context(), connect.NewRequest(&greenroomv1.CancelQueuedRequest{App: "shop", Type: "T", Id: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	if m := res.Msg; m.Calls != 21 || m.VolatileMessages != 42 || m.Messages != 63 || !slices.Equal(m.Missing, []string{"north", "south"}) {
		t.Errorf("%v", m)
	}
}

// TestCancelQueuedOfNothing: a server without mailboxes refuses, and one without messages cancels calls.
func TestCancelQueuedOfNothing(t *testing.T) {
	req := &greenroomv1.CancelQueuedRequest{App: "shop", Type: "T", Id: "a"}
	f := start(t, func(c *Config) { c.Messages = &fakeMessages{} })
	_, err := greenroomv1connect.NewActorServiceClient(client(t, false), f.url).CancelQueued(t.Context(), connect.NewRequest(req))
	wantError(t, err, connect.CodeUnimplemented, "not_implemented")
	f = start(t, func(c *Config) { c.Queues = queues{} })
	res, err := greenroomv1connect.NewActorServiceClient(client(t, false), f.url).CancelQueued(t.Context(), connect.NewRequest(req))
	if err != nil || res.Msg.Calls != 1 || res.Msg.Messages != 0 {
		t.Errorf("%v, %v", res, err)
	}
}
