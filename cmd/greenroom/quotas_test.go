package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// quotaServer notes the quotas that it is asked to set.
type quotaServer struct {
	greenroomv1connect.UnimplementedSettingsServiceHandler
	set []string
}

func (s *quotaServer) SetQuota(_ context.Context, req *connect.Request[greenroomv1.SetQuotaRequest]) (*connect.Response[greenroomv1.SetQuotaResponse], error) {
	q := req.Msg
	s.set = append(s.set, fmt.Sprintf("%s %s %d %v", q.App, q.Name, q.Most, q.Rate.GetPerSecond()))
	return connect.NewResponse(&greenroomv1.SetQuotaResponse{}), nil
}

func (s *quotaServer) UnsetQuota(_ context.Context, req *connect.Request[greenroomv1.UnsetQuotaRequest]) (*connect.Response[greenroomv1.UnsetQuotaResponse], error) {
	s.set = append(s.set, fmt.Sprintf("%s no %s", req.Msg.App, req.Msg.Name))
	return connect.NewResponse(&greenroomv1.UnsetQuotaResponse{}), nil
}

// TestQuotasOfFlags: quotas of what is stored are whole numbers, others are rates; nothing is set if one of them is neither.
func TestQuotasOfFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"actors=100000": "shop actors 100000 0", "bytes=1e9,messages=0": "shop bytes 1000000000 0; shop messages 0 0", "reminders=1e15": "shop reminders 1000000000000000 0",
		"turns=90/m": "shop turns 0 1.5", "actors=none,turns=none": "shop no actors; shop no turns", "actors=5,fuel=2/s": "shop actors 5 0; shop fuel 0 2",
		"turns=1/s,actors=1.5": "", "actors=-1": "", "actors=1e16": "", "actors=NaN": "", "actors=Inf": "", "actors=": "", "actors=10/s": "", "turns=10": "", "actors": "", "=5": "",
	} {
		s := &quotaServer{}
		mux := http.NewServeMux()
		mux.Handle(greenroomv1connect.NewSettingsServiceHandler(s))
		srv := httptest.NewServer(mux)
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), []string{"apps", "set", "shop", "--quota", flags, "--server", srv.URL}, strings.NewReader(""), &stdout, &stderr, noEnv)
		srv.Close()
		if got := strings.Join(s.set, "; "); got != want || (status == exitOK) != (want != "") || want == "" && (status != exitUsage || !strings.Contains(stderr.String(), "--quota")) {
			t.Errorf("%s: status %d, set %q, want %q: %s", flags, status, got, want, stderr.String())
		}
	}
}

// TestQuotaText: of what is stored, a quota is shown beside what the server has counted, if it has.
func TestQuotaText(t *testing.T) {
	n := int64(7)
	for want, q := range map[string]*greenroomv1.Quota{
		"1.5/s":                     {Name: "turns", Rate: &greenroomv1.Rate{PerSecond: 1.5}},
		"10":                        {Name: "actors", Most: 10},
		"10, of which 7 are stored": {Name: "actors", Most: 10, Stored: &n},
	} {
		if got := quotaText(q); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
