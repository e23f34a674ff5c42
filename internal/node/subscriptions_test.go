package node_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// reader is what an actor of testdata/paper has read.
type reader struct {
	Last     map[string]int `json:"last"`
	First    map[string]int `json:"first"`
	Disorder int            `json:"disorder"`
	Gone     int            `json:"gone"`
	Ended    int            `json:"ended"`
	Read     int            `json:"read"`
	Cause    string         `json:"cause"`
}

func (r *running) reader(t *testing.T, typ, id string) (seen reader) {
	t.Helper()
	reply, err := r.call(t.Context(), "", typ, id, "View", "")
	if err == nil {
		err = json.Unmarshal([]byte(reply), &seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// awaitReader reads an actor until it is as it should be.
func (r *running) awaitReader(t *testing.T, turns *turnEnds, typ, id string, done func(reader) bool) reader {
	t.Helper()
	for {
		turns.mu.Lock()
		added := turns.added
		turns.mu.Unlock()
		seen := r.reader(t, typ, id)
		if done(seen) {
			return seen
		}
		t.Logf("%s %+v", id, seen)
		select {
		case <-added: // perhaps that of this look, and then there is another one
		case <-t.Context().Done():
			t.Fatalf("%s %s has %+v", typ, id, seen)
		}
	}
}

// onPapers runs a test with the same guest in Go and in Rust, on every store.
func onPapers(t *testing.T, test func(*testing.T, *running, *turnEnds)) {
	for dir, toolchain := range map[string]string{"paper": guestbuild.Go, "paper-rust": guestbuild.Cargo} {
		t.Run(dir, func(t *testing.T) {
			onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
				r.deploy(t, "", build(t, filepath.Join("testdata", dir), toolchain))
				test(t, r, turns)
			})
		})
	}
}

// TestSubscriptionsOfActors: actors of Wasm guests subscribe to the events of another one: each gets
// what is published from then on, once and in order, also what fails at first, until its subscription
// ends. A turn that fails subscribes to nothing, and an actor subscribes to no more than it may.
func TestSubscriptionsOfActors(t *testing.T) {
	onPapers(t, func(t *testing.T, r *running, turns *turnEnds) {
		r.mustCall(t, "", "Paper", "p", "Publish", "3", "3")
		if _, err := r.call(t.Context(), "", "Reader", "lost", "Subscribe", `{"paper":"p","lost":true}`); err == nil {
			t.Error("it did not fail")
		}
		for _, typ := range []string{"Reader", "Anywhere"} {
			if _, err := r.call(t.Context(), "", typ, "all", "Subscribe", `{"paper":"p","fails":5}`); err != nil {
				t.Fatal(err)
			}
		}
		for _, order := range []string{`{"paper":"p","stops":4}`, `{"paper":"q"}`} {
			if _, err := r.call(t.Context(), "", "Reader", "some", "Subscribe", order); err != nil {
				t.Fatal(err)
			}
		}
		r.mustCall(t, "", "Paper", "p", "Publish", "7", "10")
		for _, typ := range []string{"Reader", "Anywhere"} {
			seen := r.awaitReader(t, turns, typ, "all", func(seen reader) bool { return seen.Last["p"] == 10 })
			if seen.First["p"] != 4 || seen.Read != 7 || seen.Disorder != 0 || seen.Cause != "event issue of Paper" {
				t.Errorf("%s all has %+v", typ, seen)
			}
		}

		// The subscription to q outlives that to p, whose end is a part of an event's turn.
		r.mustCall(t, "", "Paper", "q", "Publish", "1", "1")
		r.awaitReader(t, turns, "Reader", "all", func(seen reader) bool { return seen.Last["p"] == 10 })
		r.mustCall(t, "", "Reader", "all", "Unsubscribe", `"p"`, "true")
		r.mustCall(t, "", "Reader", "all", "Unsubscribe", `"p"`, "false")
		r.mustCall(t, "", "Paper", "p", "Publish", "2", "12")
		r.awaitReader(t, turns, "Anywhere", "all", func(seen reader) bool { return seen.Last["p"] == 12 })
		for id, want := range map[string]reader{"all": {Read: 7}, "lost": {}} {
			if seen := r.reader(t, "Reader", id); seen.Read != want.Read || seen.Disorder != 0 {
				t.Errorf("Reader %s has %+v after all", id, seen)
			}
		}
		seen := r.awaitReader(t, turns, "Reader", "some", func(seen reader) bool { return seen.Last["q"] == 1 })
		if seen.Disorder != 0 || seen.Last["p"] < 7 {
			t.Errorf("Reader some has %+v", seen)
		}

		if _, err := r.call(t.Context(), "", "Reader", "greedy", "Many", "101"); err == nil || !strings.Contains(fmt.Sprint(err), "at most 100") {
			t.Errorf("101 subscriptions: %v", err)
		}
		if _, err := r.call(t.Context(), "", "Reader", "greedy", "Many", "100"); err != nil {
			t.Errorf("100 subscriptions: %v", err)
		}
	})
}

// TestEndsOfSubscriptions: the end of an actor's life and its deletion end its subscriptions. A subscriber
// whose next event is no longer kept gets one turn with position_gone, and then the next kept event.
func TestEndsOfSubscriptions(t *testing.T) {
	onPapers(t, func(t *testing.T, r *running, turns *turnEnds) {
		for _, id := range []string{"ends", "stays", "behind"} {
			order := `{"paper":"p"}`
			if id == "behind" {
				order = `{"paper":"p","fails":1}`
			}
			if _, err := r.call(t.Context(), "", "Reader", id, "Subscribe", order); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.call(t.Context(), "", "Reader", "ends", "End", ""); err != nil {
			t.Fatal(err)
		}
		r.mustCall(t, "", "Paper", "p", "Publish", "1", "1")
		r.mustCall(t, "", "Paper", "p", "Publish", "200", "201")
		seen := r.awaitReader(t, turns, "Reader", "stays", func(seen reader) bool { return seen.Last["p"] == 201 })
		if seen.Disorder != 0 {
			t.Errorf("it has %+v", seen)
		}
		seen = r.awaitReader(t, turns, "Reader", "behind", func(seen reader) bool { return seen.Last["p"] == 201 })
		if seen.Disorder != 0 {
			t.Errorf("it has %+v", seen)
		}
		if seen := r.reader(t, "Reader", "ends"); seen.Read != 0 {
			t.Errorf("an earlier life's subscription goes on: %+v", seen)
		}
	})
}

// TestEndsOfPublishers: a subscriber learns once that its publisher has passed away, after the last event
// of that life and before the first one of the next, also if it fails at first. A stream of the
// publisher's events shows the same, and the list of subscriptions that all is delivered.
func TestEndsOfPublishers(t *testing.T) {
	onPapers(t, func(t *testing.T, r *running, turns *turnEnds) {
		for _, typ := range []string{"Reader", "Anywhere"} {
			if _, err := r.call(t.Context(), "", typ, "r", "Subscribe", `{"paper":"p"}`); err != nil {
				t.Fatal(err)
			}
		}
		r.mustCall(t, "", "Paper", "p", "Publish", "2", "2")
		if _, err := r.call(t.Context(), "", "Paper", "p", "End", ""); err != nil {
			t.Fatal(err)
		}
		r.mustCall(t, "", "Paper", "p", "Publish", "3", "3")
		for _, typ := range []string{"Reader", "Anywhere"} {
			seen := r.awaitReader(t, turns, typ, "r", func(seen reader) bool { return seen.Read == 5 })
			if seen.Ended != 1 || seen.Last["p"] != 3 || seen.First["p"] != 1 || seen.Disorder != 0 {
				t.Errorf("%s has %+v", typ, seen)
			}
			list, err := r.actors.ListSubscriptions(t.Context(), connect.NewRequest(&greenroomv1.ListSubscriptionsRequest{Type: typ, Id: "r"}))
			if err != nil {
				t.Fatal(err)
			}
			if all := list.Msg.Subscriptions; len(all) != 1 || all[0].Behind || all[0].Newest == "" || all[0].Position != all[0].Newest || all[0].Publisher.GetId() != "p" || all[0].Method != "Issue" || all[0].PublisherTypeMissing {
				t.Errorf("%s has the subscriptions %v", typ, all)
			}
		}
		stream, err := r.actors.Subscribe(t.Context(), connect.NewRequest(&greenroomv1.SubscribeRequest{
			Actor: &greenroomv1.ActorKey{Type: "Paper", Id: "p"}, From: &greenroomv1.SubscribeRequest_Start{Start: true}, KeptOnly: true,
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		var got []string
		for stream.Receive() {
			for _, e := range stream.Msg().Events {
				got = append(got, fmt.Sprint(e.Name, " ", e.Life, string(e.Payload)))
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"issue 01", "issue 02", "greenroom.passed_away 0", "issue 11", "issue 12", "issue 13"}; !slices.Equal(got, want) {
			t.Errorf("streamed %q, want %q", got, want)
		}
	})
}
