// Package http sends requests to the hosts that an actor type declares in
// [actor.Capabilities] and its app was granted.
//
// A request is no part of the turn's transaction: when the turn fails later, it
// has been sent all the same. In read-only methods only GET and HEAD are allowed.
package http

import (
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Errors of requests, to compare with [errors.Is]. The Code of every error is
// "http_" and a code of abi/SPEC.md section 6.
var (
	// ErrDenied is a request to a host that is not declared, or that the app was
	// not granted.
	ErrDenied = actor.NewError(actor.StatusPermissionDenied, "http_denied", "the request was denied")
	// ErrTimeout is a request without a whole answer in time.
	ErrTimeout = actor.NewError(actor.StatusDeadlineExceeded, "http_timeout", "the request took too long")
	// ErrUnreachable is a request that could not be sent.
	ErrUnreachable = actor.NewError(actor.StatusUnavailable, "http_unreachable", "the host cannot be reached")
)

// Header is one header of a request or a response.
type Header struct{ Name, Value string }

// Request is a request to be sent.
type Request struct {
	Method  string // empty: GET
	URL     string
	Headers []Header
	Body    []byte
	// Timeout bounds the request, answer included; 0: as long as the turn may take.
	Timeout time.Duration
	// NoRedirects answers a redirect as it is. Otherwise it is followed.
	NoRedirects bool
}

// Response is the answer to a request, whatever its status.
type Response struct {
	Status  int
	Headers []Header // names in lower case
	Body    []byte
}

// Header returns the first header of that name, empty if there is none.
func (r *Response) Header(name string) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// OK reports whether the status is one of success, 200 to 299.
func (r *Response) OK() bool { return r.Status >= 200 && r.Status < 300 }

// Get sends a GET request.
func Get(ctx *actor.Context, url string) (*Response, error) { return Do(ctx, Request{URL: url}) }

// Post sends a POST request.
func Post(ctx *actor.Context, url, contentType string, body []byte) (*Response, error) {
	return Do(ctx, Request{Method: "POST", URL: url, Headers: []Header{{"Content-Type", contentType}}, Body: body})
}

// Do sends a request and waits for its answer. An error says why there is none,
// such as [ErrDenied], [ErrTimeout] and [ErrUnreachable].
func Do(ctx *actor.Context, r Request) (*Response, error) {
	frame := abi.HTTPRequest{Method: r.Method, URL: r.URL, Body: r.Body}
	// Rounded up: a short timeout must not become none.
	frame.TimeoutMillis = uint32(min(max(r.Timeout+time.Millisecond-1, 0)/time.Millisecond, 1<<32-1))
	if r.NoRedirects {
		frame.Flags = abi.FlagNoRedirects
	}
	for _, header := range r.Headers {
		frame.Headers = append(frame.Headers, abi.Header(header))
	}
	data, code := roundTrip(ctx, abi.AppendHTTPRequest(nil, &frame))
	switch {
	case code == abi.CodeInvalid:
		return nil, failure(abi.HTTPInvalid, "the request has text that is not UTF-8, a header without a name, or too many headers")
	case code < 0:
		return nil, actor.NewError(actor.StatusInternal, "host_error", "").Messagef("the host answered with code %d", code)
	}
	var answer abi.HTTPResponse
	if err := abi.DecodeHTTPResponse(data, &answer); err != nil {
		return nil, actor.NewError(actor.StatusInternal, "bad_frame", err.Error())
	}
	if answer.Status == 0 {
		return nil, failure(answer.Code, answer.Message)
	}
	response := &Response{Status: int(answer.Status), Body: answer.Body}
	for _, header := range answer.Headers {
		response.Headers = append(response.Headers, Header(header))
	}
	return response, nil
}

func failure(code, message string) error {
	e := actor.NewError(actor.StatusUnavailable, "http_"+strings.Clone(code), "HTTP request: "+message)
	switch code {
	case abi.HTTPDenied:
		e.Status = actor.StatusPermissionDenied
	case abi.HTTPInvalid:
		e.Status = actor.StatusInvalidArgument
	case abi.HTTPReadOnly, abi.HTTPRedirects:
		e.Status = actor.StatusFailedPrecondition
	case abi.HTTPTimeout:
		e.Status = actor.StatusDeadlineExceeded
	case abi.HTTPTooLarge:
		e.Status = actor.StatusResourceExhausted
	}
	return e
}
