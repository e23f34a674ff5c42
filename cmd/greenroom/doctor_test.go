package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

type fakeStatus struct {
	greenroomv1connect.UnimplementedStatusServiceHandler
}

func (fakeStatus) Diagnose(_ context.Context, req *connect.Request[greenroomv1.DiagnoseRequest]) (*connect.Response[greenroomv1.DiagnoseResponse], error) {
	if req.Header().Get("Authorization") != "Bearer secret" {
		return nil, connect.NewError(connect.CodePermissionDenied, nil)
	}
	return connect.NewResponse(&greenroomv1.DiagnoseResponse{Findings: []*greenroomv1.Finding{
		{Check: "store", Verdict: greenroomv1.Verdict_VERDICT_OK, Found: "a second finding about the store"},
		{Check: "calls", Verdict: greenroomv1.Verdict_VERDICT_WARN, Found: "Transfer of app shop", Remedy: "call actors in one order"},
	}}), nil
}

// TestDoctorAsksTheServer with the token; the store is judged once.
func TestDoctorAsksTheServer(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(greenroomv1connect.NewStatusServiceHandler(fakeStatus{}))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	defer server.Close()
	for token, want := range map[string]bool{"secret": true, "other": false} {
		env := map[string]string{"GREENROOM_TOKEN": token}
		var stdout, stderr bytes.Buffer
		run(t.Context(), []string{"doctor", "--server", server.URL}, strings.NewReader(""), &stdout, &stderr, func(name string) string { return env[name] })
		if got := strings.Contains(stdout.String(), "WARN  calls     Transfer of app shop"); got != want {
			t.Errorf("with the token %s: %s%s", token, stdout.String(), stderr.String())
		}
		if strings.Contains(stdout.String(), "second finding") {
			t.Errorf("the store was judged twice: %s", stdout.String())
		}
	}
}
