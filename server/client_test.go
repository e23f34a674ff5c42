package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
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
func (a answered) failure(t testing.TB) wireFailure {
	t.Helper()
	var w wireFailure
	if err := json.Unmarshal([]byte(a.body), &w); err != nil {
		t.Fatalf("%s: body is not an error: %q", a.Status, a.body)
	}
	return w
}

// do sends one request; headers are pairs.
func do(t testing.TB, c *http.Client, method, url, body string, headers ...string) answered {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
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
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res, string(got)}
}

// detailOf returns an error's code and detail; every error must have one.
func detailOf(t testing.TB, err error) (connect.Code, *greenroomv1.ErrorDetail) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	ce, ok := err.(*connect.Error) //nolint:errorlint // that is what clients return
	if !ok {
		t.Fatalf("not a Connect error: %v", err)
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*greenroomv1.ErrorDetail); ok {
				return ce.Code(), detail
			}
		}
	}
	t.Fatalf("error without ErrorDetail: %v", err)
	return 0, nil
}

// wantError checks an error's code and kind.
func wantError(t testing.TB, err error, code connect.Code, kind actor.Kind) {
	t.Helper()
	if c, d := detailOf(t, err); c != code || d.GetKind() != string(kind) {
		t.Errorf("got %v, kind %s; want %v, kind %s: %v", c, d.GetKind(), code, kind, err)
	}
}
