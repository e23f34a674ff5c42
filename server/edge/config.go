package edge

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/spans"
)

// Defaults of [Config].
const (
	DefaultAddr                   = "127.0.0.1:8080"
	DefaultMaxPayloadBytes  int64 = 4 << 20
	DefaultMaxModuleBytes   int64 = 32 << 20
	DefaultMaxStreamsBytes  int64 = 256 << 20
	DefaultMaxRequestsBytes int64 = 256 << 20
	DefaultMaxConnections         = 65536
	DefaultMaxSubscriptions       = 20000

	DefaultSubscriberHeartbeat = 2 * time.Second
)

// Config says where a server is reached, by whom, and how much it takes. The zero value of
// an optional field means its default.
type Config struct {
	// Addr is the host and port to listen on; port 0 takes a free one. Any
	// address but loopback also needs a token, TLS.ClientCAFile or Insecure.
	// Defaults to [DefaultAddr].
	Addr string
	// Listener is used instead of listening at Addr, where its address must be known
	// before the server is there. It is closed with the server. Defaults to none.
	Listener net.Listener
	// TLS makes the server speak TLS. Its zero value is plain text.
	TLS TLSConfig
	// Token is what callers must send as "Authorization: Bearer TOKEN", to
	// everything but the health endpoints; it has [RoleAdmin], in all apps. Empty,
	// and without Tokens: no token is asked for.
	Token string
	// Tokens are further ones, each with a role. Defaults to none.
	Tokens []Token
	// Insecure permits to listen on any address without a token or client
	// certificates, and takes requests for any host name.
	Insecure bool
	// AllowedOrigins are the origins whose web pages may call the server:
	// "https://app.example.com", or "*" for all. Defaults to none.
	AllowedOrigins []string

	// Metrics is filled with what happens here, and served at /metrics.
	// Defaults to a fresh one.
	Metrics *metrics.Metrics
	// Spans records the spans of requests. Defaults to none.
	Spans *spans.Recorder
	// Peers makes this a host of a cluster. Defaults to none: it is alone.
	Peers *Peers
	// Logger defaults to [slog.Default].
	Logger *slog.Logger

	// MaxPayloadBytes is the largest payload read from a request, to be set to
	// the largest that any type accepts; smaller limits are the host's to
	// enforce. Defaults to [DefaultMaxPayloadBytes].
	MaxPayloadBytes int64
	// MaxModuleBytes is the largest module that Upload takes. Defaults to
	// [DefaultMaxModuleBytes].
	MaxModuleBytes int64
	// TempFile makes the file that an upload waits in. It goes when it is closed.
	// Defaults to one in the system's folder for such files.
	TempFile func() (*os.File, error)
	// MaxStreamsBytes bounds what all of them have in flight together, with the
	// messages that have arrived in part. A stream with nothing else in flight may
	// have a message of 64 KiB, and an invocation, all the same. Defaults to
	// [DefaultMaxStreamsBytes].
	MaxStreamsBytes int64
	// MaxRequestsBytes bounds, of all other requests together, what is read of
	// their bodies until they are answered, and by itself what is written and not
	// accepted yet. Apps share it; above an app's share its requests get
	// actor.ErrHostFull. Defaults to [DefaultMaxRequestsBytes].
	MaxRequestsBytes int64
	// CheckCall returns an error if the memory of calls has no room now for a call of an app with so
	// many bytes; for an empty app, if it has no room for such a call of any app. It is called before
	// a body of more than 4 KiB is read. Defaults to no check.
	CheckCall func(app string, bytes int64) error
	// MaxConnections bounds the connections of clients, and of hosts that come to the same
	// address. One address may have at most seven times what is free. Connections beyond the
	// bound are closed. Defaults to [DefaultMaxConnections].
	MaxConnections int
	// MaxSubscriptions bounds the subscriptions of clients to events of actors, which apps share.
	// Defaults to [DefaultMaxSubscriptions].
	MaxSubscriptions int
	// SubscriberHeartbeat is how often each side of ReminderService.Connect must be heard of; after
	// three times as long without a frame a stream is given up. Defaults to
	// [DefaultSubscriberHeartbeat].
	SubscriberHeartbeat time.Duration
	// Bounds are what only tests have needed to change.
	Bounds Bounds
	// ShowStacks sends the Wasm stack of a guest that trapped to its caller.
	ShowStacks bool
}

// TLSConfig names files in PEM form. They are read once, by [NewListeners].
type TLSConfig struct {
	// CertFile is the server's certificate with its chain; KeyFile its private
	// key. Both or neither.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities one of which must have signed every
	// client's certificate. Empty: clients need none.
	ClientCAFile string
}

