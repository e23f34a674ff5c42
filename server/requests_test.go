package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

// await waits until a count is what it must become.
func await(count func() int64, is func(int64) bool) {
	for !is(count()) {
		runtime.Gosched()
	}
}

// put makes a call in the plain HTTP form.
func (f *fixture) put(t *testing.T, payload []byte) (status int, retryAfter, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.url+"/v2.0/actors/a/T/b/method/M", bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Retry-After"), string(text)
}

// TestBodiesAreBoundedTogether: bodies that never become whole do not fill the
// memory, and keep no small call from working.
func TestBodiesAreBoundedTogether(t *testing.T) {
	const part, fit = 60 << 10, 4
	f := start(t, func(c *Config) { c.MaxRequestsBytes = (fit*part + 10<<10) * 8 / 7 })
	held := f.edge.Requests.Bodies.Used
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	var bodies []io.Closer
	giveUp := func() {
		cancel()
		for _, b := range bodies {
			_ = b.Close()
		}
		slow.Wait()
	}
	defer giveUp()
	for i := range fit {
		body, w := io.Pipe()
		bodies = append(bodies, w)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.url+"/v2.0/actors/a/T/b/method/M", body)
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, i%2 == 0)
		slow.Go(func() {
			if res, err := c.Do(req); err == nil {
				_ = res.Body.Close()
			}
		})
		if _, err := w.Write(make([]byte, part)); err != nil {
			t.Fatal(err)
		}
		await(held, func(n int64) bool { return n == int64(i+1)*part })
	}
	large := make([]byte, part)
	if status, retry, body := f.put(t, large); status != http.StatusTooManyRequests || retry == "" {
		t.Errorf("one more large body: %d, Retry-After %q, %s", status, retry, body)
	}
	calls := greenroomv1connect.NewActorServiceClient(client(t, true), f.url)
	_, err := calls.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor: &greenroomv1.ActorKey{App: "a", Type: "T", Id: "b"}, Method: "M", Payload: large,
	}))
	wantError(t, err, connect.CodeResourceExhausted, actor.ErrHostFull.Kind())
	if status, _, body := f.put(t, []byte("small")); status != http.StatusOK {
		t.Errorf("a small call: %d, %s", status, body)
	}
	giveUp()
	await(held, func(n int64) bool { return n == 0 })
	if status, _, body := f.put(t, large); status != http.StatusOK {
		t.Errorf("afterwards: %d, %s", status, body)
	}
	await(held, func(n int64) bool { return n == 0 })
}

