package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
)

// subscriberClient is a client of one ReminderService.Connect, of the generated code.
type subscriberClient struct {
	*connect.BidiStreamForClient[greenroomv1.ConnectRequest, greenroomv1.ConnectResponse]
	t testing.TB
}

func hello(change func(*greenroomv1.SubscriberHello)) *greenroomv1.ConnectRequest {
	h := &greenroomv1.SubscriberHello{Protocol: 1, Subscriptions: []string{"jobs"}, MaxExecutions: 1}
	if change != nil {
		change(h)
	}
	return &greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Hello{Hello: h}}
}

func answerOfExecution(id uint64, failure *greenroomv1.ExecutionFailure) *greenroomv1.ConnectRequest {
	return &greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Executed{Executed: &greenroomv1.ReminderExecuted{Execution: id, Failure: failure}}}
}

// connectAs opens a stream and sends frames.
func (f *fixture) connectAs(t testing.TB, token string, frames ...*greenroomv1.ConnectRequest) subscriberClient {
	t.Helper()
	st := subscriberClient{greenroomv1connect.NewReminderServiceClient(client(t, true), f.url).Connect(context.Background()), t}
	t.Cleanup(func() { _ = st.CloseRequest(); _ = st.CloseResponse() })
	if token != "" {
		st.RequestHeader().Set("Authorization", "Bearer "+token)
	}
	for _, m := range frames {
		if err := st.Send(m); err != nil {
			break // Receive says why
		}
	}
	return st
}

// next returns the next frame that which chooses, heartbeats being answered.
func next[F any](st subscriberClient, which func(*greenroomv1.ConnectResponse) *F) *F {
	st.t.Helper()
	for {
		m, err := st.Receive()
		if err != nil {
			st.t.Fatal(err)
		}
		if f := which(m); f != nil {
			return f
		}
		if m.GetHeartbeat() != nil {
			_ = st.Send(&greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Heartbeat{Heartbeat: &greenroomv1.Heartbeat{}}})
		}
	}
}

// ends returns what the stream ends with.
func (st subscriberClient) ends() error {
	for {
		if _, err := st.Receive(); err != nil {
			return err
		}
	}
}

// forSubscribers makes a reminder one for the subscribers of jobs, due at once.
func forSubscribers(req *greenroomv1.CreateReminderRequest) {
	req.Actor = &greenroomv1.ActorKey{Type: actor.SubscriptionType, Id: "jobs"}
	req.Spec = &greenroomv1.ReminderSpec{Payload: []byte(`"x"`), Metadata: map[string]string{"a": "b"}, Failure: &greenroomv1.FailurePolicy{Attempts: 2}}
}

func TestSubscriberStream(t *testing.T) {
	f := startReminders(t, nil, nil)
	set := f.mustCreate(t, "early", forSubscribers) // waits
	st := f.connectAs(t, "", hello(func(h *greenroomv1.SubscriberHello) { h.BucketTable = true }))
	w := next(st, (*greenroomv1.ConnectResponse).GetWelcome)
	if w.GetProtocol() != 1 || w.GetMaxExecutions() != 1 || w.GetHeartbeatInterval().AsDuration() != 2*time.Second {
		t.Errorf("%v", w)
	}
	x := next(st, (*greenroomv1.ConnectResponse).GetExecute)
	if x.GetExecution() != 1 || x.GetSubscription() != "jobs" || x.GetName() != "early" || x.GetReminderId() != set.Reminder.Id ||
		string(x.GetPayload()) != `"x"` || x.GetMetadata()["a"] != "b" || x.GetAttempt() != 1 || x.GetTimeout().AsDuration() <= 0 ||
		!x.GetDue().AsTime().Equal(set.Reminder.Due.AsTime()) {
		t.Errorf("%v", x)
	}
	f.mustCreate(t, "late", forSubscribers)
	if err := st.Send(answerOfExecution(1, nil)); err != nil {
		t.Fatal(err)
	}
	if x = next(st, (*greenroomv1.ConnectResponse).GetExecute); x.GetExecution() != 2 || x.GetName() != "late" {
		t.Fatalf("%v", x)
	}
	for attempt := range uint64(2) { // fails as often as it may
		if err := st.Send(answerOfExecution(2+attempt, &greenroomv1.ExecutionFailure{Code: "no_card"})); err != nil {
			t.Fatal(err)
		}
		if attempt == 0 {
			if x = next(st, (*greenroomv1.ConnectResponse).GetExecute); x.GetAttempt() != 2 {
				t.Fatalf("%v", x)
			}
		}
	}
	f.mustCreate(t, "last", forSubscribers)
	if x = next(st, (*greenroomv1.ConnectResponse).GetExecute); x.GetName() != "last" {
		t.Fatalf("%v", x)
	}
	if err := st.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if err := st.ends(); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("ended by its client: %v", err)
	}
	// What the answers change is written beside the next execution.
	eventually(t, "what was answered is over", func() bool {
		return slices.Equal(f.list(t, &greenroomv1.ListRemindersRequest{Type: actor.SubscriptionType}), []string{"jobs/last"})
	})
	dead, err := f.api.ListDeadLetters(t.Context(), connect.NewRequest(&greenroomv1.ListDeadLettersRequest{}))
	if err != nil || len(dead.Msg.DeadLetters) != 1 || !strings.HasPrefix(dead.Msg.DeadLetters[0].Reason, "no_card") {
		t.Errorf("%v, %v", dead, err)
	}
}

