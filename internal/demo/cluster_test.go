package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestCluster does what `make cluster` tells its user to: it calls a server, kills
// another, freezes the third, and ends everything.
func TestCluster(t *testing.T) {
	t.Chdir("../..") // as in the Makefile
	binary := filepath.Join(t.TempDir(), "greenroom")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/greenroom").CombinedOutput(); err != nil {
		t.Fatalf("build greenroom: %v\n%s", err, out)
	}
	store := pgtest.Start(t).Database(t)
	var addresses []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, answers at once
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, l.Addr().String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	said, out := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // far more than it takes
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := (&demo{binary: binary, out: out}).cluster(ctx, store, addresses)
		_ = out.Close()
		ended <- err
	}()

	process := regexp.MustCompile(`^ +http://(\S+), process (\d+)$`)
	pids := map[string]int{}
	for lines := bufio.NewScanner(said); lines.Scan() && !strings.Contains(lines.Text(), "Ctrl-C ends"); {
		if m := process.FindStringSubmatch(lines.Text()); m != nil {
			pid, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			pids[m[1]] = pid
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if len(pids) != len(addresses) {
		cancel()
		t.Fatalf("the processes %v were named, of %d; it ended with %v", pids, len(addresses), <-ended)
	}
	greenroom := func(server string, args ...string) string {
		out, err := exec.CommandContext(ctx, binary, append(args, "--server", "http://"+server)...).CombinedOutput()
		if err != nil {
			t.Errorf("greenroom %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for i, want := range []string{`{"count":1}`, `{"count":2}`} {
		if got := strings.TrimSpace(greenroom(addresses[i], "call", "Counter", "alice", "Add", `{"amount":1}`)); got != want {
			t.Errorf("server %d answered %s, want %s", i+1, got, want)
		}
	}
	if err := syscall.Kill(pids[addresses[1]], syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pids[addresses[2]], syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(greenroom(addresses[0], "call", "--query", "Counter", "alice", "Get")); got != `{"count":2}` {
		t.Errorf("the server that is left answered %s", got)
	}
	cancel() // as Ctrl-C does
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, address := range addresses {
		if err := free(address); err != nil {
			t.Error(err)
		}
	}
}
