package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/store"
)

// fakeMessages keeps what is sent. Methods that begin with "No" are refused.
type fakeMessages struct {
	mu    sync.Mutex
	sent  []inbox.Request
	keys  map[string]actor.ReminderID
	check func(key actor.Key, method string) error // of receivers; nil: all are deployed
}

// CheckReceiver implements [rpc.Messages].
func (m *fakeMessages) CheckReceiver(_ context.Context, key actor.Key, method string) error {
	if m.check == nil {
		return nil
	}
	return m.check(key, method)
}

func (m *fakeMessages) Send(_ context.Context, r *inbox.Request, key string) (id actor.ReminderID, repeated bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.HasPrefix(r.Method, "No") {
		return id, false, fmt.Errorf("%w: it has none", actor.ErrMethodNotFound)
	}
	if id, repeated = m.keys[key]; repeated {
		return id, true, nil
	}
	m.sent = append(m.sent, *r)
	id = actor.ReminderID{Prefix: 1, Token: uint32(len(m.sent)), Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
	if key != "" {
		if m.keys == nil {
			m.keys = map[string]actor.ReminderID{}
		}
		m.keys[key] = id
	}
	return id, false, nil
}

// List returns seven messages, of which two have an order.
func (m *fakeMessages) List(_ context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	var all []actor.Reminder
	for i := range uint32(7) {
		id := actor.ReminderID{Prefix: 1, Token: i, Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
		r := actor.Reminder{ID: id, CreatedAt: time.Unix(1, 0)}
		r.Key, r.Name, r.Method, r.Payload.Data = q.Key, actor.UnorderedMessageName(id), "Take", []byte("xyz")
		r.Message = &actor.Message{Cookie: uint64(i)}
		if i < 2 {
			from := actor.Key{App: q.Key.App, Type: "T", ID: "sender"}
			r.Name, r.Message.From = actor.MessageName(from, 5, int(i)), from
		}
		all = append(all, r)
	}
	for _, r := range all {
		if r.Name <= q.After {
			continue
		}
		if len(list) == q.Limit {
			return list, list[len(list)-1].Name, nil
		}
		list = append(list, r)
	}
	return list, "", nil
}

// Cancel says what it was asked for: one message for each that is to stay, and more without an ID.
func (m *fakeMessages) Cancel(_ context.Context, req reminder.CancelRequest) (removed int, more bool, err error) {
	return len(req.Except), req.To.ID == "", nil
}

// queues has one call and one volatile message of each actor, and one message that runs.
type queues struct{}

func (queues) CancelQueued(of actor.Key) host.Cancelled {
	if of != (actor.Key{App: "shop", Type: "T", ID: of.ID}) {
		return host.Cancelled{}
	}
	return host.Cancelled{Calls: 1, Tells: 2, Begun: make([]actor.ReminderID, 3)}
}

// TestCancelQueued: what the mailboxes and the messages say is in the answer, and messages whose turns run
// are left alone.
func TestCancelQueued(t *testing.T) {
	f := start(t, func(c *Config) { c.Messages, c.Queues = &fakeMessages{}, queues{} })
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	for _, id := range []string{"", "a"} {
		res, err := c.CancelQueued(t.Context(), connect.NewRequest(&greenroomv1.CancelQueuedRequest{App: "shop", Type: "T", Id: id}))
		if err != nil {
			t.Fatal(err)
		}
		if m := res.Msg; m.Calls != 1 || m.VolatileMessages != 2 || m.Messages != 3 || m.More != (id == "") {
			t.Errorf("of %q: %v", id, m)
		}
	}
	_, err := c.CancelQueued(t.Context(), connect.NewRequest(&greenroomv1.CancelQueuedRequest{Type: "T", Id: "a\x01"}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("an ID with a control character: %v", err)
	}
}

// last returns what was sent, and forgets it.
func (m *fakeMessages) last() []inbox.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := m.sent
	m.sent = nil
	return sent
}

// TestSend: a message from outside is stored with all that it has; the error of a single one is
// that of the request, and of several each has its own.
func TestSend(t *testing.T) {
	messages := &fakeMessages{}
	f := start(t, func(c *Config) { c.Messages = messages })
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	send := func(key string, list ...*greenroomv1.OutgoingMessage) ([]*greenroomv1.SentMessage, error) {
		req := connect.NewRequest(&greenroomv1.SendRequest{App: "shop", Messages: list})
		if key != "" {
			req.Header().Set("Idempotency-Key", key)
		}
		res, err := c.Send(t.Context(), req)
		if err != nil {
			return nil, err
		}
		return res.Msg.GetMessages(), nil
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	one := &greenroomv1.OutgoingMessage{
		Type: "T", Id: "a/b", Method: "Take", Payload: []byte("x"), ContentType: "text/plain", Cookie: 1 << 63, ForwardType: "T", ForwardId: "c",
		Due: &greenroomv1.OutgoingMessage_At{At: timestamppb.New(at)},
	}
	got, err := send("k", one)
	if err != nil || got[0].GetId() != "reminder||A||1||abcdefgh" || got[0].GetRepeated() {
		t.Fatalf("got %v, %v", got, err)
	}
	want := inbox.Request{
		To: actor.Key{App: "shop", Type: "T", ID: "a/b"}, Method: "Take", Payload: actor.Payload{ContentType: "text/plain", Data: []byte("x")}, At: at,
		Message: actor.Message{Cookie: 1 << 63, Forward: actor.Key{App: "shop", Type: "T", ID: "c"}},
	}
	if sent := messages.last(); len(sent) != 1 || fmt.Sprint(sent[0]) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
	if got, err = send("k", one); err != nil || !got[0].GetRepeated() || len(messages.last()) != 0 {
		t.Errorf("repeated: %v, %v", got, err)
	}
	_, err = send("", &greenroomv1.OutgoingMessage{Type: "T", Id: "a", Method: "None"})
	wantError(t, err, connect.CodeNotFound, "method_not_found")

	got, err = send("",
		&greenroomv1.OutgoingMessage{Type: "T", Id: "a", Method: "Take", IdempotencyKey: "k", Due: &greenroomv1.OutgoingMessage_After{After: durationpb.New(time.Minute)}},
		&greenroomv1.OutgoingMessage{Type: "T", Id: "b", Method: "None"},
		&greenroomv1.OutgoingMessage{Type: "T", Id: "c", Method: "Take", Due: &greenroomv1.OutgoingMessage_After{After: durationpb.New(time.Minute)}})
	if err != nil || len(got) != 3 || !got[0].GetRepeated() || got[2].GetId() == "" {
		t.Fatalf("several: %v, %v", got, err)
	}
	if e := got[1].GetError(); connect.Code(e.GetCode()) != connect.CodeNotFound || e.GetDetail().GetKind() != "method_not_found" || e.GetDetail().GetActorId() != "b" || got[1].GetId() != "" {
		t.Errorf("the second one has %v", got[1])
	}
	if sent := messages.last(); len(sent) != 1 || sent[0].To.ID != "c" || sent[0].After != time.Minute {
		t.Errorf("sent %v", sent)
	}
	_, err = send("k", one, one)
	wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	_, err = send("")
	wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)

	a := do(t, client(t, false), "POST", f.url+"/greenroom.v1.ActorService/Send",
		`{"messages": [{"type": "T", "id": "a", "method": "Take", "json": {"n": 12345678901234567890, "b": [1]}}, {"type": "T", "id": "b", "method": "Take"}]}`, "Content-Type", "application/json")
	if sent := messages.last(); a.StatusCode != http.StatusOK || len(sent) != 2 || !hasPayload(sent, `{"n":12345678901234567890,"b":[1]}`) {
		t.Errorf("in JSON: %s %s, sent %v", a.Status, a.body, sent)
	}
}

func hasPayload(list []inbox.Request, data string) bool {
	for _, r := range list {
		if string(r.Payload.Data) == data {
			return true
		}
	}
	return false
}

// TestPlainSend: plain HTTP sends one message.
func TestPlainSend(t *testing.T) {
	messages := &fakeMessages{}
	f := start(t, func(c *Config) { c.Messages = messages })
	path := f.url + strings.Replace(actorPath(key("a/b"), "Take"), "/method/", "/send/", 1)
	a := do(t, client(t, false), "POST", path+"?delay=PT1M", `{"x":1}`, "Content-Type", "application/json", "Idempotency-Key", "k")
	if a.StatusCode != http.StatusAccepted || a.body != `{"id":"reminder||A||1||abcdefgh"}`+"\n" {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if sent := messages.last(); len(sent) != 1 || sent[0].To != key("a/b") || sent[0].Method != "Take" || sent[0].After != time.Minute || string(sent[0].Payload.Data) != `{"x":1}` {
		t.Errorf("sent %v", sent)
	}
	a = do(t, client(t, false), "PUT", path, "", "Idempotency-Key", "k")
	if a.StatusCode != http.StatusAccepted || !strings.Contains(a.body, `"repeated":true`) {
		t.Errorf("repeated: %s %s", a.Status, a.body)
	}
	for _, bad := range []struct {
		method, path string
		status       int
	}{
		{"GET", path, http.StatusMethodNotAllowed},
		{"POST", path + "?delay=1s&at=2030-01-01T00:00:00Z", http.StatusBadRequest},
		{"POST", path + "?at=tomorrow", http.StatusBadRequest},
		{"POST", path + "?delay=soon", http.StatusBadRequest},
		{"POST", strings.Replace(path, "Take", "None", 1), http.StatusNotFound},
		{"POST", strings.TrimSuffix(path, "Take"), http.StatusBadRequest},
	} {
		if a := do(t, client(t, false), bad.method, bad.path, ""); a.StatusCode != bad.status {
			t.Errorf("%s %s: %s %s", bad.method, bad.path, a.Status, a.body)
		}
	}
	if sent := messages.last(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}
}

// TestNoMessages: a server without messages says so.
func TestNoMessages(t *testing.T) {
	f := start(t, nil)
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	_, err := c.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{{Type: "T", Id: "a", Method: "M"}}}))
	wantError(t, err, connect.CodeUnimplemented, failure.KindNotImplemented)
	_, err = c.ListMessages(t.Context(), connect.NewRequest(&greenroomv1.ListMessagesRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}}))
	wantError(t, err, connect.CodeUnimplemented, failure.KindNotImplemented)
	path := strings.Replace(actorPath(key("a"), "Take"), "/method/", "/send/", 1)
	if a := do(t, client(t, false), "POST", f.url+path, ""); a.StatusCode != http.StatusNotImplemented {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// TestInboxIsListedInPages: the messages to an actor come in pages, with their payloads if those
// are asked for.
func TestInboxIsListedInPages(t *testing.T) {
	f := start(t, func(c *Config) { c.Messages = &fakeMessages{} })
	c := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	for size, pages := range map[int32]int{0: 1, 1: 7, 3: 3, 7: 1} {
		req := &greenroomv1.ListMessagesRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, PageSize: size, Payloads: size == 3}
		var cookies []uint64
		n := 0
		for {
			n++
			page, err := c.ListMessages(t.Context(), connect.NewRequest(req))
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range page.Msg.GetMessages() {
				d := m.GetDetails()
				cookies = append(cookies, d.GetCookie())
				if d.GetOrdered() != (d.GetCookie() < 2) || (d.GetFrom().GetId() == "sender") != d.GetOrdered() || m.GetPayloadSize() != 3 || (len(m.GetPayload()) == 3) != req.Payloads {
					t.Errorf("%d: %v", i, m)
				}
			}
			if req.PageToken = page.Msg.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if fmt.Sprint(cookies) != "[0 1 2 3 4 5 6]" || n != pages {
			t.Errorf("size %d: %v in %d pages", size, cookies, n)
		}
	}
	_, err := c.ListMessages(t.Context(), connect.NewRequest(&greenroomv1.ListMessagesRequest{
		Actor: &greenroomv1.ActorKey{Type: "T", Id: "b"}, PageToken: forgedToken(greenroomv1connect.ActorServiceListMessagesProcedure, "default", "T/b", "a name"),
	}))
	wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
}
