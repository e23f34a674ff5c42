package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// stream is one InvokeStream; doc.go has the whole of it.
type stream struct {
	conf   *Config
	peer   Peer
	ctx    context.Context // of every invocation; it ends with the stream
	cancel context.CancelFunc

	// Used by the receiving goroutine only: what it received last.
	in    invokestream.Request
	batch []*task

	mu       sync.Mutex
	tasks    taskList  // admitted and not answered, in order of admission
	answered sync.Cond // tasks is empty
	inFlight int
	bytes    int64  // of the payloads and replies of what is in flight
	admitted uint64 // tasks so far, for their IDs
	stopping bool   // the server stops: nothing more is admitted
	closed   bool   // every task is answered, and none will be admitted

	dispatcher
	writer
}

// invocationOverhead is what a task in flight counts beside its payload, in bytes:
// its strings and what the host knows of it.
const invocationOverhead = 512

// Serve serves a stream until its client has ended its side and every invocation is
// answered, or until the stream fails; doc.go says how it ends. When it returns, no
// goroutine of the stream is left.
func Serve(ctx context.Context, conf *Config, peer Peer) error {
	st := newStream(ctx, conf, peer)
	defer st.cancel()
	return st.run()
}

func newStream(ctx context.Context, conf *Config, peer Peer) *stream {
	st := &stream{conf: conf, peer: peer}
	st.ctx, st.cancel = context.WithCancel(ctx)
	st.maxIdle = runtime.GOMAXPROCS(0) + 1
	st.answered.L, st.taskReady.L, st.replyReady.L, st.written.L = &st.mu, &st.mu, &st.mu, &st.mu
	return st
}

func (st *stream) run() error {
	st.writeTimer = time.AfterFunc(st.conf.WriteTimeout, st.endSend)
	// The client learns that its invocations will be taken.
	err := st.peer.Conn.Send(&invokestream.Response{})
	st.writeTimer.Stop()
	if err != nil {
		return err
	}
	st.conf.Counters.StreamOpened()
	defer st.conf.Counters.StreamClosed()
	defer afterFunc(st.conf.Draining, st.stop)()
	var writing sync.WaitGroup
	writing.Go(st.write)
	defer afterFunc(st.ctx, st.abandon)()

	// A message that is refused ends the stream, and takes nothing from what was
	// admitted before it. A client that is gone ends the stream's context.
	err = st.receive()
	if err != nil {
		st.conf.Logger.LogAttrs(st.ctx, slog.LevelDebug, "stream takes no more",
			slog.String("request_id", st.peer.RequestID), slog.Any("error", err))
	}
	st.close()
	st.workers.Wait()
	writing.Wait()

	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.writeErr != nil:
		return st.writeErr
	case err != nil:
		return err
	case st.stopping:
		return actor.ErrStopping
	}
	return nil
}

// afterFunc is [context.AfterFunc], but what it returns also waits for f if that has
// begun.
func afterFunc(ctx context.Context, f func()) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		f()
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

// receive takes messages until the stream ends. It returns nil if the client ended it properly.
func (st *stream) receive() error {
	for {
		st.in.Reset() // see invokestream.Frame
		err := st.peer.Conn.Receive(&st.in)
		switch {
		case err == nil:
			st.conf.Counters.MessageReceived(len(st.in.Invocations))
			st.batch = st.admit(st.newTasks(st.batch, st.in.Invocations))
			st.cancelTasks(st.in.Cancels)
			if st.broken() {
				return nil // Serve returns the writer's error
			}
		case errors.Is(err, io.EOF) || st.ended():
			return nil
		default:
			return err
		}
	}
}

// stop lets nothing more be admitted, and ends receiving.
func (st *stream) stop() {
	st.mu.Lock()
	st.stopping = true
	st.mu.Unlock()
	st.peer.Conn.EndReceive()
}

// close waits until every task is answered, and ends the workers and the writer.
func (st *stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.tasks.first != nil {
		st.answered.Wait()
	}
	st.closed = true
	st.replyReady.Signal()
	st.taskReady.Broadcast()
}

// broken reports whether the client cannot be answered any more.
func (st *stream) broken() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeErr != nil
}

// ended reports whether the stream itself has ended receiving.
func (st *stream) ended() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stopping || st.writeErr != nil
}

// admit queues the good ones of a message as long as there is capacity, and refuses
// the others. It returns the memory of the list.
func (st *stream) admit(all []*task) []*task {
	refused := all[:0]
	st.mu.Lock()
	for _, t := range all {
		if t.err == nil {
			t.err = st.capacity(t.app(), t.size())
		}
		if t.err != nil {
			refused = append(refused, t)
			continue
		}
		st.inFlight++
		st.addBytes(t.app(), t.size())
		st.admitted++
		t.number = st.admitted
		st.tasks.push(t)
		t.startTimer()
	}
	st.wake()
	st.mu.Unlock()
	for _, t := range refused {
		st.refuse(t)
	}
	clear(all)
	return all[:0]
}

// capacity says why an invocation of size bytes that counts for app cannot be admitted now;
// nil if it can. Its caller holds mu.
func (st *stream) capacity(app string, size int64) error {
	switch {
	case st.ctx.Err() != nil:
		return actor.ErrCanceled
	case st.stopping:
		return actor.ErrStopping
	case st.inFlight >= st.conf.MaxInvocations:
		return &FullError{fmt.Sprintf("the stream has %d invocations in flight; wait for replies, or open another stream", st.inFlight)}
	case st.inFlight > 0 && st.bytes+size > st.conf.MaxBytes:
		return &FullError{fmt.Sprintf("the stream has %d bytes in flight; wait for replies, or open another stream", st.bytes)}
	case st.inFlight > 0:
		return st.conf.Memory.check(app, size)
	}
	return nil
}

// addBytes counts n bytes of an app as in flight; a negative n takes them off. Its caller
// holds mu.
func (st *stream) addBytes(app string, n int64) {
	st.bytes += n
	st.conf.Memory.account.Add(app, n)
}

// cancelTasks ends the tasks that a message cancels, by the IDs that the client gave
// them. IDs that are not in flight are those of replies on their way.
func (st *stream) cancelTasks(ids []uint64) {
	if len(ids) == 0 {
		return
	}
	wanted := make(map[uint64]struct{}, len(ids))
	for _, id := range ids {
		wanted[id] = struct{}{}
	}
	st.endTasks(func(t *task) bool {
		_, ok := wanted[t.id]
		return ok
	})
}

// abandon ends every task, and receiving, after the stream's context has ended.
func (st *stream) abandon() {
	st.endTasks(func(*task) bool { return true })
	st.peer.Conn.EndReceive()
}

// endTasks cancels the tasks that match selects. Only once marked do they leave the
// lock: ending one may call the host.
func (st *stream) endTasks(match func(*task) bool) {
	var marked []*task
	st.mu.Lock()
	for t := st.tasks.first; t != nil; t = t.next {
		if match(t) && t.context.mark(endCanceled) {
			marked = append(marked, t)
		}
	}
	st.mu.Unlock()
	for _, t := range marked {
		t.endMarked(endCanceled)
	}
}
