package transcode

import (
	"context"
	"errors"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/internal/typed"
	"github.com/greenroom-run/greenroom/server/edge"
)

// Host takes calls for another host, and translates those in JSON of methods that are rpcs, and
// messages to them.
type Host struct {
	// To runs the calls.
	To Runner
	// Types says what serves a type.
	Types Types
	// Receivers looks for types and methods that Types does not have. Nil: there are no others.
	Receivers Receivers
	// Services has the services of the types.
	Services *Services
	// MaxPayload bounds requests, in the binary form as in JSON, in bytes.
	MaxPayload int64
}

// Runner runs calls; see [host.Host].
type Runner interface {
	Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun
}

// Types says what serves a type, from memory.
type Types interface {
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
}

// Receivers knows which types are deployed.
type Receivers interface {
	// CheckReceiver reports why an actor takes no message to a method. It reads the store for what another
	// server has deployed a moment ago, which Types has from then on.
	CheckReceiver(ctx context.Context, key actor.Key, method string) error
}

// Invoke is [host.Host.Invoke] for a request of a client, whose memory counts what translating takes.
func (h *Host) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	count := countOf(ctx)
	rpcs, err := h.translate(ctx, &inv, count)
	if err != nil {
		return actor.Reply{}, err
	}
	reply, err := h.To.Invoke(ctx, inv)
	if err == nil && rpcs != nil {
		err = rpcs.translate(&inv, &reply, count)
	}
	return reply, err
}

// Prepare puts the binary form into a message of a client in JSON, if its method is an rpc. It refuses a
// message to what is not deployed: what this server learns of afterwards may take another form. It is not
// called concurrently for messages of one request, whose memory counts what translating takes.
func (h *Host) Prepare(ctx context.Context, r *inbox.Request) error {
	written := r.Payload
	m, unknown, err := h.translateOne(ctx, r.To, r.Method, &r.Payload, countOf(ctx))
	if m != nil {
		r.Written = &written
	}
	if unknown != nil {
		return unknown
	}
	return err
}

// Begin is [host.Host.Begin] for an invocation of a stream, whose memory counts what translating
// takes while it lasts.
func (h *Host) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	memory := streamCount{ctx: ctx, app: inv.Key.App}
	rpcs, err := h.translate(ctx, &inv, memory.count)
	memory.release()
	if err != nil {
		to.Answer(actor.Reply{}, err)
		return answered{}
	}
	if rpcs != nil {
		to = &receiver{to, rpcs, inv, ctx}
	}
	return h.To.Begin(ctx, inv, to)
}

// answered is a call that has its answer already.
type answered struct{}

func (answered) GiveUp() {}

// receiver translates the answer to a call that was begun.
type receiver struct {
	to   host.Receiver
	rpcs rpcs
	inv  actor.Invocation
	ctx  context.Context //nolint:containedctx // that of the call, which its answer ends
}

// Answer implements [host.Receiver], which must not block: a goroutine translates. The stream of
// the call waits for it, as for every answer.
func (r *receiver) Answer(reply actor.Reply, err error) {
	if err != nil {
		r.to.Answer(reply, err)
		return
	}
	go func() {
		memory := streamCount{ctx: r.ctx, app: r.inv.Key.App}
		err := r.rpcs.translate(&r.inv, &reply, memory.count)
		memory.release()
		r.to.Answer(reply, err)
	}()
}

// countOf counts in the memory of the request that ctx belongs to.
func countOf(ctx context.Context) Count {
	return func(bytes int) error {
		if x := edge.ExchangeOf(ctx); x != nil {
			return x.CountBody(bytes)
		}
		return nil
	}
}

// streamCount counts in the memory of all streams.
type streamCount struct {
	ctx   context.Context //nolint:containedctx // for a call of translate
	app   string
	bytes int64
}

func (c *streamCount) count(bytes int) error {
	x := edge.ExchangeOf(c.ctx)
	if x == nil {
		return nil
	}
	before := c.bytes
	c.bytes += int64(bytes)
	return x.Edge.StreamMemory.Receive(c.app, int64(bytes), before)
}

func (c *streamCount) release() {
	if c.bytes > 0 {
		edge.ExchangeOf(c.ctx).Edge.StreamMemory.Release(c.app, c.bytes)
	}
}

// rpcs are the rpcs whose replies are to be translated: that of an invocation, or those of the
// calls of [actor.MethodAll], nil where nothing is to be done.
type rpcs []*typed.Method

