package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/inbox"
)

// sends is a method that sends messages to b, with these payloads.
func sends(payloads ...string) hosttest.Func {
	return func(t *hosttest.Turn) error {
		for _, p := range payloads {
			if err := t.Send(&abi.Message{Type: "T", ID: "b", Method: "Take", Payload: []byte(p)}); err != nil {
				return err
			}
		}
		return nil
	}
}

// messages returns the messages to an actor that are in the store, by name.
func (f *fakeReminders) messages(key actor.Key) (list []actor.Reminder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, r := range f.reminders {
		if n.Key == key && r.Message != nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b actor.Reminder) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// texts returns the payloads of messages, in the order of their names.
func texts(list []actor.Reminder) string {
	var all []string
	for _, r := range list {
		all = append(all, string(r.Payload.Data))
	}
	return strings.Join(all, " ")
}

// deliveryOf returns the first delivery of a message.
func deliveryOf(r actor.Reminder) *actor.Firing {
	_, ordered := actor.SenderOfOrdered(r.Name)
	n := actor.ReminderName{Key: r.Key, Name: r.Name}
	return &actor.Firing{
		Reminder: r.ID, Key: r.Key, Name: r.Name, Method: r.Method, Payload: r.Payload, Due: r.Due, Attempt: 1, Message: r.Message,
		Step: actor.ReminderStep{ReminderName: n, ID: r.ID, Version: r.Version, Ordered: ordered},
	}
}

// TestMessagesGoWithTheCommit: what turns send is stored with their commits, in the order in which
// they sent it, also if one commit has several turns, and not with a turn that fails.
func TestMessagesGoWithTheCommit(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
			"Take": add, "One": sends("1", "2"), "Two": sends("3"), "Three": sends("4", "5"),
			"Fail": func(t *hosttest.Turn) error { return errors.Join(sends("never")(t), hosttest.Fail("no")) },
		}})
		hold := make(chan struct{})
		s.store.setHold(hold)
		var calls []<-chan answer
		for _, method := range []string{"One", "Two", "Fail", "Three"} { // those behind the first share a commit
			calls = append(calls, s.start(t.Context(), "a", method))
			synctest.Wait()
		}
		close(hold)
		for i, c := range calls {
			if a := <-c; (a.err != nil) != (i == 2) {
				t.Errorf("call %d: %v", i, a.err)
			}
		}
		list := rems.messages(key("b"))
		if got := texts(list); got != "1 2 3 4 5" {
			t.Errorf("the messages are %q", got)
		}
		for _, r := range list {
			if _, ordered := actor.SenderOfOrdered(r.Name); !ordered || r.Message.From != key("a") {
				t.Errorf("%q of %+v", r.Name, r.Message)
			}
			if r.Failure.Attempts != inbox.DefaultAttempts || r.Failure.Kind != actor.FailureExponential || r.Schedule.Until.Sub(r.Due).Round(time.Hour) != inbox.DefaultAge {
				t.Errorf("the policy is %+v, until %v", r.Failure, r.Schedule.Until)
			}
		}
		if n := rems.unused.Load(); n != 1 {
			t.Errorf("%d tokens were given back, want that of the turn that failed", n)
		}
		if v := s.store.row(key("a")).Version; v == 0 {
			t.Error("the sender has no row")
		}
	})
}

