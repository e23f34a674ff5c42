package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
)

// syncBuffer is a log that tests may read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func key(id string) actor.Key { return actor.Key{App: "default", Type: "Counter", ID: id} }

// answered is an HTTP answer, read to its end.
type answered struct {
	*http.Response
	body string
}

// failure reads the body as an error of the plain HTTP form.
func (a answered) failure(tb testing.TB) failure.WireFailure {
	tb.Helper()
	var w failure.WireFailure
	if err := json.Unmarshal([]byte(a.body), &w); err != nil {
		tb.Fatalf("%s: body is not an error: %q", a.Status, a.body)
	}
	return w
}

// do sends one request; headers are pairs.
func do(tb testing.TB, c *http.Client, method, url, body string, headers ...string) answered {
	tb.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, url, r)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answered{res, string(got)}
}

// detailOf returns an error's code and detail; every error must have one.
func detailOf(tb testing.TB, err error) (connect.Code, *greenroomv1.ErrorDetail) {
	tb.Helper()
	if err == nil {
		tb.Fatal("no error")
	}
	ce, ok := err.(*connect.Error) //nolint:errorlint // that is what clients return
	if !ok {
		tb.Fatalf("not a Connect error: %v", err)
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*greenroomv1.ErrorDetail); ok {
				return ce.Code(), detail
			}
		}
	}
	tb.Fatalf("error without ErrorDetail: %v", err)
	return 0, nil
}

// wantError checks an error's code and kind.
func wantError(tb testing.TB, err error, code connect.Code, kind actor.Kind) {
	tb.Helper()
	if c, d := detailOf(tb, err); c != code || d.GetKind() != string(kind) {
		tb.Errorf("got %v, kind %s; want %v, kind %s: %v", c, d.GetKind(), code, kind, err)
	}
}

// bearer sends a token with every call.
type bearer string

func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("Authorization", "Bearer "+string(b))
		return next(ctx, req)
	}
}

func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("Authorization", "Bearer "+string(b))
		return conn
	}
}

func (bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// openUpload opens an upload with a token.
func openUpload(tb testing.TB, f *fixture, token string) *connect.BidiStreamForClient[greenroomv1.UploadRequest, greenroomv1.UploadResponse] {
	tb.Helper()
	return greenroomv1connect.NewModuleServiceClient(client(tb, true), f.url, connect.WithInterceptors(bearer(token))).Upload(tb.Context())
}

func addressOf(hostPort string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(hostPort))
}
