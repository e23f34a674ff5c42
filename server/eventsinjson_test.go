package server

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// Whoever reads the events of a typed actor in JSON gets the messages of its streams in that form, and
// everything else as it was published.
func TestEventsOfTypedActorsInJSON(t *testing.T) {
	r := startRadio(t, nil)
	at := r.play("first")
	r.publish("Other", abi.ContentTypeProtobuf, "\x0a\x01x")
	r.publish("Play", abi.ContentTypeProtobuf, "\x0a\x01x") // an rpc, and no stream
	r.publish("Listen", abi.ContentTypeProtobuf, "\x0a\x05x")
	r.publish("Listen", "text/plain", "x")
	kept := func(json bool) (got []string) {
		list, err := r.kept(t, json)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			got = append(got, strings.ReplaceAll(string(e.GetPayload()), " ", "")+" "+e.GetContentType())
		}
		return got
	}
	published := []string{"\x0a\x05first " + abi.ContentTypeProtobuf, "\x0a\x01x " + abi.ContentTypeProtobuf, "\x0a\x01x " + abi.ContentTypeProtobuf, "\x0a\x05x " + abi.ContentTypeProtobuf, "x text/plain"}
	inJSON := slices.Clone(published)
	inJSON[0] = `{"title":"first","greenroomPosition":"` + at + `"} application/json`
	for range 2 { // what one subscriber gets in JSON, the next one gets as it is
		if got := kept(true); !slices.Equal(got, inJSON) {
			t.Errorf("in JSON:\n%q\nwant\n%q", got, inJSON)
		}
		if got := kept(false); !slices.Equal(got, published) {
			t.Errorf("as it is:\n%q\nwant\n%q", got, published)
		}
	}

	data := r.serverSent(t, len(published))
	for i := range data {
		data[i] = strings.ReplaceAll(data[i], " ", "")
	}
	if want := []string{`{"title":"first","greenroomPosition":"` + at + `"}`, "CgF4", "CgF4", "CgV4", "x"}; !slices.Equal(data, want) {
		t.Errorf("server-sent events:\n%q\nwant\n%q", data, want)
	}

	r.deploy(t, "Tape") // nothing serves the type Radio, which has events
	if got := kept(true); !slices.Equal(got, published) {
		t.Errorf("of a type that is not served:\n%q\nwant\n%q", got, published)
	}
}

// kept returns the events of station one that are kept, up to an error.
func (r *radio) kept(t *testing.T, json bool) (list []*greenroomv1.ActorEvent, err error) {
	t.Helper()
	api := greenroomv1connect.NewActorServiceClient(client(t, false), r.url)
	s, err := api.Subscribe(t.Context(), connect.NewRequest(&greenroomv1.SubscribeRequest{
		Actor: &greenroomv1.ActorKey{Type: "Radio", Id: "one"}, From: &greenroomv1.SubscribeRequest_Start{Start: true}, KeptOnly: true, Json: json,
	}))
	if err != nil {
		t.Fatal(err)
	}
	for s.Receive() {
		list = append(list, s.Msg().GetEvents()...)
	}
	return list, s.Err()
}

// serverSent returns the data of server-sent events of station one, until there are most of them or the
// stream ends.
func (r *radio) serverSent(t *testing.T, most int) (data []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v2.0/actors/default/Radio/one/events?from=start", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for len(data) < most && lines.Scan() {
		if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data = append(data, d)
		}
	}
	return data
}

// TestEventsInJSONGiveBack: the JSON of events counts for the memory that it takes only while these are sent.
func TestEventsInJSONGiveBack(t *testing.T) {
	r := startRadio(t, func(c *Config) { c.MaxRequestsBytes = 1 << 20 })
	const n = 4 << 10 // which takes several MiB together
	for range n {
		r.play(strings.Repeat("x", 100))
	}
	if got, err := r.kept(t, true); len(got) != n || err != nil {
		t.Errorf("%d events of %d, %v", len(got), n, err)
	}
	if got := r.serverSent(t, n); len(got) != n {
		t.Errorf("%d server-sent events of %d", len(got), n)
	}
	r.stopsEmpty(t)
}

// TestEventsInJSONWeigh: events whose JSON has no room in memory end their stream, with the error where
// that has a place. They are neither left out nor sent in another form, and those before them are sent.
func TestEventsInJSONWeigh(t *testing.T) {
	r := startRadio(t, func(c *Config) { c.MaxRequestsBytes = 128 << 10 })
	r.play("x")
	r.play(strings.Repeat("x", 60<<10)) // which may become six times as long in JSON
	got, err := r.kept(t, true)
	if len(got) != 1 {
		t.Errorf("got %d events", len(got))
	}
	wantError(t, err, connect.CodeResourceExhausted, "host_full")
	if got := r.serverSent(t, 2); len(got) != 1 {
		t.Errorf("%d server-sent events", len(got))
	}
}
