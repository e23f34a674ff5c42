package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

const (
	// maxDirect is how many servers beside the configured ones are called directly.
	maxDirect = 256
	// avoidFor is how long a server is passed over that could not be reached, as long as
	// there are others. The owner of an actor that was lost is asked for anew.
	avoidFor = 2 * time.Second
)

// target is one server of those that a client calls.
type target struct {
	c       *Client
	base    string // its URL, without a slash at the end
	streams []*stream
	next    atomic.Uint32 // counts calls, to choose a stream for each
	// seeking has the calls of actors whose server is unknown. Calls of a lost server wait
	// there for another server, and delay no other calls.
	seeking *stream

	rpc   *connect.Client[invokestream.Request, invokestream.Response]
	unary greenroomv1connect.ActorServiceClient
	http  *http.Client
	// unaryUntil is when streams are tried again, avoidUntil when the server is called
	// again while there are others, in Unix nanoseconds.
	unaryUntil, avoidUntil atomic.Int64
}

// servers are those that a client knows: the configured ones, and those that said that
// they hold actors.
type servers struct {
	c          *Client
	configured []*target
	current    atomic.Uint32 // of the configured ones, who is called for what nobody is known to hold
	// owners holds the last known server of each actor; nil if owners are not tracked.
	owners *lru.Cache[actor.Key, *target]
	// several reports whether answers have shown that there is more than one server.
	several atomic.Bool

	mu     sync.Mutex
	byBase map[string]*target
}

func (ss *servers) init(c *Client) {
	ss.c, ss.byBase = c, map[string]*target{}
	for _, url := range append([]string{c.conf.URL}, c.conf.URLs...) {
		s := ss.get(strings.TrimSuffix(url, "/"))
		ss.configured = append(ss.configured, s)
	}
	ss.several.Store(len(ss.configured) > 1)
	if c.conf.MaxOwners > 0 {
		ss.owners, _ = lru.New[actor.Key, *target](c.conf.MaxOwners) // fails only for sizes below 1
	}
}

// get returns the server of a URL, which it makes if there may be another one; nil
// otherwise.
func (ss *servers) get(base string) *target {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.byBase[base]; s != nil {
		return s
	}
	if len(ss.byBase) >= maxDirect+len(ss.configured)+1 || ss.c.ctx.Err() != nil {
		return nil
	}
	s := ss.c.newServer(base)
	ss.byBase[base] = s
	return s
}

// stream returns the stream for the next call, of an actor that the server is known to
// hold or not.
func (s *target) stream(known bool) *stream {
	if !known && s.c.servers.owners != nil && s.c.servers.several.Load() {
		return s.seeking
	}
	if n := uint32(len(s.streams)); n > 1 { //nolint:gosec // a handful
		return s.streams[s.next.Add(1)%n]
	}
	return s.streams[0]
}

// alone reports whether there is no other server to call.
func (s *target) alone() bool {
	return len(s.c.servers.configured) == 1 && s == s.c.servers.configured[0]
}

// avoided reports whether the server could not be reached a moment ago.
func (s *target) avoided() bool {
	until := s.avoidUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// unaryForNow reports whether a stream was refused less than unaryFor ago.
func (s *target) unaryForNow() bool {
	until := s.unaryUntil.Load()
	return until != 0 && !s.c.conf.StreamOnly && time.Now().UnixNano() < until
}

// open opens a stream, after so many failures in a row. When it returns an error,
// no call was sent; errNoStreams says that there will be none for a while.
func (s *target) open(failures int) (*link, *Error) {
	ctx, cut := context.WithCancel(s.c.ctx)
	timeout := time.AfterFunc(openTimeout, cut)
	defer timeout.Stop()
	bidi := s.rpc.CallBidiStream(ctx)
	s.c.authorize(bidi.RequestHeader())
	conn, err := bidi.Conn()
	if err != nil {
		cut()
		return nil, s.notOpened(err, failures)
	}
	k := &link{conn, cut}
	// The server's first message says that it takes invocations: before it,
	// none is sent, so that whatever fails here had no effect.
	err = conn.Send(nil)
	if first := (&invokestream.Response{}); err == nil || errors.Is(err, io.EOF) {
		err = conn.Receive(first)
	}
	if err == nil && !timeout.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		k.close()
		return nil, s.notOpened(err, failures)
	}
	return k, nil
}

