//go:build unix

package pgtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDatabasesAreFreshAndApart(t *testing.T) {
	a, b := URL(t), URL(t)
	if a == b {
		t.Fatalf("two databases with one URL: %s", a)
	}
}

func TestRestartKeepsDataAndPort(t *testing.T) {
	s := Start(t)
	s.Exec(t, "postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	addr, pid := s.Addr(), s.Pid()
	for _, halt := range []func(){s.Stop, func() { s.Kill(t) }} {
		halt()
		if s.Pid() != 0 {
			t.Fatal("still running")
		}
		s.Restart(t)
		if s.Addr() != addr {
			t.Fatalf("address %s became %s", addr, s.Addr())
		}
		if s.Pid() == pid {
			t.Fatal("the same process as before")
		}
		s.Exec(t, "postgres", "UPDATE kept SET n = 1/n")
	}
}

// The server must not outlive a test process that was killed.
func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv("GREENROOM_PGTEST_VICTIM") != "" {
		s, err := newServer()
		if err != nil {
			t.Fatal(err)
		}
		println := func(line string) { _, _ = io.WriteString(os.Stdout, line+"\n") }
		println("server " + strconv.Itoa(s.Pid()) + " " + s.folder)
		select {}
	}
	victim := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
	victim.Env = append(os.Environ(), "GREENROOM_PGTEST_VICTIM=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill() })
	var pid int
	var folder string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "server" {
			pid, _ = strconv.Atoi(f[1])
			folder = f[2]
			break
		}
	}
	if pid == 0 || syscall.Kill(pid, 0) != nil {
		t.Fatalf("server %d does not run", pid)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()

	deadline := time.Now().Add(startLimit)
	for {
		_, err := os.Stat(folder)
		if os.IsNotExist(err) && syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("server %d or its folder %s is left behind", pid, folder)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nothing tells when a stranger's process ends
	}
}
