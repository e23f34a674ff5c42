package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// post is what an actor of testdata/post has counted.
type post struct {
	Sent     map[string]int `json:"sent"`
	Got      map[string]int `json:"got"`
	Disorder int            `json:"disorder"`
	Refused  int            `json:"refused"`
	Back     int            `json:"back"`
	Rounds   int            `json:"rounds"`
	Last     string         `json:"last"`
}

func (r *running) post(t *testing.T, typ, id string) (p post) {
	t.Helper()
	reply, err := r.call(t.Context(), "", typ, id, "Count", "")
	if err == nil {
		err = json.Unmarshal([]byte(reply), &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitPost reads an actor until it is as it should be.
func (r *running) awaitPost(t *testing.T, turns *turnEnds, typ, id string, done func(post) bool) post {
	t.Helper()
	for {
		turns.mu.Lock()
		added := turns.added
		turns.mu.Unlock()
		p := r.post(t, typ, id)
		if done(p) {
			return p
		}
		select {
		case <-added: // perhaps that of this look, and then there is another one
		case <-t.Context().Done():
			t.Fatalf("%s %s has %+v", typ, id, p)
		}
	}
}

// TestMessagesArrive: turns of Wasm guests send messages to actors of every placement, once and in
// order; what fails at first is delivered again, what is never taken comes back and is a dead
// letter, and a turn that fails sends nothing.
func TestMessagesArrive(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
		r.deploy(t, "", build(t, filepath.Join("testdata", "post"), guestbuild.Go))
		refs := `[{"Type":"Post","ID":"b"},{"Type":"Locked","ID":"c"}]`
		if _, err := r.call(t.Context(), "", "Post", "a", "Send", `{"to":`+refs+`,"each":7,"fail":true}`); err == nil {
			t.Error("it did not fail")
		}
		r.mustCall(t, "", "Post", "a", "Send", `{"to":`+refs+`,"each":7,"rounds":3}`, "1")
		r.mustCall(t, "", "Locked", "z", "Send", `{"to":`+refs+`,"each":5,"rounds":1}`, "1")
		r.mustCall(t, "", "Relay", "any", "Pass", `{"to":`+refs+`}`, "")
		for typ, id := range map[string]string{"Post": "b", "Locked": "c"} {
			p := r.awaitPost(t, turns, typ, id, func(p post) bool { return p.Got["Post/a"] >= 21 && p.Got["Locked/z"] >= 5 && p.Got["Relay/any"] >= 1 })
			if p.Got["Post/a"] != 21 || p.Got["Locked/z"] != 5 || p.Got["Relay/any"] != 1 || p.Disorder != 0 {
				t.Errorf("%s %s: %+v", typ, id, p)
			}
		}
		if p := r.awaitPost(t, turns, "Post", "a", func(p post) bool { return p.Back == 3 }); p.Rounds != 3 || p.Refused != 3 {
			t.Errorf("the sender has %+v", p)
		}
		letters := r.deadLetters(t, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_MESSAGES)
		if len(letters) != 4 {
			t.Fatalf("%d dead letters", len(letters))
		}
		if n := len(r.deadLetters(t, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_UNSPECIFIED)); n != 0 {
			t.Errorf("a client that does not know messages is shown %d", n)
		}
		l := letters[0]
		if l.Reminder.Actor.GetType() != "Refuser" || l.Reminder.Spec.GetMethod() != "Refuse" || l.Reminder.Name != "" || l.Reminder.Message.GetFrom() == nil || !strings.Contains(l.Reason, "never") || l.Reminder.Failures != 2 {
			t.Errorf("a dead letter is %v", l)
		}
	})
}

func (r *running) deadLetters(t *testing.T, kind greenroomv1.DeadLetterKind) []*greenroomv1.DeadLetter {
	t.Helper()
	c := greenroomv1connect.NewReminderServiceClient(http.DefaultClient, r.URL)
	list, err := c.ListDeadLetters(t.Context(), connect.NewRequest(&greenroomv1.ListDeadLettersRequest{Kind: kind}))
	if err != nil {
		t.Fatal(err)
	}
	return list.Msg.DeadLetters
}

// TestCancelQueued: what waits for an actor of a store, and then for all of a type, is cancelled: messages with a delay
// are gone, or dead letters, and a call that waits for the end of a pause is refused.
func TestCancelQueued(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, _ *turnEnds) {
		r.deploy(t, "", build(t, filepath.Join("testdata", "post"), guestbuild.Go))
		send := func(id string) {
			t.Helper()
			m := &greenroomv1.OutgoingMessage{Type: "Post", Id: id, Method: "Take", Payload: []byte("1"), Due: &greenroomv1.OutgoingMessage_After{After: durationpb.New(time.Hour)}}
			if _, err := r.actors.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{m}})); err != nil {
				t.Fatal(err)
			}
		}
		cancel := func(id string, dead bool) *greenroomv1.CancelQueuedResponse {
			t.Helper()
			res, err := r.actors.CancelQueued(t.Context(), connect.NewRequest(&greenroomv1.CancelQueuedRequest{Type: "Post", Id: id, DeadLetter: dead}))
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Msg.Missing) > 0 || res.Msg.More {
				t.Errorf("%v", res.Msg)
			}
			return res.Msg
		}
		for _, id := range []string{"x", "x", "y", "z"} {
			send(id)
		}
		if c := cancel("x", false); c.Messages != 2 {
			t.Errorf("of x: %v", c)
		}
		if c := cancel("", true); c.Messages != 2 {
			t.Errorf("of the type: %v", c)
		}
		letters := r.deadLetters(t, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_MESSAGES)
		if len(letters) != 2 || !strings.Contains(letters[0].Reason, "cancelled") {
			t.Errorf("the dead letters are %v", letters)
		}
		if _, err := r.settings.PauseType(t.Context(), connect.NewRequest(&greenroomv1.PauseTypeRequest{Type: "Post"})); err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() {
			_, err := r.call(t.Context(), "", "Post", "x", "Take", "1")
			end <- err
		}()
		for calls := uint32(0); calls == 0; { // it is on its way
			calls = cancel("", false).Calls
		}
		if err := <-end; detail(err).GetKind() != "call_cancelled" || detail(err).GetRetryable() || connect.CodeOf(err) != connect.CodeAborted {
			t.Errorf("the call that waited: %v", err)
		}
	})
}

