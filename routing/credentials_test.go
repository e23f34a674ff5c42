package routing_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server"
)

// keyFile writes a cluster key.
func keyFile(tb testing.TB, key string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

func credentials(tb testing.TB, key, cluster string) *routing.Credentials {
	tb.Helper()
	c, err := routing.CredentialsFromKey(keyFile(tb, key), cluster)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// secured is a member that speaks TLS with others.
func secured(c *routing.Credentials, cluster string) setup {
	return setup{
		router: func(r *routing.Config) {
			r.TLS, r.Cluster, r.MaxWait = c.Client(), cluster, 300*time.Millisecond
		},
		server: func(s *server.Config) { s.Peers.Credentials, s.Peers.Cluster = c, cluster },
	}
}

var (
	oneKey   = strings.Repeat("k", 32)
	otherKey = strings.Repeat("o", 32)
)

// TestClusterKey: hosts with the same key and cluster name let each other in; others are
// told what to change.
func TestClusterKey(t *testing.T) {
	insecure := setup{router: func(r *routing.Config) { r.MaxWait = 300 * time.Millisecond }}
	for name, tt := range map[string]struct {
		other setup
		why   string // empty: they get on
	}{
		"the same key":           {secured(credentials(t, "\n"+oneKey+" \n", "test"), "test"), ""},
		"another key":            {secured(credentials(t, otherKey, "test"), "test"), "--cluster-key-file"},
		"another cluster's name": {secured(credentials(t, oneKey, "other"), "other"), "--cluster-"},
		"plain text":             {insecure, "plain text"},
	} {
		tb := newTable()
		a, b := tb.join(t, "host-a", secured(credentials(t, oneKey, "test"), "test")), tb.join(t, "host-b", tt.other)
		tb.update(func() { tb.owners["a"], tb.owners["b"] = a.id, b.id })
		for from, id := range map[*member]string{a: "b", b: "a"} {
			_, err := from.router.Invoke(t.Context(), call(id))
			u := from.router.Unreachable()
			switch {
			case tt.why == "" && err != nil:
				t.Errorf("%s: %v, %+v", name, err, u)
			case tt.why != "" && (!errors.Is(err, actor.ErrNoOwner) || len(u) != 1):
				t.Errorf("%s: %v, %+v", name, err, u)
			case tt.why != "" && !strings.Contains(u[0].Why, tt.why) && !strings.Contains(u[0].Why, "--cluster-key-file"):
				t.Errorf("%s: %s does not say what to change", name, u[0].Why)
			}
		}
	}
}

// TestWrongKeyIsLogged: a host that is asked by one with another key, or without any, says
// so in its log, once, and what to change; on a listener that clients share and on its own.
func TestWrongKeyIsLogged(t *testing.T) {
	for name, own := range map[string]bool{"a listener with clients": false, "one for hosts": true} {
		for key, other := range map[string]setup{
			"another key": secured(credentials(t, otherKey, "test"), "test"),
			"no key":      {router: func(r *routing.Config) { r.MaxWait = 300 * time.Millisecond }},
		} {
			if own && key == "no key" {
				continue // no TLS at all: it is not even a request there
			}
			t.Run(name+", "+key, func(t *testing.T) {
				logs := &lockedBuffer{}
				right := secured(credentials(t, oneKey, "test"), "test")
				change := right.server
				right.server = func(s *server.Config) {
					change(s)
					if s.Logger = slog.New(slog.NewTextHandler(logs, nil)); own {
						s.Addr, s.Peers.Addr = "127.0.0.1:0", s.Addr
					}
				}
				tb := newTable()
				a, b := tb.join(t, "host-a", right), tb.join(t, "host-b", other)
				tb.update(func() { tb.owners["a"] = a.id })
				for range 3 { // each of which connects several times
					if _, err := b.router.Invoke(t.Context(), call("a")); !errors.Is(err, actor.ErrNoOwner) {
						t.Error(err)
					}
				}
				eventually(t, "it is logged", func() bool { return strings.Contains(logs.String(), "level=WARN") })
				if n := strings.Count(logs.String(), "a host was not let into the cluster; give all hosts the same --cluster-name and --cluster-key-file"); n != 1 {
					t.Errorf("%d warnings:\n%s", n, logs.String())
				}
			})
		}
	}
}

// TestClusterNames: two clusters that meet without certificates refuse each other.
func TestClusterNames(t *testing.T) {
	tb := newTable()
	short := func(cluster string) setup {
		return setup{router: func(r *routing.Config) { r.Cluster, r.MaxWait = cluster, 300*time.Millisecond }}
	}
	a, b := tb.join(t, "host-a", short("one")), tb.join(t, "host-b", short("two"))
	tb.update(func() { tb.owners["b"] = b.id })
	if _, err := a.router.Invoke(t.Context(), call("b")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("a call to another cluster: %v", err)
	}
	if u := a.router.Unreachable(); len(u) != 1 || !strings.Contains(u[0].Why, "--cluster-name") {
		t.Errorf("%+v", u)
	}
}

// TestProtocols: the highest common one is used, and without one nothing is.
func TestProtocols(t *testing.T) {
	tb := newTable()
	speaks := func(lowest, highest int) setup {
		return setup{router: func(r *routing.Config) {
			r.MinProtocol, r.MaxProtocol, r.MaxWait = lowest, highest, 300*time.Millisecond
		}}
	}
	a := tb.join(t, "host-a", speaks(2, 3))
	for _, tt := range []struct {
		lowest, highest int
		ok              bool
	}{{1, 2, true}, {3, 4, true}, {1, 1, false}, {4, 5, false}} {
		b := tb.join(t, actor.HostID(string(rune('a'+tt.lowest))+string(rune('a'+tt.highest))), speaks(tt.lowest, tt.highest))
		tb.update(func() { tb.owners["b"] = b.id })
		_, err := a.router.Invoke(t.Context(), call("b"))
		if (err == nil) != tt.ok {
			t.Errorf("2 to 3 with %d to %d: %v", tt.lowest, tt.highest, err)
		}
	}
	for _, u := range a.router.Unreachable() {
		if !strings.Contains(u.Why, "upgrade the older one") {
			t.Errorf("%+v", u)
		}
	}
}

func TestBadCredentials(t *testing.T) {
	if _, err := routing.CredentialsFromKey(keyFile(t, "short"), "test"); err == nil || !strings.Contains(err.Error(), "openssl") {
		t.Errorf("a short key: %v", err)
	}
	if _, err := routing.CredentialsFromKey(filepath.Join(t.TempDir(), "none"), "test"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no key: %v", err)
	}
	if _, err := routing.CredentialsFromFiles(routing.CredentialFiles{Cert: "none"}, "test"); err == nil {
		t.Error("no certificate")
	}
}
