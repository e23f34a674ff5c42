package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/host"
)

// Client sends requests. It is safe for concurrent use.
type Client struct {
	cfg        Config
	transports *lru.Cache[transportKey, *http.Transport]

	mu     sync.Mutex
	flying map[string]int // requests under way, by app
	all    int
}

var _ host.Egress = (*Client)(nil)

// transportKey says who shares connections.
type transportKey struct {
	app     string
	private bool
}

// maxTransports bounds the apps whose connections are kept.
const maxTransports = 512

// New makes a client.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	transports, err := lru.NewWithEvict(maxTransports, func(_ transportKey, t *http.Transport) { t.CloseIdleConnections() })
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg.WithDefaults(), transports: transports, flying: make(map[string]int)}, nil
}

// Close closes the connections that nobody uses.
func (c *Client) Close() { c.transports.Purge() }

// Do implements [host.Egress].
func (c *Client) Do(ctx context.Context, r host.EgressRequest) (abi.HTTPResponse, error) {
	var leaveErr error
	leave := r.Leave
	r.Leave = func() error { leaveErr = leave(); return leaveErr }
	answer, err := c.do(ctx, r)
	if leaveErr != nil {
		return abi.HTTPResponse{}, leaveErr
	}
	if err == nil {
		return answer, nil
	}
	var why *refusal
	if !errors.As(err, &why) {
		why = &refusal{abi.HTTPBroken, "the connection failed"}
	}
	return abi.HTTPResponse{Code: why.code, Message: why.message}, nil
}

func (c *Client) do(ctx context.Context, r host.EgressRequest) (abi.HTTPResponse, error) {
	hop, err := prepare(r, c.cfg.MaxRequestBytes)
	if err != nil {
		return abi.HTTPResponse{}, err
	}
	private, err := c.permit(ctx, r, hop.target)
	if err != nil {
		return abi.HTTPResponse{}, err
	}
	if err := c.begin(r.App); err != nil {
		return abi.HTTPResponse{}, err
	}
	defer c.end(r.App)
	if err := r.Leave(); err != nil {
		return abi.HTTPResponse{}, err
	}
	if r.Request.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Request.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	for redirects := 0; ; redirects++ {
		answer, next, err := c.send(ctx, r.App, private, hop, r.Request.Flags&abi.FlagNoRedirects == 0)
		if err != nil || next == nil {
			return answer, err
		}
		if redirects == c.cfg.MaxRedirects {
			return answer, refuse(abi.HTTPRedirects, "%s redirects once more after %d times", hop.target, redirects)
		}
		if private, err = c.permit(ctx, r, next.target); err != nil {
			return answer, err
		}
		hop = next
	}
}

// permit checks a target against what the type declares and the app was granted,
// and reports whether the grant is a private one.
func (c *Client) permit(ctx context.Context, r host.EgressRequest, target manifest.HostRule) (private bool, err error) {
	if !anyMatch(r.Declared, target) {
		return false, refuse(abi.HTTPDenied, "the type's manifest does not declare %s; add it to its capability http", target)
	}
	grants, err := c.cfg.Grants.HTTP(ctx, r.App)
	if err != nil {
		return false, refuse(abi.HTTPNotAvailable, "what the app %s was granted cannot be read now", r.App)
	}
	ip, err := netip.ParseAddr(target.Host)
	named := err == nil && kindOf(ip) == link // only a rule that names it will do
	granted := false
	for _, g := range grants {
		rule, err := manifest.ParseHostRule(g.Host)
		if err != nil || !rule.Matches(target) || named && rule.Host != target.Host {
			continue
		}
		granted, private = true, private || g.Private
	}
	if !granted {
		return false, refuse(abi.HTTPDenied, "the app %s was not granted %s; grant it with: greenroom grants http add %s --app %s", r.App, target, target, r.App)
	}
	return private, nil
}

func anyMatch(rules []string, target manifest.HostRule) bool {
	for _, text := range rules {
		if rule, err := manifest.ParseHostRule(text); err == nil && rule.Matches(target) {
			return true
		}
	}
	return false
}

