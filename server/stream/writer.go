package stream

import (
	"runtime"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/api/invokestream"
)

// writer is the part of a stream that sends replies. Its fields are guarded by the
// stream's mu, but for the timer.
type writer struct {
	replies    outgoing  // what is ready and not taken for sending
	replyReady sync.Cond // replies has some, or the stream is closed
	refused    int       // refusals that are not written yet
	written    sync.Cond // refused has shrunk, or writeErr is set
	writeErr   error     // why nothing can be written any more

	// writeTimer bounds each message that is sent. A deadline of the connection would
	// cost more than the message.
	writeTimer *time.Timer
}

// outgoing is a message of replies with what they free once they are written.
type outgoing struct {
	invokestream.Response
	admitted int       // how many of the replies are of tasks in flight
	counts   []counted // what those count
}

// counted is how many bytes of a stream count for an app.
type counted struct {
	app   string
	bytes int64
}

// count counts bytes for an app.
func (o *outgoing) count(app string, bytes int64) {
	if last := len(o.counts) - 1; last >= 0 && o.counts[last].app == app {
		o.counts[last].bytes += bytes
		return
	}
	o.counts = append(o.counts, counted{app, bytes})
}

// MaxMessage is how large a message of replies grows, in bytes, unless a single reply
// is larger: a client may then begin to read.
const MaxMessage = 1 << 20

// reply hands a reply to the writer. Its caller holds mu.
func (st *stream) reply(r invokestream.Reply) {
	st.replies.Replies = append(st.replies.Replies, r)
	if len(st.replies.Replies) == 1 {
		st.replyReady.Signal()
	}
}

// refuse answers a task that was not admitted. It waits for a client that does not
// read its refusals.
func (st *stream) refuse(t *task) {
	reply := t.failure(t.err)
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.refused >= st.conf.MaxInvocations && st.writeErr == nil {
		st.written.Wait()
	}
	st.refused++
	st.reply(reply)
}

// write sends what is ready until the stream is closed.
func (st *stream) write() {
	var out outgoing
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		for len(st.replies.Replies) == 0 {
			if st.closed {
				return
			}
			st.replyReady.Wait()
			st.mu.Unlock()
			runtime.Gosched() // workers that are about to run join the message
			st.mu.Lock()
		}
		out.Reset()
		out, st.replies = st.replies, outgoing{Response: out.Response, counts: out.counts[:0]}
		if st.writeErr == nil {
			st.mu.Unlock()
			err := st.send(&out)
			st.mu.Lock()
			if err != nil {
				st.writeErr = err
				st.cancel() // which ends receiving: abandon
			}
		}
		st.inFlight -= out.admitted
		for _, c := range out.counts {
			st.addBytes(c.app, -c.bytes)
		}
		st.refused -= len(out.Replies) - out.admitted
		st.written.Signal()
	}
}

// send sends replies in messages of a moderate size.
func (st *stream) send(out *outgoing) error {
	all := out.Replies
	defer func() { out.Replies = all }()
	for begin := 0; begin < len(all); {
		end, size := begin, 0
		for end < len(all) && (end == begin || size+all[end].Size() <= MaxMessage) {
			size += all[end].Size()
			end++
		}
		out.Replies = all[begin:end]
		begin = end
		st.writeTimer.Reset(st.conf.WriteTimeout)
		err := st.peer.Conn.Send(&out.Response)
		st.writeTimer.Stop()
		if err != nil {
			return err
		}
		st.conf.Counters.MessageSent()
	}
	return nil
}

// endSend ends a client that does not accept what is written to it.
func (st *stream) endSend() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		st.peer.Conn.EndSend()
	}
}
