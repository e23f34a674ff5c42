package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/stream"
)

// headerRequestID names the request in the server's log; every answer has it.
const headerRequestID = "Greenroom-Request-Id"

// exchange is one request and its answer. It stands where the handlers see the
// [http.ResponseWriter] and the body, so that one allocation does for all that
// is counted and bounded. Like those, it is used by one goroutine at a time,
// except that the body may be read while the answer is written.
type exchange struct {
	http.ResponseWriter
	server  *Server
	route   *route
	control *http.ResponseController
	id      string
	trace   *actor.Trace // of the request; nil: it came with none
	caller  caller       // once it is admitted
	peers   bool         // it came where only hosts of the cluster are listened to
	status  int          // as sent; 0 until then

	// joined is the first part of a message that waits for the rest, on
	// long-lived routes: HTTP/2 would make a frame of each part.
	joined []byte

	// partial is how much has been read of a message of a long-lived route.
	partial int64

	requestUse

	body      io.ReadCloser
	bodyLeft  int64     // bytes that may still be read
	bodyTimed bool      // its deadline is set
	bodyEnd   time.Time // when all of it must have arrived; zero: only parts are timed
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a handler's context belongs to.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// requestID returns the ID of the request that ctx belongs to.
func requestID(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.id
	}
	return ""
}

// callerName returns the name of the token that the request came with, if it was
// asked for one.
func callerName(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.caller.name
	}
	return ""
}

// traceOf returns the trace of the request that ctx belongs to; nil for none.
func traceOf(ctx context.Context) *actor.Trace {
	if x := exchangeOf(ctx); x != nil {
		return x.trace
	}
	return nil
}

// owner is the app that a request counts for; empty for callers of all apps, until the app
// of the request is known.
func (x *exchange) owner() string { return cmp.Or(x.app, x.caller.app) }

// forApp notes the app that a request is for, and refuses the request if its caller may not
// ask for that app, or has left too many bytes of the app's answers in the server's memory.
// The answers of requests that were taken before may pass the limit.
func (x *exchange) forApp(app string) error {
	if err := x.caller.requireApp(app); err != nil {
		return err
	}
	x.app = app
	if x.route.peer {
		return nil
	}
	return x.server.checkAnswers(app)
}

// The headers of W3C Trace Context, in the form of the keys of [http.Header].
const (
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"
)

// traceOfRequest is the trace that a request belongs to, with a span of its own; nil for
// none. One that is named twice is none.
func traceOfRequest(h http.Header) *actor.Trace {
	parents := h[headerTraceparent]
	if len(parents) != 1 {
		return nil
	}
	return actor.ParseTrace(parents[0], h[headerTracestate]...).Child()
}

// timeoutOf is what a request says that its caller gave it; false if it does not, or not
// in a form that the protocols take.
func timeoutOf(h http.Header) (actor.Timeout, bool) {
	if v := h[headerTimeout]; len(v) > 0 {
		ms, err := strconv.ParseUint(v[0], 10, 63)
		return actor.Timeout{After: time.Duration(ms) * time.Millisecond, By: headerTimeout}, err == nil && len(v[0]) <= 10
	}
	v := h[headerGRPCTimeout]
	if len(v) == 0 || len(v[0]) < 2 || len(v[0]) > 9 {
		return actor.Timeout{}, false
	}
	unit, known := grpcUnits[v[0][len(v[0])-1]]
	n, err := strconv.ParseUint(v[0][:len(v[0])-1], 10, 31)
	if !known || err != nil || n > math.MaxInt64/uint64(unit) {
		return actor.Timeout{}, false
	}
	return actor.Timeout{After: time.Duration(n) * unit, By: "grpc-timeout"}, true
}

// headerGRPCTimeout is gRPC's, whose values end in one of the units.
const headerGRPCTimeout = "Grpc-Timeout"

var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

func newRequestID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return hex.EncodeToString(b[:])
}

// bodyDeadline is when a body, or a part of an answer, must have passed.
func (s *Server) bodyDeadline() time.Time { return time.Now().Add(s.conf.bounds.bodyTimeout) }

