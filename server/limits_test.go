package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

func TestLargePayloads(t *testing.T) {
	const limit = 128 << 10
	f := start(t, func(c *Config) { c.MaxPayloadBytes = limit })
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) {
			actors := greenroomv1connect.NewActorServiceClient(client(t, p.http2), f.url, p.opts...)
			invoke := func(n int) error {
				_, err := actors.Invoke(t.Context(), connect.NewRequest(&greenroomv1.InvokeRequest{
					Actor: &greenroomv1.ActorKey{Type: "T", Id: strings.Repeat("x", 512)}, Method: "M", Payload: make([]byte, n),
				}))
				return err
			}
			if err := invoke(limit); err != nil {
				t.Errorf("the largest: %v", err)
			}
			f.host.last()
			for _, n := range []int{limit + 1, limit + edge.MessageOverhead, 2 * limit} {
				wantError(t, invoke(n), connect.CodeInvalidArgument, "payload_too_large")
			}
			if inv, ok := f.host.last(); ok {
				t.Errorf("the host was called with %d bytes", len(inv.Payload.Data))
			}
		})
	}
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		url := f.url + actorPath(key("a"), "Add")
		if a := do(t, c, "PUT", url, strings.Repeat("x", limit)); a.StatusCode != http.StatusOK || len(a.body) != limit {
			t.Errorf("http2=%v: the largest: %s", http2, a.Status)
		}
		f.host.last()
		for _, body := range []io.Reader{
			strings.NewReader(strings.Repeat("x", limit+1)),                                       // with a length
			io.MultiReader(strings.NewReader(strings.Repeat("x", limit)), strings.NewReader("x")), // without
		} {
			res, err := c.Post(url, "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), `"payload_too_large"`) {
				t.Errorf("http2=%v: %s %s", http2, res.Status, text)
			}
		}
		if _, ok := f.host.last(); ok {
			t.Error("the host was called")
		}
	}
}

// TestGzipBomb: a small body does not become a large message.
func TestGzipBomb(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxPayloadBytes = 1 << 20 })
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(zw, zeros{}, 8<<20); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	url := f.url + greenroomv1connect.ActorServiceInvokeProcedure
	a := do(t, client(t, false), "POST", url, bomb.String(), "Content-Type", "application/proto", "Content-Encoding", "gzip")
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `"payload_too_large"`) {
		t.Errorf("%s %s", a.Status, a.body)
	}
	for _, body := range []string{"no gzip", bomb.String()[:100]} {
		a := do(t, client(t, false), "POST", url, body, "Content-Type", "application/proto", "Content-Encoding", "gzip")
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `"kind":"invalid_argument"`) {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestSlowClients: a connection that is silent in the middle of something ends.
func TestSlowClients(t *testing.T) {
	put := "PUT " + actorPath(key("a"), "Add") + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
	rpc := "POST " + greenroomv1connect.ActorServiceInvokeProcedure + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"
	for _, tt := range []struct{ name, sent, status string }{
		{"nothing", "", ""},
		{"half of the headers", put, ""},
		{"half of the body", put + "\r\n12345", "408"},
		{"half of a message", rpc, "504"},
		{"a whole request, and no other", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, net := startInBubble(t, func(c *Config) {
					c.Bounds.ReadHeaderTimeout, c.Bounds.BodyTimeout, c.Bounds.IdleTimeout = quick, quick, quick
				})
				c := net.conn(t)
				began := time.Now()
				if _, err := fmt.Fprint(c, tt.sent); err != nil {
					t.Fatal(err)
				}
				if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(c) // ends because the server closes
				if err != nil {
					t.Fatalf("the connection was kept: %v", err)
				}
				if tt.status == "" && len(answer) != 0 && !strings.Contains(string(answer), "408") || !strings.Contains(string(answer), tt.status) {
					t.Errorf("answered %q", answer)
				}
				if took := time.Since(began); took < quick {
					t.Errorf("it ended after %v", took)
				}
				if _, ok := f.host.last(); ok {
					t.Error("the host was called")
				}
			})
		})
	}
}

// TestBrokenBodies: a body that does not arrive as it was announced is the
// client's mistake, and the log has no error for it.
func TestBrokenBodies(t *testing.T) {
	f := start(t, nil)
	put := "PUT " + actorPath(key("a"), "Add") + " HTTP/1.1\r\nHost: localhost\r\n"
	for _, tt := range []struct{ name, sent, problem string }{
		{"chunks that are none", put + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", "body broke off, or is not in the form"},
		{"less than announced", put + "Content-Length: 10\r\n\r\nabc", "body ended before its Content-Length"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", f.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if _, err := fmt.Fprint(c, tt.sent); err != nil {
				t.Fatal(err)
			}
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), tt.problem) {
				t.Errorf("answered %q, %v", answer, err)
			}
		})
	}
	if _, ok := f.host.last(); ok {
		t.Error("the host was called")
	}
	if log := f.log.String(); strings.Contains(log, "request failed") {
		t.Errorf("logged as an error: %s", log)
	}
}

