package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func newBackground(t *testing.T) *background {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "greenroom")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/greenroom").CombinedOutput(); err != nil {
		t.Fatalf("build greenroom: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &background{folder: filepath.Join(dir, "up"), binary: binary, listen: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := b.down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestUpTwice checks that a second up finds the first server, and that down has
// seen it end when it returns.
func TestUpTwice(t *testing.T) {
	b := newBackground(t)
	first, already, err := b.up(t.Context())
	if err != nil || already {
		t.Fatalf("first up: already %t, %v", already, err)
	}
	second, already, err := b.up(t.Context())
	if err != nil || !already || second != first {
		t.Fatalf("second up: %+v, already %t, %v; want %+v", second, already, err, first)
	}
	resp, err := http.Get(first.url + "/readyz") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}

	stopped, ran, err := b.down(t.Context())
	if err != nil || !ran || stopped != first {
		t.Fatalf("down: %+v, ran %t, %v", stopped, ran, err)
	}
	if l, err := net.Listen("tcp", b.listen); err != nil { //nolint:noctx // loopback
		t.Errorf("somebody listens after down: %v", err)
	} else {
		l.Close()
	}
	if _, ran, err := b.down(t.Context()); err != nil || ran {
		t.Errorf("second down: ran %t, %v", ran, err)
	}
	// The data is still there, unlocked: the next one starts.
	if _, already, err := b.up(t.Context()); err != nil || already {
		t.Errorf("up after down: already %t, %v", already, err)
	}
}

// TestUpAfterCrash checks that a server that was killed is not taken for one
// that runs.
func TestUpAfterCrash(t *testing.T) {
	b := newBackground(t)
	first, _, err := b.up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lock, err := b.await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	second, already, err := b.up(t.Context())
	if err != nil || already || second.pid == first.pid {
		t.Fatalf("up after a kill: %+v, already %t, %v", second, already, err)
	}
}

// TestUpOnTakenAddress checks that another program's port is not waited for, nor
// taken for the server.
func TestUpOnTakenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &background{folder: t.TempDir(), binary: "none", listen: l.Addr().String()}
	_, _, err = b.up(t.Context())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "make up LISTEN=") {
		t.Fatalf("error is %v", err)
	}
	if _, err := os.Stat(b.file("server")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a server is remembered: %v", err)
	}
}
