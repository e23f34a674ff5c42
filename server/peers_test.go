package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
)

// noCalls refuses every hello.
type noCalls struct{}

func (noCalls) Unreachable() []routing.Unreachable { return make([]routing.Unreachable, 2) }

func (noCalls) Accept(*greenroomv1.ExchangeHello) (*routing.Accepted, *greenroomv1.ExchangeHello, error) {
	return nil, nil, errors.New("reached")
}

func (noCalls) CountTurns(context.Context, actor.HostID, string) (*greenroomv1.ExchangeTurnsResponse, error) {
	return nil, errors.New("no turns")
}

func (noCalls) CancelQueued(context.Context, actor.HostID, actor.Key) (host.Cancelled, error) {
	return host.Cancelled{}, errors.New("no queues")
}

func (noCalls) Reach(context.Context, []actor.HostID) []routing.Reach { return nil }

func (noCalls) TailLogs(context.Context, actor.HostID, *greenroomv1.TailRequest, func(*greenroomv1.TailResponse) error) error {
	return errors.New("no logs")
}

func clusterCredentials(tb testing.TB, key string) *routing.Credentials {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat(key, 32)), 0o600); err != nil {
		tb.Fatal(err)
	}
	c, err := routing.CredentialsFromKey(file, "test")
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// get asks over a connection of its own, and returns the status and the body, or the
// error.
func get(tb testing.TB, url string, conf *tls.Config) string {
	tb.Helper()
	t := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body := make([]byte, 4096)
	n, _ := res.Body.Read(body)
	return res.Status + " " + string(body[:n])
}

// TestPeersAndClients: hosts of the cluster get to what hosts say to each other, and to
// nothing else; clients get to everything else, on the same port or on another.
func TestPeersAndClients(t *testing.T) {
	ours, theirs := clusterCredentials(t, "k"), clusterCredentials(t, "o")
	between := greenroomv1connect.InterconnectServiceViewProcedure
	api := greenroomv1connect.ActorServiceGetActorProcedure
	for name, tt := range map[string]struct{ apart bool }{"one port": {false}, "a port of their own": {true}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *Config) {
				c.Peers, c.Interconnect = &edge.Peers{Cluster: "test", Credentials: ours}, noCalls{}
				if tt.apart {
					c.Peers.Addr = "127.0.0.1:0"
				}
			})
			peers := f.listeners.PeersAddr().String()
			if got := get(t, "https://"+peers+between, ours.Client()); !strings.HasPrefix(got, "500") {
				t.Errorf("a host of the cluster: %s", got)
			}
			if got := get(t, "https://"+peers+api, ours.Client()); !strings.Contains(got, "404") {
				t.Errorf("a host of the cluster that calls the API: %s", got)
			}
			if got := get(t, "https://"+peers+between, theirs.Client()); !strings.Contains(got, "certificate") {
				t.Errorf("a host of another cluster: %s", got)
			}
			anonymous := ours.Client()
			anonymous.Certificates = nil
			// In TLS 1.3 a client may write before it is told why it was refused.
			if got := get(t, "https://"+peers+between, anonymous); !strings.HasPrefix(got, "Post ") {
				t.Errorf("without a certificate: %s", got)
			}
			if got := get(t, f.url+between, nil); !strings.HasPrefix(got, "403") && !tt.apart || tt.apart && !strings.HasPrefix(got, "404") {
				t.Errorf("a client that speaks as a host: %s", got)
			}
			if got := get(t, f.url+api, nil); !strings.HasPrefix(got, "400") {
				t.Errorf("a client: %s", got)
			}
		})
	}
}

