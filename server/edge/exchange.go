package edge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/spans"
	"github.com/greenroom-run/greenroom/server/stream"
)

// HeaderRequestID names the request in the server's log; every answer has it.
const HeaderRequestID = "Greenroom-Request-Id"

// Exchange is one request and its answer. It stands where the handlers see the
// [http.ResponseWriter] and the body, so that one allocation does for all that
// is counted and bounded. Like those, it is used by one goroutine at a time,
// except that the body may be read while the answer is written.
type Exchange struct {
	http.ResponseWriter
	Edge    *Edge
	Route   *Route
	Control *http.ResponseController
	Path    string // as it was sent
	ID      string
	Trace   *actor.Trace // of the request; nil: it came with none
	Caller  Caller       // once it is admitted
	peers   bool         // it came where only hosts of the cluster are listened to
	status  int          // as sent; 0 until then

	// joined is the first part of a message that waits for the rest, on
	// long-lived routes: HTTP/2 would make a frame of each part.
	joined []byte

	// partial is how much has been read of a message of a long-lived route.
	partial counted

	requestUse
	requestBody
}

// requestBody is the body of a request, and what bounds it.
type requestBody struct {
	body      io.ReadCloser
	bodyLeft  int64     // bytes that may still be read
	bodyTimed bool      // its deadline is set
	unreadEnd time.Time // its deadline, if it was not read when the answer began
	bodyEnd   time.Time // when all of it must have arrived; zero: only parts are timed
	partLeft  int64     // of a body with a reservation: bytes until the next part is timed
}

// counted is an amount, and the app for which it counts.
type counted struct {
	owner string
	bytes int64
}

type exchangeKey struct{}

// ExchangeOf returns the exchange that a handler's context belongs to.
func ExchangeOf(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// RequestID returns the ID of the request that ctx belongs to.
func RequestID(ctx context.Context) string {
	if x := ExchangeOf(ctx); x != nil {
		return x.ID
	}
	return ""
}

// CallerName returns the name of the token that the request came with, if it was
// asked for one.
func CallerName(ctx context.Context) string {
	if x := ExchangeOf(ctx); x != nil {
		return x.Caller.Name
	}
	return ""
}

// TraceOf returns the trace of the request that ctx belongs to; nil for none.
func TraceOf(ctx context.Context) *actor.Trace {
	if x := ExchangeOf(ctx); x != nil {
		return x.Trace
	}
	return nil
}

// The headers of W3C Trace Context, in the form of the keys of [http.Header].
const (
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"
)

// newExchange returns the exchange of a request, and the request as handlers see it.
func newExchange(e *Edge, w http.ResponseWriter, r *http.Request, peers bool, now time.Time) (*Exchange, *http.Request) {
	path := r.URL.EscapedPath()
	route := e.Routes.find(path)
	x := &Exchange{
		ResponseWriter: w,
		Edge:           e,
		Route:          route,
		Control:        http.NewResponseController(w),
		Path:           path,
		ID:             newRequestID(),
		Trace:          e.traceOfRequest(route, r.Header),
		peers:          peers,
		requestUse:     requestUse{declared: r.ContentLength, enveloped: route.rpc && isEnveloped(r)},
		requestBody:    requestBody{body: r.Body, bodyLeft: route.MaxBody},
	}
	h := w.Header()
	h.Set(HeaderRequestID, x.ID)
	// A browser takes an answer for nothing but what it says that it is, and gives
	// it to no page of another origin, unless CORS lets it.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !route.Peer && e.leaving.Load() {
		h.Set("Connection", "close") // in HTTP/2 net/http makes a GOAWAY of it
	}
	ctx := x.Trace.Context(context.WithValue(r.Context(), exchangeKey{}, x))
	if t, ok := timeoutOf(r.Header); ok {
		ctx = t.Context(ctx)
	}
	r = r.WithContext(ctx)
	if route.Upload {
		x.bodyEnd = now.Add(e.Conf.Bounds.UploadTimeout)
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = x.readCloser()
	}
	return x, r
}

