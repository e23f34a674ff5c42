package host_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// tellsOf sends volatile messages.
func tellsOf(messages ...abi.Message) hosttest.Func {
	return func(t *hosttest.Turn) error {
		for _, m := range messages {
			m.Flags |= abi.MessageVolatile
			code, err := t.Calls.Send(&m)
			if err != nil {
				t.End(err)
			}
			if code != 0 {
				return hosttest.Fail(fmt.Sprintf("%d: %s", code, t.Calls.Problem()))
			}
		}
		return nil
	}
}

// heard is what turns were told, in their order.
type heard struct {
	mu    sync.Mutex
	texts []string
}

// method is one that messages run.
func (h *heard) method(t *hosttest.Turn) error {
	f := t.Frame
	h.mu.Lock()
	defer h.mu.Unlock()
	text := fmt.Sprintf("%s/%s: %s", f.CallerType, f.CallerID, f.Payload)
	if f.Cause != abi.CauseMessage {
		text += fmt.Sprintf(" by the cause %d", f.Cause)
	}
	if f.Cookie != 0 {
		text += fmt.Sprintf(" #%d", f.Cookie)
	}
	if f.Failed != "" {
		text += " " + f.Failed
	}
	if f.ByID != "" {
		text += fmt.Sprintf(" by %s/%s", f.ByType, f.ByID)
	}
	h.texts = append(h.texts, text)
	return nil
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts := h.texts
	h.texts = nil
	return texts
}

// sorted is take, of several senders.
func (h *heard) sorted() string {
	texts := h.take()
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

func (h *heard) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := h.take(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func toB(payload string) abi.Message {
	return abi.Message{Type: "T", ID: "b", Method: "Hear", Payload: []byte(payload)}
}

// What an actor tells another arrives in its order, from turns that change something and from
// turns that do not, in every lane of the sender and of the receiver.
func TestTellsArriveInOrder(t *testing.T) {
	for _, sender := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny} {
		for _, receiver := range []string{abi.PlacementRing, abi.PlacementAny} {
			t.Run(sender+" to "+receiver, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, host.Config{})
					var h heard
					n := 0
					send := func(t *hosttest.Turn) error {
						n += 2
						for i := n - 1; i <= n; i++ {
							if err := tellsOf(abi.Message{Type: "R", ID: "b", Method: "Hear", Payload: fmt.Append(nil, i)})(t); err != nil {
								return err
							}
						}
						return nil
					}
					s.world.Deploy("app", "T", hosttest.Actor{Placement: sender, Methods: map[string]hosttest.Func{
						"Look": send,
						"Add": sequence(send, func(t *hosttest.Turn) error {
							_, err := t.Add("n", 1)
							return err
						}),
					}})
					s.world.Deploy("app", "R", hosttest.Actor{Placement: receiver, Methods: map[string]hosttest.Func{"Hear": h.method}})
					var calls []<-chan answer
					for i := range 20 {
						calls = append(calls, s.start(t.Context(), "a", []string{"Add", "Look"}[i%2]))
					}
					for _, c := range calls {
						if a := <-c; a.err != nil {
							t.Error(a.err)
						}
					}
					var want []string
					for i := range 40 {
						want = append(want, fmt.Sprint("T/a: ", i+1))
					}
					h.want(t, want...)
				})
			})
		}
	}
}

// A message is on its way when its turn is durable, and not before; that of a turn which failed
// never is, and that of one which ran again only once.
func TestTellWaitsForItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		var h heard
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Add": sequence(tellsOf(toB("added")), func(t *hosttest.Turn) error {
				_, err := t.Add("n", 1)
				return err
			}),
			"Fail": sequence(tellsOf(toB("failed")), func(*hosttest.Turn) error { return hosttest.Fail("no") }),
			"Hear": h.method,
		}})
		hold := make(chan struct{})
		s.store.setHold(hold)
		c := s.start(t.Context(), "a", "Add")
		h.want(t)
		s.store.setHold(nil)
		close(hold)
		if a := <-c; a.err != nil {
			t.Error(a.err)
		}
		h.want(t, "T/a: added")
		if _, err := s.call(t.Context(), "a", "Fail"); err == nil {
			t.Error("the call did not fail")
		}
		h.want(t)
		s.store.plan("commit", "stale")
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Error(err)
		}
		h.want(t, "T/a: added")
	})
}

