package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/greenroom-run/greenroom/internal/crash"
)

// stopTimeout bounds what a server drains when it is taken down.
const stopTimeout = 60 * time.Second

// background is a server that outlives this program. What says that it runs is
// a lock on a file of its folder, which the server's process holds from its
// first to its last moment without knowing; a process ID alone may be another
// program's by now.
type background struct {
	folder string // of its data, log, lock and state
	binary string
	listen string // host:port
}

// started is the record of a server that runs.
type started struct {
	pid int
	url string
}

func (b *background) file(name string) string { return filepath.Join(b.folder, name) }

// lock returns the locked file, or nil if a server of this folder holds it.
func (b *background) lock() (*os.File, error) {
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(b.file("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", b.file("lock"), err)
}

// up makes sure that a server runs. already is true if one did: it is left as
// it is.
func (b *background) up(ctx context.Context) (s started, already bool, err error) {
	lock, err := b.lock()
	if err != nil {
		return started{}, false, err
	}
	if lock == nil {
		s, err = b.read()
		return s, true, err
	}
	defer lock.Close() // the server has it then
	if err := free(b.listen); err != nil {
		return started{}, false, err
	}
	log, err := os.OpenFile(b.file("server.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return started{}, false, err
	}
	defer log.Close()
	p, err := crash.Start(ctx, crash.Options{
		Binary: b.binary, Args: []string{"--data-dir", b.file("data"), patient}, Log: log, Listen: b.listen, Detach: true, Inherit: lock,
	})
	if err != nil {
		showLog(log.Name())
		return started{}, false, err
	}
	s = started{pid: p.PID(), url: p.URL}
	if err := os.WriteFile(b.file("server"), fmt.Appendf(nil, "%d %s\n", s.pid, s.url), 0o644); err != nil {
		return started{}, false, errors.Join(err, p.Kill()) // nobody would find it again
	}
	return s, false, nil
}

// free says what to do if somebody else listens on addr.
func free(addr string) error {
	l, err := net.Listen("tcp", addr) //nolint:noctx // loopback, answers at once
	if err != nil {
		return fmt.Errorf("another program uses %s; stop it, or choose another address with `make up LISTEN=127.0.0.1:PORT` (%w)", addr, err)
	}
	return l.Close()
}

func (b *background) read() (started, error) {
	text, err := os.ReadFile(b.file("server"))
	if err != nil {
		return started{}, fmt.Errorf("a server holds %s, but nothing says which; is `make up` running elsewhere? (%w)", b.file("lock"), err)
	}
	pid, url, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return started{}, fmt.Errorf("read %s: %w", b.file("server"), err)
	}
	return started{pid: n, url: url}, nil
}

// down asks the server to stop and returns when its process has ended; ran is
// false if none ran.
func (b *background) down(ctx context.Context) (s started, ran bool, err error) {
	lock, err := b.lock()
	if err != nil {
		return started{}, false, err
	}
	if lock == nil {
		if s, err = b.read(); err != nil {
			return started{}, true, err
		}
		if err := syscall.Kill(s.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return s, true, fmt.Errorf("stop process %d: %w", s.pid, err)
		}
		if lock, err = b.await(ctx); err != nil {
			return s, true, fmt.Errorf("process %d did not stop: %w; its log is %s, and `kill -9 %d` loses nothing that was acknowledged",
				s.pid, err, b.file("server.log"), s.pid)
		}
		ran = true
	}
	defer lock.Close()
	if err := os.Remove(b.file("server")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, ran, err
	}
	return s, ran, nil
}

// await returns the lock once the server has ended.
func (b *background) await(ctx context.Context) (*os.File, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if lock, err := b.lock(); lock != nil || err != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
