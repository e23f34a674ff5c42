package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/server"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/cli.md")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"greenroom": main})
}

// TestScripts runs the command line as its users do: each script is a process
// of its own, against a real server.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			// Compilers keep their caches, and find nothing on the network.
			for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOROOT"} {
				env.Setenv(name, goEnv(t, name))
			}
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOFLAGS", "-mod=mod")
			env.Setenv("GOWORK", "off")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":    cmdServer,
			"waitfor":   cmdWaitFor,
			"interrupt": cmdInterrupt,
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

// cmdServer starts a server on the embedded store in the script's folder, and
// names it in GREENROOM_SERVER. With a token, callers must send it.
func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: server [TOKEN]")
	}
	cfg := node.Config{
		DataDir: ts.MkAbs("server-data"),
		Server:  server.Config{Addr: "127.0.0.1:0"},
		Logger:  slog.New(slog.DiscardHandler),
	}
	if len(args) == 1 {
		cfg.Server.Token = args[0]
	}
	n, err := node.New(cfg)
	ts.Check(err)
	ts.Check(n.Start(context.Background()))
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			ts.Fatalf("stop the server: %v", err)
		}
	})
	ts.Setenv("GREENROOM_SERVER", "http://"+n.Addr().String())
}