// translate puts the binary form into an invocation in JSON of an rpc, or into each such call of
// [actor.MethodAll]. It returns what to do with the reply; nil: nothing.
func (h *Host) translate(ctx context.Context, inv *actor.Invocation, count Count) (rpcs, error) {
	if inv.Method == actor.MethodAll {
		return h.translateAll(ctx, inv, count)
	}
	m, _, err := h.translateOne(ctx, inv.Key, inv.Method, &inv.Payload, count)
	if err != nil {
		return nil, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: err}
	}
	if m == nil {
		return nil, nil
	}
	return rpcs{m}, nil
}

func (h *Host) translateAll(ctx context.Context, inv *actor.Invocation, count Count) (rpcs, error) {
	calls, err := actor.DecodeCalls(inv.Key.App, inv.Payload.Data)
	if err != nil {
		return nil, nil //nolint:nilerr // the host refuses it
	}
	found := make(rpcs, len(calls))
	any := false
	for i := range calls {
		c := &calls[i]
		if found[i], _, err = h.translateOne(ctx, c.Key, c.Method, &c.Payload, count); err != nil {
			return nil, &actor.CallError{Index: i, Key: c.Key, Method: c.Method, Err: err}
		}
		any = any || found[i] != nil
	}
	if !any {
		return nil, nil
	}
	inv.Payload.Data = actor.EncodeCalls(calls)
	return found, nil
}

// translateOne puts the binary form into the JSON payload of an rpc, and returns the rpc; nil for
// any other method and payload. A payload without bytes is an empty message. unknown says why the type
// or the method is not known, which the host refuses as well.
func (h *Host) translateOne(ctx context.Context, key actor.Key, method string, p *actor.Payload, count Count) (m *typed.Method, unknown, err error) {
	if !isJSON(*p) {
		return nil, nil, nil
	}
	m, known := h.rpc(key, method)
	if !known && h.Receivers != nil {
		unknown = h.Receivers.CheckReceiver(ctx, key, method)
		if m, known = h.rpc(key, method); !known {
			return nil, unknown, nil
		}
	}
	if m == nil {
		return nil, nil, nil
	}
	if len(p.Data) > 0 {
		if p.Data, err = Request(m, p.Data, count); err != nil {
			return nil, nil, err
		}
		if int64(len(p.Data)) > h.MaxPayload {
			return nil, nil, edge.ErrPayloadTooLarge(h.MaxPayload)
		}
	}
	p.ContentType = abi.ContentTypeProtobuf
	return m, nil, nil
}

// rpc returns the rpc that a method is; nil: it is none. known is false if this server knows of no such type
// or method.
func (h *Host) rpc(key actor.Key, method string) (m *typed.Method, known bool) {
	d, spec, err := h.Types.Current(key.App, key.Type)
	switch {
	case err != nil || spec == nil:
		return nil, !errors.Is(err, actor.ErrTypeNotFound)
	case spec.Protobuf.IsZero():
		return nil, true
	}
	service, ok := h.Services.Of(d, spec)
	if !ok {
		return nil, true // the method says what it needs
	}
	if m = service.Method(method); m == nil {
		return nil, slices.ContainsFunc(spec.Methods, func(s abi.MethodSpec) bool { return s.Name == method })
	}
	if m.Streaming { // events serve a streaming rpc; a method of its name is an ordinary one
		return nil, true
	}
	return m, true
}

// translate puts the JSON form into the reply of an invocation whose payload was translated.
func (r rpcs) translate(inv *actor.Invocation, reply *actor.Reply, count Count) error {
	if inv.Method != actor.MethodAll {
		if err := translateReply(r[0], &reply.Payload, count); err != nil {
			return &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: err}
		}
		return nil
	}
	replies, err := actor.DecodePayloads(reply.Payload.Data)
	if err != nil {
		return err
	}
	for i, m := range r {
		if m == nil || i >= len(replies) {
			continue
		}
		if err := translateReply(m, &replies[i], count); err != nil {
			return &actor.CallError{Index: i, Key: inv.Key, Method: m.Name, Err: err}
		}
	}
	reply.Payload.Data = actor.EncodePayloads(replies)
	return nil
}

// translateReply puts the JSON form into a reply. One of another content type is what its caller
// gets.
func translateReply(m *typed.Method, p *actor.Payload, count Count) error {
	if len(p.Data) > 0 && p.ContentType != abi.ContentTypeProtobuf {
		return nil
	}
	text, err := Response(m, p.Data, count)
	if err != nil {
		return err
	}
	*p = actor.Payload{ContentType: actor.ContentTypeJSON, Data: text}
	return nil
}