// TestSlowTurnsAreNotSlowClients: the time that a turn takes is none of the
// client's, however it was sent.
func TestSlowTurnsAreNotSlowClients(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, method := range []string{"PUT", "GET"} {
			synctest.Test(t, func(t *testing.T) {
				f, net := startInBubble(t, func(c *Config) { c.Bounds.BodyTimeout, c.Bounds.IdleTimeout = quick, quick })
				entered, release, ended := f.host.blocks()
				go func() {
					<-entered
					// Longer than every timeout; the turn must not notice any of them.
					<-time.After(5 * quick)
					close(release)
				}()
				body := ""
				if method == "PUT" {
					body = "1"
				}
				a := do(t, net.client(t, http2), method, f.url+actorPath(key("a"), "Get"), body)
				if err := <-ended; err != nil || a.StatusCode != http.StatusOK {
					t.Errorf("http2=%v %s: %s, the turn's context: %v", http2, method, a.Status, err)
				}
			})
		}
	}
}

func TestBrokenHTTP(t *testing.T) {
	f := start(t, nil)
	for _, sent := range []string{
		"\x00\x01\x02\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n",
		"PUT /v2.0/actors/a/T/%zz/method/M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1",
		"PUT /v2.0/actors/a/T/i/method/M HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n1",
		"PUT /v2.0/actors/a/T/i/method/M HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"PUT /v2.0/actors/a/T/i/method/M HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*edge.MaxHeaderBytes) + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 1000),
	} {
		c, err := net.Dial("tcp", f.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(c, sent)
		_ = c.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(c)
		_ = c.Close()
		if bytes.Contains(answer, []byte(" 200 ")) {
			t.Errorf("%.40q was answered %.100q", sent, answer)
		}
	}
	if a := do(t, client(t, false), "GET", f.url+"/healthz", ""); a.StatusCode != http.StatusOK {
		t.Errorf("the server does not serve others any more: %s", a.Status)
	}
	if inv, ok := f.host.last(); ok && inv.Key != (actor.Key{}) {
		t.Errorf("the host was called: %+v", inv)
	}
}

// TestSlowReaders: a client that does not take its answer does not keep what it
// was asked from.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := startInBubble(t, func(c *Config) { c.Bounds.AcceptTimeout = quick })
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Payload: actor.Payload{Data: make([]byte, 64<<20)}}, nil // above every buffer
		})
		served := func(protocol string) bool {
			return strings.Contains(f.log.String(), "protocol="+protocol)
		}
		path := actorPath(key("a"), "Get")
		if _, err := fmt.Fprintf(net.conn(t), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		res, err := net.client(t, true).Get(f.url + path) // its flow control stops the server until it is read
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if served("HTTP/1.1") || served("HTTP/2.0") {
			t.Fatal("the answers went out although nobody reads them")
		}
		<-time.After(time.Hour)
		synctest.Wait()
		// Nothing tells from outside that a handler has ended; the log does.
		if !served("HTTP/1.1") || !served("HTTP/2.0") {
			t.Fatalf("handlers wait for clients that do not read: HTTP/1.1 ended %v, HTTP/2 ended %v", served("HTTP/1.1"), served("HTTP/2.0"))
		}
	})
}

// TestSlowReadersAreGivenUpByTheirRate: a client that takes its answer too slowly is cut off
// long before the answer would have passed, and one that is slow but goes on gets all of it.
func TestSlowReadersAreGivenUpByTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := startInBubble(t, func(*Config) {})
		const answer = 4 << 20
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Payload: actor.Payload{Data: make([]byte, answer)}}, nil
		})
		read := func(aSecond int) (n int) {
			c := net.conn(t)
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", actorPath(key("a"), "Get")); err != nil {
				t.Fatal(err)
			}
			p := make([]byte, aSecond)
			for n < answer {
				m, err := c.Read(p) // at most what is written at once
				if n += m; err != nil {
					break
				}
				<-time.After(time.Duration(m) * time.Second / time.Duration(aSecond))
			}
			return n
		}
		if got := read(32 << 10); got < answer {
			t.Errorf("a client that reads 32 KiB a second got %d of %d bytes", got, answer)
		}
		if got := read(1 << 10); got > 32<<10 {
			t.Errorf("a client that reads 1 KiB a second got %d bytes", got)
		}
		if used := f.edge.Requests.Answers.Used(); used != 0 {
			t.Errorf("%d bytes of answers are counted", used)
		}
	})
}

