package wire

import (
	"context"
	"encoding/json"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/client"
)

const (
	// TraceRole calls servers that may fail, until it is asked to end, and then returns
	// the outcome of each call.
	TraceRole = "trace"
	// OwnersRole says which server holds which actor.
	OwnersRole = "owners"
)

// TraceSpec says how to load servers that may fail. Of Spec the plan, Pick and Forget
// are not looked at.
type TraceSpec struct {
	Spec
	Trace load.TracePlan
}

// Trace plays [TraceRole]. Its first answer says that it has begun.
func Trace(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var s TraceSpec
	must.Check(json.Unmarshal(raw, &s))
	s.Pick, s.Forget = nil, false
	call, end := s.client()
	defer must.Close(end)
	must.Check(say(true))
	return say(load.Trace(ctx, s.Trace, call))
}

// OwnersSpec asks for the holders of so many actors.
type OwnersSpec struct {
	URL    string
	Method string // read-only
	Actors int
}

// Owners plays [OwnersRole]: the actors by the URL of the server that holds them.
func Owners(ctx context.Context, s OwnersSpec) (map[string][]int, error) {
	c := must.Get(client.New(client.Config{URL: s.URL, MaxOwners: -1}))
	defer must.Close(c.Close)
	hosts := make([]string, s.Actors)
	must.Get(load.Drive(ctx, load.Plan{Outstanding: 64, Actors: s.Actors, Once: true}, func(ctx context.Context, _, target, _ int) error {
		reply, err := c.Query(ctx, "Counter", id(target), s.Method, nil)
		hosts[target] = reply.Host
		return err
	}))
	owners := map[string][]int{}
	for n, host := range hosts {
		url := s.URL // unless it names another
		if host != "" {
			url = "http://" + host
		}
		owners[url] = append(owners[url], n)
	}
	return owners, nil
}