// notOpened says why there is no stream, after so many failures in a row before
// this one.
func (s *target) notOpened(err error, failures int) *Error {
	e, answered := errorOfRPC(err)
	broken := !answered && !connect.IsWireError(err)
	switch {
	case e.Code == connect.CodeUnimplemented,
		broken && e.Kind == KindConnectionLost && failures+1 >= min(lostOpens, s.c.conf.MaxAttempts) && s.speaksHTTP1():
		s.unaryUntil.Store(time.Now().Add(unaryFor).UnixNano())
		return errNoStreams
	case answered, e.Code == connect.CodeUnauthenticated, e.Code == connect.CodePermissionDenied:
		return e
	}
	// What stands between has no server to ask at the moment, if anything is there.
	return errUnreachable(err)
}

// speaksHTTP1 asks whether the address that does not speak HTTP/2 speaks
// anything. Greenroom answers, as would a proxy before it.
func (s *target) speaksHTTP1() bool {
	ctx, cancel := context.WithTimeout(s.c.ctx, openTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/healthz", nil)
	if err != nil {
		return false
	}
	res, err := s.http.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10))
	_ = res.Body.Close()
	return res.ProtoMajor == 1 && res.StatusCode < http.StatusInternalServerError
}

// request makes a call as a request of its own.
func (s *target) request(ctx context.Context, inv *invokestream.Invocation) (Reply, *Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.c.ctx, cancel)()
	var t trace
	ctx = t.follow(ctx)
	key := &greenroomv1.ActorKey{App: inv.Key.App, Type: inv.Key.Type, Id: inv.Key.ID}
	if inv.ReadOnly {
		req := connect.NewRequest(&greenroomv1.QueryRequest{
			Actor: key, Method: inv.Method, Payload: inv.Payload.Data, ContentType: inv.Payload.ContentType, Consistency: inv.Consistency,
		})
		s.c.authorize(req.Header())
		setTrace(req.Header(), inv)
		res, err := s.unary.Query(ctx, req)
		if err != nil {
			return Reply{Host: hostOf(err)}, s.requestError(ctx, err, &t)
		}
		return Reply{Payload: res.Msg.GetPayload(), ContentType: res.Msg.GetContentType(), Version: res.Msg.GetVersion(), Fuel: fuel(res), Host: res.Header().Get(headerHost)}, nil
	}
	if inv.Method == actor.MethodAll {
		return s.requestAll(ctx, inv, &t)
	}
	req := connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor: key, Method: inv.Method, Payload: inv.Payload.Data, ContentType: inv.Payload.ContentType,
	})
	s.c.authorize(req.Header())
	setTrace(req.Header(), inv)
	if inv.IdempotencyKey != "" {
		req.Header().Set("Idempotency-Key", quote(inv.IdempotencyKey))
	}
	res, err := s.unary.Invoke(ctx, req)
	if err != nil {
		return Reply{Host: hostOf(err)}, s.requestError(ctx, err, &t)
	}
	return Reply{Payload: res.Msg.GetPayload(), ContentType: res.Msg.GetContentType(), Version: res.Msg.GetVersion(), Fuel: fuel(res), Host: res.Header().Get(headerHost)}, nil
}

// requestAll is request for several calls in one.
func (s *target) requestAll(ctx context.Context, inv *invokestream.Invocation, t *trace) (Reply, *Error) {
	calls, err := actor.DecodeCalls(cmp.Or(inv.Key.App, actor.DefaultApp), inv.Payload.Data)
	if err != nil {
		return Reply{}, &Error{Kind: "invalid_argument", Code: connect.CodeInvalidArgument, Message: err.Error()}
	}
	msg := &greenroomv1.InvokeAllRequest{App: inv.Key.App}
	for _, c := range calls {
		msg.Calls = append(msg.Calls, &greenroomv1.ActorCall{
			Type: c.Key.Type, Id: c.Key.ID, Method: c.Method, Payload: c.Payload.Data, ContentType: c.Payload.ContentType,
		})
	}
	req := connect.NewRequest(msg)
	s.c.authorize(req.Header())
	setTrace(req.Header(), inv)
	if inv.IdempotencyKey != "" {
		req.Header().Set("Idempotency-Key", quote(inv.IdempotencyKey))
	}
	res, err := s.unary.InvokeAll(ctx, req)
	if err != nil {
		return Reply{Host: hostOf(err)}, s.requestError(ctx, err, t)
	}
	replies := make([]actor.Payload, len(res.Msg.GetReplies()))
	for i, r := range res.Msg.GetReplies() {
		replies[i] = actor.Payload{ContentType: r.GetContentType(), Data: r.GetPayload()}
	}
	return Reply{Payload: actor.EncodePayloads(replies), Fuel: fuel(res), Host: res.Header().Get(headerHost)}, nil
}

