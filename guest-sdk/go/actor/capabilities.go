package actor

import (
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Capabilities declare what the type uses beyond its own state. Whoever runs the
// app grants it or not; what is not declared here the type cannot use at all.
type Capabilities struct {
	// HTTP are the hosts that the type sends requests to: "api.example.com",
	// "*.example.com", "*" for every host; "api.example.com:8443", and
	// "http://api.example.com" for requests without TLS.
	HTTP []string
	// Config are the names of the app's configuration values that it reads.
	Config []string
	// Secrets are the names of the app's secrets that it reads.
	Secrets []string
}

func (c Capabilities) addTo(t *actorType) {
	t.spec.Capabilities = abi.Capabilities{HTTP: c.HTTP, Config: c.Config, Secrets: c.Secrets}
}

// Errors of capabilities, to compare with [errors.Is].
var (
	// ErrDenied is a name that the type's [Capabilities] do not have.
	ErrDenied = NewError(PermissionDenied, "denied", "not declared")
	// ErrNotSet is a name that the app has no value for.
	ErrNotSet = NewError(FailedPrecondition, "not_set", "not set")
	// ErrNotReady is a value that the host cannot give now.
	ErrNotReady = NewError(Unavailable, "not_ready", "the host cannot give it now").Retry()

	// ErrHTTPDenied is a request to a host that is not declared, or that the app
	// was not granted.
	ErrHTTPDenied = NewError(PermissionDenied, "http_denied", "the request was denied")
	// ErrHTTPTimeout is a request without a whole answer in time.
	ErrHTTPTimeout = NewError(DeadlineExceeded, "http_timeout", "the request took too long")
	// ErrHTTPUnreachable is a request that could not be sent.
	ErrHTTPUnreachable = NewError(Unavailable, "http_unreachable", "the host cannot be reached")
)

// Config returns a configuration value of the app: [ErrDenied] if the type does
// not declare it, [ErrNotSet] if the app has none of that name.
func (c *Context) Config(name string) (string, error) {
	value, code := c.live().host.ConfigGet(name)
	if code < 0 {
		return "", capabilityError("configuration value", "Config", "greenroom config set", name, code)
	}
	return string(value), nil
}

// Secret returns a secret of the app, with the errors of [Context.Config] and
// [ErrNotReady]. Keep it in a local variable: what is in the state or in the log
// is a secret no more.
func (c *Context) Secret(name string) (string, error) {
	value, code := c.live().host.SecretGet(name)
	if code < 0 {
		return "", capabilityError("secret", "Secrets", "greenroom secrets set", name, code)
	}
	return string(value), nil
}

func capabilityError(what, member, command, name string, code abi.Code) error {
	switch code {
	case abi.CodeDenied:
		return ErrDenied.Messagef("the type does not declare the %s %q; add it to actor.Capabilities.%s", what, name, member)
	case abi.CodeNotFound:
		return ErrNotSet.Messagef("the app has no %s %q; set it with: %s %s", what, name, command, name)
	case abi.CodeNotReady:
		return ErrNotReady.Messagef("the host cannot give the %s %q now", what, name)
	}
	return codeError(code)
}

// HTTP sends requests to the hosts that the type declares and its app was granted.
//
// A request is no part of the turn's transaction: when the turn fails later, it has
// been sent all the same. In read-only methods only GET and HEAD are allowed.
func (c *Context) HTTP() HTTP { return HTTP{c} }

// HTTP sends requests.
type HTTP struct{ ctx *Context }

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
func (h HTTP) Get(url string) (*Response, error) { return h.Do(Request{URL: url}) }

// Post sends a POST request.
func (h HTTP) Post(url, contentType string, body []byte) (*Response, error) {
	return h.Do(Request{Method: "POST", URL: url, Headers: []Header{{"Content-Type", contentType}}, Body: body})
}

// Do sends a request and waits for its answer. An error says why there is none:
// an [Error] whose Code is "http_" and a code of abi/SPEC.md section 6, such as
// [ErrHTTPDenied], [ErrHTTPTimeout] and [ErrHTTPUnreachable].
func (h HTTP) Do(r Request) (*Response, error) {
	frame := abi.HTTPRequest{Method: r.Method, URL: r.URL, Body: r.Body}
	// Rounded up: a short timeout must not become none.
	frame.TimeoutMillis = uint32(min(max(r.Timeout+time.Millisecond-1, 0)/time.Millisecond, 1<<32-1))
	if r.NoRedirects {
		frame.Flags = abi.FlagNoRedirects
	}
	for _, header := range r.Headers {
		frame.Headers = append(frame.Headers, abi.Header(header))
	}
	data, code := h.ctx.live().host.HTTPRequest(abi.AppendHTTPRequest(nil, &frame))
	switch {
	case code == abi.CodeInvalid:
		return nil, httpError(abi.HTTPInvalid, "the request has text that is not UTF-8, a header without a name, or too many headers")
	case code < 0:
		return nil, codeError(code)
	}
	var answer abi.HTTPResponse
	if err := abi.DecodeHTTPResponse(data, &answer); err != nil {
		return nil, NewError(Internal, "bad_frame", err.Error())
	}
	if answer.Status == 0 {
		return nil, httpError(answer.Code, answer.Message)
	}
	response := &Response{Status: int(answer.Status), Body: answer.Body}
	for _, header := range answer.Headers {
		response.Headers = append(response.Headers, Header(header))
	}
	return response, nil
}

func httpError(code, message string) error {
	e := NewError(Unavailable, "http_"+strings.Clone(code), "HTTP request: "+message)
	switch code {
	case abi.HTTPDenied:
		e.Status = PermissionDenied
	case abi.HTTPInvalid:
		e.Status = InvalidArgument
	case abi.HTTPReadOnly, abi.HTTPRedirects:
		e.Status = FailedPrecondition
	case abi.HTTPTimeout:
		e.Status = DeadlineExceeded
	case abi.HTTPTooLarge:
		e.Status = ResourceExhausted
	}
	return e
}
