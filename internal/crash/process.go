// Package crash kills a real server under load and checks that everything it
// acknowledged is still there, and that calls which a client repeats under their
// keys count once. The demonstration, the kill rounds of the tests
// and the soak all run on it.
package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// startTimeout bounds how long a server may take to become ready: opening a
// large store after a crash, on a slow disk and a busy machine.
const startTimeout = 3 * time.Minute

// Process is a running greenroom server.
type Process struct {
	// URL is where it answers, "http://127.0.0.1:PORT".
	URL string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // of Wait; read after done
}

// Options say how to start a server.
type Options struct {
	Binary string   // path of the greenroom binary
	Args   []string // of greenroom serve, without --listen: the store, mostly
	Env    []string // beside that of this process, NAME=VALUE
	Log    io.Writer
	// Listen is host:port; empty means a free port on loopback.
	Listen string
	// Detach lets the server live on after this process and its terminal.
	Detach bool
	// Inherit, if not nil, stays open in the server, and a lock on it held, as
	// long as the server runs.
	Inherit *os.File
}

// Start runs greenroom serve and waits until it is ready. Killing or stopping
// it is the caller's duty. A port that somebody else took before the server did is
// waited for, or another is chosen.
func Start(ctx context.Context, o Options) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		tried := o
		if tried.Listen == "" {
			addr, err := freeAddress()
			if err != nil {
				return nil, err
			}
			tried.Listen = addr
		}
		p, err := startOnce(ctx, tried)
		if err == nil || ctx.Err() != nil || !taken(tried.Listen) {
			return p, err
		}
	}
}

// taken reports whether somebody listens on an address, or uses it otherwise.
func taken(addr string) bool {
	l, err := net.Listen("tcp", addr) //nolint:noctx // loopback, answers at once
	if err == nil {
		_ = l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

func startOnce(ctx context.Context, o Options) (*Process, error) {
	cmd := exec.Command(o.Binary, append([]string{"serve", "--listen", o.Listen}, o.Args...)...) //nolint:noctx // its end is Kill or Stop, not a context's
	cmd.Stdout, cmd.Stderr, cmd.Env = o.Log, o.Log, append(os.Environ(), o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: o.Detach}
	if o.Inherit != nil {
		cmd.ExtraFiles = []*os.File{o.Inherit}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Binary, err)
	}
	p := &Process{URL: "http://" + o.Listen, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := p.waitReady(ctx); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// freeAddress finds a port that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, answers at once
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (p *Process) waitReady(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK && !p.Ended() { // or it was another program's answer
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("the server ended before it was ready: %w", p.err)
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready in time: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// Ended reports whether the process has ended, whoever ended it.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID is the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// State returns how the process ended and what it used; nil before Kill or Stop.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Kill sends SIGKILL and waits for the end. It is safe twice.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the server: %w", err)
	}
	<-p.done
	return nil
}

// Stop asks the server to stop and waits; it reports a server that did not end
// with status 0.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the server: %w", err)
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("the server did not stop: %w", ctx.Err()), p.Kill())
	}
}