// served records an exchange that began at a time. ended is false if its handler was cut off.
func (x *Exchange) served(r *http.Request, began time.Time, ended bool) {
	e := x.Edge
	took := time.Since(began)
	status := x.status
	switch {
	case status != 0:
	case ended && r.Context().Err() == nil:
		status = http.StatusOK // which net/http answers for a handler that says nothing
	default:
		status = failure.StatusClientClosedRequest
	}
	x.Route.metrics.Served(status, took, x.Trace) // a handler may have changed the route
	x.recordSpan(began, status, took)
	level := slog.LevelDebug
	if x.Caller.Name != "" && x.Route.role >= RoleDeploy {
		level = slog.LevelInfo // who changes what runs is on record
	}
	if e.Log.Enabled(r.Context(), level) {
		e.Log.LogAttrs(r.Context(), level, "request served", x.Trace.AppendLog([]slog.Attr{
			slog.String("request_id", x.ID), slog.String("token", x.Caller.Name), slog.String("method", r.Method), slog.String("route", x.Route.name),
			slog.String("protocol", r.Proto), slog.String("remote", r.RemoteAddr),
			slog.Int("status", status), slog.Duration("took", took),
		})...)
	}
}

// recordSpan records the span of a request that was answered.
func (x *Exchange) recordSpan(began time.Time, status int, took time.Duration) {
	if !x.Trace.IsSampled() {
		return
	}
	s := spans.Span{Trace: x.Trace, Name: x.Route.name, Kind: trace.SpanKindServer, Began: began, Ended: began.Add(took), Attributes: []attribute.KeyValue{
		attribute.Int("http.response.status_code", status), attribute.String("greenroom.request_id", x.ID),
	}}
	if status >= http.StatusBadRequest {
		s.Failed = http.StatusText(status)
	}
	x.Edge.Conf.Spans.Record(s)
}

// timeoutOf is what a request says that its caller gave it; false if it does not, or not
// in a form that the protocols take.
func timeoutOf(h http.Header) (actor.Timeout, bool) {
	if v := h[HeaderTimeout]; len(v) > 0 {
		ms, err := strconv.ParseUint(v[0], 10, 63)
		return actor.Timeout{After: time.Duration(ms) * time.Millisecond, By: HeaderTimeout}, err == nil && len(v[0]) <= 10
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

// Unwrap lets [http.ResponseController] reach the connection.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *Exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK { // 1xx are not the answer
		x.answer(status)
		x.allowWrite()
	}
	x.ResponseWriter.WriteHeader(status)
}

// answer notes that the answer begins, and bounds the time of a body that was not read: before it
// sends an answer over HTTP/1.1, net/http reads what is left of the body.
func (x *Exchange) answer(status int) {
	x.status = status
	if x.bodyTimed || x.body == nil || x.body == http.NoBody || x.Route.LongLived && status < http.StatusBadRequest {
		return
	}
	x.bodyTimed, x.unreadEnd = true, x.Edge.BodyDeadline()
	_ = x.Control.SetReadDeadline(x.unreadEnd)
}

// acceptedAtOnce is how much of an answer a client must accept within the accept timeout, in
// bytes, again and again: a client that is slower is given up.
const acceptedAtOnce = 256 << 10

