package routing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
)

// localRouter returns a router over a host that is not started, and stops it with the test.
func localRouter(t *testing.T, table *table, h routing.Host, self actor.HostID) *routing.Router {
	t.Helper()
	r, err := routing.New(routing.Config{
		Local: h, Placement: &view{table: table, self: func() actor.HostID { return self }, belief: map[string]actor.HostID{}},
		Policy: func(string, string) (string, bool) { return "ring", true }, Cluster: "test", MinProtocol: 1, MaxProtocol: newest,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop(context.Background()) })
	return r
}

// TestHotPathDoesNotAllocate: a call of an actor that is held here costs no memory.
func TestHotPathDoesNotAllocate(t *testing.T) {
	table := newTable()
	h := &fakeHost{name: "host-a", table: table}
	h.set(func(context.Context, actor.Invocation) (actor.Reply, error) { return actor.Reply{Version: 1}, nil })
	table.update(func() { table.owners["a"] = h.name })
	r := localRouter(t, table, h, h.name)
	inv := call("a")
	inv.ID = "the-id"
	if n := testing.AllocsPerRun(100, func() {
		if _, err := r.Invoke(t.Context(), inv); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCallsReachTheirHosts: those of local actors stay, the others are passed on with
// all that they carry, and their replies name the host.
func TestCallsReachTheirHosts(t *testing.T) {
	_, a, b := pair(t, setup{})
	reply, err := a.router.Invoke(t.Context(), call("a"))
	if err != nil || text(reply) != "host-a v7 f3" || reply.Host != "" {
		t.Errorf("a local call: %s from %q, %v", text(reply), reply.Host, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var left time.Duration
	b.host.set(func(ctx context.Context, _ actor.Invocation) (actor.Reply, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return actor.Reply{Payload: actor.Payload{ContentType: "x/y", Data: []byte("out")}, Version: 9}, nil
	})
	in := call("b")
	in.ID, in.Token, in.IdempotencyKey, in.Payload = "the-id", "ci", "the key", actor.Payload{ContentType: "x/z", Data: []byte("in")}
	reply, err = a.router.Invoke(ctx, in)
	if err != nil || string(reply.Payload.Data) != "out" || reply.Payload.ContentType != "x/y" || reply.Version != 9 || reply.Host != b.addr {
		t.Errorf("a call that was passed on: %+v, %v", reply, err)
	}
	got := b.host.seen()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", in) {
		t.Errorf("arrived\n%+v\nsent\n%+v", got, in)
	}
	if left <= 0 || left > time.Minute+time.Second {
		t.Errorf("the deadline is %v away", left)
	}
	read := call("b")
	read.ID, read.ReadOnly, read.Consistency = "another", true, actor.ConsistencyStrong
	if _, err := a.router.Invoke(ctx, read); err != nil {
		t.Error(err)
	}
	if got := b.host.seen(); !got.ReadOnly || got.Consistency != actor.ConsistencyStrong {
		t.Errorf("a read arrived as %+v", got)
	}
	if a.count("reply") != 2 {
		t.Errorf("%d calls were passed on, of 2", a.count("reply"))
	}
}

// TestErrorsKeepTheirMeaning on their way between hosts.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	_, a, b := pair(t, setup{})
	for name, want := range map[string]error{
		"ambiguous": actor.ErrAmbiguous, "mailbox full": actor.ErrMailboxFull, "not read-only": actor.ErrNotReadOnly,
	} {
		b.host.set(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
			return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: want}
		})
		reply, err := a.router.Invoke(t.Context(), call("b"))
		if !errors.Is(err, want) || error(actor.AsCondition(err)).Error() != want.Error() {
			t.Errorf("%s: %v", name, err)
		}
		if reply.Host != b.addr {
			t.Errorf("%s: of the host %q", name, reply.Host)
		}
	}
	b.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, &actor.GuestError{Status: 9, Code: "out_of_stock", Message: "none left", Detail: actor.Payload{Data: []byte("{}")}}
	})
	_, err := a.router.Invoke(t.Context(), call("b"))
	var remote *routing.RemoteError
	if !errors.As(err, &remote) || remote.Code != 9 || remote.Detail.GetGuest().GetCode() != "out_of_stock" || err.Error() != "out_of_stock: none left" {
		t.Errorf("a guest's error: %v", err)
	}
	bare := &actor.GuestError{Status: 9, Code: "out_of_stock"}
	b.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) { return actor.Reply{}, bare })
	if _, err := a.router.Invoke(t.Context(), call("b")); err == nil || err.Error() != bare.Error() || err.Error() != "out_of_stock" {
		t.Errorf("a guest's error without words: %v", err)
	}
}