// send makes a request for messages.
func (s *target) send(ctx context.Context, msg *greenroomv1.SendRequest) ([]Sent, *Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.c.ctx, cancel)()
	var t trace
	ctx = t.follow(ctx)
	req := connect.NewRequest(msg)
	s.c.authorize(req.Header())
	inv := &invokestream.Invocation{}
	inv.Traceparent, inv.Tracestate = actor.TraceOf(ctx).Headers()
	setTrace(req.Header(), inv)
	res, err := s.unary.Send(ctx, req)
	if err != nil {
		return nil, s.requestError(ctx, err, &t)
	}
	sent := make([]Sent, len(res.Msg.GetMessages()))
	for i, m := range res.Msg.GetMessages() {
		sent[i] = Sent{ID: m.GetId(), Repeated: m.GetRepeated()}
		if e := m.GetError(); e != nil {
			sent[i].Err = errorOf(connectCode(e.GetCode()), e.GetMessage(), e.GetDetail())
		}
	}
	return sent, nil
}

// requestError is why a request failed.
func (s *target) requestError(ctx context.Context, err error, t *trace) *Error {
	e, answered := errorOfRPC(err)
	if e.Kind == KindUnreachable && t.connected.Load() {
		e = errLost(err)
	}
	if !answered && s.c.ctx.Err() != nil {
		return errClosed()
	}
	if cause := ctx.Err(); cause != nil && !answered {
		return errContext(cause, e.Kind != KindUnreachable)
	}
	return e
}

// choose returns the server to call for an actor: the one that is known to hold it, or
// one of the configured ones.
func (ss *servers) choose(key actor.Key) (s *target, known bool) {
	if ss.owners != nil {
		if s, ok := ss.owners.Get(key); ok && !s.avoided() {
			return s, true
		}
	}
	n := uint32(len(ss.configured)) //nolint:gosec // a handful
	at := ss.current.Load()
	for i := range n {
		if s := ss.configured[(at+i)%n]; !s.avoided() {
			if i > 0 {
				ss.current.CompareAndSwap(at, at+i)
			}
			return s, false
		}
	}
	return ss.configured[at%n], false // all were tried a moment ago
}

// answered notes that s answered for an actor itself, as it named no other server.
func (ss *servers) answered(key actor.Key, s *target) {
	if ss.owners != nil && ss.several.Load() {
		ss.owners.Add(key, s)
	}
}

// learn notes what an answer of s said of who holds an actor.
func (ss *servers) learn(key actor.Key, s *target, host string) {
	if ss.owners == nil || host == "" {
		return
	}
	if _, _, err := net.SplitHostPort(host); err != nil || strings.ContainsAny(host, "/?#@ ") {
		return
	}
	scheme, _, _ := strings.Cut(s.base, "://")
	if owner := ss.get(scheme + "://" + host); owner != nil {
		ss.several.Store(true)
		ss.owners.Add(key, owner)
	}
}

// doubted notes that a server may be of no use for an actor, while others are: those are
// asked next.
func (ss *servers) doubted(key actor.Key, s *target) {
	if ss.owners != nil {
		ss.owners.Remove(key)
	}
	n := uint32(len(ss.configured)) //nolint:gosec // a handful
	if at := ss.current.Load(); ss.configured[at%n] == s {
		ss.current.CompareAndSwap(at, at+1)
	}
}

// failed notes that a server could not be reached, lost a call, or is about to stop.
func (ss *servers) failed(key actor.Key, s *target) {
	s.avoidUntil.Store(time.Now().Add(avoidFor).UnixNano())
	if ss.owners != nil {
		ss.owners.Remove(key)
	}
}
