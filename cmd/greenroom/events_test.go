package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// eventServer serves the type Order, and lets a test answer each subscription.
type eventServer struct {
	greenroomv1connect.UnimplementedActorServiceHandler
	greenroomv1connect.UnimplementedModuleServiceHandler
	answer func(n int, req *greenroomv1.SubscribeRequest, send func(*greenroomv1.SubscribeResponse)) error

	mu sync.Mutex
	n  int
}

func (s *eventServer) ListTypes(context.Context, *connect.Request[greenroomv1.ListTypesRequest]) (*connect.Response[greenroomv1.ListTypesResponse], error) {
	served := &greenroomv1.ServedType{Type: &greenroomv1.ActorType{Name: "Order"}}
	return connect.NewResponse(&greenroomv1.ListTypesResponse{Types: []*greenroomv1.ServedType{served}}), nil
}

func (s *eventServer) Subscribe(_ context.Context, req *connect.Request[greenroomv1.SubscribeRequest], stream *connect.ServerStream[greenroomv1.SubscribeResponse]) error {
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	return s.answer(n, req.Msg, func(m *greenroomv1.SubscribeResponse) { _ = stream.Send(m) })
}

func (s *eventServer) start(t *testing.T) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(greenroomv1connect.NewActorServiceHandler(s))
	mux.Handle(greenroomv1connect.NewModuleServiceHandler(s))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

func published(positions ...string) *greenroomv1.SubscribeResponse {
	m := &greenroomv1.SubscribeResponse{}
	for _, p := range positions {
		m.Events = append(m.Events, &greenroomv1.ActorEvent{Position: p, Name: "paid", Payload: []byte(`{"at": "` + p + `"}`)})
		m.Position = p
	}
	return m
}

func goneError(t *testing.T) error {
	t.Helper()
	err := connect.NewError(connect.CodeOutOfRange, fmt.Errorf("events up to 9-0 were trimmed"))
	detail, detailErr := connect.NewErrorDetail(&greenroomv1.ErrorDetail{Kind: string(actor.ErrPositionGone.Kind())})
	if detailErr != nil {
		t.Fatal(detailErr)
	}
	err.AddDetail(detail)
	return err
}

// TestEventsGoOn: following goes on after the last event that was shown, however the stream ended,
// and ends where the server says that the next events are not kept.
func TestEventsGoOn(t *testing.T) {
	for name, end := range map[string]func() error{
		"the server stops":       func() error { return nil },
		"unavailable":            func() error { return connect.NewError(connect.CodeUnavailable, fmt.Errorf("later")) },
		"the connection is lost": func() error { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			s := &eventServer{answer: func(n int, req *greenroomv1.SubscribeRequest, send func(*greenroomv1.SubscribeResponse)) error {
				if req.GetKeptOnly() {
					t.Error("following asks for what is kept only")
				}
				asked = append(asked, req.GetAfter())
				switch n {
				case 1:
					send(&greenroomv1.SubscribeResponse{Position: "1-0"})
					send(published("2-0", "2-1"))
					return end()
				case 2:
					send(published("3-0"))
					return end()
				}
				return goneError(t)
			}}
			var stdout, stderr bytes.Buffer
			status := run(t.Context(), []string{"--server", s.start(t), "events", "Order", "17", "-f"}, strings.NewReader(""), &stdout, &stderr, noEnv)
			if got := fmt.Sprint(asked); got != "[ 2-1 3-0]" {
				t.Errorf("subscribed after %s", got)
			}
			for _, position := range []string{"2-0", "2-1", "3-0"} {
				if n := strings.Count(stdout.String(), `{"at":"`+position+`"}`); n != 1 {
					t.Errorf("%s was shown %d times:\n%s", position, n, stdout.String())
				}
			}
			if status != exitFailed || !strings.Contains(stderr.String(), "position_gone") || !strings.Contains(stderr.String(), "leave out --after") {
				t.Errorf("status %d:\n%s", status, stderr.String())
			}
		})
	}
}

// TestEventsRefused: a subscription that a server refuses is not tried again.
func TestEventsRefused(t *testing.T) {
	for _, code := range []connect.Code{connect.CodePermissionDenied, connect.CodeUnavailable} {
		subscriptions := 0
		s := &eventServer{answer: func(int, *greenroomv1.SubscribeRequest, func(*greenroomv1.SubscribeResponse)) error {
			subscriptions++
			return connect.NewError(code, fmt.Errorf("no"))
		}}
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), []string{"--server", s.start(t), "events", "Order", "17", "-f"}, strings.NewReader(""), &stdout, &stderr, noEnv)
		if status != exitFailed || subscriptions != 1 || !strings.Contains(stderr.String(), code.String()) {
			t.Errorf("%s: status %d after %d subscriptions:\n%s", code, status, subscriptions, stderr.String())
		}
	}
}

// TestPayloadLine: a payload is one line, from which JSON and text can be read, and which steers no
// terminal.
func TestPayloadLine(t *testing.T) {
	for _, tc := range []struct{ contentType, in, want string }{
		{"", "{\"a\": 1,\n \"b\":\"\u202e\"}", `{"a":1,"b":"\u202e"}`},
		{"application/json", "no JSON", "base64 bm8gSlNPTg=="},
		{"text/plain", "a\n\x1b[2J\u202e", `"a\n\x1b[2J\u202e"`},
		{"text/plain", "\xff", "base64 /w=="},
		{"image/png", "\x00\x01", "base64 AAE="},
		{"", "", ""},
	} {
		if got := payloadLine([]byte(tc.in), tc.contentType); got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.contentType, tc.in, got, tc.want)
		}
	}
}