// A message that no turn consumes comes back to its sender, if it has asked for that, with the
// word of the failure.
func TestTellUndelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed []string
		var mu sync.Mutex
		s := newStage(t, host.Config{Observers: []host.Events{{TellFailed: func(f host.TellFailed) {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, fmt.Sprint(f.From.ID, " to ", f.To.Type, "/", f.To.ID, ".", f.Method))
		}}}})
		var back heard
		undelivered := func(t *hosttest.Turn) error {
			if t.Frame.Cause != abi.CauseUndelivered {
				return fmt.Errorf("the cause is %d", t.Frame.Cause)
			}
			t.Frame.Cause = abi.CauseMessage
			return back.method(t)
		}
		tell := func(m abi.Message) hosttest.Func {
			m.Payload, m.Undelivered, m.Cookie = []byte("x"), "Back", 7
			return tellsOf(m)
		}
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Type":   tell(abi.Message{Type: "None", ID: "b", Method: "Hear"}),
			"Method": tell(abi.Message{Type: "T", ID: "b", Method: "None"}),
			"Error":  tell(abi.Message{Type: "T", ID: "b", Method: "Refuse"}),
			"Quiet":  tellsOf(abi.Message{Type: "T", ID: "b", Method: "Refuse"}),
			"Back":   undelivered,
			"Refuse": func(*hosttest.Turn) error { return hosttest.Fail("refused") },
		}})
		for method, want := range map[string]string{
			"Type": "None/b: x #7 type_not_found", "Method": "T/b: x #7 method_not_found", "Error": "T/b: x #7 refused",
		} {
			s.mustCall(t, "a", method, "")
			back.want(t, want)
		}
		s.mustCall(t, "a", "Quiet", "")
		back.want(t)
		mu.Lock()
		defer mu.Unlock()
		if len(failed) != 4 || failed[3] != "a to T/b.Refuse" {
			t.Errorf("observers were told %q", failed)
		}
	})
}

// What a called turn tells is taken back with it, and sent with the chain.
func TestTellOfACalledTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		var h heard
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Call": func(t *hosttest.Turn) error {
				for _, method := range []string{"Say", "SayAndFail", "Say"} {
					_, _ = t.Call("T", "c", method, "")
				}
				return tellsOf(toB("caller"))(t)
			},
			"Say":        tellsOf(toB("called")),
			"SayAndFail": sequence(tellsOf(toB("failed")), func(*hosttest.Turn) error { return hosttest.Fail("no") }),
			"Hear":       h.method,
		}})
		s.mustCall(t, "a", "Call", "")
		synctest.Wait()
		got := h.take()
		slices.Sort(got) // two senders
		if want := []string{"T/a: caller", "T/c: called", "T/c: called"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// A message with a delay is delivered after it, whatever has become of its sender's activation;
// and not by a host that has stopped.
func TestTellLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Limits: host.Limits{IdleTimeout: time.Second}})
		var h heard
		later := toB("later")
		later.DelayNano = seconds(100)
		at := toB("at")
		at.DueUnixNano = time.Now().Add(50 * time.Second).UnixNano()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Say": tellsOf(later, at, toB("now")), "Hear": h.method,
		}})
		s.mustCall(t, "a", "Say", "")
		h.want(t, "T/a: now")
		s.wantTimers(t, 2)
		time.Sleep(49 * time.Second)
		h.want(t)
		time.Sleep(2 * time.Second)
		h.want(t, "T/a: at")
		time.Sleep(50 * time.Second)
		h.want(t, "T/a: later")
		s.wantTimers(t, 0)
		s.mustCall(t, "a", "Say", "") // what is left of it ends with the host
	})
}

// A stateless type tells, and is told.
func TestTellStateless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		var h heard
		s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{
			"Say": tellsOf(toB("x")), "Hear": h.method,
		}})
		s.mustCall(t, "a", "Say", "")
		h.want(t, "T/a: x")
	})
}

// TestTellOfAnotherHost: volatile messages to an actor of another host arrive there in order, and come back
// if they fail there. The sender's host reports each delivery with its link.
func TestTellOfAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		var h, back heard
		many := make([]abi.Message, 10)
		for i := range many {
			many[i] = toB(fmt.Sprint(i))
			many[i].Type = "U"
		}
		a := hosttest.Actor{Methods: map[string]hosttest.Func{
			"Say":  tellsOf(many...),
			"Fail": tellsOf(abi.Message{Type: "U", ID: "b", Method: "Refuse", Undelivered: "Back", Cookie: 3}),
			"Hear": h.method, "Refuse": func(*hosttest.Turn) error { return hosttest.Fail("refused") },
			"Back": func(t *hosttest.Turn) error {
				t.Frame.Cause = abi.CauseMessage
				return back.method(t)
			},
		}}
		for _, s := range hs.stages {
			s.world.Deploy("app", "U", a)
		}
		call := sampledTrace()
		say := func(method string) {
			t.Helper()
			if _, err := hs.stages[0].Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "U", ID: "a"}, Method: method, Trace: call}); err != nil {
				t.Error(err)
			}
		}
		say("Say")
		want := make([]string, len(many))
		for i := range want {
			want[i] = fmt.Sprint("U/a: ", i)
		}
		h.want(t, want...)
		synctest.Wait()
		hs.mu.Lock()
		told := hs.told
		hs.mu.Unlock()
		if len(told) != len(many) {
			t.Errorf("%d deliveries are reported, want %d", len(told), len(many))
		}
		for _, m := range told {
			if m.To.ID != "b" || m.Link != call.Link() || m.Err != nil {
				t.Errorf("reported %+v", m)
			}
		}
		for _, inv := range hs.invocations() {
			if inv.IdempotencyKey != "" || inv.Message == nil {
				t.Errorf("sent %+v", inv)
			}
		}
		say("Fail")
		back.want(t, "U/b:  #3 refused")
	})
}