// TestSubscriberStreamLost cuts the stream of a subscriber that was sent something: another
// one is.
func TestSubscriberStreamLost(t *testing.T) {
	f := startReminders(t, nil, nil)
	lost := f.connectAs(t, "", hello(nil))
	f.mustCreate(t, "a", forSubscribers)
	next(lost, (*greenroomv1.ConnectResponse).GetExecute)
	stays := f.connectAs(t, "", hello(nil))
	next(stays, (*greenroomv1.ConnectResponse).GetWelcome)
	if err := lost.CloseResponse(); err != nil { // resets it
		t.Fatal(err)
	}
	if x := next(stays, (*greenroomv1.ConnectResponse).GetExecute); x.GetName() != "a" || x.GetAttempt() != 1 {
		t.Errorf("%v", x)
	}
}

func TestSubscriberHeartbeats(t *testing.T) {
	f := startReminders(t, nil, func(c *Config) { c.SubscriberHeartbeat = 20 * time.Millisecond })
	beats := 0
	// A server that is busy for longer than the silence may end a stream before its first heartbeat.
	for try := 0; beats == 0 && try < 20; try++ {
		silent := f.connectAs(t, "", hello(nil))
		for {
			m, err := silent.Receive()
			if err != nil {
				wantError(t, err, connect.CodeDeadlineExceeded, failure.KindBodyTimeout)
				break
			}
			if m.GetHeartbeat() != nil {
				beats++
			}
		}
	}
	if beats == 0 {
		t.Error("the server sent no heartbeat")
	}
	// Without even a hello.
	mute := f.connectAs(t, "")
	if err := mute.Send(nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, mute.ends(), connect.CodeDeadlineExceeded, failure.KindBodyTimeout)
}

