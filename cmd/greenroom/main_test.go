package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/cli.md")

// patience is far more than anything takes here, on the busiest machine.
const patience = 10 * time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"greenroom": main})
}

// TestScripts runs the command line as its users do: each script is a process
// of its own, against a real server.
func TestScripts(t *testing.T) {
	userHome, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	// Compiling a module of standard Go takes seconds, so all servers of all runs
	// share what was compiled.
	userCache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	compiled := filepath.Join(userCache, "greenroom-test", "wasm")
	canBuild := map[string]bool{}
	for _, st := range guestbuild.Probe(t.Context()) {
		canBuild[st.Toolchain] = st.Err == nil
	}
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			// Compilers keep their caches, and find nothing on the network.
			for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOROOT"} {
				env.Setenv(name, goEnv(t, name))
			}
			for name, folder := range map[string]string{"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"} {
				home := os.Getenv(name)
				if home == "" {
					home = filepath.Join(userHome, folder)
				}
				env.Setenv(name, home)
			}
			if cache, err := os.UserCacheDir(); err == nil {
				env.Setenv("XDG_CACHE_HOME", cache) // TinyGo keeps its C library there
			}
			env.Setenv("REPO", repo) // for what make setup built
			env.Setenv("CARGO_NET_OFFLINE", "true")
			env.Setenv("GREENROOM_CACHE_DIR", compiled)
			env.Setenv("GREENROOM_TEST_COMPILER", os.Getenv("GREENROOM_TEST_COMPILER"))
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOFLAGS", "-mod=mod")
			env.Setenv("GOWORK", "off")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			ok, known := canBuild[cond]
			if !known {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return ok, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":     cmdServer,
			"cluster":    cmdCluster,
			"database":   cmdDatabase,
			"address":    cmdAddress,
			"capture":    cmdCapture,
			"eventually": cmdEventually,
		},
	})
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// logOf returns a log whose warnings and errors are shown with a script that failed.
// They are there when the servers that are started after it have stopped.
func logOf(ts *testscript.TestScript) *slog.Logger {
	var text bytes.Buffer
	ts.Defer(func() { ts.Logf("[the servers' log]\n%s", text.String()) })
	return slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// cmdServer starts a server on the embedded store in the script's folder, and
// names it in GREENROOM_SERVER. With a token, callers must send it.
func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: server [TOKEN]")
	}
	log := logOf(ts)
	cfg := node.Config{
		DataDir:  ts.MkAbs("server-data"),
		CacheDir: ts.Getenv("GREENROOM_CACHE_DIR"),
		Server:   server.Config{Config: edge.Config{Addr: "127.0.0.1:0"}, Standstill: patience},
		Limits:   host.Limits{TurnDeadline: patience}, CompileTime: patience,
		Logger: log,
	}
	if len(args) == 1 {
		cfg.Server.Token = args[0]
	}
	n, err := node.New(cfg)
	ts.Check(err)
	ts.Check(n.Start(context.Background()))
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			ts.Fatalf("stop the server: %v", err)
		}
	})
	ts.Setenv("GREENROOM_SERVER", "http://"+n.Addr().String())
}

// cmdDatabase makes a database of PostgreSQL and names its URL in a variable.
func cmdDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: database VARIABLE")
	}
	ts.Setenv(args[0], newDatabase(ts))
}

// newDatabase returns the URL of a database on a server of its own.
func newDatabase(ts *testscript.TestScript) string {
	db, err := pgtest.Open()
	ts.Check(err)
	ts.Defer(db.Close)
	url, err := db.CreateDatabase(context.Background())
	ts.Check(err)
	return url
}

// cmdCluster starts servers with these names on a database of their own, and names the
// first one in GREENROOM_SERVER. NAME=HOST:PORT advertises that address.
func cmdCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: cluster NAME[=ADVERTISE]...")
	}
	url := newDatabase(ts)
	log := logOf(ts)
	for i, arg := range args {
		name, advertise, _ := strings.Cut(arg, "=")
		n, err := node.New(node.Config{
			StoreURL: url, CacheDir: ts.Getenv("GREENROOM_CACHE_DIR"), Version: "v1.2.3",
			Server: server.Config{Config: edge.Config{Addr: "127.0.0.1:0"}},
			Limits: host.Limits{TurnDeadline: patience}, CompileTime: patience,
			Logger:  log.With("server", name),
			Cluster: &node.ClusterConfig{HostName: name, Advertise: advertise},
		})
		ts.Check(err)
		ts.Check(n.Start(context.Background()))
		ts.Defer(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := n.Stop(ctx); err != nil {
				ts.Logf("stop %s: %v", name, err) // what is broken on purpose may not stop in order
			}
		})
		if i == 0 {
			ts.Setenv("GREENROOM_SERVER", "http://"+n.Addr().String())
		}
	}
}

// cmdCapture keeps what the last command wrote in a variable.
func cmdCapture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// cmdAddress keeps an address that nobody listens on in a variable.
func cmdAddress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: address NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// cmdEventually runs a command until it succeeds, or with ! fails, and its output matches.
func cmdEventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] eventually PATTERN COMMAND...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.After(patience)
	for {
		err := ts.Exec(args[1], args[2:]...)
		if (err != nil) == neg && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%q never ended so with output like %q", args[1:], args[0])
		case <-time.After(50 * time.Millisecond):
		}
	}
}
