package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

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

// quote writes a key as a string of RFC 8941, which keeps every key as it is.
func quote(key string) string {
	return fmt.Sprintf(`"%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key))
}