func TestSubscriberHostileFrames(t *testing.T) {
	f := startReminders(t, nil, nil)
	many := make([]string, 65)
	for i := range many {
		many[i] = strings.Repeat("a", i+1)
	}
	of := func(change func(*greenroomv1.SubscriberHello)) []*greenroomv1.ConnectRequest {
		return []*greenroomv1.ConnectRequest{hello(change)}
	}
	for name, frames := range map[string][]*greenroomv1.ConnectRequest{
		"no hello":             {{Frame: &greenroomv1.ConnectRequest_Heartbeat{}}},
		"nothing":              {{}},
		"an answer first":      {answerOfExecution(1, nil)},
		"two hellos":           {hello(nil), hello(nil)},
		"nothing later":        {hello(nil), {}},
		"an answer to nothing": {hello(nil), answerOfExecution(7, nil)},
		"no protocol":          of(func(h *greenroomv1.SubscriberHello) { h.Protocol = 0 }),
		"another protocol":     of(func(h *greenroomv1.SubscriberHello) { h.Protocol = 2 }),
		"no subscription":      of(func(h *greenroomv1.SubscriberHello) { h.Subscriptions = nil }),
		"a bad name":           of(func(h *greenroomv1.SubscriberHello) { h.Subscriptions = []string{"a b"} }),
		"one twice":            of(func(h *greenroomv1.SubscriberHello) { h.Subscriptions = []string{"a", "a"} }),
		"too many":             of(func(h *greenroomv1.SubscriberHello) { h.Subscriptions = many }),
		"too many at a time":   of(func(h *greenroomv1.SubscriberHello) { h.MaxExecutions = 1<<32 - 1 }),
		"a bad app":            of(func(h *greenroomv1.SubscriberHello) { h.App = "a/b" }),
		"a large frame":        of(func(h *greenroomv1.SubscriberHello) { h.App = strings.Repeat("a", 64<<10) }),
	} {
		err := f.connectAs(t, "", frames...).ends()
		if code := connect.CodeOf(err); code != connect.CodeInvalidArgument || len(err.Error()) > 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*greenroomv1.CreateReminderRequest){
		"a method":   func(r *greenroomv1.CreateReminderRequest) { r.Spec.Method = "Get" },
		"a bad name": func(r *greenroomv1.CreateReminderRequest) { r.Actor.Id = "a b" },
	} {
		_, err := f.create(t, "a", func(r *greenroomv1.CreateReminderRequest) { forSubscribers(r); change(r) })
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSubscriberPermissions: a subscriber moves reminders on, of the app of its token.
func TestSubscriberPermissions(t *testing.T) {
	f := startReminders(t, nil, withTokensOnly)
	mine := hello(func(h *greenroomv1.SubscriberHello) { h.App = "mine" })
	for _, c := range []struct {
		token string
		hello *greenroomv1.ConnectRequest
		ok    bool
	}{{"read", hello(nil), false}, {"read-mine", mine, false}, {"invoke", hello(nil), true}, {"invoke-mine", mine, true}, {"invoke-mine", hello(nil), false}, {"admin-mine", hello(nil), false}} {
		m, err := f.connectAs(t, c.token, c.hello).Receive()
		if c.ok && (err != nil || m.GetWelcome() == nil) {
			t.Errorf("%s: %v, %v", c.token, m, err)
		}
		if !c.ok && connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s is let in: %v, %v", c.token, m, err)
		}
	}
}

func withTokensOnly(c *Config) {
	reminders := c.Reminders
	withRoles(c)
	c.Settings, c.Cluster, c.Reminders = nil, nil, reminders
}

// TestSubscriberSeesBuckets sends who delivers what, and what is new of it: the app's first bucket
// is allocated with the hello, and in the table before or after it is sent.
func TestSubscriberSeesBuckets(t *testing.T) {
	f := startReminders(t, nil, nil)
	st := f.connectAs(t, "", hello(func(h *greenroomv1.SubscriberHello) { h.BucketTable = true }))
	table := next(st, (*greenroomv1.ConnectResponse).GetBuckets)
	if !table.GetComplete() {
		t.Errorf("the first table is %v", table)
	}
	for len(table.GetChanged()) == 0 {
		table = next(st, (*greenroomv1.ConnectResponse).GetBuckets)
	}
	if len(table.GetChanged()) != 1 || table.GetChanged()[0].GetOwner() != "here" || table.GetChanged()[0].GetEpoch() == 0 {
		t.Errorf("%v", table)
	}
}

// TestFollowedReminders: a client learns the prefix of its app, and what reminders are that it
// follows by their IDs, also once one of them has another.
func TestFollowedReminders(t *testing.T) {
	f := startReminders(t, nil, nil)
	later := func(req *greenroomv1.CreateReminderRequest) {
		req.Spec.Schedule = &greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_After{After: durationpb.New(time.Hour)}}
	}
	follow := func(ids ...string) *greenroomv1.ConnectRequest {
		return &greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Follow{Follow: &greenroomv1.FollowReminders{ReminderIds: ids}}}
	}
	st := f.connectAs(t, "", hello(nil))
	prefix := next(st, (*greenroomv1.ConnectResponse).GetWelcome).GetPrefix()
	first := f.mustCreate(t, "n", later).Reminder
	gone := strings.Replace(first.Id, "||"+strings.Split(first.Id, "||")[2]+"||", "||99999||", 1)
	if parts := strings.Split(first.Id, "||"); prefix == "" || parts[1] != prefix {
		t.Fatalf("the prefix %q, and the ID %s", prefix, first.Id)
	}
	if err := st.Send(follow(first.Id, gone)); err != nil {
		t.Fatal(err)
	}
	list := next(st, (*greenroomv1.ConnectResponse).GetFollowed).GetReminders()
	if len(list) != 2 || list[0].GetReminderId() != first.Id || list[0].GetReminder().GetId() != first.Id || list[0].GetReminder().GetName() != "n" ||
		list[1].GetReminderId() != gone || list[1].GetReminder() != nil {
		t.Fatalf("%v", list)
	}
	again := f.mustCreate(t, "n", later).Reminder
	list = next(st, (*greenroomv1.ConnectResponse).GetFollowed).GetReminders()
	if len(list) != 1 || list[0].GetReminderId() != first.Id || list[0].GetReminder().GetId() != again.Id {
		t.Fatalf("set anew: %v", list)
	}
	for name, bad := range map[string]*greenroomv1.ConnectRequest{
		"another app's": follow("reminder||ZZZ||1||abcdefgh"), "no ID": follow("n"),
		"too many": follow(slices.Repeat([]string{again.Id}, 257)...),
	} {
		st := f.connectAs(t, "", hello(nil), bad)
		if err := st.ends(); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
