package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// fakeConn is the server's side of a stream: tests hand it what is received, and
// take what is sent, which waits for them.
type fakeConn struct {
	receive chan []invokestream.Invocation
	sending chan struct{}
	sent    chan []uint64 // the IDs
}

func newFakeConn() *fakeConn {
	return &fakeConn{receive: make(chan []invokestream.Invocation), sending: make(chan struct{}, 1000), sent: make(chan []uint64)}
}

func (c *fakeConn) Receive(in *invokestream.Request) error {
	invs, ok := <-c.receive
	if !ok {
		return io.EOF
	}
	in.Invocations = invs
	return nil
}

func (c *fakeConn) Send(out *invokestream.Response) error {
	var ids []uint64
	for _, r := range out.Replies {
		ids = append(ids, r.ID)
	}
	if ids != nil {
		c.sending <- struct{}{}
	}
	c.sent <- ids
	return nil
}

func (*fakeConn) EndReceive() {}
func (*fakeConn) EndSend()    {}

// fakeEdge refuses invocations without a method, and describes an error by its text.
type fakeEdge struct{}

func (fakeEdge) Admit(in *invokestream.Invocation) (actor.Invocation, error) {
	inv := actor.Invocation{Key: in.Key, Method: in.Method, Payload: in.Payload}
	return inv, actor.ValidateName("method", in.Method)
}

func (fakeEdge) Describe(_ context.Context, _ string, _ *actor.Invocation, err error, out *invokestream.Reply) {
	out.Error = &greenroomv1.StreamError{Message: err.Error()}
}

// beginFunc is a host that is one function.
type beginFunc func(inv actor.Invocation, to host.Receiver) host.Begun

func (f beginFunc) Begin(_ context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	return f(inv, to)
}

func echo(inv actor.Invocation, to host.Receiver) host.Begun {
	to.Answer(actor.Reply{Payload: inv.Payload}, nil)
	return nil
}

type noCounters struct{}

func (noCounters) StreamOpened()       {}
func (noCounters) StreamClosed()       {}
func (noCounters) MessageReceived(int) {}
func (noCounters) MessageSent()        {}

// newTestStream makes a stream that does not run yet.
func newTestStream(t *testing.T, conn Conn, h beginFunc) *stream {
	t.Helper()
	st := newStream(t.Context(), &Config{
		Host: h, Memory: NewMemory(1 << 30), MaxInvocations: 4096, MaxBytes: 1 << 30, WriteTimeout: time.Hour,
		Draining: context.Background(), Counters: noCounters{}, Logger: slog.New(slog.DiscardHandler),
	}, Peer{RequestID: "r", Conn: conn, Edge: fakeEdge{}})
	t.Cleanup(st.cancel)
	return st
}

func invocations(ids ...uint64) (all []invokestream.Invocation) {
	for _, id := range ids {
		all = append(all, invokestream.Invocation{ID: id, Key: actor.Key{App: "default", Type: "T", ID: "a"}, Method: "Add"})
	}
	return all
}

// TestRefusalsWait: a client that sends what is refused and does not read the
// refusals is not read any more either, however much it sends.
func TestRefusalsWait(t *testing.T) {
	conn := newFakeConn()
	st := newTestStream(t, conn, echo)
	st.conf.MaxInvocations = 10
	var serving sync.WaitGroup
	serving.Go(func() { _ = st.run() })
	<-conn.sent // the first message
	bad := make([]invokestream.Invocation, 100)
	conn.receive <- bad
	sent := 0
	for sent < len(bad) {
		st.mu.Lock()
		refused := st.refused
		st.mu.Unlock()
		if refused > 10 {
			t.Fatalf("%d refusals wait", refused)
		}
		sent += len(<-conn.sent)
	}
	close(conn.receive)
	serving.Wait()
}