// TestMessagesOfChains: a chain stores what all its turns have sent, each under its own sender,
// and not what a call sent that was taken back; several calls in one do so too.
func TestMessagesOfChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		call := func(id, method string) hosttest.Func {
			return func(t *hosttest.Turn) error {
				_, err := t.Call("T", id, method, "")
				return err
			}
		}
		all := func(list ...hosttest.Func) hosttest.Func {
			return func(t *hosttest.Turn) error {
				for _, f := range list {
					if err := f(t); err != nil {
						return err
					}
				}
				return nil
			}
		}
		failed := func(t *hosttest.Turn) error {
			if _, err := t.Call("T", "c", "Fail", ""); err == nil {
				return errors.New("it did not fail")
			}
			return nil
		}
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Take": add, "One": sends("c1"), "Two": sends("c2"), "Fail": all(sends("never"), func(*hosttest.Turn) error { return hosttest.Fail("no") }),
			"Chain": all(sends("a1"), call("c", "One"), failed, call("c", "Two"), sends("a2")),
		}})
		if _, err := s.call(t.Context(), "a", "Chain"); err != nil {
			t.Fatal(err)
		}
		bySender := func() string {
			var of []string
			for _, r := range rems.messages(key("b")) {
				of = append(of, r.Message.From.ID+":"+string(r.Payload.Data))
			}
			slices.SortStableFunc(of, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
			return strings.Join(of, " ")
		}
		if got := bySender(); got != "a:a1 a:a2 c:c1 c:c2" {
			t.Errorf("the messages are %q", got)
		}
		if n := rems.unused.Load(); n != 1 {
			t.Errorf("%d tokens were given back", n)
		}
		clear(rems.reminders)
		calls := []actor.Call{{Key: key("a"), Method: "One"}, {Key: key("c"), Method: "Two"}, {Key: key("a"), Method: "Two"}}
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(calls)}}); err != nil {
			t.Fatal(err)
		}
		if got := bySender(); got != "a:c1 a:c2 c:c2" {
			t.Errorf("several calls have sent %q", got)
		}
	})
}

// TestMessagesWithoutAState: turns of a stateless type send in a commit of their own: of a call, of
// one with a key, of a message that they consume, and in their caller's commit if one calls them.
// Such messages have no order.
func TestMessagesWithoutAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Take": add,
			"Call": func(t *hosttest.Turn) error { _, err := t.Call("S", "s", "Do", ""); return err },
			"Fail": func(t *hosttest.Turn) error {
				_, err := t.Call("S", "s", "Do", "")
				return errors.Join(err, hosttest.Fail("no"))
			},
		}})
		s.world.Deploy("app", "S", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Do": sends("x")}})
		stateless := actor.Key{App: "app", Type: "S", ID: "s"}
		for i, inv := range []actor.Invocation{
			{Key: stateless, Method: "Do"}, {Key: stateless, Method: "Do", IdempotencyKey: "k"}, {Key: stateless, Method: "Do", IdempotencyKey: "k"},
			{Key: key("a"), Method: "Call"}, {Key: key("a"), Method: "Fail"},
		} {
			if _, err := s.Invoke(t.Context(), inv); (err != nil) != (inv.Method == "Fail") {
				t.Errorf("%d: %v", i, err)
			}
			list := rems.messages(key("b"))
			if want := min(i+1, max(2, i)); len(list) != min(want, 3) {
				t.Errorf("%d: there are %d messages", i, len(list))
			}
			for _, r := range list {
				if _, ordered := actor.SenderOfOrdered(r.Name); ordered || r.Message.From != stateless {
					t.Errorf("%q is from %v", r.Name, r.Message.From)
				}
			}
		}
		r, err := rems.Prepare(t.Context(), actor.ReminderSpec{Key: stateless, Method: "Do", Message: &actor.Message{From: key("a")}})
		if err != nil {
			t.Fatal(err)
		}
		r.Name = actor.UnorderedMessageName(r.ID)
		rems.mu.Lock()
		rems.setReminder(r)
		rems.mu.Unlock()
		if err := s.fire(t.Context(), deliveryOf(r)); err != nil {
			t.Fatal(err)
		}
		wantCondition(t, s.fire(t.Context(), deliveryOf(r)), actor.ErrFiringTaken)
		if n := len(rems.messages(key("b"))); n != 4 {
			t.Errorf("there are %d messages after one that was consumed twice", n)
		}
		s.store.plan("commit", "unavailable")
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: stateless, Method: "Do"}); !errors.Is(err, actor.ErrUnavailable) {
			t.Errorf("a commit that failed was answered %v", err)
		}
		if n := rems.unused.Load(); n < 2 {
			t.Errorf("%d tokens were given back", n)
		}
	})
}

