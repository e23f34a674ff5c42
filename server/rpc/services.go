package rpc

import (
	"context"

	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/server/reminders"
	"github.com/greenroom-run/greenroom/server/stream"
	"github.com/greenroom-run/greenroom/server/transcode"
)

// Services are the services of the API, and what they share.
type Services struct {
	Backends
	// Calls is Host for callers who may write JSON to methods that are rpcs.
	Calls       *transcode.Host
	edge        *edge.Edge
	Health      *health
	Streams     edge.Places // for InvokeStreams
	subscribers edge.Places // for ReminderService.Connect
	watches     edge.Places // for ActorService.WatchServices
	Events      *events.Subscriptions
	streamConf  *stream.Config
	compiler    *query.Compiler
	queries     *fair.Places // for queries that read
	// draining ends when the server begins to stop: long-lived streams end by themselves then.
	draining context.Context
}

// queryShare is the part of the processors that queries may use at the same time: one in so many,
// and one processor at least.
const queryShare = 2

// watches of services are open at a server at most. Each reads the store once a second.
const watches = 256

// alwaysStreams is the part of all streams that an app may have whatever others have.
const alwaysStreams = 64

// streamBounds are those of limit streams. Callers of all apps invent names of apps, so what apps
// may always have comes to as much again at most.
func streamBounds(name string, limit int64) fair.Bounds {
	return fair.Bounds{Name: name, Total: limit, Always: limit / alwaysStreams, Most: limit}
}

// Setter sets and deletes reminders.
func (s *Services) Setter() reminders.Setter {
	return reminders.Setter{Reminders: s.Reminders, Types: s.Modules, MayDeploy: func(ctx context.Context) bool {
		x := edge.ExchangeOf(ctx)
		return x != nil && x.Caller.Require(edge.RoleDeploy) == nil
	}}
}

// errNoQueues refuses to cancel where nothing waits.
var errNoQueues = &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no mailboxes"}