// counted is a body that counts what is read of it.
type counted struct {
	io.Reader
	bytes atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// TestBodyThatNoCallMayHaveIsNotRead: where the memory of calls has no room for a payload, its body
// is refused before a byte of it is read, whatever it is sent over. A client that waits to be asked
// for its body sends none.
func TestBodyThatNoCallMayHaveIsNotRead(t *testing.T) {
	const length = 1 << 20
	var mu sync.Mutex
	var apps []string
	f := start(t, func(c *Config) {
		c.CheckCall = func(app string, bytes int64) error {
			if bytes < length {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			apps = append(apps, app)
			return fmt.Errorf("%w: no memory", actor.ErrHostFull)
		}
	})
	service := "/" + greenroomv1connect.ActorServiceName + "/"
	cases := map[string]struct {
		path, contentType, app string // "-": the call is not refused
		chunked                bool   // the headers do not say how long the body is
	}{
		"HTTP":              {"/v2.0/actors/a/T/b/method/M", "application/octet-stream", "a", false},
		"HTTP, like gRPC":   {"/v2.0/actors/a/T/b/method/M", "application/grpc", "a", false},
		"HTTP, all":         {"/v2.0/actors/a", "application/json", "a", false},
		"Connect":           {service + "Invoke", "application/proto", "", false},
		"Connect, JSON":     {service + "Invoke", "application/json", "", false},
		"Connect, query":    {service + "Query", "application/proto", "", false},
		"Connect, all":      {service + "InvokeAll", "application/proto", "", false},
		"gRPC-Web":          {service + "Invoke", "application/grpc-web+proto", "", false},
		"gRPC-Web, chunked": {service + "Invoke", "application/grpc-web+proto", "", true},
		"gRPC-Web, all":     {service + "InvokeAll", "application/grpc-web+proto", "", true},
		"a small reminder":  {"/v2.0/actors/a/T/b/reminders/r", "application/json", "-", false},
		"a small HTTP call": {"/v2.0/actors/a/T/b/method/M", "text/plain", "-", false},
		"a lying envelope":  {service + "Invoke", "application/grpc-web+proto", "-", false},
		"no envelope":       {"/v2.0/actors/a/T/b/method/M", "application/grpc", "-", true}, // though it may look like one
	}
	transport := &http.Transport{ExpectContinueTimeout: time.Hour}
	t.Cleanup(transport.CloseIdleConnections)
	for name, p := range cases {
		mu.Lock()
		apps = nil
		mu.Unlock()
		size, most := length, 0
		if p.app == "-" {
			size = 2
		}
		body := bytes.Repeat([]byte("0"), size)
		if strings.Contains(p.contentType, "grpc") {
			body = append([]byte{0, 0, length >> 16, 0, 0}, make([]byte, size)...)
		}
		if p.chunked || p.app == "-" {
			most = len(body) // it is asked for; of a large one, to see its first bytes: see TestEnvelopeSaysHowLongABodyIs
		}
		sent := new(counted)
		send := func() (*http.Response, error) {
			sent = &counted{Reader: bytes.NewReader(body)}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.url+p.path, sent)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(p.path, service) {
				req.Method = http.MethodPost
			}
			if !p.chunked {
				req.ContentLength = int64(len(body))
			}
			req.Header.Set("Content-Type", p.contentType)
			req.Header.Set("Expect", "100-continue")
			return transport.RoundTrip(req)
		}
		res, err := send()
		for try := 0; errors.Is(err, syscall.ECONNRESET) && p.chunked && try < 10; try++ { // before the answer was read
			mu.Lock()
			apps = nil
			mu.Unlock()
			res, err = send()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if read := int(sent.bytes.Load()); read > most {
			t.Errorf("%s: %d bytes were asked for; %s %s", name, read, res.Status, text)
		}
		mu.Lock()
		apps := slices.Clone(apps)
		mu.Unlock()
		if p.app == "-" {
			if len(apps) > 0 {
				t.Errorf("%s: refused", name)
			}
			continue
		}
		if full := res.StatusCode == http.StatusTooManyRequests || res.Header.Get("Grpc-Status") == "8" || strings.Contains(string(text), "no memory"); !full || len(apps) == 0 || apps[0] != p.app {
			t.Errorf("%s: %s, %v %s; asked for %q", name, res.Status, res.Header, text, apps)
		}
	}
}

// TestAnswersAreBoundedTogether: as long as clients leave too much of what they
// were answered in the server's memory, no request is taken.
func TestAnswersAreBoundedTogether(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxRequestsBytes = 1 << 20 })
	f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: actor.Payload{Data: make([]byte, 64<<20)}}, nil // more than a connection holds
	})
	waiting := f.edge.Requests.Answers.Used
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "PUT /v2.0/actors/a/T/b/method/M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	await(waiting, func(n int64) bool { return n > 1<<20 })
	if status, retry, body := f.put(t, nil); status != http.StatusTooManyRequests || retry == "" {
		t.Errorf("while an answer waits: %d, Retry-After %q, %s", status, retry, body)
	}
	if res, err := http.Get(f.url + "/healthz"); err != nil || res.StatusCode != http.StatusOK { //nolint:noctx // a test
		t.Errorf("health: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	conn.Close()
	await(waiting, func(n int64) bool { return n == 0 })
	f.host.does(nil)
	if status, _, body := f.put(t, nil); status != http.StatusOK {
		t.Errorf("afterwards: %d, %s", status, body)
	}
}

// TestAnswersOfOneAppRefuseNoOther: clients of one app that do not read their answers have
// that app's calls refused, and none of another app.
func TestAnswersOfOneAppRefuseNoOther(t *testing.T) {
	const readers, answer = 17, 4 << 20
	f := start(t, func(c *Config) {
		c.MaxRequestsBytes = 64 << 20
		c.Tokens = []edge.Token{
			{Name: "loud", Secret: "loud-0123456789abcdef", Role: edge.RoleInvoke, App: "loud"},
			{Name: "quiet", Secret: "quiet-0123456789abcdef", Role: edge.RoleInvoke, App: "quiet"},
		}
	})
	all := make(chan struct{}) // every call is admitted before one is answered
	var admitted atomic.Int64
	f.host.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		if inv.Key.App == "loud" {
			if admitted.Add(1) == readers {
				close(all)
			}
			<-all
		}
		return actor.Reply{Payload: actor.Payload{ContentType: "application/octet-stream", Data: make([]byte, answer)}}, nil
	})
	for n := range readers {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprintf(c, "GET /v2.0/actors/loud/T/%d/method/Get HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer loud-0123456789abcdef\r\n\r\n", n)
	}
	await(f.edge.Requests.Answers.Used, func(n int64) bool { return n == readers*answer })
	call := func(app string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.url+"/v2.0/actors/"+app+"/T/x/method/Add", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+app+"-0123456789abcdef")
		res, err := client(t, false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if got := call("loud"); got != http.StatusTooManyRequests {
		t.Errorf("a call of the app that does not read: %d", got)
	}
	for range 20 {
		if got := call("quiet"); got != http.StatusOK {
			t.Fatalf("a call of another app: %d", got)
		}
	}
}