// TestWaitsForAnOwner: a call of an actor that nobody holds waits until somebody does.
func TestWaitsForAnOwner(t *testing.T) {
	tb, a, b := pair(t, setup{})
	for _, m := range []*member{a, b} {
		answered := make(chan string, 1)
		go func() {
			reply, err := a.router.Invoke(t.Context(), call("new-"+string(m.id)))
			answered <- fmt.Sprint(text(reply), err)
		}()
		eventually(t, "the call waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
		tb.update(func() { tb.owners["new-"+string(m.id)] = m.id })
		if got := <-answered; !strings.HasPrefix(got, string(m.id)) {
			t.Errorf("%s answered", got)
		}
	}
}

// inlineHost runs turns where they are begun, once it has said that they have their places.
type inlineHost struct {
	*fakeHost
	mu    sync.Mutex
	order map[string][]string // invocation IDs by actor, in the order of their places
}

func (h *inlineHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	h.mu.Lock()
	h.order[inv.Key.ID] = append(h.order[inv.Key.ID], inv.ID)
	h.mu.Unlock()
	to.(host.PlacedReceiver).Placed()
	to.Answer(h.Invoke(ctx, inv))
	return givenUp(func() {})
}

func (h *inlineHost) placed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.order["a"]) + len(h.order["b"])
}

// answers counts a call's answers.
type answers struct{ *sync.WaitGroup }

func (a answers) Answer(actor.Reply, error) { a.Done() }

// TestWaitingCallsKeepTheirOrder: calls of an actor that waited for its place get their
// places in the order in which they came, and none waits for the turn of another.
func TestWaitingCallsKeepTheirOrder(t *testing.T) {
	table := newTable()
	h := &inlineHost{fakeHost: &fakeHost{name: "host-a", table: table}, order: map[string][]string{}}
	release := make(chan struct{})
	h.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		<-release // every turn is long
		return actor.Reply{}, nil
	})
	r := localRouter(t, table, h, h.name)
	const n = 50
	var all sync.WaitGroup
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
		for _, id := range []string{"a", "b"} {
			inv := call(id)
			inv.ID = want[i]
			all.Add(1)
			r.Begin(t.Context(), inv, answers{&all})
		}
	}
	if calls, _ := r.Waiting(); calls != 2*n {
		t.Fatalf("%d calls wait, of %d", calls, 2*n)
	}
	table.update(func() { table.owners["a"], table.owners["b"] = h.name, h.name })
	eventually(t, "all calls have their places", func() bool { return h.placed() == 2*n })
	for id, order := range h.order {
		if !slices.Equal(order, want) {
			t.Errorf("%s: %v", id, order)
		}
	}
	close(release)
	all.Wait()
}