// TestCancelQueuedOfServers: calls that wait at another server are cancelled as well.
func TestCancelQueuedOfServers(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, func(*node.Config) {}))
	first.deploy(t, "", wasmtest.Guest{Turn: wasmtest.Code(wasmtest.I32Const(0))}.Bytes())
	second := start(t, inCluster(url, func(*node.Config) {}))
	if _, err := first.settings.PauseType(t.Context(), connect.NewRequest(&greenroomv1.PauseTypeRequest{Type: "T"})); err != nil {
		t.Fatal(err)
	}
	const calls = 32 // each server has some
	ends := make(chan error, calls)
	for i := range calls {
		go func() {
			_, err := first.call(t.Context(), "", "T", fmt.Sprint(i), "Do", "")
			ends <- err
		}()
	}
	for n := uint32(0); n < calls; { // some are on their way
		res, err := second.actors.CancelQueued(t.Context(), connect.NewRequest(&greenroomv1.CancelQueuedRequest{Type: "T"}))
		if err != nil || len(res.Msg.Missing) > 0 {
			t.Fatal(res, err)
		}
		n += res.Msg.Calls
	}
	for range calls {
		if err := <-ends; detail(err).GetKind() != "call_cancelled" {
			t.Errorf("a call that waited: %v", err)
		}
	}
}

// TestMessagesFromOutside: a message from outside is delivered once, also sent again under its key;
// one with a delay waits in the inbox; a private method takes none; a dead letter is retried and
// dropped.
func TestMessagesFromOutside(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
		r.deploy(t, "", build(t, filepath.Join("testdata", "post"), guestbuild.Go))
		actors := greenroomv1connect.NewActorServiceClient(http.DefaultClient, r.URL)
		send := func(m *greenroomv1.OutgoingMessage) (*greenroomv1.SentMessage, error) {
			m.Payload = []byte("1")
			res, err := actors.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{m}}))
			if err != nil {
				return nil, err
			}
			return res.Msg.Messages[0], nil
		}
		var ids []string
		for range 2 {
			sent, err := send(&greenroomv1.OutgoingMessage{Type: "Post", Id: "x/ü", Method: "Take", IdempotencyKey: "k"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, fmt.Sprint(sent.Id, sent.Repeated))
		}
		if ids[0] == ids[1] || strings.TrimSuffix(ids[0], "false") != strings.TrimSuffix(ids[1], "true") {
			t.Errorf("the answers are %q", ids)
		}
		turns.await(t, "x/ü", "Take", 1)
		if p := r.post(t, "Post", "x/ü"); p.Got["/"] != 1 || p.Last != "message from /" {
			t.Errorf("it got %+v", p)
		}
		later, err := send(&greenroomv1.OutgoingMessage{Type: "Post", Id: "x", Method: "Take", Due: &greenroomv1.OutgoingMessage_After{After: durationpb.New(time.Hour)}, Cookie: 7})
		if err != nil {
			t.Fatal(err)
		}
		box, err := actors.ListMessages(t.Context(), connect.NewRequest(&greenroomv1.ListMessagesRequest{Actor: &greenroomv1.ActorKey{Type: "Post", Id: "x"}, Payloads: true}))
		if err != nil || len(box.Msg.Messages) != 1 {
			t.Fatalf("the inbox has %v, %v", box, err)
		}
		if m := box.Msg.Messages[0]; m.Id != later.Id || string(m.Payload) != "1" || m.Details.GetCookie() != 7 || m.Details.GetOrdered() || m.FireAt.AsTime().Sub(m.SentAt.AsTime()).Round(time.Minute) != time.Hour {
			t.Errorf("the inbox has %v", m)
		}
		for _, bad := range []struct{ typ, method, kind string }{
			{"Post", "Returned", "method_private"}, {"Post", "None", "method_not_found"}, {"None", "Take", "type_not_found"}, {"Post", "Count", "invalid_argument"},
		} {
			if _, err := send(&greenroomv1.OutgoingMessage{Type: bad.typ, Id: "x", Method: bad.method}); detail(err).GetKind() != bad.kind {
				t.Errorf("%s.%s: %v", bad.typ, bad.method, err)
			}
		}

		r.mustCall(t, "", "Post", "s", "Send", `{"to":[{"Type":"Post","ID":"t"}],"each":1}`, "1")
		r.awaitPost(t, turns, "Post", "s", func(p post) bool { return p.Back == 1 })
		reminders := greenroomv1connect.NewReminderServiceClient(http.DefaultClient, r.URL)
		dead := r.deadLetters(t, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_ALL)
		if len(dead) != 1 {
			t.Fatalf("%d dead letters", len(dead))
		}
		got, err := reminders.GetDeadLetter(t.Context(), connect.NewRequest(&greenroomv1.GetDeadLetterRequest{Id: dead[0].Id}))
		if err != nil || string(got.Msg.DeadLetter.Reminder.Spec.Payload) != "1" || got.Msg.DeadLetter.Reminder.Message.GetCookie() != 1 {
			t.Errorf("the dead letter is %v, %v", got, err)
		}
		if _, err := reminders.RetryDeadLetter(t.Context(), connect.NewRequest(&greenroomv1.RetryDeadLetterRequest{Id: dead[0].Id})); err != nil {
			t.Fatal(err)
		}
		r.awaitPost(t, turns, "Post", "s", func(post) bool { // it fails again
			again := r.deadLetters(t, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_MESSAGES)
			if len(again) == 0 || again[0].Id == dead[0].Id {
				return false
			}
			dead = again
			return true
		})
		res, err := reminders.DeleteDeadLetter(t.Context(), connect.NewRequest(&greenroomv1.DeleteDeadLetterRequest{Id: dead[0].Id}))
		if err != nil || !res.Msg.Existed || len(r.deadLetters(t, greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_ALL)) != 0 {
			t.Errorf("dropped: %v, %v", res, err)
		}
	})
}