// TestPeersBesideTLS: the API's certificate is for clients, the cluster's for hosts.
func TestPeersBesideTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign("server", a.cert, a.key)
	ours := clusterCredentials(t, "k")
	f := start(t, func(c *Config) {
		c.TLS = edge.TLSConfig{CertFile: a.file("server.pem"), KeyFile: a.file("server.key")}
		c.Peers, c.Interconnect = &edge.Peers{Cluster: "test", Credentials: ours}, noCalls{}
	})
	between, api := f.url+greenroomv1connect.InterconnectServiceViewProcedure, f.url+greenroomv1connect.ActorServiceGetActorProcedure
	if got := get(t, between, ours.Client()); !strings.HasPrefix(got, "500") {
		t.Errorf("a host of the cluster: %s", got)
	}
	if got := get(t, api, ours.Client()); !strings.HasPrefix(got, "404") {
		t.Errorf("a host of the cluster that calls the API: %s", got)
	}
	clients := a.client(true, "")
	if got := do(t, clients, "POST", api, "{}", "Content-Type", "application/json"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a client: %s", got.Status)
	}
	if got := do(t, clients, "POST", between, "{}", "Content-Type", "application/json"); got.StatusCode != http.StatusForbidden {
		t.Errorf("a client that speaks as a host: %s", got.Status)
	}
}

// TestPeersWithoutCertificates are admitted like callers of the API, as admins.
func TestPeersWithoutCertificates(t *testing.T) {
	f := start(t, func(c *Config) {
		withRoles(c)
		c.Peers, c.Interconnect = &edge.Peers{Cluster: "test"}, noCalls{}
	})
	for token, want := range map[string]string{"": "401", "invoke": "403", "admin-mine": "403", "admin": "500"} {
		got := do(t, client(t, false), "POST", f.url+greenroomv1connect.InterconnectServiceViewProcedure, "{}",
			"Content-Type", "application/json", "Authorization", "Bearer "+token)
		if strconv.Itoa(got.StatusCode) != want {
			t.Errorf("with the token %q: %d, want %s", token, got.StatusCode, want)
		}
	}
}

// TestPeersBeyondLoopback need credentials.
func TestPeersBeyondLoopback(t *testing.T) {
	conf := Config{Config: edge.Config{Addr: "0.0.0.0:0", Token: "a-token-that-is-long", Peers: &edge.Peers{Cluster: "test"}}, Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0), Interconnect: noCalls{}}}
	if _, err := New(conf); err == nil || !strings.Contains(err.Error(), "--cluster-key-file") {
		t.Errorf("without credentials: %v", err)
	}
	conf.Peers.Addr = "127.0.0.1:0"
	if _, err := New(conf); err != nil {
		t.Errorf("apart, on loopback: %v", err)
	}
	conf.Peers.Addr, conf.Peers.Credentials = "", clusterCredentials(t, "k")
	if _, err := New(conf); err != nil {
		t.Errorf("with credentials: %v", err)
	}
}

// TestPeersListenerBoundsConnections: where hosts are listened to apart, one address gets no more
// than its share of their connections, and the next is closed.
func TestPeersListenerBoundsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1024
		hosts := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
		_, clients := startInBubble(t, func(c *Config) {
			c.Peers, c.Interconnect = &edge.Peers{Cluster: "test", Addr: "127.0.0.1:0", Listener: hosts}, noCalls{}
		})
		refused := func() string {
			_, text, _ := strings.Cut(do(t, clients.client(t, false), "GET", "http://localhost/metrics", "").body, "\ngreenroom_connections_refused_total ")
			n, _, _ := strings.Cut(text, "\n")
			return n
		}
		for range most - most/8 {
			hosts.conn(t)
		}
		synctest.Wait()
		if n := refused(); n != "0" {
			t.Fatalf("%s connections were refused within the share", n)
		}
		if n, err := hosts.conn(t).Read(make([]byte, 1)); err == nil {
			t.Errorf("a connection beyond the share got %d bytes", n)
		}
		if n := refused(); n != "1" {
			t.Errorf("%s refused connections are counted", n)
		}
	})
}

// TestSilentConnections do not keep others from being accepted, nor the server from
// stopping.
func TestSilentConnections(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Peers, c.Interconnect = &edge.Peers{Cluster: "test", Credentials: clusterCredentials(t, "k")}, noCalls{}
	})
	for range 3 {
		conn, err := net.Dial("tcp", f.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if got := get(t, f.url+greenroomv1connect.ActorServiceGetActorProcedure, nil); !strings.HasPrefix(got, "400") {
		t.Errorf("beside silent connections: %s", got)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}