// TestRepliesAreBatched: what becomes ready while a message is written goes in the
// next one.
func TestRepliesAreBatched(t *testing.T) {
	conn := newFakeConn()
	st := newTestStream(t, conn, echo)
	served := make(chan struct{})
	go func() { _ = st.run(); close(served) }()
	<-conn.sent
	conn.receive <- invocations(1)
	<-conn.sending // the writer is at it with the first reply
	var rest []uint64
	for id := range uint64(63) {
		rest = append(rest, id+2)
	}
	conn.receive <- invocations(rest...)
	for ready := 0; ready < len(rest); {
		st.mu.Lock()
		ready = len(st.replies.Replies)
		st.mu.Unlock()
		runtime.Gosched()
	}
	if got := <-conn.sent; !slices.Equal(got, []uint64{1}) {
		t.Errorf("the first message has %v", got)
	}
	<-conn.sending
	if got := <-conn.sent; len(got) != 63 {
		t.Errorf("the second message has %d replies", len(got))
	}
	close(conn.receive)
	<-served
	if used := st.conf.Memory.Used(); used != 0 || st.bytes != 0 || st.inFlight != 0 {
		t.Errorf("%d tasks with %d bytes are still in flight, %d of all streams", st.inFlight, st.bytes, used)
	}
}

// TestPendingIsDropped: what the host has not been given yet is dropped when it is
// cancelled or its time is up, and the host never sees it.
func TestPendingIsDropped(t *testing.T) {
	st := newTestStream(t, newFakeConn(), func(inv actor.Invocation, _ host.Receiver) host.Begun {
		t.Errorf("the host got %v", inv.Key)
		return nil
	})
	st.waking = true // no worker takes what is pending
	st.admit(st.newTasks(nil, invocations(1, 2)))
	st.admit(st.newTasks(nil, invocations(3)))
	st.cancelTasks([]uint64{2})
	st.tasks.first.expire()
	st.abandon()
	st.mu.Lock()
	texts := make(map[uint64]string)
	for _, r := range st.replies.Replies {
		texts[r.ID] = r.Error.GetMessage()
	}
	if !contains(texts[1], actor.CallersDeadline(t.Context())) || !contains(texts[2], actor.ErrCanceled) || !contains(texts[3], actor.ErrCanceled) || st.tasks.first != nil || st.tasks.pending != nil {
		t.Errorf("got %v", texts)
	}
	st.waking = false
	st.wake()
	st.closed = true
	st.mu.Unlock()
	st.workers.Wait()
}

// TestEndedStreamAdmitsNothing: what arrives after the context has ended is refused.
func TestEndedStreamAdmitsNothing(t *testing.T) {
	conn := newFakeConn()
	ctx, end := context.WithCancel(t.Context())
	st := newTestStream(t, conn, func(inv actor.Invocation, _ host.Receiver) host.Begun {
		t.Errorf("the host got %v", inv.Key)
		return nil
	})
	st.ctx, st.cancel = context.WithCancel(ctx)
	served := make(chan error)
	go func() { served <- st.run() }()
	<-conn.sent
	end()
	conn.receive <- invocations(1)
	if got := <-conn.sent; !slices.Equal(got, []uint64{1}) {
		t.Errorf("answered: %v", got)
	}
	close(conn.receive)
	if err := <-served; err != nil {
		t.Error(err)
	}
	if st.admitted != 0 {
		t.Errorf("%d calls were admitted", st.admitted)
	}
}

func contains(text string, err error) bool {
	return text == (&actor.TurnError{Key: invocations(1)[0].Key, Method: "Add", Err: err}).Error()
}

// TestTaskList: tasks are taken in the order of their admission, each once, whichever
// leave meanwhile.
func TestTaskList(t *testing.T) {
	var l taskList
	all := make([]*task, 8)
	for i := range all {
		all[i] = &task{id: uint64(i)}
		l.push(all[i])
	}
	taken := []uint64{l.pop().id, l.pop().id}
	for _, leaves := range []int{0, 2, 5, 1, 7} { // taken, the first pending one, one in the middle, taken, the last one
		l.remove(all[leaves])
	}
	for l.pending != nil {
		taken = append(taken, l.pop().id)
	}
	if want := []uint64{0, 1, 3, 4, 6}; !slices.Equal(taken, want) {
		t.Errorf("taken %v, want %v", taken, want)
	}
	last := &task{id: 8}
	if l.push(last); l.pending != last || l.pop() != last || l.pending != nil {
		t.Error("one that came when all were taken is not pending")
	}
	for _, left := range []int{3, 4, 6} {
		l.remove(all[left])
	}
	if l.first != last || l.last != last {
		t.Errorf("the list has %v to %v", l.first, l.last)
	}
	if l.remove(last); l.first != nil || l.last != nil || l.pending != nil {
		t.Error("the list is not empty")
	}
}

