//go:build linux

package crash_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// The limits of the flooded server, in bytes.
const (
	floodCalls   = 16 << 20 // calls under way; requests on the wire and streams as much each
	floodStates  = 16 << 20
	floodGuests  = 96 << 20
	floodPayload = 1 << 20
	floodActors  = 1000

	floodSlow    = 800       // connections with a request that never ends
	floodUnary   = 24        // callers whose calls are requests of their own
	floodCallers = 64        // of each client
	floodStream  = 200 << 10 // bytes of a streamed payload
)

// floodBound is what the limits of the server allow it to grow by, however many
// callers there are. Of each byte of a request there may be three while it becomes a
// call: what was read, the buffer that grows for it, and what is decoded from that.
// A state on its way to the store is encoded beside the one in memory. The garbage
// collector lets the heap become twice what is alive; guests are not on it. A
// connection takes buffers and goroutines.
const floodBound = 2*(3*floodCalls+3*floodCalls+floodCalls+2*floodStates) + floodGuests + (floodSlow+floodUnary)*(64<<10)

// TestFlood calls a small server from clients that mean it no good, with a database
// that stands still in the middle: many actors and one, large payloads, requests
// that never end. The server's memory stays within what its limits come to; what is
// above them is refused, at once and to be tried again; and it serves afterwards.
func TestFlood(t *testing.T) {
	database, args := startHangingDatabase(t, pgtest.URL(t)), []string{
		"--cache-dir", t.TempDir(), "--max-call-memory", strconv.Itoa(floodCalls), "--max-state-memory", strconv.Itoa(floodStates),
		"--max-memory", strconv.Itoa(floodGuests), "--max-payload", strconv.Itoa(floodPayload), "--max-state", "262144",
		"--max-actors", strconv.Itoa(floodActors), "--max-mailbox", "64",
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	options := crash.Options{Binary: binary, Args: append(args, "--store", database.url), Log: log}
	// The first server compiles the module, which takes memory of its own.
	for _, deploy := range []bool{true, false} {
		server, err := crash.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { server.Kill() }()
		if deploy {
			if out, err := exec.CommandContext(t.Context(), binary, "deploy", guest, "--server", server.URL).CombinedOutput(); err != nil {
				t.Fatalf("deploy: %v\n%s", err, out)
			}
			server.Kill()
			continue
		}
		flood(t, server, database)
	}
}

func flood(t *testing.T, server *crash.Process, database *hangingDatabase) {
	f := &flooding{outcomes: make(map[string]int), stop: make(chan struct{}), addr: strings.TrimPrefix(server.URL, "http://")}
	newClient := func() *client.Client {
		c, err := client.New(client.Config{URL: server.URL, MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	if _, err := newClient().Invoke(t.Context(), "Counter", "warm", "Add", []byte(`{"amount":1}`)); err != nil {
		t.Fatal(err)
	}
	before := memory(t, server.PID(), "VmRSS")
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", server.PID()), []byte("5"), 0); err != nil {
		t.Fatal(err) // the peak is from now on
	}

	var callers sync.WaitGroup
	payload := fmt.Appendf(nil, `{"amount":1,"padding":%q}`, strings.Repeat("x", floodStream))
	for i := range 4 { // two call many actors, two call one
		c := newClient()
		for caller := range floodCallers {
			callers.Go(func() {
				for n := 0; f.goesOn(); n++ {
					id := "hot"
					if i < 2 {
						id = fmt.Sprint(i, caller, n%100)
					}
					f.call(t, c, id, payload)
				}
			})
		}
	}
	f.await(t, "served", 50)
	database.hang(true)
	for i := range floodSlow {
		callers.Go(func() { f.trickle(t, i) })
	}
	for range floodUnary {
		callers.Go(func() { f.unary(t) })
	}
	// Nothing is committed now: whatever is refused was not kept waiting for it.
	f.await(t, "refused", 500)
	f.await(t, "trickled", floodSlow)
	database.hang(false)
	close(f.stop)
	f.closeAll()
	callers.Wait()
	peaceful, err := client.New(client.Config{URL: server.URL, MaxAttempts: 1000}) // it may have to wait for the last of the others
	if err != nil {
		t.Fatal(err)
	}
	defer peaceful.Close()
	for n := range 100 {
		if _, err := peaceful.Invoke(t.Context(), "Counter", fmt.Sprint("peace", n%10), "Add", []byte(`{"amount":1}`)); err != nil {
			t.Fatalf("after the flood: %v", err)
		}
	}

	peak := memory(t, server.PID(), "VmHWM")
	t.Logf("resident: %d MiB before, %d MiB at most, the bound is %d MiB more; %v", before>>20, peak>>20, floodBound>>20, f.outcomes)
	if peak > before+floodBound {
		t.Errorf("the server grew from %d to %d bytes; its limits come to %d", before, peak, floodBound)
	}
	if offered := int64(floodSlow * floodPayload); offered < floodBound {
		t.Errorf("%d bytes were offered, which the bound of %d allows: the test shows nothing", offered, floodBound)
	}
}

// memory returns a line of a process's status, in bytes.
func memory(t *testing.T, pid int, line string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), line+":")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// flooding is what came of the calls.
type flooding struct {
	addr string
	stop chan struct{}

	mu       sync.Mutex
	outcomes map[string]int // "served", "refused", "trickled", or a kind of error
	conns    []net.Conn
}

func (f *flooding) goesOn() bool {
	select {
	case <-f.stop:
		return false
	default:
		return true
	}
}

func (f *flooding) saw(outcomes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range outcomes {
		f.outcomes[o]++
	}
}

func (f *flooding) count(outcome string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outcomes[outcome]
}

func (f *flooding) await(t *testing.T, outcome string, n int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(roundDeadline); f.count(outcome) < n; {
		select {
		case <-tick.C:
		case <-deadline:
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Fatalf("%d calls were %s, want %d; %v", f.outcomes[outcome], outcome, n, f.outcomes)
		}
	}
}

// call makes a streamed call.
func (f *flooding) call(t *testing.T, c *client.Client, id string, payload []byte) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.Invoke(ctx, "Counter", id, "Add", payload)
	var e *client.Error
	switch {
	case err == nil:
		f.saw("served")
	case !errors.As(err, &e):
		t.Error(err)
	case e.Kind == client.KindDeadline || e.Kind == client.KindCanceled || e.OutcomeUnknown: // it had been taken
		f.saw(e.Kind)
	case e.Retryable:
		f.saw("refused", e.Kind)
	default:
		t.Errorf("a call was refused for good: %v", err)
	}
}

// unary makes calls that are requests of their own.
func (f *flooding) unary(t *testing.T) {
	payload := fmt.Appendf(nil, `{"amount":1,"padding":%q}`, strings.Repeat("x", floodPayload-100))
	for n := 0; f.goesOn(); n++ {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+f.addr+"/v2.0/actors/default/Counter/"+fmt.Sprint("unary", n%100)+"/method/Add", bytes.NewReader(payload))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Connect-Timeout-Ms", "10000")
		res, err := http.DefaultClient.Do(req)
		if err != nil { // refused while it was still being sent
			f.saw("cut")
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		f.judge(t, res)
	}
}

func (f *flooding) judge(t *testing.T, res *http.Response) {
	switch res.StatusCode {
	case http.StatusOK:
		f.saw("served")
	case http.StatusGatewayTimeout, http.StatusConflict: // it had been taken
		f.saw(res.Status)
	case http.StatusRequestTimeout: // on a machine on which all this takes a minute
		f.saw(res.Status)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		f.saw("refused", res.Status)
		if res.Header.Get("Retry-After") == "" {
			t.Errorf("%s without Retry-After", res.Status)
		}
	default:
		t.Errorf("a request was answered %s", res.Status)
	}
}

// trickle sends a request but for its last byte.
func (f *flooding) trickle(t *testing.T, i int) {
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	f.mu.Lock()
	f.conns = append(f.conns, conn)
	f.mu.Unlock()
	fmt.Fprintf(conn, "PUT /v2.0/actors/default/Counter/slow%d/method/Add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", i, floodPayload)
	_, err = conn.Write(make([]byte, floodPayload-1))
	f.saw("trickled")
	if err != nil { // refused before all of it was read
		f.saw("cut")
		return
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return // the test is over, or the server would not read it
	}
	res.Body.Close()
	if f.goesOn() {
		f.judge(t, res)
	}
}

func (f *flooding) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

// hangingDatabase passes connections on to a database, and can stand still.
type hangingDatabase struct {
	url string

	mu    sync.Mutex
	moves *sync.Cond
	hangs bool
}

func startHangingDatabase(t *testing.T, database string) *hangingDatabase {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := u.Host
	u.Host = l.Addr().String()
	d := &hangingDatabase{url: u.String()}
	d.moves = sync.NewCond(&d.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			db, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{c, db}, {db, c}} {
				running.Go(func() {
					defer c.Close()
					defer db.Close()
					_, _ = io.Copy(ends[0], waitingReader{ends[1], d})
				})
			}
		}
	})
	t.Cleanup(func() { // after the servers that use it
		d.hang(false)
		l.Close()
		running.Wait()
	})
	return d
}

func (d *hangingDatabase) hang(hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = hangs
	d.moves.Broadcast()
}

// waitingReader passes nothing on while the database hangs.
type waitingReader struct {
	net.Conn
	d *hangingDatabase
}

func (r waitingReader) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	for r.d.hangs {
		r.d.moves.Wait()
	}
	return n, err
}