// Write writes a part of the answer. For each acceptedAtOnce of it the client has the accept
// timeout, and for each message of a stream the body timeout.
func (x *Exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.answer(http.StatusOK)
	}
	if x.Route.LongLived {
		return x.writeJoined(p)
	}
	if len(p) > alwaysReadBody {
		defer x.writing(p)()
	}
	written := 0
	for {
		part := p[written:]
		if len(part) > acceptedAtOnce && !x.Route.Streaming {
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

func (x *Exchange) writeJoined(p []byte) (int, error) {
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
func (x *Exchange) writeRest() {
	if len(x.joined) > 0 {
		_, _ = x.ResponseWriter.Write(x.joined) // a broken connection shows at the next Write
		x.joined = x.joined[:0]
	}
}

// Flush makes an exchange an [http.Flusher], as streams need. What is flushed has
// been accepted by the client or its connection, so that a stream may then be
// silent for as long as it likes.
func (x *Exchange) Flush() {
	x.writeRest()
	_ = x.Control.Flush() // a broken connection shows at the next Write
	if x.Route.Streaming {
		_ = x.Control.SetWriteDeadline(time.Time{})
	}
}

func (x *Exchange) allowWrite() {
	if x.Route.LongLived {
		return
	}
	timeout := x.Edge.Conf.Bounds.AcceptTimeout
	if x.Route.Streaming {
		timeout = x.Edge.Conf.Bounds.BodyTimeout
	}
	from := time.Now()
	if x.unreadEnd.After(from) { // the answer is sent once the body has come, or that is over
		from = x.unreadEnd
	}
	_ = x.Control.SetWriteDeadline(from.Add(timeout)) // without a connection there is nothing to bound
}

func (x *Exchange) readCloser() io.ReadCloser { return (*exchangeBody)(x) }

// exchangeBody is the body of an exchange's request: bounded in size and time.
// To an RPC handler its errors are *connect.Error values, which the protocols pass
// on as they are.
type exchangeBody Exchange

// Read implements [io.Reader].
func (b *exchangeBody) Read(p []byte) (int, error) {
	if b.Route.Peer && b.Route.LongLived {
		return b.body.Read(p) // each peer has a few, with messages that its limits bound
	}
	if b.Route.LongLived {
		n, err := b.body.Read(p)
		if full := (*Exchange)(b).messageBytes(n); full != nil {
			return n, b.describe(full)
		}
		return n, err
	}
	if !b.Route.Streaming {
		if full := (*Exchange)(b).reserveBody(); full != nil {
			return 0, b.describe(full)
		}
	}
	b.allowRead()
	if b.enveloped && len(p) > envelopePrefix-len(b.prefix) {
		p = p[:envelopePrefix-len(b.prefix)]
	}
	// One byte more than allowed is asked for, to tell the end from too much.
	if int64(len(p)) > b.bodyLeft+1 {
		p = p[:b.bodyLeft+1]
	}
	n, err := b.body.Read(p)
	if int64(n) > b.bodyLeft {
		return int(b.bodyLeft), b.describe(b.Route.BodyErr)
	}
	b.bodyLeft -= int64(n)
	b.partLeft -= int64(n)
	if !b.Route.Streaming || b.Route.Upload {
		if full := (*Exchange)(b).CountBody(n); full != nil {
			return n, b.describe(full)
		}
	}
	if b.enveloped {
		(*Exchange)(b).readPrefix(p[:n])
	}
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = b.describe(&failure.Error{Kind: failure.KindBodyTimeout, Text: b.lateness()})
	default:
		// The connection goes on to be read, for the client's going away: that
		// read must not run into this one's deadline.
		_ = b.Control.SetReadDeadline(time.Time{})
		if !b.Route.rpc && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			// The client's doing, whatever it was: nothing for the log of errors.
			err = &actor.ArgumentError{Field: "body", Problem: "broke off, or is not in the form that its headers say; send it again"}
		}
	}
	return n, err
}

// sentAtOnce is the size of the parts of a body with a reservation, in bytes. A client must send each
// part within the accept timeout, or the request fails and the reservation ends.
const sentAtOnce = 64 << 10

// allowRead bounds the time of the next read.
func (b *exchangeBody) allowRead() {
	bounds := &b.Edge.Conf.Bounds
	part := !b.Route.Streaming && b.reserved > 0 && b.partLeft <= 0
	if b.bodyTimed && !b.Route.Streaming && !part {
		return
	}
	deadline := b.Edge.BodyDeadline()
	if !b.bodyTimed && !b.Route.Streaming {
		b.bodyEnd = deadline
	}
	b.bodyTimed = true
	if part {
		b.partLeft = sentAtOnce
		deadline = time.Now().Add(bounds.AcceptTimeout)
	}
	if !b.bodyEnd.IsZero() && b.bodyEnd.Before(deadline) {
		deadline = b.bodyEnd
	}
	_ = b.Control.SetReadDeadline(deadline)
}

// lateness describes the time limit that a body has exceeded.
func (b *exchangeBody) lateness() string {
	bounds := &b.Edge.Conf.Bounds
	limit := bounds.BodyTimeout
	switch whole := !b.bodyEnd.IsZero() && !time.Now().Before(b.bodyEnd); {
	case whole && b.Route.Upload:
		limit = bounds.UploadTimeout
	case !whole && b.reserved > 0:
		return fmt.Sprintf("the request's body did not arrive at a rate of %d KiB in %v", sentAtOnce>>10, bounds.AcceptTimeout)
	}
	return fmt.Sprintf("the request's body did not arrive within %v", limit)
}

func (b *exchangeBody) describe(err error) error {
	if !b.Route.rpc {
		return err // its handler describes it
	}
	f := failure.Of(err, false)
	b.Edge.Metrics.Failed(actor.Kind(f.Detail.GetKind()))
	return f.RPC()
}

// Close implements [io.Closer].
func (b *exchangeBody) Close() error { return b.body.Close() }

// share is what the body of a request counts for, and how much of it is read whatever
// others hold.
func (x *Exchange) share() (account *fair.Account, always int64) {
	if x.Route.Upload {
		return x.Edge.Requests.Uploads, alwaysUpload
	}
	return x.Edge.Requests.Bodies, alwaysReadBody
}

// What counts for no app has owners that no app can be named like.
const (
	ownerOpen = "/requests that need no token"
	ownerPeer = "/requests of other hosts"
	ownerGzip = "/messages that are unpacked"
)

// Owner is the app that a request counts for; empty for callers of all apps, until the app
// of the request is known. What no caller of the API is needed for has owners of its own.
func (x *Exchange) Owner() string {
	switch {
	case x.Route != nil && x.Route.Open:
		return ownerOpen
	case x.Route != nil && x.Route.Peer:
		return ownerPeer
	}
	return cmp.Or(x.app, x.Caller.app)
}

// ForApp notes the app that a request is for, and refuses the request if its caller may not
// ask for that app, or has left too many bytes of the app's answers in the server's memory.
func (x *Exchange) ForApp(app string) error {
	if err := x.Caller.RequireApp(app); err != nil {
		return err
	}
	x.app = app
	if x.Route.Peer {
		return nil
	}
	return x.Edge.checkAnswers(app)
}

// BecomeStream makes the exchange one of a streaming procedure of a guest, with the bounds of
// [StreamRoute]: the path does not say which procedures stream, since each app has its own. It is
// called before the body is read.
func (x *Exchange) BecomeStream() {
	x.Route = x.Edge.Routes.guestStreams
	x.bodyLeft = x.Route.MaxBody
}

// Refuse answers err in the protocol of the request r, in the place of its handler.
func (x *Exchange) Refuse(r *http.Request, err error) { x.Edge.refuse(x.Route, x, r, err) }

// reserveBody counts a body of declared length before its first byte is read, and returns why the
// body is not to be read. If bodies that do not all fit were read at the same time, none of them
// might be read to its end.
func (x *Exchange) reserveBody() error {
	n := x.declared
	account, always := x.share()
	if n <= always || n > x.bodyLeft || x.Route.Open { // whoever needs no token reserves nothing
		x.declared = -1
		return nil
	}
	if check := x.Edge.Conf.CheckCall; check != nil && x.Route.Calls {
		if err := check(cmp.Or(x.app, x.Caller.app), n); err != nil {
			return err
		}
	}
	owner := x.Owner()
	if full := account.Take(owner, n); full != nil {
		return errRequestsFull(full) // as often as it is read
	}
	x.bodyOwner, x.reserved = owner, n
	x.declared, x.BodyBytes = -1, x.BodyBytes+n
	return nil
}

// isEnveloped reports whether the body of an RPC's request is a message of gRPC or gRPC-Web whose
// length its headers do not say.
func isEnveloped(r *http.Request) bool {
	return r.ContentLength < 0 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// readPrefix notes a part of the envelope of a body. Once the envelope is whole, the length that it
// says is the declared length of the rest.
func (x *Exchange) readPrefix(part []byte) {
	x.prefix = append(x.prefix, part...)
	if len(x.prefix) == envelopePrefix {
		x.enveloped, x.declared = false, int64(binary.BigEndian.Uint32(x.prefix[1:]))
	}
}

// CountBody counts bytes of the request's body, and says why it is not read on. What
// it counts, ReleaseBody takes off.
func (x *Exchange) CountBody(n int) error {
	if covered := min(int64(n), x.reserved); covered > 0 {
		x.reserved -= covered
		if n -= int(covered); n == 0 {
			return nil
		}
	}
	account, always := x.share()
	if x.BodyBytes == 0 {
		x.bodyOwner = x.Owner()
	}
	full := account.Count(x.bodyOwner, int64(n))
	if x.BodyBytes += int64(n); full != nil && x.BodyBytes > always {
		return errRequestsFull(full)
	}
	return nil
}

// ReleaseBody ends the count of a request that is answered.
func (x *Exchange) ReleaseBody() {
	if x.BodyBytes > 0 {
		account, _ := x.share()
		account.Give(x.bodyOwner, x.BodyBytes)
		x.BodyBytes, x.reserved = 0, 0
	}
}

// writing counts a part of an answer until the client has accepted it.
func (x *Exchange) writing(p []byte) (done func()) {
	owner, n := x.Owner(), int64(len(p))
	x.Edge.Requests.Answers.Add(owner, n)
	return func() { x.Edge.Requests.Answers.Give(owner, n) }
}

// messageBytes counts bytes of a stream's message that is not whole yet, and says why
// it is not read on. What is counted, MessageReceived takes off.
func (x *Exchange) messageBytes(n int) error {
	if x.partial.bytes == 0 {
		x.partial.owner = x.Owner()
	}
	err := x.Edge.StreamMemory.Receive(x.partial.owner, int64(n), x.partial.bytes)
	x.partial.bytes += int64(n)
	return err
}

// MessageReceived says that a message has been received, or will never be.
func (x *Exchange) MessageReceived() {
	x.Edge.StreamMemory.Release(x.partial.owner, x.partial.bytes)
	x.partial = counted{}
}