// TestWaitsAreBounded in time, in number and by the caller.
func TestWaitsAreBounded(t *testing.T) {
	_, a, _ := pair(t, setup{router: func(c *routing.Config) { c.MaxWaiting, c.MaxWait = 2, 50*time.Millisecond }})
	if _, err := a.router.Invoke(t.Context(), call("nobody's")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("after the longest wait: %v", err)
	}
	_, a, _ = pair(t, setup{router: func(c *routing.Config) { c.MaxWaiting = 2 }})
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			if _, err := a.router.Invoke(ctx, call("nobody's")); !errors.Is(err, actor.ErrCanceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
	eventually(t, "two wait", func() bool { n, _ := a.router.Waiting(); return n == 2 })
	if _, err := a.router.Invoke(t.Context(), call("nobody's")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("one more than may wait: %v", err)
	}
	cancel()
	waiting.Wait()
	if n, bytes := a.router.Waiting(); n != 0 || bytes != 0 {
		t.Errorf("%d calls with %d bytes still wait", n, bytes)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.router.Invoke(ctx, call("nobody's")); !errors.Is(err, actor.ErrDeadline) {
		t.Errorf("after its deadline: %v", err)
	}
}

// TestRedirects: who is asked wrongly says who holds the actor, and the asker goes there
// and has learned it. Twice wrong is enough.
func TestRedirects(t *testing.T) {
	tb, a, b := pair(t, setup{})
	c := tb.join(t, "host-c", setup{})
	tb.update(func() { tb.owners["c"] = c.id })
	a.view.believes("c", b.id)
	reply, err := a.router.Invoke(t.Context(), call("c"))
	if err != nil || text(reply) != "host-c v7 f3" {
		t.Errorf("%s, %v", text(reply), err)
	}
	if a.count("redirect") != 1 || len(a.view.learned) != 1 || a.view.learned[0] != c.id {
		t.Errorf("%d redirects; learned %v", a.count("redirect"), a.view.learned)
	}
	if b.host.turns.Load() != 0 {
		t.Error("a host ran a turn of an actor that it does not hold")
	}
	// Each believes that the other holds it: no call goes round.
	tb.update(func() { tb.owners["lost"] = "away" })
	a.view.believes("lost", b.id)
	b.view.believes("lost", c.id)
	c.view.believes("lost", b.id)
	if _, err := a.router.Invoke(t.Context(), call("lost")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("two hosts that did not hold it: %v", err)
	}
	if n := a.count("redirect"); n != 3 {
		t.Errorf("the call was sent to %d hosts, of two at most", n-1)
	}
	if b.count("reply")+b.count("redirect")+c.count("reply")+c.count("redirect") != 0 {
		t.Error("a call was passed on by who got it from another host")
	}
}

// TestStaleOwner: a host believes that another one holds what it holds itself, as after a
// release. A call of that other one makes it think again, and so does a call that the
// other one has refused.
func TestStaleOwner(t *testing.T) {
	tb, former, holder := pair(t, setup{})
	third := tb.join(t, "host-c", setup{})
	for name, from := range map[string]*member{"the former holder": former, "a third host": third} {
		for what, op := range map[string]func(id string) error{
			"a call": func(id string) error {
				_, err := from.router.Invoke(t.Context(), call(id))
				return err
			},
			"a delete": func(id string) error { return from.router.Delete(t.Context(), call(id).Key) },
		} {
			id := what + " of " + name
			tb.update(func() { tb.owners[id] = holder.id })
			holder.view.believes(id, former.id)
			if err := op(id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if n := holder.host.turns.Load(); n != 4 {
		t.Errorf("%d of 4 ran where the actor is", n)
	}
	// Whoever is named by two that do not hold it: what is here is run here.
	tb.update(func() { tb.owners["found"] = former.id })
	former.view.believes("found", holder.id)
	holder.view.believes("found", third.id)
	third.view.believes("found", former.id)
	if _, err := former.router.Invoke(t.Context(), call("found")); err != nil {
		t.Errorf("the holder has asked two who do not hold it: %v", err)
	}
	// The table itself, which nobody forgets, may be another one at each host.
	tb.update(func() { tb.owners["disputed"] = former.id })
	former.view.believes("disputed", holder.id)
	if _, err := former.router.Invoke(t.Context(), call("disputed")); err != nil {
		t.Errorf("the holder has asked who does not hold it: %v", err)
	}
}

// TestCallersName: whoever runs a call, its log names the token that the call came with
// where it entered the cluster.
func TestCallersName(t *testing.T) {
	const admin, secret = "the-secret-of-all-servers", "the-secret-of-ci-jobs"
	logs := &lockedBuffer{}
	_, a, b := pair(t, setup{
		router: func(c *routing.Config) { c.Token = admin },
		server: func(c *server.Config) {
			c.Token = admin
			c.Tokens = []edge.Token{{Name: "ci", Secret: secret, Role: edge.RoleInvoke}}
			c.Logger = slog.New(slog.NewTextHandler(logs, nil))
		},
	})
	b.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, errors.New("no error that callers are told")
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.addr+"/v2.0/actors/default/T/b/method/M", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if got := b.host.seen(); got.Token != "ci" || got.ID == "" {
		t.Errorf("the host got %+v", got)
	}
	if want := "token=ci kind=internal"; !strings.Contains(logs.String(), want) {
		t.Errorf("no %q in the logs:\n%s", want, logs.String())
	}
}

// TestTraceIsForwarded: a call that is passed on stays in its trace, and the span of the
// host that passes it on is the parent of the other one's. A host of an older protocol gets
// calls without it.
func TestTraceIsForwarded(t *testing.T) {
	logs := &lockedBuffer{}
	tb, a, b := pair(t, setup{server: func(c *server.Config) { c.Logger = slog.New(slog.NewTextHandler(logs, nil)) }})
	old := tb.join(t, "host-old", setup{router: func(c *routing.Config) { c.MaxProtocol = 2 }})
	tb.update(func() { tb.speaks[old.id], tb.owners["o"] = 2, old.id })
	in := call("b")
	in.Trace = actor.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1")
	b.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, errors.New("no error that callers are told")
	})
	if _, err := a.router.Invoke(t.Context(), in); err == nil {
		t.Error("no error")
	}
	got := b.host.seen().Trace
	if got == nil || got.TraceID() != in.Trace.TraceID() || got.SpanID() == in.Trace.SpanID() || !got.IsSampled() || got.TraceState().String() != "a=1" {
		t.Fatalf("the host got %v", got)
	}
	if want := fmt.Sprintf("trace_id=%v span_id=%v parent_span_id=%v", got.TraceID(), got.SpanID(), in.Trace.SpanID()); !strings.Contains(logs.String(), want) {
		t.Errorf("no %q in the logs:\n%s", want, logs.String())
	}
	b.host.set(nil)
	if _, err := a.router.Invoke(t.Context(), call("b")); err != nil || b.host.seen().Trace != nil {
		t.Errorf("of no trace: %v, %v", b.host.seen().Trace, err)
	}
	in.Key.ID = "o"
	if _, err := a.router.Invoke(t.Context(), in); err != nil || old.host.seen().Trace != nil {
		t.Errorf("an older host got %v, %v", old.host.seen().Trace, err)
	}
	ctx := in.Trace.Context(t.Context())
	if err := a.router.Delete(ctx, call("b").Key); err != nil {
		t.Error(err)
	}
	if got := b.host.deletedIn(); got == nil || got.TraceID() != in.Trace.TraceID() {
		t.Errorf("a delete was passed on in %v", got)
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestOlderPeer: a host of an older protocol is told what that has, and nothing else.
func TestOlderPeer(t *testing.T) {
	tb, a, b := pair(t, setup{})
	old := tb.join(t, "host-old", setup{router: func(c *routing.Config) { c.MaxProtocol = 1 }})
	tb.update(func() { tb.speaks[old.id], tb.owners["o"], tb.owners["stale"] = 1, old.id, old.id })
	in := call("o")
	in.ID, in.Token = "the-id", "ci"
	if _, err := a.router.Invoke(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if got := old.host.seen(); got.ID != "the-id" || got.Token != "" {
		t.Errorf("an older host got %+v", got)
	}
	// It has not learned to forget: the call ends, and is not sent for ever.
	old.view.believes("stale", b.id)
	b.view.believes("stale", old.id)
	if _, err := a.router.Invoke(t.Context(), call("stale")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("an older host whose knowledge is old: %v", err)
	}
	// And the other way round.
	tb.update(func() { tb.speaks[a.id], tb.speaks[b.id] = 1, 1 })
	if _, err := old.router.Invoke(t.Context(), call("b")); err != nil {
		t.Errorf("a call of an older host: %v", err)
	}
}

// TestMessageToAnOlderPeer: a host that does not know messages is sent none, which it would run as
// a reminder; one that does gets all of it.
func TestMessageToAnOlderPeer(t *testing.T) {
	tb, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxWait = 300 * time.Millisecond }})
	send := func(id string) error {
		in := call(id)
		r := actor.ReminderID{Prefix: 1, Token: 7, Vector: actor.Vector{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}
		in.Firing = &actor.Firing{
			Reminder: r, Key: in.Key, Name: actor.UnorderedMessageName(r), Method: in.Method, Message: &actor.Message{From: in.Key, Cookie: 9},
			Step: actor.ReminderStep{ReminderName: actor.ReminderName{Key: in.Key, Name: actor.UnorderedMessageName(r)}, ID: r, Version: 1},
		}
		_, err := a.router.Invoke(t.Context(), in)
		return err
	}
	if err := send("b"); err != nil {
		t.Fatal(err)
	}
	if got := b.host.seen().Firing; got == nil || got.Message == nil || got.Message.Cookie != 9 {
		t.Errorf("a host got %+v", got)
	}
	old := tb.join(t, "host-old", setup{router: func(c *routing.Config) { c.MaxProtocol = 5 }})
	tb.update(func() { tb.speaks[old.id], tb.owners["o"] = 5, old.id })
	if err := send("o"); !errors.Is(err, actor.ErrNoOwner) || old.host.turns.Load() != 0 {
		t.Errorf("an older host: %v, %d turns", err, old.host.turns.Load())
	}
}

// TestRefusedByTheLocalHost: what placement says is a moment older than what the host
// knows. The call goes where the actor is by then.
func TestRefusedByTheLocalHost(t *testing.T) {
	tb, a, b := pair(t, setup{})
	a.view.believes("b", a.id)
	answered := make(chan string, 1)
	go func() {
		reply, err := a.router.Invoke(t.Context(), call("b"))
		answered <- fmt.Sprint(text(reply), err)
	}()
	eventually(t, "it waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
	a.view.believes("b", b.id)
	tb.update(func() {})
	if got := <-answered; !strings.HasPrefix(got, "host-b") {
		t.Errorf("answered %s", got)
	}
	if a.host.turns.Load() != 0 {
		t.Error("a turn ran where its actor is not")
	}
}

// TestAnotherIncarnation: what is meant for who a host was is not taken by who it is.
func TestAnotherIncarnation(t *testing.T) {
	tb, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxWait = 300 * time.Millisecond }})
	if _, err := a.router.Invoke(t.Context(), call("b")); err != nil {
		t.Fatal(err)
	}
	before := b.host.turns.Load()
	b.host.name = "host-b2" // with the session open
	tb.update(func() { tb.owners["b"] = "host-b" })
	if _, err := a.router.Invoke(t.Context(), call("b")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("the earlier incarnation answered: %v", err)
	}
	if err := a.router.Delete(t.Context(), call("b").Key); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("the earlier incarnation deleted: %v", err)
	}
	if b.host.turns.Load() != before {
		t.Error("a turn ran that was for the earlier incarnation")
	}
	tb.update(func() { tb.owners["b"] = "host-b2" })
	a.view.believes("b", "host-b")
	if _, err := a.router.Invoke(t.Context(), call("b")); !errors.Is(err, actor.ErrNoOwner) || b.host.turns.Load() != before {
		t.Errorf("what was sent to the earlier incarnation the later one has run, which holds the actor: %v", err)
	}
	tb.update(func() { tb.members["host-b2"], tb.owners["b"] = b.addr, "host-b2" })
	reply, err := a.router.Invoke(t.Context(), call("b"))
	if err != nil || string(reply.Payload.Data) != "host-b2" {
		t.Errorf("%s, %v", text(reply), err)
	}
	// And one that opens a session only now.
	tb.update(func() { tb.members["host-b3"], tb.owners["b3"] = b.addr, "host-b3" })
	if _, err := a.router.Invoke(t.Context(), call("b3")); !errors.Is(err, actor.ErrNoOwner) {
		t.Errorf("an incarnation that is not: %v", err)
	}
	if u := a.router.Unreachable(); len(u) != 1 || u[0].Host != "host-b3" || !strings.Contains(u[0].Why, "host-b2") {
		t.Errorf("unreachable: %+v", u)
	}
}

// TestCancelled: the peer is told, and its answer says what became of the call.
func TestCancelled(t *testing.T) {
	_, a, b := pair(t, setup{})
	entered := make(chan struct{})
	b.host.set(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		close(entered)
		<-ctx.Done()
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrCanceled}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := a.router.Invoke(ctx, call("b")); !errors.Is(err, actor.ErrCanceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestDeadlineOfAForwardedCall: a peer that is told to end a call does not know that its
// deadline was why; the caller is told so.
func TestDeadlineOfAForwardedCall(t *testing.T) {
	_, a, b := pair(t, setup{})
	b.host.set(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		<-ctx.Done()
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrCanceled}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.router.Invoke(ctx, call("b")); !errors.Is(err, actor.ErrDeadline) {
		t.Errorf("after its deadline: %v", err)
	}
}

// TestSilentPeer: a peer that does not say what became of a cancelled call is not
// waited for without end.
func TestSilentPeer(t *testing.T) {
	_, a, b := pair(t, setup{router: func(c *routing.Config) { c.SettleGrace = 20 * time.Millisecond }})
	entered, release := make(chan struct{}, 2), make(chan struct{})
	defer close(release)
	b.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		entered <- struct{}{}
		<-release
		return actor.Reply{}, nil
	})
	for readOnly, want := range map[bool]error{false: actor.ErrAmbiguous, true: actor.ErrCanceled} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			cancel()
		}()
		inv := call("b")
		inv.ReadOnly = readOnly
		if _, err := a.router.Invoke(ctx, inv); !errors.Is(err, want) {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
}

// TestDeleteAndView go to the host that holds the actor; a View is answered in its
// place.
func TestDeleteAndView(t *testing.T) {
	tb, a, b := pair(t, setup{})
	key := call("b").Key
	if err := a.router.Delete(t.Context(), key); err != nil || b.host.turns.Load() != 1 {
		t.Errorf("delete: %v", err)
	}
	if v, err := a.router.View(t.Context(), key); err != nil || !v.Active || v.Version != 7 || v.Key != key {
		t.Errorf("%+v, %v", v, err)
	}
	tb.update(func() { tb.owners["b"], tb.members["away"] = "away", "127.0.0.1:1" })
	if v, err := a.router.View(t.Context(), key); err != nil || v.Active || v.Version != 7 {
		t.Errorf("without its host: %+v, %v", v, err)
	}
	c := tb.join(t, "host-c", setup{})
	tb.update(func() { tb.owners["c"] = c.id })
	a.view.believes("c", b.id)
	if err := a.router.Delete(t.Context(), call("c").Key); err != nil || c.host.turns.Load() != 1 || a.view.learned[0] != c.id {
		t.Errorf("delete at who does not hold it: %v; learned %v", err, a.view.learned)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.router.Delete(ctx, call("nobody's").Key); !errors.Is(err, actor.ErrCanceled) {
		t.Errorf("cancelled: %v", err)
	}
}
