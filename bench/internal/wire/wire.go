package wire

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// Role loads a server.
const Role = "load"

// Protocol is how calls reach the server.
type Protocol string

// The protocols.
const (
	// Stream is package client as it comes: one InvokeStream.
	Stream Protocol = "stream"
	// Unary is package client without the stream.
	Unary Protocol = "unary"
	// Connect is ActorService.Invoke, a unary call over HTTP/1.1 with
	// connections that are kept.
	Connect Protocol = "connect"
	// HTTP is PUT /v2.0/actors/…, likewise.
	HTTP Protocol = "http"
)

// Spec says how to load a server.
type Spec struct {
	URL string
	// URLs are further servers of its cluster; for Stream and Unary, as is Forget.
	URLs     []string
	Protocol Protocol
	Plan     load.Plan
	// App and Token are for Stream and Unary: empty for the server's default app, and none.
	App, Token string
	// Attempts is how often a call is tried at most, for Stream and Unary; 0: as often as
	// package client has it.
	Attempts int
	Type     string // "Counter" if empty
	Method   string
	Payload  string // JSON
	// ReadOnly makes the calls queries; for Stream and Unary.
	ReadOnly bool
	// Keys gives every call an idempotency key of its own.
	Keys bool
	// Transfers has each call go to the first actor of a pair, with the number of the second
	// as the payload; for Stream and Unary.
	Transfers bool
	// To are the second actors of Transfers, by number; empty: Pick, or the plan's own numbers.
	To []int
	// Forget calls the first server for every actor, whichever holds it.
	Forget bool
	// Pick are the actors of the plan, by number; empty: the plan's own numbers.
	Pick []int
}

// Fill makes the calls of s give n actors, from first on, their state with so many bytes beside
// its count, which activates them as well.
func (s Spec) Fill(first, n, bytes int) Spec {
	s.Protocol, s.Method, s.Payload = Stream, "Fill", strconv.Itoa(bytes)
	s.Plan = load.Plan{Outstanding: 1024, First: first, Actors: n, Once: true}
	return s
}

// Load plays [Role].
func Load(ctx context.Context, s Spec) (load.Result, error) {
	if s.Keys {
		s.probeKeys(ctx)
	}
	switch s.Protocol {
	case Connect:
		return load.Drive(ctx, s.Plan, s.connect())
	case HTTP:
		return load.Drive(ctx, s.Plan, s.http())
	case Stream, Unary:
		call, end := s.client()
		defer must.Close(end)
		if len(s.Pick) > 0 {
			s.Plan.First, s.Plan.Actors = 0, len(s.Pick)
		}
		return load.Drive(ctx, s.Plan, call)
	}
	return load.Result{}, fmt.Errorf("there is no protocol %q", s.Protocol)
}

func (s Spec) connect() load.Call {
	service := greenroomv1connect.NewActorServiceClient(s.keepAlive(), s.URL)
	run := runID()
	return func(ctx context.Context, worker, target, n int) error {
		req := connect.NewRequest(&greenroomv1.InvokeRequest{
			Actor:  &greenroomv1.ActorKey{App: "default", Type: s.actorType(), Id: id(target)},
			Method: s.Method, Payload: []byte(s.Payload),
		})
		if s.Keys {
			req.Header().Set("Idempotency-Key", key(run, worker, n))
		}
		_, err := service.Invoke(ctx, req)
		return err
	}
}

func (s Spec) http() load.Call {
	client := s.keepAlive()
	run := runID()
	return func(ctx context.Context, worker, target, n int) error {
		url := s.URL + "/v2.0/actors/default/" + s.actorType() + "/" + id(target) + "/method/" + s.Method
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader([]byte(s.Payload)))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if s.Keys {
			req.Header.Set("Idempotency-Key", key(run, worker, n))
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
		}
		return err
	}
}

// keepAlive returns a client with a connection for each call outstanding.
func (s Spec) keepAlive() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{}).DialContext,
		MaxIdleConns:        s.Plan.Outstanding,
		MaxIdleConnsPerHost: s.Plan.Outstanding,
		DisableCompression:  true,
	}}
}

func (s Spec) actorType() string { return cmp.Or(s.Type, "Counter") }

func id(target int) string { return idPrefix + strconv.Itoa(target) }

// idPrefix is what the IDs of actors begin with.
const idPrefix = "c"

// runID tells the keys of one run from those of another.
func runID() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

func key(run string, worker, n int) string {
	return run + "-" + strconv.Itoa(worker) + "-" + strconv.Itoa(n)
}