// WithDefaults returns a copy with every unset optional field at its default.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, DefaultAddr)
	c.MaxPayloadBytes = cmp.Or(c.MaxPayloadBytes, DefaultMaxPayloadBytes)
	c.MaxModuleBytes = cmp.Or(c.MaxModuleBytes, DefaultMaxModuleBytes)
	if c.TempFile == nil {
		c.TempFile = UnnamedFile
	}
	c.MaxStreamsBytes = cmp.Or(c.MaxStreamsBytes, DefaultMaxStreamsBytes)
	c.MaxRequestsBytes = cmp.Or(c.MaxRequestsBytes, DefaultMaxRequestsBytes)
	c.MaxConnections = cmp.Or(c.MaxConnections, DefaultMaxConnections)
	c.MaxSubscriptions = cmp.Or(c.MaxSubscriptions, DefaultMaxSubscriptions)
	c.SubscriberHeartbeat = cmp.Or(c.SubscriberHeartbeat, DefaultSubscriberHeartbeat)
	c.Bounds = c.Bounds.withDefaults(c.MaxModuleBytes)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Metrics == nil {
		c.Metrics = metrics.New()
	}
	return c
}

func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxPayloadBytes", c.MaxPayloadBytes},
		{"MaxModuleBytes", c.MaxModuleBytes},
		{"MaxStreamsBytes", c.MaxStreamsBytes},
		{"MaxRequestsBytes", c.MaxRequestsBytes},
		{"MaxConnections", int64(c.MaxConnections)},
		{"MaxSubscriptions", int64(c.MaxSubscriptions)},
		{"SubscriberHeartbeat", int64(c.SubscriberHeartbeat)},
	} {
		if f.value < 0 {
			return fmt.Errorf("server: Config.%s is negative; give a positive one, or 0 for the default", f.name)
		}
	}
	if err := validateTokens(c.Token, c.tokens()); err != nil {
		return err
	}
	for _, o := range c.AllowedOrigins {
		if err := validateOrigin(o); err != nil {
			return err
		}
	}
	if err := c.Peers.validate(c); err != nil {
		return err
	}
	return c.validateListener()
}

// tokens are all that the server takes.
func (c Config) tokens() []Token {
	all := c.Tokens
	if c.Token != "" {
		all = append([]Token{{Name: primaryToken, Secret: c.Token, Role: RoleAdmin}}, all...)
	}
	return all
}

func validateOrigin(o string) error {
	if o == "*" {
		return nil
	}
	u, err := url.Parse(o)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("server: Config.AllowedOrigins has %q; write an origin as a browser sends it, like https://app.example.com, or *", o)
	}
	return nil
}

// validateListener keeps the server from being reachable by others without
// anybody having decided it.
func (c Config) validateListener() error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("server: Config.Addr %q is not of the form HOST:PORT: %w", c.Addr, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("server: Config.Addr %q has no port number; give one of 0 to 65535", c.Addr)
	}
	switch {
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return errors.New("server: Config.TLS has only one of CertFile and KeyFile; give both")
	case c.TLS.ClientCAFile != "" && c.TLS.CertFile == "":
		return errors.New("server: Config.TLS.ClientCAFile needs CertFile and KeyFile, since client certificates are part of TLS")
	}
	if c.authenticated() || c.Insecure || isLoopbackName(host) {
		return nil
	}
	return fmt.Errorf("server: %s can be reached from other machines; give a token that callers must send, "+
		"or client certificates (TLS.ClientCAFile), or permit it with Insecure", c.Addr)
}

// authenticated reports whether callers must prove who they are.
func (c Config) authenticated() bool { return len(c.tokens()) > 0 || c.TLS.ClientCAFile != "" }

// isLoopbackName reports whether host, without a port, names this machine to
// itself. Other names are not looked up: what they resolve to can change.
func isLoopbackName(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// load reads the certificates; nil when none are configured.
func (t TLSConfig) load() (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("server: load certificate: %w", err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if t.ClientCAFile == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("server: load client authorities: %w", err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("server: load client authorities: %s has no certificate in PEM form", t.ClientCAFile)
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	return conf, nil
}

// UnnamedFile makes a file that goes when it is closed.
func UnnamedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "greenroom-upload-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

// Peers makes the server that of a host of a cluster: it takes what other hosts send.
type Peers struct {
	// Addr is where the other hosts are listened to, HOST:PORT. Empty: where clients
	// are; hosts ask for the cluster's name, which no client does.
	Addr string
	// Listener is used instead of listening at Addr. Defaults to none.
	Listener net.Listener
	// Credentials prove that a peer belongs to the cluster. Without them peers speak
	// plain text and are admitted as callers of the API are, with an admin's token where
	// tokens are asked for: for loopback, or where Insecure lets everybody in.
	Credentials *routing.Credentials
	// Cluster is the cluster's name. Required.
	Cluster string
}

func (p *Peers) validate(c Config) error {
	switch {
	case p == nil:
		return nil
	case p.Cluster == "":
		return errors.New("server: Config.Peers.Cluster is empty; give the cluster's name")
	}
	addr := c.Addr
	if p.Addr != "" {
		addr = p.Addr
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("server: Config.Peers.Addr %q is not of the form HOST:PORT: %w", p.Addr, err)
	}
	if p.Credentials == nil && !c.Insecure && !isLoopbackName(host) {
		return fmt.Errorf("server: other hosts reach this one at %s, from other machines too: hosts must prove that they belong to the cluster; "+
			"give all of them the same key with --cluster-key-file, or certificates with --cluster-cert, --cluster-cert-key and --cluster-ca; a server that is alone may let them in at a loopback address, --cluster-listen 127.0.0.1:0", addr)
	}
	return nil
}