// A turn may not tell what nobody can deliver.
func TestTellRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{TimerMemory: 64 << 10})
		methods := map[string]hosttest.Func{"Hear": idle, "Read": idle}
		cases := map[string]struct {
			m    abi.Message
			want string
		}{
			"App":      {abi.Message{Type: "T", ID: "", Method: "Hear"}, "-2: actor id"},
			"Channel":  {abi.Message{Type: "T", ID: "b", Method: "Hear", Channel: 256}, "-2: the channel is 256; channels go from 0 to 255"},
			"Back":     {abi.Message{Type: "T", ID: "b", Method: "Hear", Undelivered: "None"}, `-2: the type T has no method "None"`},
			"Forward":  {abi.Message{Type: "T", ID: "b", Method: "Hear", ForwardType: "T", ForwardID: "c"}, "-2: a volatile message is not forwarded"},
			"Both":     {abi.Message{Type: "T", ID: "b", Method: "Hear", DelayNano: 1, DueUnixNano: 1}, "-2: the message has both a delay and a time"},
			"Negative": {abi.Message{Type: "T", ID: "b", Method: "Hear", DelayNano: -1}, "-2: the delay is -1ns"},
			"Large":    {abi.Message{Type: "T", ID: "b", Method: "Hear", Payload: make([]byte, actor.MaxTellBytes+1)}, "the volatile messages of this turn have more than"},
			"Room":     {abi.Message{Type: "T", ID: "b", Method: "Hear", Payload: make([]byte, 1<<20), DelayNano: 1}, "take all the memory"},
		}
		for name, c := range cases {
			methods["Do"+name] = tellsOf(c.m)
		}
		methods["Many"] = func(t *hosttest.Turn) error {
			for range actor.MaxTells + 1 {
				if err := tellsOf(toB(""))(t); err != nil {
					return err
				}
			}
			return nil
		}
		s.world.Deploy("app", "T", hosttest.Actor{Methods: methods})
		for name, c := range cases {
			if _, err := s.call(t.Context(), "a", "Do"+name); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
		if _, err := s.call(t.Context(), "a", "Many"); err == nil || !strings.Contains(err.Error(), "a turn sends at most 1024 volatile messages") {
			t.Errorf("too many: %v", err)
		}
	})
}

// The delivery of a volatile message begins a trace, which its turn is in. If that is sampled, it is
// reported with the link to the span of the sender's turn, also where the message comes back.
func TestTellsHaveLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sampled, unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
		var mu sync.Mutex
		var told []host.Told
		turns := map[string]int{} // by trace
		next := actor.ParseTrace(sampled)
		s := newStage(t, host.Config{NewTrace: func() *actor.Trace { return next.Child() }, Observers: []host.Events{{
			Told: func(m host.Told) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, m)
			},
			TurnEnd: func(e host.TurnEnd) {
				mu.Lock()
				defer mu.Unlock()
				_, span := e.Trace.IDs()
				turns[e.Method+" "+span]++
			},
		}}})
		var h heard
		refused := toB("p")
		refused.Method, refused.Undelivered = "Refuse", "Hear"
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Send": tellsOf(toB("p"), refused), "Hear": h.method, "Refuse": func(*hosttest.Turn) error { return hosttest.Fail("no") },
		}})
		call := actor.ParseTrace("00-2af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01")
		send := func(tr *actor.Trace) []host.Told {
			t.Helper()
			if _, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "T", ID: "a"}, Method: "Send", Trace: tr}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			got := told
			told = nil
			return got
		}
		got := send(call)
		if len(got) != 3 { // one is refused, and comes back
			t.Fatalf("reported: %+v", got)
		}
		for _, m := range got {
			_, span := m.Trace.IDs()
			if m.Link != call.Link() || m.Began.IsZero() || (m.Err != nil) != (m.Method == "Refuse") || turns[m.Method+" "+span] != 1 {
				t.Errorf("reported %+v", m)
			}
		}
		for _, m := range send(nil) {
			if m.Link != (actor.SpanLink{}) {
				t.Errorf("of a call in no trace: %+v", m)
			}
		}
		if next = actor.ParseTrace(unsampled); len(send(call)) != 0 {
			t.Error("deliveries that are not sampled are reported")
		}
	})
}
