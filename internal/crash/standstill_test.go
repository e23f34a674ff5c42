package crash_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
)

// TestCallsThatWaitedForAProcess: a call with an idempotency key that came while the server was
// stopped is not run when it goes on, since a later attempt of it may have been answered elsewhere;
// it can be repeated. A call without a key runs.
func TestCallsThatWaitedForAProcess(t *testing.T) {
	t.Parallel()
	server, err := crash.Start(t.Context(), crash.Options{Binary: binary, Args: []string{"--data-dir", t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Kill() }()
	if out, err := exec.CommandContext(t.Context(), binary, "deploy", guest, "--server", server.URL).CombinedOutput(); err != nil {
		t.Fatalf("deploy: %v\n%s", err, out)
	}
	const frozen = 2 * time.Second // longer than half a lease
	address := strings.TrimPrefix(server.URL, "http://")
	late := func(key string) (status int, body string) {
		t.Helper()
		conn, err := net.Dial("tcp", address) //nolint:noctx // loopback, answers at once
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := syscall.Kill(server.PID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for state := ""; !strings.HasPrefix(state, "T"); { // the signal is on its way
			out, err := exec.CommandContext(t.Context(), "ps", "-o", "state=", "-p", fmt.Sprint(server.PID())).Output()
			if err != nil {
				t.Fatal(err)
			}
			state = strings.TrimSpace(string(out))
		}
		const payload = `{"amount":1}`
		_, err = fmt.Fprintf(conn, "PUT /v2.0/actors/default/Counter/c/method/Add HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s", address, key, len(payload), payload)
		<-time.After(frozen)
		if err := syscall.Kill(server.PID(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if status, body := late("Idempotency-Key: k\r\n"); status != http.StatusServiceUnavailable || !strings.Contains(body, "stood_still") {
		t.Errorf("with a key: %d %s", status, body)
	}
	if status, body := late(""); status != http.StatusOK {
		t.Errorf("without a key: %d %s", status, body)
	}
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do(t.Context(), client.Request{Type: "Counter", ID: "c", Method: "Add", Payload: []byte(`{"amount":1}`), IdempotencyKey: "k"})
	if err != nil || string(reply.Payload) != `{"count":2}` {
		t.Errorf("repeated: %s, %v", reply.Payload, err)
	}
}
