package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
)

// Client calls actors. Make it with [New]; its methods may be called
// concurrently.
type Client struct {
	conf    Config
	ctx     context.Context // ends with Close
	end     context.CancelFunc
	servers servers

	// plain and secure make the requests of http and https URLs, requests those of
	// both that are no streams.
	plain, secure, requests *http.Client
	// transports are those that the client made, and closes.
	transports []*http.Transport

	keyPrefix string // of the idempotency keys, unique to this client
	keys      atomic.Uint64

	running sync.WaitGroup // the goroutines of streams
}

// Request is one call.
type Request struct {
	// App is empty for the client's.
	App string
	// Type, ID and Method say what is called.
	Type, ID, Method string
	// Payload is the input. It must not change before the call returns.
	Payload []byte
	// ContentType is the payload's media type; empty means application/json.
	ContentType string
	// IdempotencyKey makes the call safe to repeat, also by another process and
	// for longer than the call: 1 to 255 printable ASCII characters, unique to
	// what is asked for within this actor and method. Empty: none, unless the
	// client makes one.
	IdempotencyKey string
	// ReadOnly refuses methods that are not declared read-only.
	ReadOnly bool
	// Strong makes a read-only method confirm in the store that what it read is
	// the newest. Without it, what was written in the last 100 ms may be missed for a
	// moment after the actor's server was lost; of types placed "any" on CockroachDB,
	// what was written in the last 5 s.
	Strong bool
}

// Reply is an actor's answer. It is the caller's.
type Reply struct {
	Payload     []byte
	ContentType string
	// Version of the actor after the turn; 0 when nothing is stored.
	Version uint64
	// Fuel that the turn used; 0 if none ran for this call, since the reply was
	// recorded by an earlier one with its idempotency key.
	Fuel uint64
	// Host is where the server listens that has answered, host:port, if the call was passed
	// on to it: the one that holds the actor, or a reader of it; the next call of the actor
	// goes there. Empty: the server that was called has answered itself.
	Host string
}

// New returns a client. It does not connect before the first call.
func New(conf Config) (*Client, error) {
	conf = conf.WithDefaults()
	if err := conf.validate(); err != nil {
		return nil, err
	}
	var prefix [12]byte
	_, _ = rand.Read(prefix[:]) // never fails: see crypto/rand
	c := &Client{conf: conf, keyPrefix: base64.RawURLEncoding.EncodeToString(prefix[:]) + "-"}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.connect()
	c.servers.init(c)
	return c, nil
}

// Close ends all streams and waits for the client's goroutines. Calls that are
// under way fail. It is safe twice.
func (c *Client) Close() error {
	c.end()
	c.servers.mu.Lock()   // after it, no further server is made
	c.servers.mu.Unlock() //nolint:staticcheck // see above
	c.running.Wait()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
	return nil
}

// Invoke runs a method as a turn. It returns after everything the turn changed is
// durable. An error is an [*Error].
func (c *Client) Invoke(ctx context.Context, typ, id, method string, payload []byte) (Reply, error) {
	return c.Do(ctx, Request{Type: typ, ID: id, Method: method, Payload: payload})
}

// Query runs a method that is declared read-only. An error is an [*Error].
func (c *Client) Query(ctx context.Context, typ, id, method string, payload []byte) (Reply, error) {
	return c.Do(ctx, Request{Type: typ, ID: id, Method: method, Payload: payload, ReadOnly: true})
}

// Do makes the call that req describes. The call belongs to the trace of the current span
// of ctx, as package go.opentelemetry.io/otel/trace has it. An error is an [*Error].
func (c *Client) Do(ctx context.Context, req Request) (Reply, error) {
	inv := invokestream.Invocation{
		Key:            actor.Key{App: req.App, Type: req.Type, ID: req.ID},
		Method:         req.Method,
		Payload:        actor.Payload{ContentType: req.ContentType, Data: req.Payload},
		IdempotencyKey: req.IdempotencyKey,
		ReadOnly:       req.ReadOnly,
	}
	if req.App == "" {
		inv.Key.App = c.conf.App
	}
	if req.Strong {
		inv.Consistency = greenroomv1.Consistency_CONSISTENCY_STRONG
	}
	if inv.IdempotencyKey == "" && c.conf.IdempotencyKeys && !req.ReadOnly {
		inv.IdempotencyKey = c.keyPrefix + strconv.FormatUint(c.keys.Add(1), 36)
	}
	inv.Traceparent, inv.Tracestate = actor.TraceOf(ctx).Headers()
	repeatable := inv.ReadOnly || inv.IdempotencyKey != ""
	unknown := false // an earlier attempt may have taken effect
	for attempt := 1; ; attempt++ {
		s, known := c.servers.choose(inv.Key)
		reply, err := c.attempt(ctx, s, known, &inv)
		if err == nil {
			if reply.Host == "" && !known {
				c.servers.answered(inv.Key, s)
			}
			c.servers.learn(inv.Key, s, reply.Host)
			return reply, nil
		}
		switch {
		case err.Kind == KindUnreachable || err.Kind == KindConnectionLost || err.Kind == kindStopping:
			c.servers.failed(inv.Key, s)
		case mayBeLost(err.Kind):
			c.servers.doubted(inv.Key, s)
		default:
			c.servers.learn(inv.Key, s, reply.Host)
		}
		if err.Kind == KindDeadline && err.cause == nil && isOver(ctx) {
			err.cause = context.DeadlineExceeded // as the caller would be told here
		}
		retry := err.Retryable || err.OutcomeUnknown && repeatable
		if inv.ReadOnly {
			err.settleQuery()
		}
		if !retry || attempt == c.conf.MaxAttempts || isTooLong(ctx, err.RetryAfter) {
			return Reply{}, err.afterAttempts(unknown)
		}
		if cause := c.pause(ctx, max(c.backoff(attempt), err.RetryAfter)); cause != nil {
			err.cause = cause
			return Reply{}, err.afterAttempts(unknown)
		}
		unknown = unknown || err.OutcomeUnknown
	}
}

