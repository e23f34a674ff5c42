package routing

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// NewHTTPClient returns a client for streams between hosts over HTTP/2: in plain text
// without conf. dial opens its connections; nil: a [net.Dialer] does. A peer that answers
// nothing for timeout, not even pings, is given up.
func NewHTTPClient(conf *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error), timeout time.Duration) *http.Client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: timeout}).DialContext
	}
	t := &http.Transport{
		DialContext:         dial,
		TLSHandshakeTimeout: timeout,
		TLSClientConfig:     conf,
		IdleConnTimeout:     90 * time.Second,
		Protocols:           new(http.Protocols),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: timeout / 3, PingTimeout: timeout - timeout/3},
	}
	if conf != nil {
		t.Protocols.SetHTTP2(true)
	} else {
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Client{Transport: t}
}

// ExplainErrors returns a client whose errors of connecting say what to change, where that
// is known, to make a host of the cluster of this name let this one in.
func ExplainErrors(c *http.Client, cluster string) *http.Client {
	return &http.Client{Transport: explained{c.Transport, cluster}}
}

type explained struct {
	http.RoundTripper
	cluster string
}

// RoundTrip implements [http.RoundTripper].
func (e explained) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := e.RoundTripper.RoundTrip(r)
	if err != nil {
		err = explain(err, e.cluster)
	}
	return res, err
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (e explained) CloseIdleConnections() {
	if c, ok := e.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