// TestConsumedMessage: the turn of a message knows its sender, and commits once; a message from
// outside runs no private method; one that comes back has its cause.
func TestConsumedMessage(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, rems := remind(t, host.Config{})
		var seen abi.Turn
		runs := 0
		take := func(t *hosttest.Turn) error {
			seen = *t.Frame
			runs++
			return add(t)
		}
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Take": take, "Hidden": take}, Private: []string{"Hidden"}})
		deliver := func(method string, m actor.Message) error {
			t.Helper()
			r, err := rems.Prepare(t.Context(), actor.ReminderSpec{Key: key("b"), Method: method, Message: &m})
			if err != nil {
				t.Fatal(err)
			}
			r.Name = actor.UnorderedMessageName(r.ID)
			rems.mu.Lock()
			rems.setReminder(r)
			rems.mu.Unlock()
			f := deliveryOf(r)
			if err := s.fire(t.Context(), f); err != nil {
				return err
			}
			wantCondition(t, s.fire(t.Context(), f), actor.ErrFiringTaken)
			return nil
		}
		if err := deliver("Hidden", actor.Message{From: key("a"), By: key("c"), Cookie: 7}); err != nil {
			t.Fatal(err)
		}
		if f := seen; f.Cause != abi.CauseMessage || f.CallerType != "T" || f.CallerID != "a" || f.ByType != "T" || f.ByID != "c" || f.Cookie != 7 || f.Attempt != 1 || f.CauseName != "" {
			t.Errorf("the frame is %+v", f)
		}
		if err := deliver("Hidden", actor.Message{From: key("a"), Failed: "no_stock", Cookie: 8}); err != nil {
			t.Fatal(err)
		}
		if f := seen; f.Cause != abi.CauseUndelivered || f.CallerID != "a" || f.Failed != "no_stock" || f.Cookie != 8 || f.ByID != "" {
			t.Errorf("the frame of one that comes back is %+v", f)
		}
		if err := deliver("Take", actor.Message{}); err != nil || seen.CallerID != "" || seen.Cause != abi.CauseMessage {
			t.Errorf("from outside: %v, %+v", err, seen)
		}
		wantCondition(t, deliver("Hidden", actor.Message{}), actor.ErrMethodPrivate)
		if runs != 3 {
			t.Errorf("the guest ran %d times", runs)
		}
	})
}

// TestMessageOrder: a message that comes before an earlier one of its sender is refused, whatever
// it shares its commit with, and is consumed once the earlier one was. Of two that come in the
// wrong order at once, the earlier one is never folded behind the later one.
func TestMessageOrder(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s, rems := remind(t, host.Config{})
		appends := func(t *hosttest.Turn) error {
			was, err := t.Get("all")
			return errors.Join(err, t.Set("all", was+string(t.Frame.Payload)), t.Reply(was))
		}
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Send": sends("1", "2", "3"), "Take": appends, "Add": add, "All": appends}})
		if _, err := s.call(t.Context(), "a", "Send"); err != nil {
			t.Fatal(err)
		}
		var deliveries []*actor.Firing
		for _, r := range rems.messages(key("b")) {
			deliveries = append(deliveries, deliveryOf(r))
		}
		hold := make(chan struct{})
		s.store.setHold(hold)
		first := s.start(t.Context(), "b", "Add") // those behind it may share a commit
		synctest.Wait()
		ended := make([]chan error, 3)
		for _, i := range []int{2, 1} {
			ended[i] = make(chan error, 1)
			go func() { ended[i] <- s.fire(t.Context(), deliveries[i]) }()
			synctest.Wait()
		}
		other := s.start(t.Context(), "b", "Add")
		synctest.Wait()
		close(hold)
		for _, c := range []<-chan answer{first, other} {
			if a := <-c; a.err != nil {
				t.Errorf("a call beside them: %v", a.err)
			}
		}
		for _, i := range []int{2, 1} {
			wantCondition(t, <-ended[i], actor.ErrMessageOrder)
		}
		hold = make(chan struct{})
		s.store.setHold(hold)
		first = s.start(t.Context(), "b", "Add")
		synctest.Wait()
		late := make(chan error, 3)
		for _, i := range []int{2, 1, 0} { // which one commit would consume, in this order
			go func() { late <- s.fire(t.Context(), deliveries[i]) }()
			synctest.Wait()
		}
		close(hold)
		if a := <-first; a.err != nil {
			t.Error(a.err)
		}
		for range 3 {
			if err := <-late; err != nil && !errors.Is(err, actor.ErrMessageOrder) {
				t.Error(err)
			}
		}
		for _, d := range deliveries {
			if err := s.fire(t.Context(), d); err != nil && !errors.Is(err, actor.ErrFiringTaken) {
				t.Error(err)
			}
		}
		if got, err := s.call(t.Context(), "b", "All"); got != "123" || err != nil {
			t.Errorf("they took effect as %q, %v", got, err)
		}
	})
}