// TestTaskContext is a context like others, also for those derived from it.
func TestTaskContext(t *testing.T) { synctest.Test(t, testTaskContext) }

func testTaskContext(t *testing.T) {
	type name struct{}
	parent, cancel := context.WithCancel(context.WithValue(t.Context(), name{}, "v"))
	defer cancel()
	for reason, want := range map[endReason]error{endCanceled: context.Canceled, endDeadline: context.DeadlineExceeded} {
		asked, unasked := &taskContext{stream: parent}, &taskContext{stream: parent}
		if reason == endDeadline {
			asked.deadline = time.Now().Add(time.Second)
			unasked.deadline = asked.deadline
		}
		derived, stop := context.WithCancel(asked)
		if asked.Err() != nil || derived.Err() != nil || asked.Value(name{}) != "v" || unasked.Value(name{}) != "v" {
			t.Fatal("it ended before its end, or lost a value")
		}
		if reason == endDeadline {
			<-time.After(time.Second)
		}
		if !asked.mark(reason) || asked.mark(endCanceled) || !unasked.mark(reason) {
			t.Error("it does not end once")
		}
		asked.endMarked(reason)
		unasked.endMarked(reason)
		<-asked.Done()
		<-unasked.Done()
		<-derived.Done()
		if !errors.Is(asked.Err(), want) || !errors.Is(unasked.Err(), want) || !errors.Is(derived.Err(), want) {
			t.Errorf("it ended with %v, what was derived of it with %v", asked.Err(), derived.Err())
		}
		stop()
	}
	c := &taskContext{stream: parent}
	done := c.Done()
	cancel()
	<-done
	if !errors.Is(c.Err(), context.Canceled) {
		t.Errorf("with its stream it ended with %v", c.Err())
	}
}

// TestChannelCountsByApp: on the channel of another host, which has invocations of all apps, each
// counts for its own: an app that has its share is refused more, and another app is not.
func TestChannelCountsByApp(t *testing.T) {
	conn := newFakeConn()
	loud := make(chan host.Receiver, 64)
	quiet := make(chan struct{})
	st := newTestStream(t, conn, func(inv actor.Invocation, to host.Receiver) host.Begun {
		if inv.Key.App == "quiet" {
			close(quiet)
			return echo(inv, to)
		}
		loud <- to
		return nil
	})
	st.conf.Memory = NewMemory(1 << 20)
	served := make(chan struct{})
	go func() { _ = st.run(); close(served) }()
	<-conn.sent // the first message
	of := func(app string, id uint64) invokestream.Invocation {
		return invokestream.Invocation{
			ID: id, Key: actor.Key{App: app, Type: "T", ID: "a"}, Method: "M", Payload: actor.Payload{Data: make([]byte, 32<<10)},
		}
	}
	var all []invokestream.Invocation
	for id := range uint64(cap(loud)) {
		all = append(all, of("loud", id+1))
	}
	conn.receive <- all
	refused := len(<-conn.sent)
	for refused+int(st.conf.Memory.account.Has("loud")/(32<<10)) < len(all) {
		refused += len(<-conn.sent)
	}
	conn.receive <- []invokestream.Invocation{of("quiet", 100)}
	if got := <-conn.sent; !slices.Equal(got, []uint64{100}) {
		t.Errorf("answered: %v", got)
	}
	select {
	case <-quiet:
	default:
		t.Error("the other app's invocation was refused")
	}
	for range len(all) - refused {
		(<-loud).Answer(actor.Reply{}, nil)
	}
	close(conn.receive)
	for open := true; open; {
		select {
		case <-conn.sent:
		case <-served:
			open = false
		}
	}
	if used := st.conf.Memory.Used(); used != 0 || st.conf.Memory.account.Has("loud") != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}

// TestBytesOfInventedAppsAreBounded: callers of all apps may name any app, and each app may always have
// a part; all together have twice the bound at most.
func TestBytesOfInventedAppsAreBounded(t *testing.T) {
	m := NewMemory(6400)
	m.account.Add("loud", 10_000)
	for i := range 1000 {
		if app := fmt.Sprint("invented", i); m.check(app, 100) == nil {
			m.account.Add(app, 100)
		}
	}
	if of := m.Used() - 10_000; of < 800 || of > 6400 {
		t.Errorf("%d bytes of invented apps are in flight, where 6400 are for all", of)
	}
}