// TestPingpongExample plays a game in a real server, to its end.
func TestPingpongExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		turns := watchTurns()
		r := start(t, node.Config{TurnEnd: turns.add})
		r.deploy(t, "", example(t, "pingpong", toolchain))
		const rounds = 500
		r.mustCall(t, "", "Player", "ann", "Serve", fmt.Sprintf(`{"against":"bob","rounds":%d}`, rounds), "")
		turns.await(t, "ann", "Return", rounds)
		r.mustCall(t, "", "Player", "ann", "View", "", fmt.Sprintf(`{"hits":%d,"won":1,"lost":0}`, rounds))
		r.mustCall(t, "", "Player", "bob", "View", "", fmt.Sprintf(`{"hits":%d,"won":0,"lost":0}`, rounds))
	})
}

// TestChatExample has members talk in a real server, by commands of its README, until the room is closed.
func TestChatExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		turns := watchTurns()
		r := start(t, node.Config{TurnEnd: turns.add})
		r.deploy(t, "", example(t, "chat", toolchain))
		r.mustCall(t, "", "Room", "r1", "Open", `"lobby"`, "")
		if _, err := r.call(t.Context(), "", "Room", "r2", "Open", `"lobby"`); detail(err).GetGuest().GetCode() != "taken" {
			t.Errorf("two rooms of one name: %v", err)
		}
		r.mustCall(t, "", "Directory", "all", "Follow", "", "")
		turns.await(t, "all", "Changed", 1)
		r.mustCall(t, "", "Directory", "all", "View", "", `{"rooms":["lobby"]}`)
		for _, id := range []string{"ann", "bob"} {
			r.mustCall(t, "", "Member", id, "Join", `"lobby"`, "")
			turns.await(t, id, "Entered", 1)
		}
		turns.await(t, "ann", "Present", 1)
		r.mustCall(t, "", "Room", "r1", "View", "", `{"name":"lobby","members":["ann","bob"]}`)
		r.mustCall(t, "", "Member", "ann", "Say", `"hello"`, "")
		turns.await(t, "bob", "Hear", 1)
		r.mustCall(t, "", "Member", "bob", "View", "", `{"room":"lobby","at":"r1","members":["ann","bob"],"lines":[{"who":"ann","text":"hello"}]}`)
		r.mustCall(t, "", "Member", "bob", "Leave", "", "")
		turns.await(t, "ann", "Present", 2)
		turns.await(t, "ann", "Hear", 1)
		r.mustCall(t, "", "Member", "ann", "View", "", `{"room":"lobby","at":"r1","members":["ann"],"lines":[{"who":"ann","text":"hello"}]}`)
		r.mustCall(t, "", "Room", "r1", "Close", "", "")
		turns.await(t, "ann", "Refused", 1)
		r.mustCall(t, "", "Member", "ann", "View", "", `{"lines":[{"who":"ann","text":"hello"}]}`)
		turns.await(t, "all", "Changed", 2)
		r.mustCall(t, "", "Directory", "all", "View", "", `{"rooms":[]}`)
	})
}
