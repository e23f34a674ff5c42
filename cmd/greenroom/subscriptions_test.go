package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// subscriptionServer has subscriptions of one type, and gives out one a page, with an empty page
// between two.
type subscriptionServer struct {
	greenroomv1connect.UnimplementedActorServiceHandler
	list []*greenroomv1.Subscription
	asks []string
}

func (s *subscriptionServer) ListSubscriptions(_ context.Context, req *connect.Request[greenroomv1.ListSubscriptionsRequest]) (*connect.Response[greenroomv1.ListSubscriptionsResponse], error) {
	m := req.Msg
	s.asks = append(s.asks, strings.TrimSpace(m.App+" "+m.Type+" "+m.Id))
	at := len(m.PageToken)
	msg := &greenroomv1.ListSubscriptionsResponse{}
	if at%2 == 0 && at/2 < len(s.list) {
		msg.Subscriptions = s.list[at/2 : at/2+1]
	}
	if at++; at < 2*len(s.list)-1 {
		msg.NextPageToken = strings.Repeat("x", at)
	}
	return connect.NewResponse(msg), nil
}

// typelessServer serves no types.
type typelessServer struct {
	greenroomv1connect.UnimplementedModuleServiceHandler
}

func (typelessServer) ListTypes(context.Context, *connect.Request[greenroomv1.ListTypesRequest]) (*connect.Response[greenroomv1.ListTypesResponse], error) {
	return connect.NewResponse(&greenroomv1.ListTypesResponse{}), nil
}

// TestSubscriptionsList shows what actors subscribe to, and how each subscription fares.
func TestSubscriptionsList(t *testing.T) {
	key := func(typ, id string) *greenroomv1.ActorKey {
		return &greenroomv1.ActorKey{App: "shop", Type: typ, Id: id}
	}
	at := timestamppb.New(time.Unix(1e9, 0))
	s := &subscriptionServer{list: []*greenroomv1.Subscription{
		{Subscriber: key("Invoice", "1"), Publisher: key("Order", "17"), Method: "OnOrder", Position: "3f-0", Newest: "3f-0", UpdatedAt: at},
		{Subscriber: key("Invoice", "2"), Publisher: key("Order", "17"), Method: "OnOrder", Newest: "3f-0", Behind: true, UpdatedAt: at},
		{Subscriber: key("Invoice", "3"), Publisher: key("Ordre", "17"), Method: "OnOrder", PublisherTypeMissing: true, UpdatedAt: at},
	}}
	mux := http.NewServeMux()
	mux.Handle(greenroomv1connect.NewActorServiceHandler(s))
	mux.Handle(greenroomv1connect.NewModuleServiceHandler(typelessServer{}))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	list := func(args ...string) (stdout, stderr string) {
		var out, errs bytes.Buffer
		args = append([]string{"subscriptions", "list", "--app", "shop", "--server", srv.URL}, args...)
		if status := run(t.Context(), args, strings.NewReader(""), &out, &errs, noEnv); status != exitOK {
			t.Fatalf("%v: status %d: %s", args, status, errs.String())
		}
		return out.String(), errs.String()
	}
	out, _ := list()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%s", out)
	}
	for i, want := range []string{"TYPE ID METHOD PUBLISHER AFTER CHANGED STATE", "Invoice 1 OnOrder Order 17 3f-0", "Invoice 2 OnOrder Order 17", "Invoice 3 OnOrder Ordre 17"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
	for i, want := range []string{"", "", "behind", "no type Ordre is deployed"} {
		if want != "" && !strings.HasSuffix(strings.TrimSpace(lines[i]), want) || i == 1 && strings.Contains(lines[i], "behind") {
			t.Errorf("line %d is %q, want %q at its end", i, lines[i], want)
		}
	}
	if out, note := list("--limit", "1"); strings.Count(out, "Invoice") != 1 || !strings.Contains(note, "--page-token x") {
		t.Errorf("one: %s%s", out, note)
	}
	if out, _ := list("-o", "json", "--all", "--limit", "1"); strings.Count(out, `"subscriber"`) != 3 || !strings.Contains(out, `"publisher_type_missing": true`) {
		t.Errorf("JSON: %s", out)
	}
	s.asks = nil
	list("Invoice")
	list("Invoice", "1")
	if s.asks[0] != "shop Invoice" || s.asks[len(s.asks)-1] != "shop Invoice 1" {
		t.Errorf("asked for %q", s.asks)
	}

	s.list = nil
	const unknown = "nothing serves the type Invoce in app shop"
	for _, tt := range []struct {
		args  []string
		noted bool
	}{{nil, false}, {[]string{"Invoce"}, true}, {[]string{"Invoce", "-o", "json"}, false}} {
		if _, note := list(tt.args...); strings.Contains(note, unknown) != tt.noted {
			t.Errorf("%v of none: %q", tt.args, note)
		}
	}
}

// TestSubscriptionState: a failure says more than that a subscription is behind.
func TestSubscriptionState(t *testing.T) {
	at := timestamppb.New(time.Unix(1e9, 0))
	for want, s := range map[string]*greenroomv1.Subscription{
		"":                        {},
		"behind":                  {Behind: true},
		"behind: no type Invoice": {Behind: true, LastError: "no type Invoice"},
		"retrying (attempt 3, " + when(at) + "): no paper": {Behind: true, Failures: 2, LastError: "no paper", NextAttempt: at},
		"no type Order is deployed, behind":                {Behind: true, PublisherTypeMissing: true, Publisher: &greenroomv1.ActorKey{Type: "Order"}},
	} {
		if got := subscriptionState(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
