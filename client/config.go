package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Defaults of [Config].
const (
	DefaultStreams     = 1
	DefaultMaxInFlight = 2048
	DefaultMaxOwners   = 100_000
	DefaultMaxAttempts = 16
	DefaultMinBackoff  = 10 * time.Millisecond
	DefaultMaxBackoff  = time.Second
)

// Config says where the server is and how to call it. The zero value of an
// optional field means its default.
type Config struct {
	// URL is the server's: http://127.0.0.1:8080. Required.
	URL string
	// URLs are further servers of the same cluster: when one cannot be reached, another
	// one is called. Defaults to none.
	URLs []string
	// MaxOwners is of how many actors the client remembers which server holds them, as
	// servers tell in their replies. It calls that server directly, and any of the
	// configured ones when it cannot reach it. Below 0: it remembers nothing, as is
	// right where a proxy stands before servers that clients must not reach. Defaults
	// to [DefaultMaxOwners].
	MaxOwners int
	// Token is sent as a bearer token. Empty: none.
	Token string
	// App is the app of calls that name none. Defaults to the server's default
	// app.
	App string
	// HTTPClient makes all requests. It must speak HTTP/2 for streams (over http
	// URLs without TLS), and its Timeout must be 0, since streams last. Defaults
	// to one of the client's own, which does.
	HTTPClient *http.Client
	// IdempotencyKeys gives every Invoke a fresh idempotency key, so that it can
	// be repeated whatever happened to the connection. Recording the key costs
	// the server a little on every turn. Defaults to false.
	IdempotencyKeys bool
	// Unary sends every call as a request of its own. Defaults to false.
	Unary bool
	// StreamOnly fails calls for which there is no stream, with [KindNoStream],
	// instead of sending each as a request of its own, which is many times as
	// slow. Payloads above 256 KiB are requests of their own all the same.
	// Defaults to false.
	StreamOnly bool
	// Streams is how many streams are used. More than one helps only where a
	// single connection's processing is the limit. Defaults to
	// [DefaultStreams].
	Streams int
	// MaxInFlight is how many calls one stream has under way at once; others
	// wait. The server has its own bound (4096 unless configured). Defaults to
	// [DefaultMaxInFlight].
	MaxInFlight int
	// MaxAttempts is how often a call is tried, and how many attempts to connect
	// it waits for. Defaults to [DefaultMaxAttempts].
	MaxAttempts int
	// MinBackoff and MaxBackoff are the first and the longest pause between
	// attempts; pauses double, and are spread at random between a half and the
	// whole. They default to [DefaultMinBackoff] and [DefaultMaxBackoff].
	MinBackoff, MaxBackoff time.Duration
}

// WithDefaults returns a copy with every unset optional field at its default,
// but HTTPClient.
func (c Config) WithDefaults() Config {
	c.Streams = cmp.Or(c.Streams, DefaultStreams)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, DefaultMaxInFlight)
	c.MaxOwners = cmp.Or(c.MaxOwners, DefaultMaxOwners)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.MinBackoff = cmp.Or(c.MinBackoff, DefaultMinBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(DefaultMaxBackoff, c.MinBackoff))
	return c
}

func (c Config) validate() error {
	if c.URL == "" {
		return errors.New("client: Config.URL is empty; give the server's, like http://127.0.0.1:8080")
	}
	for _, s := range append([]string{c.URL}, c.URLs...) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("client: Config.URL %q is not of the form http://HOST:PORT or https://HOST:PORT", s)
		}
	}
	switch {
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("client: Config.Token has characters that no header can carry; use visible ASCII characters only")
	case c.HTTPClient != nil && c.HTTPClient.Timeout != 0:
		return errors.New("client: Config.HTTPClient has a Timeout, which would cut streams; leave it 0, and give calls deadlines")
	case c.Unary && c.StreamOnly:
		return errors.New("client: Config.Unary and Config.StreamOnly exclude each other; set one of them")
	case c.MinBackoff > c.MaxBackoff:
		return fmt.Errorf("client: Config.MinBackoff %v is above MaxBackoff %v", c.MinBackoff, c.MaxBackoff)
	}
	if c.App != "" {
		if err := actor.ValidateName("app", c.App); err != nil {
			return fmt.Errorf("client: Config.App: %w", err)
		}
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Streams", int64(c.Streams)},
		{"MaxInFlight", int64(c.MaxInFlight)},
		{"MaxAttempts", int64(c.MaxAttempts)},
		{"MinBackoff", int64(c.MinBackoff)},
		{"MaxBackoff", int64(c.MaxBackoff)},
	} {
		if f.value < 0 {
			return fmt.Errorf("client: Config.%s is negative; give a positive one, or 0 for the default", f.name)
		}
	}
	return nil
}
