package nested

import (
	"context"
	"log/slog"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/serving"
)

// Admission finds what serves a call, and gives the call its place.
type Admission interface {
	// Find returns the type and the method of a call, from memory.
	Find(c *call.Call) (*serving.Type, serving.Method, error)
	// FindNew is Find for a valid call that Find has refused with err: it may look for what was deployed a
	// moment ago.
	FindNew(c *call.Call, err error) (*serving.Type, serving.Method, error)
	// Enqueue puts a call into its actor's mailbox. If run is true, the caller is the actor's worker from then on,
	// which onCaller allows.
	Enqueue(c *call.Call, by *serving.Type, onCaller bool) (a *activation.Activation, run bool, err error)
}

// Peers call actors that other hosts hold.
type Peers interface {
	// Locate returns the host that holds an actor, once that is known, and this host.
	Locate(ctx context.Context, key actor.Key) (holder, self actor.HostID, err error)
	// Begin begins a call of an actor of any host. A call that has an idempotency key is sent again while its
	// outcome is unknown; [actor.ErrAmbiguous] if it stays unknown.
	Begin(ctx context.Context, inv actor.Invocation, to call.Receiver) call.Begun
}

// Config is what [Chains] use.
type Config struct {
	Admission   Admission
	Deployments *serving.Deployments
	Memory      *call.Memory
	Answering   *call.Answering
	Table       *activation.Table
	Reminders   *lane.Reminders // nil: there are none
	Recordings  *lane.Recordings
	Peers       Peers // nil: there are none
	NewName     func() string
	Logger      *slog.Logger
}