// TestRefusedMessages: a guest learns why it cannot send, and nothing is stored of it.
func TestRefusedMessages(t *testing.T) {
	for _, c := range []struct {
		what string
		m    abi.Message
		code abi.Code
		says string
	}{
		{"a type", abi.Message{Type: "None", ID: "b", Method: "Take"}, abi.CodeInvalid, "has no type None"},
		{"a method", abi.Message{Type: "T", ID: "b", Method: "None"}, abi.CodeInvalid, "has no method None"},
		{"a read-only method", abi.Message{Type: "T", ID: "b", Method: "View"}, abi.CodeInvalid, "read-only"},
		{"an ID", abi.Message{Type: "T", Method: "Take"}, abi.CodeInvalid, "actor id"},
		{"a payload", abi.Message{Type: "T", ID: "b", Method: "Take", Payload: make([]byte, actor.MaxReminderPayload+1)}, abi.CodeTooLarge, "65536 bytes"},
		{"two times", abi.Message{Type: "T", ID: "b", Method: "Take", DueUnixNano: 1, DelayNano: 1}, abi.CodeInvalid, "a time or a delay"},
		{"a delay", abi.Message{Type: "T", ID: "b", Method: "Take", DelayNano: -1}, abi.CodeInvalid, "0 or more"},
		{"a limit", abi.Message{Type: "T", ID: "b", Method: "Take", LimitMillis: 1}, abi.CodeInvalid, "time limit"},
		{"a flag", abi.Message{Type: "T", ID: "b", Method: "Take", Flags: abi.MessageAtomic}, abi.CodeInvalid, "flag"},
		{"a forward type", abi.Message{Type: "T", ID: "b", Method: "Take", ForwardType: "None", ForwardID: "x"}, abi.CodeInvalid, "has no type None"},
		{"the receiver as the forward", abi.Message{Type: "T", ID: "b", Method: "Take", ForwardType: "T", ForwardID: "b"}, abi.CodeInvalid, "name another actor"},
		{"an undelivered method", abi.Message{Type: "T", ID: "b", Method: "Take", Undelivered: "None"}, abi.CodeInvalid, "has no method None"},
		{"a behalf type", abi.Message{Type: "T", ID: "b", Method: "Take", OnBehalfType: "None", OnBehalfID: "x", Undelivered: "Take"}, abi.CodeInvalid, "has no type None"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rems := remind(t, host.Config{})
				s.world.Deploy("app", "T", hosttest.Actor{
					Methods: map[string]hosttest.Func{"Take": add, "Send": func(t *hosttest.Turn) error {
						code, err := t.Calls.Send(&c.m)
						if err != nil {
							return err
						}
						if problem := t.Calls.Problem(); code != c.code || !strings.Contains(problem, c.says) {
							return fmt.Errorf("code %d, %q", code, problem)
						}
						return nil
					}},
					ReadOnly: map[string]hosttest.Func{"View": func(*hosttest.Turn) error { return nil }},
				})
				if _, err := s.call(t.Context(), "a", "Send"); err != nil {
					t.Error(err)
				}
				if n := len(rems.reminders); n != 0 {
					t.Errorf("%d messages were stored", n)
				}
			})
		})
	}
}

