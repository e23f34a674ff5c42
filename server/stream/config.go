package stream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/spans"
)

// Config is what the streams of a server have in common. All fields are required.
type Config struct {
	// Host runs what is admitted.
	Host Host
	// Memory is shared by all streams.
	Memory *Memory
	// MaxInvocations is how many tasks one stream may have in flight.
	MaxInvocations int
	// MaxBytes bounds the payloads and replies of one stream that are in flight.
	MaxBytes int64
	// WriteTimeout is how long a client may take to accept a message.
	WriteTimeout time.Duration
	// Draining ends when the server begins to stop.
	Draining context.Context
	// Counters count streams and messages.
	Counters Counters
	// Spans records the spans of invocations; nil: none.
	Spans *spans.Recorder
	// Logger logs panics, and, for debugging, why a stream ended.
	Logger *slog.Logger
}

// Host begins invocations; see [host.Host.Begin].
type Host interface {
	Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun
}

// Peer is the other end of one stream.
type Peer struct {
	// RequestID names the stream in logs; those of its tasks begin with it.
	RequestID string
	// App is whose share of [Config.Memory] the stream takes; empty: that of the app of each
	// invocation, as on the channels of other hosts and the streams of callers of all apps.
	App  string
	Conn Conn
	Edge Edge
}

// Conn carries the messages of one stream. Receive and Send are called by one
// goroutine each, the others by any.
type Conn interface {
	// Receive replaces the content of in, which was reset. It returns io.EOF after
	// the client's last message.
	Receive(in *invokestream.Request) error
	Send(out *invokestream.Response) error
	// EndReceive makes Receive return an error once it has returned what has arrived.
	EndReceive()
	// EndSend makes Send return an error, also one that is blocked.
	EndSend()
}

// Edge is where invocations are checked, once, and errors get the form that clients
// see.
type Edge interface {
	// Admit returns what in asks for, or why it is refused, and then with what is
	// known of its key and method.
	Admit(in *invokestream.Invocation) (actor.Invocation, error)
	// Describe fills in out with err as the client sees it; inv failed with err under the
	// request ID id. It is called once for each error, by any goroutine.
	Describe(ctx context.Context, id string, inv *actor.Invocation, err error, out *invokestream.Reply)
}

// Counters count. Their methods are called from any goroutine.
type Counters interface {
	StreamOpened()
	StreamClosed()
	// MessageReceived is called with the number of invocations of the message.
	MessageReceived(invocations int)
	MessageSent()
}

// FullError refuses what a stream, or all of them together, have no capacity for. It
// has had no effect, and may be sent again later.
type FullError struct{ text string }

// Error says which capacity is exhausted and what to do.
func (e *FullError) Error() string { return e.text }

// Memory counts what all streams of a server hold, in bytes: payloads and replies in
// flight, and messages that have arrived in part. Apps share it. Its methods may be called
// concurrently.
type Memory struct{ account *fair.Account }

// NewMemory returns memory of limit bytes. Each app may always have a 64th, and the apps, whose
// names callers of all apps invent, take as much again for that at most.
func NewMemory(limit int64) *Memory {
	return &Memory{fair.NewAccount(fair.Bounds{Name: "bytes in flight on streams", Total: limit, Always: limit / 64, Most: limit})}
}

// alwaysReceived is how much of a message is received whatever other streams hold, in
// bytes.
const alwaysReceived = 64 << 10

// Receive counts n more bytes of a message of an app's stream; before bytes of the message are
// counted already. It returns a [*FullError] if the rest must not be read. Also then the bytes
// count until they are released.
func (m *Memory) Receive(app string, n, before int64) error {
	if full := m.account.Count(app, n); full != nil && before+n > alwaysReceived {
		return errMemoryFull(full)
	}
	return nil
}

// Release takes n bytes off.
func (m *Memory) Release(app string, n int64) { m.account.Give(app, n) }

// Used returns how many bytes are counted.
func (m *Memory) Used() int64 { return m.account.Used() }

// check returns a [*FullError] if an app may not have n more bytes.
func (m *Memory) check(app string, n int64) error {
	if full := m.account.Check(app, n); full != nil {
		return errMemoryFull(full)
	}
	return nil
}

func errMemoryFull(full error) error {
	return &FullError{fmt.Sprintf("%v; wait for replies, or use another server", full)}
}