// TestSlowBodiesAreGivenUpByTheirRate: a client that declares a large body and sends nothing of it, or
// too little, is answered long before the body timeout, and nothing stays reserved. One that is slow
// but goes on is served.
func TestSlowBodiesAreGivenUpByTheirRate(t *testing.T) {
	const length, timeout = 1 << 20, "408"
	for _, tt := range []struct {
		name    string
		aSecond int
		status  string
		took    time.Duration
	}{
		{"no byte", 0, timeout, 10 * time.Second},
		{"a byte a second", 1, timeout, 10 * time.Second},
		{"4 KiB a second", 4 << 10, timeout, 10 * time.Second},
		{"32 KiB a second", 32 << 10, "200", 32 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, net := startInBubble(t, func(*Config) {})
				c := net.conn(t)
				began := time.Now()
				if _, err := fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", actorPath(key("a"), "Add"), length); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					p := make([]byte, tt.aSecond)
					for sent := 0; sent < length && tt.aSecond > 0; sent += len(p) {
						select {
						case <-ended:
							return
						case <-time.After(time.Second):
						}
						if _, err := c.Write(p); err != nil {
							return
						}
					}
				}()
				<-time.After(time.Millisecond)
				if used := f.edge.Requests.Bodies.Used(); used != length {
					t.Errorf("%d bytes are reserved, want %d", used, length)
				}
				answer, err := io.ReadAll(c)
				close(ended)
				if err != nil || !strings.Contains(string(answer), " "+tt.status+" ") {
					t.Errorf("answered %q, %v", answer, err)
				}
				if took := time.Since(began).Round(time.Second); took != tt.took {
					t.Errorf("answered after %v, want %v", took, tt.took)
				}
				synctest.Wait()
				if used := f.edge.Requests.Bodies.Used(); used != 0 {
					t.Errorf("%d bytes stay reserved", used)
				}
			})
		})
	}
}

// stallingConn is a connection whose end reads no more after so many bytes.
type stallingConn struct {
	net.Conn
	left   int
	closed chan struct{}
	once   sync.Once
}

func (c *stallingConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		<-c.closed
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	return n, err
}

func (c *stallingConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestBlockedHTTP2ConnectionIsGivenUp: an HTTP/2 connection that accepts no more bytes is given up
// after the time for a part of an answer, as one of HTTP/1.1 is, not after that for a body.
func TestBlockedHTTP2ConnectionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pipes := startInBubble(t, func(*Config) {})
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Payload: actor.Payload{Data: make([]byte, 1<<20)}}, nil
		})
		c := client(t, true)
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := pipes.dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			stalling := &stallingConn{Conn: conn, left: 64 << 10, closed: make(chan struct{})}
			t.Cleanup(func() { _ = stalling.Close() })
			return stalling, nil
		}
		res, err := c.Get(f.url + actorPath(key("a"), "Get")) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		synctest.Wait()
		if strings.Contains(f.log.String(), "protocol=HTTP/2.0") {
			t.Fatal("the answer went out although nobody reads it")
		}
		<-time.After(2 * f.edge.Conf.Bounds.AcceptTimeout)
		synctest.Wait()
		if !strings.Contains(f.log.String(), "protocol=HTTP/2.0") || f.edge.Requests.Answers.Used() != 0 {
			t.Errorf("the handler waits for a connection that accepts nothing; %d bytes are counted", f.edge.Requests.Answers.Used())
		}
	})
}

// TestRefusedBodiesEndInTime: a client whose body is refused before it was read, and who never sends
// the body, has its connection ended as one that is silent in the middle of the body.
func TestRefusedBodiesEndInTime(t *testing.T) {
	const token = "a-token-that-is-long-enough-for-a-test"
	put := "PUT " + actorPath(key("a"), "Add") + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
	rpc := "POST " + greenroomv1connect.ActorServiceInvokeProcedure + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
	for _, tt := range []struct{ name, sent, token, status string }{
		{"no space for a body", put + "\r\n", "", "429"},
		{"no space for a message", rpc + "\r\n", "", "429"},
		{"no token", put + "\r\n", token, "401"},
		{"no token for a procedure", rpc + "\r\n", token, "401"},
		{"no such path", "PUT /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", "", "404"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, net := startInBubble(t, func(c *Config) {
					c.Bounds.BodyTimeout, c.Bounds.AcceptTimeout, c.Bounds.IdleTimeout, c.Token = quick, quick/5, quick, tt.token
				})
				for _, app := range []string{"", "default"} {
					f.edge.Requests.Bodies.Add(app, 1<<40)
				}
				c := net.conn(t)
				if _, err := fmt.Fprint(c, tt.sent); err != nil {
					t.Fatal(err)
				}
				if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(c)
				if err != nil || !strings.Contains(string(answer), tt.status) {
					t.Errorf("answered %q, and then %v", answer, err)
				}
			})
		})
	}
}