// TestUnpackingIsBounded: few bytes that become many count for what they become, as
// long as they are being unpacked, and nothing afterwards.
func TestUnpackingIsBounded(t *testing.T) {
	const limit = 256 << 10
	f := start(t, func(c *Config) { c.MaxRequestsBytes = limit })
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := io.CopyN(zw, zeros{}, 200<<10); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	unpack := f.edge.NewBoundedGzip(1<<20, edge.ErrPayloadTooLarge(1<<20))
	first, second := unpack(), unpack()
	for _, d := range []connect.Decompressor{first, second} {
		if err := d.Reset(bytes.NewReader(packed.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := io.Copy(io.Discard, first); n != 200<<10 || err != nil {
		t.Errorf("the first: %d bytes, %v", n, err)
	}
	_, err := io.Copy(io.Discard, second)
	wantError(t, err, connect.CodeResourceExhausted, actor.ErrHostFull.Kind())
	for _, d := range []connect.Decompressor{first, second} {
		if err := errors.Join(d.Close(), d.Reset(http.NoBody)); err != nil {
			t.Error(err)
		}
	}
	if held := f.edge.Requests.Bodies.Used(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}

	// The whole way: what is unpacked counts until the call is answered.
	entered, release, _ := f.host.blocks()
	calls := greenroomv1connect.NewActorServiceClient(client(t, true), f.url, connect.WithSendGzip())
	call := func() error {
		_, err := calls.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
			Actor: &greenroomv1.ActorKey{App: "a", Type: "T", Id: "b"}, Method: "M", Payload: make([]byte, 200<<10),
		}))
		return err
	}
	ended := make(chan error)
	go func() { ended <- call() }()
	<-entered
	wantError(t, call(), connect.CodeResourceExhausted, actor.ErrHostFull.Kind())
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	await(f.edge.Requests.Bodies.Used, func(n int64) bool { return n == 0 })
}

// TestStreamsOfOneAppRefuseNoOther: the streams of one app's token, and what they hold, leave
// streams and bytes to another's.
func TestStreamsOfOneAppRefuseNoOther(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Bounds.Streams = 16 })
	for f.rpc.Streams.Enter("loud") == nil {
	}
	if n := f.rpc.Streams.Taken(); n != 14 {
		t.Errorf("one app has %d of 16 streams", n)
	}
	if err := f.rpc.Streams.Enter("quiet"); err != nil {
		t.Errorf("another app's: %v", err)
	}
	memory := f.edge.StreamMemory
	for memory.Receive("loud", 1<<20, 0) == nil {
	}
	if err := memory.Receive("quiet", 1<<20, 0); err != nil {
		t.Errorf("another app's bytes: %v", err)
	}
}

// TestServerBoundsConnections: with all connections taken, the server closes new ones, counts
// them, and serves those that it has.
func TestServerBoundsConnections(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxConnections = 2 })
	c := client(t, false)
	if a := do(t, c, "GET", f.url+"/healthz", ""); a.StatusCode != http.StatusOK {
		t.Fatal(a.Status)
	}
	first, err := net.Dial("tcp", f.Addr().String()) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := net.Dial("tcp", f.Addr().String()) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n, err := second.Read(make([]byte, 1)); err == nil {
		t.Errorf("a connection beyond the bound got %d bytes", n)
	}
	if a := do(t, c, "GET", f.url+"/healthz", ""); a.StatusCode != http.StatusOK { // on the connection that is open
		t.Fatal(a.Status)
	}
	if a := do(t, c, "GET", f.url+"/metrics", ""); !strings.Contains(a.body, "greenroom_connections_refused_total 1\n") {
		t.Errorf("the refused connection is not counted: %s", a.body)
	}
}
