package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
)

func TestActorsAreListedInPages(t *testing.T) {
	f := start(t, nil) // five actors
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	for size, pages := range map[int32]int{0: 1, 1: 6, 2: 3, 4: 2, 1000: 1} {
		var ids []string
		req := &greenroomv1.ListActorsRequest{App: "shop", Type: "Cart", PageSize: size}
		n := 0
		for {
			n++
			page, err := c.ListActors(t.Context(), connect.NewRequest(req))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Msg.GetActors() {
				if a.GetKey().GetApp() != "shop" || a.GetKey().GetType() != "Cart" || a.GetUpdatedAt().AsTime().Unix() != 9 {
					t.Errorf("got %v", a)
				}
				ids = append(ids, a.GetKey().GetId())
			}
			if req.PageToken = page.Msg.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if len(ids) != 5 || n != pages {
			t.Errorf("size %d: %v in %d pages", size, ids, n)
		}
	}
	for _, req := range []*greenroomv1.ListActorsRequest{
		{Type: "Cart", PageSize: -1}, {Type: "Cart", PageSize: 1001}, {Type: "Cart", PageToken: "x"}, {},
		{Type: "Cart", PageToken: forgedToken(greenroomv1connect.ActorServiceListActorsProcedure, "default", "Counter", "1")},
	} {
		_, err := c.ListActors(t.Context(), connect.NewRequest(req))
		wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	}
}

func TestActorsAreFoundByTheirState(t *testing.T) {
	f := start(t, nil) // five actors, whose states have their numbers as n
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	ask := func(req *greenroomv1.ListActorsRequest) *greenroomv1.ListActorsResponse {
		t.Helper()
		req.App, req.Type = "shop", "Cart"
		page, err := c.ListActors(t.Context(), connect.NewRequest(req))
		if err != nil {
			t.Fatal(err)
		}
		return page.Msg
	}
	got := ask(&greenroomv1.ListActorsRequest{Filter: "state.n >= 2", Select: []string{"id", "state.n * 10"}, PageSize: 2})
	if len(got.Actors) != 2 || got.Actors[1].GetKey().GetId() != "003" || !slices.Equal(got.Actors[1].Selected, []string{`"003"`, "30"}) || got.Actors[1].GetVersion() != 1 {
		t.Errorf("the first page has %v", got)
	}
	got = ask(&greenroomv1.ListActorsRequest{Filter: "state.n >= 2", PageSize: 2, PageToken: got.NextPageToken})
	if len(got.Actors) != 1 || got.NextPageToken != "" || got.Scan.GetExamined() != 1 || got.Scan.GetMatched() != 1 {
		t.Errorf("the second page has %v", got)
	}
	got = ask(&greenroomv1.ListActorsRequest{Filter: "state.n > 0 && (state.n != 3 || state.missing)", Prefix: "00", Count: true, PageSize: 1})
	if len(got.Actors) != 0 || got.Scan.GetMatched() != 3 || got.Scan.GetFailed() != 1 || got.Scan.GetFailure() != `actor "003": no such key: missing` {
		t.Errorf("the count is %v", got)
	}
	if got = ask(&greenroomv1.ListActorsRequest{}); got.Scan != nil {
		t.Errorf("a plain list has the scan %v", got.Scan)
	}
	for _, req := range []*greenroomv1.ListActorsRequest{
		{Type: "Cart", Filter: "n > 2"}, {Type: "Cart", Filter: "id"}, {Type: "Cart", Select: []string{""}}, {Type: "Cart", Select: make([]string, 33)},
		{Type: "Cart", Filter: strings.Repeat(" ", 4096) + "true"}, {Type: "Cart", Filter: "true", Prefix: "\x00"},
	} {
		_, err := c.ListActors(t.Context(), connect.NewRequest(req))
		wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	}
}

func TestActorIsViewedAndDeleted(t *testing.T) {
	f := start(t, nil)
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	some, none := &greenroomv1.ActorKey{Type: "Counter", Id: "a/b"}, &greenroomv1.ActorKey{Type: "Counter", Id: "none"}

	got, err := c.GetActor(t.Context(), connect.NewRequest(&greenroomv1.GetActorRequest{Actor: some}))
	if err != nil {
		t.Fatal(err)
	}
	a := got.Msg.GetActor()
	if a.GetKey().GetApp() != "default" || a.GetKey().GetId() != "a/b" || a.GetVersion() != 7 || a.GetGeneration() != 2 || a.GetStateSchema() != 3 ||
		a.GetStateSize() != 11 || a.GetUpdatedAt().AsTime().Unix() != 5 || !a.GetActive() || a.GetQueueDepth() != 4 {
		t.Errorf("got %v", a)
	}
	state, err := c.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{Actor: some}))
	if err != nil {
		t.Fatal(err)
	}
	if e := state.Msg.GetEntries(); state.Msg.GetVersion() != 7 || len(e) != 2 || !e[0].GetJson() || e[1].GetJson() || !bytes.Equal(e[1].GetValue(), []byte{0, 255}) {
		t.Errorf("got %v", state.Msg)
	}
	if _, err := c.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: some})); err != nil {
		t.Error(err)
	}
	if len(f.host.deleted) != 1 || f.host.deleted[0] != key("a/b") {
		t.Errorf("deleted %v", f.host.deleted)
	}

	_, err = c.GetActor(t.Context(), connect.NewRequest(&greenroomv1.GetActorRequest{Actor: none}))
	wantError(t, err, connect.CodeNotFound, "actor_not_found")
	_, err = c.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{Actor: none}))
	wantError(t, err, connect.CodeNotFound, "actor_not_found")
	_, err = c.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: none}))
	wantError(t, err, connect.CodeNotFound, "actor_not_found")
}
