package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/load"
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
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	s.Pick, s.Forget = nil, false
	call, closeClient, err := s.client()
	if err != nil {
		return err
	}
	if err := say(true); err != nil {
		return errors.Join(err, closeClient())
	}
	all := load.Trace(ctx, s.Trace, call)
	return errors.Join(say(all), closeClient())
}

// OwnersSpec asks for the holders of the actors numbered from First.
type OwnersSpec struct {
	URL           string
	Type          string // "Counter" if empty
	Method        string // read-only
	First, Actors int
}

// Owners plays [OwnersRole]: the actors by the URL of the server that holds them.
func Owners(ctx context.Context, s OwnersSpec) (map[string][]int, error) {
	c, err := client.New(client.Config{URL: s.URL, MaxOwners: -1})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	hosts := make([]string, s.Actors)
	_, err = load.Drive(ctx, load.Plan{Outstanding: 64, Actors: s.Actors, Once: true}, func(ctx context.Context, _, target, _ int) error {
		reply, err := c.Query(ctx, Spec{Type: s.Type}.actorType(), idPrefix+strconv.Itoa(s.First+target), s.Method, nil)
		hosts[target] = reply.Host
		return err
	})
	if err != nil {
		return nil, err
	}
	owners := map[string][]int{}
	for n, host := range hosts {
		url := s.URL // unless it names another
		if host != "" {
			url = "http://" + host
		}
		owners[url] = append(owners[url], s.First+n)
	}
	return owners, nil
}
