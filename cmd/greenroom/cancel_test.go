package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// cancelServer serves the type Mailer, and gives one answer after the other to CancelQueued.
type cancelServer struct {
	greenroomv1connect.UnimplementedActorServiceHandler
	greenroomv1connect.UnimplementedModuleServiceHandler
	answers []*greenroomv1.CancelQueuedResponse // nil: an error
	asked   []*greenroomv1.CancelQueuedRequest
}

func (*cancelServer) ListTypes(context.Context, *connect.Request[greenroomv1.ListTypesRequest]) (*connect.Response[greenroomv1.ListTypesResponse], error) {
	served := &greenroomv1.ServedType{Type: &greenroomv1.ActorType{Name: "Mailer"}}
	return connect.NewResponse(&greenroomv1.ListTypesResponse{Types: []*greenroomv1.ServedType{served}}), nil
}

func (s *cancelServer) CancelQueued(_ context.Context, req *connect.Request[greenroomv1.CancelQueuedRequest]) (*connect.Response[greenroomv1.CancelQueuedResponse], error) {
	s.asked = append(s.asked, req.Msg)
	answer := s.answers[0]
	if s.answers = s.answers[1:]; answer == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the store is away"))
	}
	return connect.NewResponse(answer), nil
}

// cancel runs a command with answers of the server.
func (s *cancelServer) cancel(t *testing.T, args string, answers ...*greenroomv1.CancelQueuedResponse) (status int, stdout, stderr string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(greenroomv1connect.NewActorServiceHandler(s))
	mux.Handle(greenroomv1connect.NewModuleServiceHandler(s))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	s.answers, s.asked = answers, nil
	var out, err bytes.Buffer
	status = run(t.Context(), append(strings.Fields(args), "--server", srv.URL), strings.NewReader(""), &out, &err, noEnv)
	return status, out.String(), err.String()
}

// TestCancelCommands: `actors cancel` and `types cancel` ask until no more is there, and say what was cancelled at
// all servers together; what is removed for good is asked about before, and what becomes a dead letter is not.
func TestCancelCommands(t *testing.T) {
	s := &cancelServer{}
	first := &greenroomv1.CancelQueuedResponse{Messages: 10_000, Calls: 3, VolatileMessages: 2, More: true, Missing: []string{"east"}}
	last := &greenroomv1.CancelQueuedResponse{Messages: 5, Calls: 1, VolatileMessages: 1, Missing: []string{"west\x1b[2J"}}
	for _, tt := range []struct {
		args, want string
		asked      *greenroomv1.CancelQueuedRequest
	}{
		{"actors cancel Mailer main --yes", `Mailer "main": 10005 messages removed, 4 calls and 3 volatile messages cancelled`, &greenroomv1.CancelQueuedRequest{App: "default", Type: "Mailer", Id: "main"}},
		{"actors cancel Mailer main --dead-letter", `Mailer "main": 10005 messages are dead letters, 4 calls and 3 volatile messages cancelled`, &greenroomv1.CancelQueuedRequest{App: "default", Type: "Mailer", Id: "main", DeadLetter: true}},
		{"types cancel Mailer --app shop -y", "all actors of Mailer: 10005 messages removed, 4 calls", &greenroomv1.CancelQueuedRequest{App: "shop", Type: "Mailer"}},
		{"types cancel Mailer --dead-letter", "all actors of Mailer: 10005 messages are dead letters", &greenroomv1.CancelQueuedRequest{App: "default", Type: "Mailer", DeadLetter: true}},
	} {
		status, stdout, stderr := s.cancel(t, tt.args, first, last)
		if status != exitOK || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: status %d, %q, %q", tt.args, status, stdout, stderr)
		}
		if !strings.Contains(stderr, `did not answer, and calls may wait there: west�[2J`) || strings.Contains(stderr, "\x1b[2J") {
			t.Errorf("%s: %q", tt.args, stderr)
		}
		if len(s.asked) != 2 || !proto.Equal(s.asked[0], tt.asked) || !proto.Equal(s.asked[1], tt.asked) {
			t.Errorf("%s: asked for %v", tt.args, s.asked)
		}
	}

	status, stdout, _ := s.cancel(t, "types cancel Mailer --yes -o json", first, last)
	if got := strings.Join(strings.Fields(stdout), ""); status != exitOK || !strings.Contains(got, `"messages":10005,"calls":4,`) || strings.Contains(got, `"more":true`) {
		t.Errorf("in JSON: status %d, %s", status, stdout)
	}
	for _, args := range []string{"actors cancel Mailer main", "types cancel Mailer"} {
		if status, _, stderr := s.cancel(t, args, first, last); status == exitOK || len(s.asked) > 0 || !strings.Contains(stderr, "--yes") {
			t.Errorf("%s without --yes: status %d, asked for %v: %s", args, status, s.asked, stderr)
		}
	}
}

// TestCancelSaysWhatItHasDone: an error says how many messages were cancelled before it, and a type that nothing
// serves is named, and is cancelled all the same: it may have messages.
func TestCancelSaysWhatItHasDone(t *testing.T) {
	s := &cancelServer{}
	more := &greenroomv1.CancelQueuedResponse{Messages: 10_000, More: true}
	if status, _, stderr := s.cancel(t, "types cancel Mailer --yes", more, nil); status != exitFailed || !strings.Contains(stderr, "after 10000 messages were cancelled: ") || !strings.Contains(stderr, "the store is away") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := s.cancel(t, "types cancel Mailer --yes", nil); status != exitFailed || strings.Contains(stderr, "were cancelled") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := s.cancel(t, "types cancel Mailr --yes", &greenroomv1.CancelQueuedResponse{Messages: 1}); status != exitOK || !strings.Contains(stderr, "did you mean Mailer?") || !strings.Contains(stderr, fmt.Sprint(1, " messages removed")) {
		t.Errorf("status %d: %s", status, stderr)
	}
}