// ServeHTTP serves one exchange.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serveHTTP(w, r, false) }

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request, peers bool) {
	route := s.routes.find(r.URL.EscapedPath())
	x := &exchange{
		ResponseWriter: w,
		server:         s,
		route:          route,
		control:        http.NewResponseController(w),
		id:             newRequestID(),
		trace:          traceOfRequest(r.Header),
		peers:          peers,
		body:           r.Body,
		bodyLeft:       route.maxBody,
	}
	h := w.Header()
	h.Set(headerRequestID, x.id)
	// A browser takes an answer for nothing but what it says that it is, and gives
	// it to no page of another origin, unless CORS lets it.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !route.peer && s.leaving.Load() {
		h.Set("Connection", "close") // in HTTP/2 net/http makes a GOAWAY of it
	}
	began := time.Now()
	ctx := x.trace.Context(context.WithValue(r.Context(), exchangeKey{}, x))
	if t, ok := timeoutOf(r.Header); ok {
		ctx = t.Context(ctx)
	}
	r = r.WithContext(ctx)
	if route.upload {
		x.bodyEnd = began.Add(s.conf.bounds.uploadTimeout)
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = x.readCloser()
	}
	ended := false // not cut off
	defer func() {
		took := time.Since(began)
		status := x.status
		switch {
		case status != 0:
		case ended && r.Context().Err() == nil:
			status = http.StatusOK // which net/http answers for a handler that says nothing
		default:
			status = failure.StatusClientClosedRequest
		}
		route.metrics.Served(status, took)
		level := slog.LevelDebug
		if x.caller.name != "" && route.role >= RoleDeploy {
			level = slog.LevelInfo // who changes what runs is on record
		}
		if s.log.Enabled(r.Context(), level) {
			s.log.LogAttrs(r.Context(), level, "request served", x.trace.AppendLog([]slog.Attr{
				slog.String("request_id", x.id), slog.String("token", x.caller.name), slog.String("method", r.Method), slog.String("route", route.name),
				slog.String("protocol", r.Proto), slog.String("remote", r.RemoteAddr),
				slog.Int("status", status), slog.Duration("took", took),
			})...)
		}
	}()
	defer x.releaseBody()
	defer s.recoverPanic(route, x, r)
	s.enter(route, x, r)
	x.writeRest()
	ended = true
}

// recoverPanic answers a panic of a handler, which is a bug of ours, with an
// internal error, or by cutting the connection when an answer has begun.
func (s *Server) recoverPanic(route *route, x *exchange, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // net/http's own way to cut a connection
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "handler panicked", x.trace.AppendLog([]slog.Attr{
		slog.String("request_id", x.id), slog.String("path", r.URL.Path),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())),
	})...)
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	s.refuse(route, x, r, errPanicked)
}

// errPanicked is not in the map of errors on purpose: it is answered as internal.
var errPanicked = errors.New("a handler panicked")

// Unwrap lets [http.ResponseController] reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK { // 1xx are not the answer
		x.status = status
		x.allowWrite()
	}
	x.ResponseWriter.WriteHeader(status)
}

// acceptedAtOnce is how much of an answer a client must accept within the accept timeout, in
// bytes, again and again: a client that is slower is given up.
const acceptedAtOnce = 256 << 10

