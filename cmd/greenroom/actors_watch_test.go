package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// answering answers with lists, one after the other, and cancels when there are no more.
type answering struct {
	greenroomv1connect.ActorServiceClient
	lists  [][]*greenroomv1.Actor
	takes  time.Duration
	asked  []time.Time
	cancel func()
}

func (a *answering) ListActors(ctx context.Context, req *connect.Request[greenroomv1.ListActorsRequest]) (*connect.Response[greenroomv1.ListActorsResponse], error) {
	a.asked = append(a.asked, time.Now())
	if len(a.lists) == 0 {
		a.cancel()
		return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	list := a.lists[0]
	a.lists = a.lists[1:]
	<-time.After(a.takes) // in the bubble of a test
	return connect.NewResponse(&greenroomv1.ListActorsResponse{Actors: list, Scan: &greenroomv1.ActorScan{Matched: uint64(len(list))}}), nil
}

func listed(id string, version uint64, value string) *greenroomv1.Actor {
	return &greenroomv1.Actor{Key: &greenroomv1.ActorKey{Id: id}, Version: version, Selected: []string{value}}
}

func watched(t *testing.T, output string, client *answering) string {
	var out, errs bytes.Buffer
	c := &cli{console: console{stdout: &out, stderr: &errs, output: output, getenv: func(string) string { return "" }}, app: "shop"}
	cmd := actorsListCommand(c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client.cancel = cancel
	cmd.SetContext(ctx)
	q := &queryFlags{where: "true", selects: []string{"id"}, interval: time.Second}
	if err := watchActors(cmd, c, &api{actors: client}, "Cart", &pageFlags{limit: 10}, q); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWatchShowsWhatChanges(t *testing.T) {
	lists := [][]*greenroomv1.Actor{
		{listed("a", 1, `"a"`), listed("b", 1, `"b"`)},
		{listed("a", 1, `"a"`), listed("b", 2, `"b"`), listed("c", 1, `"c"`)},
		{listed("a", 1, `"a"`), listed("b", 2, `"b"`), listed("c", 1, `"c"`)},
		{listed("c", 1, `"now"`)},
	}
	for output, want := range map[string]string{
		outputTable: "+ a\n+ b\n~ b\n+ c\n~ now\n- a\n- b\n",
		outputCSV:   "added,a\nadded,b\nchanged,b\nadded,c\nchanged,now\nremoved,a\nremoved,b\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := watched(t, output, &answering{lists: slices.Clone(lists)}); got != want {
				t.Errorf("%s shows\n%s, want\n%s", output, got, want)
			}
		})
	}
}

// A question that takes long is asked less often.
func TestWatchRestsLongerThanItAsks(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{0: time.Second, 100 * time.Millisecond: 1100 * time.Millisecond, 2 * time.Second: 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			client := &answering{lists: make([][]*greenroomv1.Actor, 2), takes: takes}
			watched(t, outputTable, client)
			if got := client.asked[1].Sub(client.asked[0]); got != want {
				t.Errorf("a question of %s is asked again after %s, want %s", takes, got, want)
			}
		})
	}
}

// oldServer answers as if it knew no filters.
type oldServer struct {
	greenroomv1connect.ActorServiceClient
}

func (oldServer) ListActors(context.Context, *connect.Request[greenroomv1.ListActorsRequest]) (*connect.Response[greenroomv1.ListActorsResponse], error) {
	return connect.NewResponse(&greenroomv1.ListActorsResponse{Actors: []*greenroomv1.Actor{listed("a", 1, "")}}), nil
}

func TestServerWithoutFiltersIsNoticed(t *testing.T) {
	c := &cli{app: "shop"}
	_, err := listActors(t.Context(), c, &api{actors: oldServer{}}, "Cart", &pageFlags{limit: 10}, &queryFlags{where: "false"})
	if !errors.Is(err, errOldServer) {
		t.Errorf("a filter that the server ignores: %v", err)
	}
	if _, err := countActors(t.Context(), c, &api{actors: oldServer{}}, "Cart", &queryFlags{}); !errors.Is(err, errOldServer) {
		t.Errorf("a count that the server ignores: %v", err)
	}
	if list, err := listActors(t.Context(), c, &api{actors: oldServer{}}, "Cart", &pageFlags{limit: 1}, &queryFlags{}); err != nil || len(list.Actors) != 1 {
		t.Errorf("a plain list: %v, %v", list, err)
	}
}

func TestExpressionsAreSplitAtCommas(t *testing.T) {
	for text, want := range map[string][]string{
		`id, state.a`: {"id", "state.a"}, `[1, 2],f(a, b)`: {"[1, 2]", "f(a, b)"}, `"a,\",b",'c,d'`: {`"a,\",b"`, `'c,d'`}, "state.`a,b`": {"state.`a,b`"}, `{"a": 1, "b": 2}`: {`{"a": 1, "b": 2}`},
	} {
		got, err := splitExpressions([]string{text})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is split into %q, %v; want %q", text, got, err, want)
		}
	}
}
