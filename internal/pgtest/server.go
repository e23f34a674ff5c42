//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

//go:embed watchdog.sh
var watchdog string

const (
	superuser = "greenroom"
	// startLimit bounds one start of a server, or its end, on a loaded machine.
	startLimit = 3 * time.Minute
)

// Server is a private PostgreSQL. Its methods are for one goroutine at a time.
type Server struct {
	bin      string
	folder   string // owned by the server's user; holds data, log and password
	port     int
	password string
	as       *syscall.Credential

	process *exec.Cmd // nil while stopped
	leash   io.WriteCloser
	ended   chan struct{} // closed once process has ended
}

// Start starts a server for this test alone and stops it at the test's end. For
// tests that stop or kill it; all others share the one of [URL].
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	return s
}

func newServer() (*Server, error) {
	bin, err := binFolder()
	if err != nil {
		return nil, err
	}
	as, err := serverUser()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "greenroom-pgtest-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, folder: folder, password: rand.Text(), as: as}
	if err := s.initialize(); err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	if err := s.start(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// initialize makes the data folder. Its files are not synced one by one: a
// machine that crashes now has no test to go on with.
func (s *Server) initialize() error {
	secret := filepath.Join(s.folder, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.as != nil {
		for _, path := range []string{s.folder, secret} {
			if err := os.Chown(path, int(s.as.Uid), int(s.as.Gid)); err != nil {
				return err
			}
		}
	}
	out, err := s.command(context.Background(), "initdb", "--no-sync", "--encoding=UTF8", "--no-locale",
		"--username="+superuser, "--auth=scram-sha-256", "--pwfile="+secret, s.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s(the user that runs it must be able to reach %s)", err, out, s.folder)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// command runs one of PostgreSQL's programs as the server's user.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.folder
	cmd.Env = append(environment(), "PGPASSWORD="+s.password, "PGCONNECT_TIMEOUT=60")
	if s.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	}
	return cmd
}

// environment is this process's without the variables that would send psql, or
// the server, elsewhere.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PG") })
	return append(env, "LC_ALL=C")
}

// start runs the server and returns when it takes connections. A fresh server
// chooses a free port and tries another if somebody else was faster; a
// restarted one keeps its port.
func (s *Server) start() error {
	fresh := s.port == 0
	var err error
	tries := 5
	if !fresh {
		tries = 100 // on a busy machine, a killed server's processes take a while to be gone
	}
	for range tries {
		if fresh {
			if s.port, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.startOnce(); err == nil {
			return nil
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.folder, "log"))
	return fmt.Errorf("start PostgreSQL: %w\n%s", err, log[max(0, len(log)-4096):])
}

func (s *Server) startOnce() error {
	cmd := exec.Command("/bin/sh", "-c", watchdog, "watchdog",
		filepath.Join(s.bin, "postgres"), s.folder,
		"-D", s.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-k", "",
		"-c", "fsync=on", "-c", "full_page_writes=on", // synchronous_commit is on, and a test changes it
		"-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "log_min_messages=warning")
	cmd.Dir = s.folder
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	// Not StdinPipe: Wait would close that, which would remove the folder of a
	// server that is to start again.
	held, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin = held
	err = cmd.Start()
	_ = held.Close()
	if err != nil {
		_ = leash.Close()
		return err
	}
	ended := make(chan struct{})
	s.process, s.leash, s.ended = cmd, leash, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()

	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		out, err := s.command(ctx, "psql", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
			"-U", superuser, "-d", "postgres", "-XAtqc", "SHOW data_directory").CombinedOutput()
		// Comparing the folder tells our server from one that took the port.
		if err == nil && strings.TrimSpace(string(out)) == s.data() {
			return nil
		}
		select {
		case <-ended:
			s.release()
			return errors.New("it ended at once")
		case <-ctx.Done():
			s.halt(syscall.SIGQUIT)
			return fmt.Errorf("not ready in %v: %s", startLimit, bytes.TrimSpace(out))
		case <-time.After(20 * time.Millisecond): // psql cannot wait for a server
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Pid returns the process ID of the server's main process, 0 while stopped.
func (s *Server) Pid() int {
	if s.process == nil {
		return 0
	}
	return s.process.Process.Pid
}

// Stop stops the server gracefully, and ends every connection. Its data stays.
func (s *Server) Stop() { s.halt(syscall.SIGINT) }

// Kill ends all of the server's processes with SIGKILL. Its data stays as the
// kernel has it.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	pid := s.Pid()
	if pid == 0 {
		t.Fatal("the server is not running")
	}
	// The main process is stopped first: it would start new children, and shut the others
	// down when one dies.
	signal := func(pid int, sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatalf("kill %d: %v", pid, err)
		}
	}
	signal(pid, syscall.SIGSTOP)
	children, err := childrenOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		signal(child, syscall.SIGKILL)
	}
	s.halt(syscall.SIGKILL)
}

// childrenOf lists processes by way of /proc on Linux, where ps is often not
// installed, and of ps elsewhere.
func childrenOf(parent int) ([]int, error) {
	var children []int
	add := func(pid, ppid int) {
		if ppid == parent {
			children = append(children, pid)
		}
	}
	if stats, _ := filepath.Glob("/proc/[0-9]*/stat"); len(stats) > 0 {
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if err != nil {
				continue // ended meanwhile
			}
			// pid (name) state ppid …; the name may hold anything.
			var state string
			var ppid int
			_, _ = fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &ppid)
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			add(pid, ppid)
		}
		return children, nil
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil {
			add(pid, ppid)
		}
	}
	return children, nil
}

// Restart starts the server again after Stop or Kill, on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// halt sends the signal and waits for the server to end.
func (s *Server) halt(sig syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(sig)
	select {
	case <-s.ended:
	case <-time.After(startLimit):
		_ = s.process.Process.Kill()
		<-s.ended
	}
	s.release()
}

// release sends the watchdog of an ended server away.
func (s *Server) release() {
	_, _ = io.WriteString(s.leash, "done\n")
	_ = s.leash.Close()
	s.process, s.leash, s.ended = nil, nil, nil
}

func (s *Server) remove() {
	s.halt(syscall.SIGQUIT)
	_ = os.RemoveAll(s.folder)
}

// Database makes a fresh database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.url(name)
}

// Exec runs SQL as the superuser of the server.
func (s *Server) Exec(t testing.TB, database, sql string) {
	t.Helper()
	out, err := s.command(t.Context(), "psql", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-U", superuser, "-d", database, "-v", "ON_ERROR_STOP=1", "-Xqc", sql).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", sql, err, out)
	}
}

// Addr returns the loopback address of the server, for a proxy before it.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, s.password), Host: s.Addr(), Path: "/" + database,
		RawQuery: "sslmode=disable"}
	return u.String()
}