// TestBoundsOfMessages: a turn sends as many messages as it may, with as many bytes, and to no full
// inbox; one from a read-only turn is refused.
func TestBoundsOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		until := func(want abi.Code, n int, payload string) hosttest.Func {
			return func(t *hosttest.Turn) error {
				for i := 0; ; i++ {
					code, err := t.Calls.Send(&abi.Message{Type: "T", ID: "b", Method: "Take", Payload: []byte(payload)})
					switch {
					case err != nil:
						return err
					case code == 0 && i < n:
					case code != want || i != n:
						return fmt.Errorf("message %d: code %d, %s", i, code, t.Calls.Problem())
					default:
						return nil
					}
				}
			}
		}
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods: map[string]hosttest.Func{
				"Take": add, "Many": until(abi.CodeTooMany, 256, ""), "Large": until(abi.CodeTooLarge, 15, strings.Repeat("x", 64<<10)), "Full": until(abi.CodeFull, 0, ""), "One": sends("1"),
			},
			ReadOnly: map[string]hosttest.Func{"View": until(abi.CodeReadOnly, 0, "")},
		})
		call := func(method string) {
			t.Helper()
			if _, err := s.call(t.Context(), "a", method); err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
		call("Many")
		call("Large")
		call("View")
		if rems.counts != 0 {
			t.Errorf("the inbox was counted %d times for 271 messages", rems.counts)
		}
		for range 3 {
			call("Many")
		}
		if rems.counts != 1 {
			t.Errorf("the inbox was counted %d times for 1039 messages", rems.counts)
		}
		rems.more = actor.MaxInboxMessages
		for range 4 { // of which one fills the inbox that is taken to have room
			_, _ = s.call(t.Context(), "a", "Many")
		}
		call("Full")
		counts := rems.counts
		call("Full")
		if rems.counts != counts {
			t.Error("a full inbox was counted again at once")
		}
		rems.more = 0
		clear(rems.reminders)
		time.Sleep(2 * time.Second)
		call("One")
		if _, err := s.Outbox().Message(context.Background(), &inbox.Request{To: key("b"), Method: "Take"}); err != nil {
			t.Errorf("from outside: %v", err)
		}
	})
}

// TestForgedSender: a message that is sent on another's behalf has both, and comes back to the
// other one; it is ordered with its sender's own.
func TestForgedSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Take": add, "Send": func(t *hosttest.Turn) error {
			return errors.Join(sends("1")(t), t.Send(&abi.Message{
				Type: "T", ID: "b", Method: "Take", Payload: []byte("2"), OnBehalfType: "T", OnBehalfID: "z", Undelivered: "Take", Cookie: 5,
				ForwardType: "T", ForwardID: "f",
			}), t.Send(&abi.Message{Type: "T", ID: "b", Method: "Take", Payload: []byte("later"), DelayNano: int64(time.Hour)}), sends("3")(t))
		}}})
		if _, err := s.call(t.Context(), "a", "Send"); err != nil {
			t.Fatal(err)
		}
		list := rems.messages(key("b"))
		if got := texts(list); got != "1 2 3 later" {
			t.Fatalf("the messages are %q", got)
		}
		m := *list[1].Message
		if m.From != key("z") || m.By != key("a") || m.Undelivered != "Take" || m.Cookie != 5 || m.Forward != key("f") {
			t.Errorf("it is %+v", m)
		}
		if _, ordered := actor.SenderOfOrdered(list[3].Name); ordered || list[3].Schedule.After != time.Hour {
			t.Errorf("the delayed one is %q, after %v", list[3].Name, list[3].Schedule.After)
		}
	})
}

// TestCheckReceiver: what another host has deployed a moment ago takes messages, a type and a method of one; others are
// refused as the message is.
func TestCheckReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := remind(t, host.Config{})
		take := func(*hosttest.Turn) error { return nil }
		check := func(method string, want error) {
			t.Helper()
			if err := s.Outbox().CheckReceiver(t.Context(), key("a"), method); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", method, err, want)
			}
		}
		check("Take", actor.ErrTypeNotFound)
		s.world.DeployElsewhere("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Take": take, "Hidden": take}, Private: []string{"Hidden"}})
		time.Sleep(time.Second) // of the bubble
		check("Take", nil)
		check("Hidden", actor.ErrMethodPrivate)
		check("More", actor.ErrMethodNotFound)
		s.world.DeployElsewhere("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"More": take}})
		time.Sleep(time.Second)
		check("More", nil)
	})
	if err := newStage(t, host.Config{}).Outbox().CheckReceiver(t.Context(), key("a"), "Take"); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("without messages: %v", err)
	}
}
