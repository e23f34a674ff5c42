package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

const (
	// openTimeout bounds how long a server takes to accept a stream.
	openTimeout = 10 * time.Second
	// A connection that is silent for pingAfter is asked, and given up after
	// pingTimeout: a server that vanished is noticed without a call's deadline.
	pingAfter   = 10 * time.Second
	pingTimeout = 10 * time.Second
	// unaryFor is how long calls go as requests of their own after a stream
	// could not be had.
	unaryFor = time.Minute
	// lostOpens is how often in a row a connection is lost while a stream is opened
	// before that is taken for an address without HTTP/2: once may be an accident.
	lostOpens = 5
)

// connect makes the clients of HTTP.
func (c *Client) connect() {
	if c.conf.HTTPClient != nil {
		c.plain, c.secure, c.requests = c.conf.HTTPClient, c.conf.HTTPClient, c.conf.HTTPClient
		return
	}
	c.requests = c.newHTTPClient(func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) })
	c.plain, c.secure = c.newHTTPClient(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }), c.requests
}

// httpClients returns what makes the streams and the other requests of a server.
func (c *Client) httpClients(base string) (streams, requests *http.Client) {
	if strings.HasPrefix(base, "http://") {
		return c.plain, c.requests
	}
	return c.secure, c.requests
}

func (c *Client) newHTTPClient(protocols func(*http.Protocols)) *http.Client {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: openTimeout}).DialContext,
		TLSHandshakeTimeout: openTimeout,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		Protocols:           new(http.Protocols),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	protocols(t.Protocols)
	c.transports = append(c.transports, t)
	return &http.Client{Transport: t}
}

func (c *Client) authorize(h http.Header) {
	if c.conf.Token != "" {
		h.Set("Authorization", "Bearer "+c.conf.Token)
	}
}

// link is an open stream.
type link struct {
	conn connect.StreamingClientConn
	cut  context.CancelFunc
}

// close ends the stream without waiting for anything.
func (k *link) close() {
	k.cut()
	_ = k.conn.CloseRequest()
	_ = k.conn.CloseResponse()
}

// errNoStreams tells callers to make requests instead. Nothing was sent.
var errNoStreams = &Error{Message: "the server has no streams"}

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

// setTrace adds the trace that a call belongs to.
func setTrace(h http.Header, inv *invokestream.Invocation) {
	if inv.Traceparent != "" {
		h.Set("Traceparent", inv.Traceparent)
	}
	if inv.Tracestate != "" {
		h.Set("Tracestate", inv.Tracestate)
	}
}

// fuel is what the header of an answer says; 0 of a server that does not.
func fuel(res connect.AnyResponse) uint64 {
	n, _ := strconv.ParseUint(res.Header().Get("Greenroom-Fuel"), 10, 64)
	return n
}

// headerHost names the server that holds the actor, if it was another one.
const headerHost = "Greenroom-Host"

// hostOf is what an answer says that is an error.
func hostOf(err error) string {
	var wire *connect.Error
	if errors.As(err, &wire) {
		return wire.Meta().Get(headerHost)
	}
	return ""
}

// trace follows a request. net/http sends one that has an idempotency key again
// by itself when its connection broke, so that the last error, like that of
// dialing, need not be the whole story.
type trace struct{ connected atomic.Bool }

func (t *trace) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) }})
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

// quote writes a key as a string of RFC 8941, which keeps every key as it is.
func quote(key string) string {
	return fmt.Sprintf(`"%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key))
}