// InvokeAll runs several calls of actors of one app as one transaction, in order: all of them
// take effect, or none does. One server must hold all actors; otherwise the error has the kind
// not_atomic, and nothing has run. The idempotency key is that of all calls together; empty: as
// Do has it. Of the requests only the app (of the first), type, ID, method, payload and
// content type count. The replies are in the order of the calls, without versions and fuel. An error is
// an [*Error], whose message names the call that failed.
func (c *Client) InvokeAll(ctx context.Context, idempotencyKey string, calls ...Request) ([]Reply, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	list := make([]actor.Call, len(calls))
	for i, r := range calls {
		list[i] = actor.Call{
			Key: actor.Key{Type: r.Type, ID: r.ID}, Method: r.Method,
			Payload: actor.Payload{ContentType: r.ContentType, Data: r.Payload},
		}
	}
	first := calls[0]
	reply, err := c.Do(ctx, Request{
		App: first.App, Type: first.Type, ID: first.ID, Method: actor.MethodAll, Payload: actor.EncodeCalls(list), IdempotencyKey: idempotencyKey,
	})
	if err != nil {
		return nil, err
	}
	payloads, err := actor.DecodePayloads(reply.Payload)
	if err != nil {
		return nil, err
	}
	replies := make([]Reply, len(payloads))
	for i, p := range payloads {
		replies[i] = Reply{Payload: p.Data, ContentType: p.ContentType, Host: reply.Host}
	}
	return replies, nil
}

// mayBeLost reports whether a failure may come from a server that the others and its database
// have lost: it does not find the actor, cannot store anything, stood still, or does not answer in time.
func mayBeLost(kind string) bool {
	return kind == string(actor.ErrNoOwner.Kind()) || kind == string(actor.ErrUnavailable.Kind()) || kind == string(actor.ErrStoodStill.Kind()) || kind == KindDeadline
}

// isTooLong reports whether a context ends before a wait does: then there is no
// attempt to wait for.
func isTooLong(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > 0 && time.Until(deadline) < wait
}

// isOver reports whether a context's deadline has passed, for the server, which is
// told the time that is left in milliseconds and may notice first.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < time.Millisecond
}

// attempt makes a call once, of an actor that s is known to hold or not. The reply to a
// call that failed may still name its host.
func (c *Client) attempt(ctx context.Context, s *target, known bool, inv *invokestream.Invocation) (Reply, *Error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, errContext(err, false)
	}
	if c.conf.Unary || len(inv.Payload.Data) > maxStreamed || s.unaryForNow() {
		return s.request(ctx, inv)
	}
	reply, err := s.stream(known).call(ctx, inv)
	if err == errNoStreams {
		if c.conf.StreamOnly {
			return Reply{}, errStreamOnly()
		}
		return s.request(ctx, inv)
	}
	return reply, err
}

// backoff is the pause after the n-th attempt, from 1.
func (c *Client) backoff(n int) time.Duration {
	d := c.conf.MaxBackoff
	if doubled := c.conf.MinBackoff << (n - 1); doubled>>(n-1) == c.conf.MinBackoff { // otherwise it is past every bound
		d = min(d, doubled)
	}
	return d/2 + mathrand.N(d/2+1)
}

// pause waits before the next attempt; an error says why there will be none.
func (c *Client) pause(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return errClosed()
	}
}

// newServer returns a server, whose streams are opened when there are calls.
func (c *Client) newServer(base string) *target {
	s := &target{c: c, base: base}
	streams, requests := c.httpClients(base)
	s.http = requests
	// Replies are small, many and fresh: compressing them costs more than turns.
	s.rpc = connect.NewClient[invokestream.Request, invokestream.Response](
		caller.WholeMessages{Client: streams}, base+greenroomv1connect.ActorServiceInvokeStreamProcedure,
		connect.WithCodec(invokestream.Codec{}), connect.WithAcceptCompression("gzip", nil, nil))
	s.unary = greenroomv1connect.NewActorServiceClient(requests, base, connect.WithAcceptCompression("gzip", nil, nil))
	for range c.conf.Streams {
		s.streams = append(s.streams, newStream(s))
	}
	s.seeking = newStream(s)
	for _, st := range append(s.streams[:len(s.streams):len(s.streams)], s.seeking) {
		c.running.Go(st.run)
	}
	return s
}
