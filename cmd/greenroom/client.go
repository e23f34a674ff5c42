package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// apiTimeout bounds the calls of commands that have no --timeout.
const apiTimeout = 30 * time.Second

// api is the server that the command works with.
type api struct {
	actors  greenroomv1connect.ActorServiceClient
	modules greenroomv1connect.ModuleServiceClient
	// uploads is modules over HTTP/2: Upload streams both ways, which HTTP/1.1
	// cannot do.
	uploads   greenroomv1connect.ModuleServiceClient
	logs      greenroomv1connect.LogServiceClient
	settings  greenroomv1connect.SettingsServiceClient
	cluster   greenroomv1connect.ClusterServiceClient
	status    greenroomv1connect.StatusServiceClient
	reminders greenroomv1connect.ReminderServiceClient
	// http and url are for health, which is plain HTTP.
	http *http.Client
	url  string
}

// endpoint is how a server is reached.
type endpoint struct {
	server, token                 string
	caCert, clientCert, clientKey string // files
}

// api connects lazily: nothing is sent before the first call.
func (e *endpoint) api() (*api, error) {
	base, err := serverURL(e.server)
	if err != nil {
		return nil, err
	}
	e.server = base
	tlsConfig, err := e.tlsConfig()
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tlsConfig
	// All but uploads may pass proxies that know HTTP/1.1 only. Uploads without
	// TLS have nothing to negotiate with and begin with HTTP/2 at once.
	plain, h2 := t, t.Clone()
	h2.Protocols = new(http.Protocols)
	h2.Protocols.SetHTTP2(true)
	h2.Protocols.SetUnencryptedHTTP2(true)
	auth := connect.WithInterceptors(bearer(e.token))
	client := &http.Client{Transport: plain}
	return &api{
		actors:    greenroomv1connect.NewActorServiceClient(client, base, auth),
		modules:   greenroomv1connect.NewModuleServiceClient(client, base, auth),
		uploads:   greenroomv1connect.NewModuleServiceClient(&http.Client{Transport: h2}, base, auth),
		logs:      greenroomv1connect.NewLogServiceClient(client, base, auth),
		settings:  greenroomv1connect.NewSettingsServiceClient(client, base, auth),
		cluster:   greenroomv1connect.NewClusterServiceClient(client, base, auth),
		status:    greenroomv1connect.NewStatusServiceClient(client, base, auth),
		reminders: greenroomv1connect.NewReminderServiceClient(client, base, auth),
		http:      client,
		url:       base,
	}, nil
}

// unary calls a method of the API, for [apiTimeout] at most.
func unary[Req, Resp any](ctx context.Context, method func(context.Context, *connect.Request[Req]) (*connect.Response[Resp], error), req *Req) (*Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	resp, err := method(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// serverURL checks and completes what the user gave as the server.
func serverURL(s string) (string, error) {
	full := s
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--server is %q; give a URL such as %s", s, defaultServer)
	}
	return strings.TrimRight(full, "/"), nil
}

func (e *endpoint) tlsConfig() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.caCert != "" {
		pem, err := os.ReadFile(e.caCert)
		if err != nil {
			return nil, fmt.Errorf("read --ca-cert: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--ca-cert %s holds no certificate in PEM", e.caCert)
		}
	}
	switch {
	case e.clientCert == "" && e.clientKey == "":
	case e.clientCert == "" || e.clientKey == "":
		return nil, usagef("--client-cert and --client-key go together; give both")
	default:
		cert, err := tls.LoadX509KeyPair(e.clientCert, e.clientKey)
		if err != nil {
			return nil, fmt.Errorf("load --client-cert: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// bearer is an interceptor that sends a token with every call; an empty one is
// not sent.
type bearer string

func (b bearer) header(h http.Header) {
	if b != "" {
		h.Set("Authorization", "Bearer "+string(b))
	}
}

func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		b.header(req.Header())
		return next(ctx, req)
	}
}

func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		b.header(conn.RequestHeader())
		return conn
	}
}

func (b bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

const defaultServer = "http://127.0.0.1:8080"
