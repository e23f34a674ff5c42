package server

import (
	"context"
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
)

// Defaults of [Config].
const (
	DefaultAddr                       = "127.0.0.1:8080"
	DefaultMaxPayloadBytes      int64 = 4 << 20
	DefaultMaxModuleBytes       int64 = 32 << 20
	DefaultMaxCompiles                = 4
	DefaultUploadTimeout              = 5 * time.Minute
	DefaultMaxStreamInvocations       = 4096
	DefaultMaxStreamBytes       int64 = 32 << 20
	DefaultMaxStreams                 = 1000
	DefaultMaxStreamsBytes      int64 = 256 << 20
	DefaultMaxRequestsBytes     int64 = 256 << 20
	DefaultReadHeaderTimeout          = 10 * time.Second
	DefaultBodyTimeout                = time.Minute
	DefaultIdleTimeout                = 3 * time.Minute
	DefaultHealthInterval             = 2 * time.Second
)

// Config is what a [Server] is made of. The zero value of an optional field
// means its default.
type Config struct {
	// Addr is the host and port to listen on; port 0 takes a free one. Any
	// address but loopback also needs a token, TLS.ClientCAFile or Insecure.
	// Defaults to [DefaultAddr].
	Addr string
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

	// Host runs turns. Required.
	Host Host
	// Modules keeps modules and deployments. Required.
	Modules Modules
	// Actors lists actors. Required.
	Actors Lister
	// Settings keeps what apps were given. Without it there is no SettingsService.
	Settings Settings
	// Check reports whether the server's store works now; health follows it.
	// Defaults to always.
	Check func(context.Context) error
	// Metrics is filled with what happens here, and served at /metrics.
	// Defaults to a fresh one.
	Metrics *Metrics
	// Logs are what guests logged, served by LogService. Defaults to none.
	Logs *Logs
	// Gauges are served with Metrics. Defaults to none.
	Gauges Gauges
	// Peers makes this a host of a cluster. Defaults to none: it is alone.
	Peers *Peers
	// Calls is told of what is under way. Defaults to nobody.
	Calls Calls
	// Logger defaults to [slog.Default].
	Logger *slog.Logger

	// MaxPayloadBytes is the largest payload read from a request, to be set to
	// the largest that any type accepts; smaller limits are the host's to
	// enforce. Defaults to [DefaultMaxPayloadBytes].
	MaxPayloadBytes int64
	// MaxModuleBytes is the largest module that Upload takes. Defaults to
	// [DefaultMaxModuleBytes].
	MaxModuleBytes int64
	// MaxCompiles is how many modules are checked and compiled at once; others wait
	// with what was uploaded. Defaults to [DefaultMaxCompiles].
	MaxCompiles int
	// MaxUploadsBytes bounds what has been received of all uploads together, until
	// each is answered. An upload may have 1 MiB all the same. Defaults to four
	// times MaxModuleBytes.
	MaxUploadsBytes int64
	// UploadTimeout is how long a client may take to send a module. Defaults to
	// [DefaultUploadTimeout].
	UploadTimeout time.Duration
	// MaxStreamInvocations is how many invocations one InvokeStream may have in
	// flight: begun, or answered with the reply not yet written. Defaults to
	// [DefaultMaxStreamInvocations].
	MaxStreamInvocations int
	// MaxStreamBytes bounds their payloads and replies; a single invocation may
	// be larger. Defaults to [DefaultMaxStreamBytes].
	MaxStreamBytes int64
	// MaxStreams is how many InvokeStreams may be open at once. Defaults to
	// [DefaultMaxStreams].
	MaxStreams int
	// MaxStreamsBytes bounds what all of them have in flight together, with the
	// messages that have arrived in part. A stream with nothing else in flight may
	// have a message of 64 KiB, and an invocation, all the same. Defaults to
	// [DefaultMaxStreamsBytes].
	MaxStreamsBytes int64
	// MaxRequestsBytes bounds, of all other requests together, what is read of
	// their bodies until they are answered, and by itself what is written and not
	// accepted yet. Above it requests get actor.ErrHostFull. Defaults to [DefaultMaxRequestsBytes].
	MaxRequestsBytes int64
	// ReadHeaderTimeout is how long a client may take to send the headers of a
	// request. Defaults to [DefaultReadHeaderTimeout].
	ReadHeaderTimeout time.Duration
	// BodyTimeout is how long a client may take to send a request's body; for
	// streams, each message. It also bounds how long a client may take to
	// accept what is written to it. An InvokeStream may be silent for as long
	// as it likes, and has it for each message that is written to it. Defaults to [DefaultBodyTimeout].
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection without requests is kept. Defaults
	// to [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// HealthInterval is how often Check is called. Defaults to
	// [DefaultHealthInterval].
	HealthInterval time.Duration
	// ShowStacks sends the Wasm stack of a guest that trapped to its caller.
	ShowStacks bool
}

