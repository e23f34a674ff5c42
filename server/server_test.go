package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/internal/leaktest"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// fixture is a running server over fakes.
type fixture struct {
	*Server
	host    *fakeHost
	modules *fakeModules
	log     *syncBuffer
	url     string
}

// start runs a server on loopback; change may alter its configuration.
func start(tb testing.TB, change func(*Config)) *fixture {
	tb.Helper()
	f := newFixture(tb, change)
	if err := f.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	stopAtEnd(tb, f)
	scheme := "http://"
	if f.conf.TLS.CertFile != "" {
		scheme = "https://"
	}
	f.url = scheme + f.Addr().String()
	return f
}

// newFixture makes a server that does not run yet.
func newFixture(tb testing.TB, change func(*Config)) *fixture {
	tb.Helper()
	f := &fixture{host: &fakeHost{}, modules: newFakeModules(), log: &syncBuffer{}}
	conf := Config{
		Config:   edge.Config{Addr: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		Backends: rpc.Backends{Host: f.host, Modules: f.modules, Actors: fakeLister(5)},
		// No call with a key is refused because the machine is busy: package standstill tests that.
		Standstill: time.Hour,
	}
	if change != nil {
		change(&conf)
	}
	var err error
	if f.Server, err = New(conf); err != nil {
		tb.Fatal(err)
	}
	return f
}

func stopAtEnd(tb testing.TB, f *fixture) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := f.Stop(ctx); err != nil {
			tb.Errorf("stop: %v", err)
		}
	})
}

// stopTime is how long a server may take to stop: far more than it does, however
// busy the machine is.
const stopTime = 2 * time.Minute

// client speaks HTTP/1.1, or HTTP/2 without TLS.
func client(tb testing.TB, http2 bool) *http.Client {
	tb.Helper()
	p := new(http.Protocols)
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	tr := &http.Transport{Protocols: p}
	tb.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestListeningRule(t *testing.T) {
	tests := []struct {
		addr   string
		change func(*Config)
		ok     bool
	}{
		{"127.0.0.1:0", nil, true},
		{"127.9.9.9:0", nil, true},
		{"[::1]:0", nil, true},
		{"localhost:0", nil, true},
		{":0", nil, false},
		{"0.0.0.0:0", nil, false},
		{"[::]:0", nil, false},
		{"192.0.2.1:0", nil, false},
		{"example.com:0", nil, false},
		{"0.0.0.0:0", func(c *Config) { c.Token = "t" }, true},
		{"0.0.0.0:0", func(c *Config) { c.Insecure = true }, true},
	}
	for _, tt := range tests {
		conf := Config{Config: edge.Config{Addr: tt.addr}, Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0)}}
		if tt.change != nil {
			tt.change(&conf)
		}
		_, err := New(conf)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.addr, err)
		}
		if err != nil {
			for _, way := range []string{"token", "client certificates", "Insecure"} {
				if !strings.Contains(err.Error(), way) {
					t.Errorf("%s: the error does not name %s: %v", tt.addr, way, err)
				}
			}
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Config: edge.Config{Addr: "127.0.0.1:0"}, Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0)}}
	tests := []struct {
		name   string
		change func(*Config)
	}{
		{"Host", func(c *Config) { c.Host = nil }},
		{"Modules", func(c *Config) { c.Modules = nil }},
		{"Actors", func(c *Config) { c.Actors = nil }},
		{"Addr", func(c *Config) { c.Addr = "localhost" }},
		{"Addr", func(c *Config) { c.Addr = "127.0.0.1:http" }},
		{"Token", func(c *Config) { c.Token = "a b" }},
		{"Token", func(c *Config) { c.Token = "ü" }},
		{"AllowedOrigins", func(c *Config) { c.AllowedOrigins = []string{"example.com"} }},
		{"AllowedOrigins", func(c *Config) { c.AllowedOrigins = []string{"https://example.com/"} }},
		{"MaxPayloadBytes", func(c *Config) { c.MaxPayloadBytes = -1 }},
		{"MaxRequestsBytes", func(c *Config) { c.MaxRequestsBytes = -1 }},
		{"KeyFile", func(c *Config) { c.TLS.CertFile = "x" }},
		{"CertFile", func(c *Config) { c.TLS.ClientCAFile = "x" }},
		{"certificate", func(c *Config) { c.TLS = edge.TLSConfig{CertFile: "/none", KeyFile: "/none"} }},
	}
	for _, tt := range tests {
		conf := good
		tt.change(&conf)
		if _, err := New(conf); err == nil || !strings.Contains(err.Error(), tt.name) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestLifecycle(t *testing.T) {
	conf := Config{Config: edge.Config{Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}, Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0)}}
	s, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != nil {
		t.Error("an address before Start")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("a second Start succeeded")
	}
	addr := s.Addr().String()
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("listens after Stop")
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("Start after Stop succeeded")
	}

	conf.Metrics = nil
	if s, err = New(conf); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop before Start: %v", err)
	}
}

func TestStartNamesAnAddressThatIsTaken(t *testing.T) {
	f := start(t, nil)
	conf := f.conf
	conf.Addr, conf.Metrics = f.Addr().String(), nil
	s, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), conf.Addr) {
		t.Errorf("got %v", err)
	}
}

// TestStopDrains: a call in flight is finished, and then the server is gone.
func TestStopDrains(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		f := start(t, nil)
		entered, release, _ := f.host.blocks()
		answers := make(chan int, 1)
		c := client(t, http2)
		go func() {
			res, err := c.Post(f.url+actorPath(key("a"), "Add"), "application/json", strings.NewReader("1"))
			if err != nil {
				t.Error(err)
				answers <- 0
				return
			}
			_ = res.Body.Close()
			answers <- res.StatusCode
		}()
		<-entered

		stopped := make(chan error, 1)
		go func() { stopped <- f.Stop(context.Background()) }()
		watchUntilStopping(f)
		select {
		case err := <-stopped:
			t.Fatalf("stopped while a call was in flight: %v", err)
		default:
		}
		close(release)
		if status := <-answers; status != http.StatusOK {
			t.Errorf("http2=%v: the call in flight got %d", http2, status)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

// TestStopIsBounded: when its context ends, calls are canceled and cut off.
func TestStopIsBounded(t *testing.T) {
	f := start(t, nil)
	entered, _, ended := f.host.blocks()
	c := client(t, false)
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		if res, err := c.Post(f.url+actorPath(key("a"), "Add"), "application/json", strings.NewReader("1")); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop returned %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	<-cut
}

// watchUntilStopping returns when health says that the server is stopping.
func watchUntilStopping(f *fixture) {
	for {
		now := f.rpc.Health.Now()
		if now.Stopped {
			return
		}
		<-now.Changed
	}
}