// Write writes a part of the answer. For each acceptedAtOnce of it the client has the accept
// timeout, and for each message of a stream the body timeout.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	if x.route.longLived {
		return x.writeJoined(p)
	}
	if len(p) > alwaysReadBody {
		defer x.writing(p)()
	}
	written := 0
	for {
		part := p[written:]
		if len(part) > acceptedAtOnce && !x.route.streaming {
			part = part[:acceptedAtOnce]
		}
		x.allowWrite()
		n, err := x.ResponseWriter.Write(part)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// envelopePrefix is how a message of a stream begins, which Connect writes by
// itself, in bytes.
const envelopePrefix = 5

func (x *exchange) writeJoined(p []byte) (int, error) {
	if len(x.joined) == 0 && len(p) == envelopePrefix {
		x.joined = append(x.joined, p...)
		return len(p), nil
	}
	if len(x.joined) == 0 {
		return x.ResponseWriter.Write(p)
	}
	x.joined = append(x.joined, p...)
	n, err := x.ResponseWriter.Write(x.joined)
	if x.joined = x.joined[:0]; cap(x.joined) > 2*stream.MaxMessage {
		x.joined = nil
	}
	return max(n-envelopePrefix, 0), err
}

// writeRest writes a first part that stayed alone.
func (x *exchange) writeRest() {
	if len(x.joined) > 0 {
		_, _ = x.ResponseWriter.Write(x.joined) // a broken connection shows at the next Write
		x.joined = x.joined[:0]
	}
}

// Flush makes an exchange an [http.Flusher], as streams need. What is flushed has
// been accepted by the client or its connection, so that a stream may then be
// silent for as long as it likes.
func (x *exchange) Flush() {
	x.writeRest()
	_ = x.control.Flush() // a broken connection shows at the next Write
	if x.route.streaming {
		_ = x.control.SetWriteDeadline(time.Time{})
	}
}

func (x *exchange) allowWrite() {
	if x.route.longLived {
		return
	}
	timeout := x.server.conf.bounds.acceptTimeout
	if x.route.streaming {
		timeout = x.server.conf.bounds.bodyTimeout
	}
	_ = x.control.SetWriteDeadline(time.Now().Add(timeout)) // without a connection there is nothing to bound
}

func (x *exchange) readCloser() io.ReadCloser { return (*exchangeBody)(x) }

// exchangeBody is the body of an exchange's request: bounded in size and time.
// To an RPC handler its errors are *connect.Error values, which the protocols pass
// on as they are.
type exchangeBody exchange

// Read implements [io.Reader].
func (b *exchangeBody) Read(p []byte) (int, error) {
	if b.route.peer && b.route.longLived {
		return b.body.Read(p) // each peer has a few, with messages that its limits bound
	}
	if b.route.longLived {
		n, err := b.body.Read(p)
		if full := (*exchange)(b).messageBytes(n); full != nil {
			return n, b.describe(full)
		}
		return n, err
	}
	if b.route.streaming || !b.bodyTimed {
		b.bodyTimed = true
		deadline := b.server.bodyDeadline()
		if !b.bodyEnd.IsZero() && b.bodyEnd.Before(deadline) {
			deadline = b.bodyEnd
		}
		_ = b.control.SetReadDeadline(deadline)
	}
	// One byte more than allowed is asked for, to tell the end from too much.
	if int64(len(p)) > b.bodyLeft+1 {
		p = p[:b.bodyLeft+1]
	}
	n, err := b.body.Read(p)
	if int64(n) > b.bodyLeft {
		return int(b.bodyLeft), b.describe(b.route.bodyErr)
	}
	b.bodyLeft -= int64(n)
	if !b.route.streaming || b.route.upload {
		if full := (*exchange)(b).countBody(n); full != nil {
			return n, b.describe(full)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		limit := b.server.conf.bounds.bodyTimeout
		if !b.bodyEnd.IsZero() && !time.Now().Before(b.bodyEnd) {
			limit = b.server.conf.bounds.uploadTimeout
		}
		err = b.describe(&failure.Error{Kind: failure.KindBodyTimeout, Text: fmt.Sprintf("the request's body did not arrive within %v", limit)})
	default:
		// The connection goes on to be read, for the client's going away: that
		// read must not run into this one's deadline.
		_ = b.control.SetReadDeadline(time.Time{})
		if !b.route.rpc && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			// The client's doing, whatever it was: nothing for the log of errors.
			err = &actor.ArgumentError{Field: "body", Problem: "broke off, or is not in the form that its headers say; send it again"}
		}
	}
	return n, err
}

func (b *exchangeBody) describe(err error) error {
	if !b.route.rpc {
		return err // its handler describes it
	}
	f := failure.Of(err, false)
	b.server.metrics.Failed(actor.Kind(f.Detail.GetKind()))
	return f.RPC()
}

// Close implements [io.Closer].
func (b *exchangeBody) Close() error { return b.body.Close() }

// errPayloadTooLarge names the limit of the payloads of actors, and what sets it.
func errPayloadTooLarge(limit int64) error {
	return fmt.Errorf("%w of %d bytes, by --max-payload or --limit APP/TYPE:max-payload=… of the server", actor.ErrPayloadTooLarge, limit)
}

// errMessageTooLarge names the limit of a message, which no setting changes by itself.
func errMessageTooLarge(limit int64) error {
	return fmt.Errorf("%w of %d bytes for one message; send less in one", actor.ErrPayloadTooLarge, limit)
}

func errModuleTooLarge(limit int64) error {
	return fmt.Errorf("%w of %d bytes, by --max-module of the server", actor.ErrModuleTooLarge, limit)
}
