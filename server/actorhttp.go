package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Headers of the plain HTTP form.
const (
	headerVersion     = "Greenroom-Version"
	headerFuel        = "Greenroom-Fuel" // of every unary call's answer, in every protocol
	headerHost        = "Greenroom-Host" // of the answers to calls that were passed on, in every protocol
	headerConsistency = "Greenroom-Consistency"
	headerTimeout     = "Connect-Timeout-Ms" // as Connect has it
)

// serveActor serves everything below an actor's path.
func (s *Server) serveActor(w http.ResponseWriter, r *http.Request) {
	switch resourceOf(r.URL.EscapedPath()) {
	case resourceReminders:
		s.serveReminder(w, r)
	case resourceTimers:
		s.serveTimer(w, r)
	default:
		s.serveMethod(w, r)
	}
}

// serveMethod is the plain HTTP form of the Dapr Actors V2 proposal:
//
//	PUT|POST|GET /v2.0/actors/APP/TYPE/ID/method/METHOD
//
// The body is the payload. GET is for read-only methods; its payload, if the
// method takes one, is the query parameter "payload".
func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request) {
	inv, err := s.invocationOf(r)
	if err != nil {
		s.refuseActor(w, r, inv, err)
		return
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		s.refuseActor(w, r, inv, err)
		return
	}
	defer cancel()
	reply, err := s.conf.Host.Invoke(ctx, inv)
	setHost(w.Header(), reply)
	if err != nil {
		s.refuseActor(w, r, inv, err)
		return
	}
	h := w.Header()
	h.Set(headerVersion, strconv.FormatUint(reply.Version, 10))
	setFuel(h, reply)
	h.Set("Content-Type", safeMediaType(reply.Payload.ContentType))
	h.Set("Content-Length", strconv.Itoa(len(reply.Payload.Data)))
	h.Set("Cache-Control", "no-store")
	// A guest chooses the content type: a page of its making must not run
	// scripts in this server's name.
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(reply.Payload.Data) // fails only with the connection; the turn is committed
}

// invocationOf reads everything of a request but its deadline. With an error,
// the invocation has what is known by then.
func (s *Server) invocationOf(r *http.Request) (actor.Invocation, error) {
	inv := actor.Invocation{ID: requestID(r.Context()), Caller: callerName(r.Context()), Trace: traceOf(r.Context())}
	var err error
	if inv.Key, inv.Method, err = parseActorPath(r.URL.EscapedPath()); err != nil {
		return inv, err
	}
	if err := exchangeOf(r.Context()).forApp(inv.Key.App); err != nil {
		return inv, err
	}
	switch v := r.Header.Get(headerConsistency); v {
	case "":
	case "strong":
		inv.Consistency = actor.ConsistencyStrong
	default:
		return inv, &actor.ArgumentError{Field: headerConsistency, Problem: "is " + strconv.Quote(v) + "; write strong, or leave it out"}
	}
	inv.Payload.ContentType = r.Header.Get("Content-Type")
	switch r.Method {
	case http.MethodGet:
		inv.ReadOnly = true
		inv.Payload.Data, err = queryPayload(r.URL.RawQuery)
	case http.MethodPut, http.MethodPost:
		if inv.IdempotencyKey, err = idempotencyKey(r.Header); err != nil {
			return inv, err
		}
		inv.Payload.Data, err = s.readPayload(r)
	default:
		err = &failure.Error{Kind: failure.KindMethodRefused, Text: "actors are called with PUT, POST or, for read-only methods, GET"}
	}
	return inv, err
}

func queryPayload(rawQuery string) ([]byte, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, &actor.ArgumentError{Field: "query string", Problem: "is not percent-encoded: " + err.Error()}
	}
	switch values := query["payload"]; len(values) {
	case 0:
		return nil, nil
	case 1:
		return []byte(values[0]), nil
	default:
		return nil, &actor.ArgumentError{Field: "query parameter payload", Problem: "is given more than once; give one"}
	}
}

func (s *Server) readPayload(r *http.Request) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &actor.ArgumentError{Field: "Content-Encoding", Problem: "is " + strconv.Quote(enc) + "; send the payload as it is"}
	}
	if r.ContentLength > s.conf.MaxPayloadBytes {
		return nil, errPayloadTooLarge(s.conf.MaxPayloadBytes)
	}
	// The claim is believed up to what costs nothing. One byte more than it, to
	// find the end without growing.
	data := make([]byte, 0, min(max(r.ContentLength, 511), 64<<10)+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case err == nil:
		case err == io.EOF:
			return data, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, &actor.ArgumentError{Field: "body", Problem: "ended before its Content-Length; send all of it"}
		default:
			return nil, err
		}
	}
}

// withTimeout applies the deadline that the request asks for.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	v := r.Header.Get(headerTimeout)
	if v == "" {
		return r.Context(), func() {}, nil
	}
	ms, err := strconv.ParseUint(v, 10, 64)
	if err != nil || len(v) > 10 {
		return nil, nil, &actor.ArgumentError{Field: headerTimeout, Problem: "is " + strconv.Quote(v) + "; write milliseconds in at most 10 digits"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(ms)*time.Millisecond)
	return ctx, cancel, nil
}

// setFuel says what fuel the turn used that was answered with reply; 0 if the
// reply was recorded by an earlier one.
func setFuel(h http.Header, reply actor.Reply) {
	h[headerFuel] = []string{strconv.FormatUint(reply.Fuel, 10)}
}

// setHost says which server holds the actor, if the call was passed on to it.
func setHost(h http.Header, reply actor.Reply) {
	if reply.Host != "" {
		h[headerHost] = []string{reply.Host}
	}
}

// safeMediaType returns a media type as a header may carry it.
func safeMediaType(s string) string {
	if s == "" || s == actor.ContentTypeJSON {
		return actor.ContentTypeJSON
	}
	if mediaType, params, err := mime.ParseMediaType(s); err == nil {
		if clean := mime.FormatMediaType(mediaType, params); clean != "" {
			return clean
		}
	}
	return "application/octet-stream"
}

// refuseActor answers an error of the plain HTTP form.
func (s *Server) refuseActor(w http.ResponseWriter, r *http.Request, inv actor.Invocation, err error) {
	f := s.failTurn(r.Context(), requestID(r.Context()), err, &inv)
	if f.Status == http.StatusMethodNotAllowed && w.Header().Get("Allow") == "" {
		allow := "GET, POST, PUT"
		if r.Method == http.MethodGet {
			allow = "POST, PUT" // the method exists, but is not read-only
		}
		w.Header().Set("Allow", allow)
	}
	if r.ProtoMajor == 1 && (f.Status == http.StatusRequestEntityTooLarge || f.Status == http.StatusRequestTimeout) {
		w.Header().Set("Connection", "close") // rather than reading the rest
	}
	failure.WriteHTTP(w, f, requestID(r.Context()))
}