// TLSConfig names files in PEM form. They are read once, by [New].
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
	setDefault(&c.Addr, DefaultAddr)
	setDefault(&c.MaxPayloadBytes, DefaultMaxPayloadBytes)
	setDefault(&c.MaxModuleBytes, DefaultMaxModuleBytes)
	setDefault(&c.MaxCompiles, DefaultMaxCompiles)
	setDefault(&c.MaxUploadsBytes, 4*c.MaxModuleBytes)
	setDefault(&c.UploadTimeout, DefaultUploadTimeout)
	setDefault(&c.MaxStreamInvocations, DefaultMaxStreamInvocations)
	setDefault(&c.MaxStreamBytes, DefaultMaxStreamBytes)
	setDefault(&c.MaxStreams, DefaultMaxStreams)
	setDefault(&c.MaxStreamsBytes, DefaultMaxStreamsBytes)
	setDefault(&c.MaxRequestsBytes, DefaultMaxRequestsBytes)
	setDefault(&c.ReadHeaderTimeout, DefaultReadHeaderTimeout)
	setDefault(&c.BodyTimeout, DefaultBodyTimeout)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.HealthInterval, DefaultHealthInterval)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Check == nil {
		c.Check = func(context.Context) error { return nil }
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Logs == nil {
		c.Logs = NewLogs()
	}
	if c.Calls == nil {
		c.Calls = nobody{}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	switch {
	case c.Host == nil:
		return errors.New("server: Config.Host is nil; give what runs turns")
	case c.Modules == nil:
		return errors.New("server: Config.Modules is nil; give the module service")
	case c.Actors == nil:
		return errors.New("server: Config.Actors is nil; give what lists actors")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxPayloadBytes", c.MaxPayloadBytes},
		{"MaxModuleBytes", c.MaxModuleBytes},
		{"MaxCompiles", int64(c.MaxCompiles)},
		{"MaxUploadsBytes", c.MaxUploadsBytes},
		{"UploadTimeout", int64(c.UploadTimeout)},
		{"MaxStreamInvocations", int64(c.MaxStreamInvocations)},
		{"MaxStreamBytes", c.MaxStreamBytes},
		{"MaxStreams", int64(c.MaxStreams)},
		{"MaxStreamsBytes", c.MaxStreamsBytes},
		{"MaxRequestsBytes", c.MaxRequestsBytes},
		{"ReadHeaderTimeout", int64(c.ReadHeaderTimeout)},
		{"BodyTimeout", int64(c.BodyTimeout)},
		{"IdleTimeout", int64(c.IdleTimeout)},
		{"HealthInterval", int64(c.HealthInterval)},
	} {
		if f.value < 0 {
			return fmt.Errorf("server: Config.%s is negative; give a positive one, or 0 for the default", f.name)
		}
	}
	if err := c.validateTokens(); err != nil {
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