func (c *Client) begin(app string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying[app] >= c.cfg.MaxPerApp || c.all >= c.cfg.MaxInFlight {
		return refuse(abi.HTTPBusy, "%d requests of the app %s are under way, and %d in all; at most %d and %d may be", c.flying[app], app, c.all, c.cfg.MaxPerApp, c.cfg.MaxInFlight)
	}
	c.flying[app]++
	c.all++
	return nil
}

func (c *Client) end(app string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying[app]--; c.flying[app] == 0 {
		delete(c.flying, app)
	}
	c.all--
}

func (c *Client) transport(app string, private bool) *http.Transport {
	key := transportKey{app, private}
	if t, ok := c.transports.Get(key); ok {
		return t
	}
	d := &dialer{resolver: c.cfg.Resolver, private: private}
	t := &http.Transport{ // without a Proxy, and so without one from the environment
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{RootCAs: c.cfg.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
	}
	if other, ok, _ := c.transports.PeekOrAdd(key, t); ok {
		return other
	}
	return t
}

// send sends one request. It returns the hop that a redirect asks for, if those
// are followed.
func (c *Client) send(ctx context.Context, app string, private bool, h *hop, follow bool) (abi.HTTPResponse, *hop, error) {
	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := http.NewRequestWithContext(traced, h.method, h.url.String(), bytes.NewReader(h.body))
	if err != nil {
		return abi.HTTPResponse{}, nil, refuse(abi.HTTPInvalid, "the request cannot be sent as it is")
	}
	if len(h.body) == 0 {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	req.Header = h.headers.Clone()
	resp, err := c.transport(app, private).RoundTrip(req)
	if err != nil {
		return abi.HTTPResponse{}, nil, failure(ctx, h.target, connected, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 999 {
		return abi.HTTPResponse{}, nil, refuse(abi.HTTPBroken, "%s answered with the status %d", h.target, resp.StatusCode)
	}
	if follow {
		next, err := h.redirected(resp)
		if err != nil || next != nil {
			return abi.HTTPResponse{}, next, err
		}
	}
	answer, err := c.read(resp, h.target)
	if err != nil {
		var why *refusal
		if !errors.As(err, &why) {
			err = failure(ctx, h.target, true, err)
		}
		return abi.HTTPResponse{}, nil, err
	}
	return answer, nil, nil
}

// failure returns the outcome of a failed request. Its own errors name no more than hosts;
// those of net/http may have addresses and URLs in them.
func failure(ctx context.Context, target manifest.HostRule, connected bool, err error) error {
	var denied *deniedError
	var unreachable *unreachableError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &denied):
		return refuse(abi.HTTPDenied, "%v; if it is meant, grant it with: greenroom grants http add %s --private", denied, target)
	case ctx.Err() != nil:
		return refuse(abi.HTTPTimeout, "no whole answer from %s in time", target)
	case errors.As(err, &unreachable):
		return refuse(abi.HTTPUnreachable, "%v", unreachable)
	case errors.As(err, &certificate):
		return refuse(abi.HTTPUnreachable, "the certificate of %s is not valid", target)
	case !connected:
		return refuse(abi.HTTPUnreachable, "no connection to %s: it does not speak the protocol of its URL", target)
	}
	return refuse(abi.HTTPBroken, "the connection to %s ended, or what came is no HTTP", target)
}

func (c *Client) read(resp *http.Response, target manifest.HostRule) (abi.HTTPResponse, error) {
	answer := abi.HTTPResponse{Status: uint16(resp.StatusCode)}
	if resp.ContentLength > c.cfg.MaxResponseBytes && resp.Request.Method != http.MethodHead {
		return answer, tooLarge(target, c.cfg.MaxResponseBytes)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxResponseBytes+1))
	switch {
	case err != nil:
		return answer, err
	case int64(len(body)) > c.cfg.MaxResponseBytes:
		return answer, tooLarge(target, c.cfg.MaxResponseBytes)
	}
	answer.Body = body
	if answer.Headers = responseHeaders(resp.Header); len(answer.Headers) > abi.MaxHeaders {
		return answer, refuse(abi.HTTPTooLarge, "the answer of %s has %d headers; at most %d are taken", target, len(answer.Headers), abi.MaxHeaders)
	}
	return answer, nil
}

func tooLarge(target manifest.HostRule, limit int64) error {
	return refuse(abi.HTTPTooLarge, "the answer of %s is larger than %d bytes", target, limit)
}
