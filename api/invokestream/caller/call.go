package caller

import (
	"time"

	"github.com/greenroom-run/greenroom/api/invokestream"
)

// Call is one invocation on its way. It belongs to the stream from [Stream.Push] until
// it is finished or abandoned.
type Call struct {
	// Inv is what is asked for; the stream sets its ID and its timeout.
	Inv invokestream.Invocation
	// Deadline is when the call ends at the server; zero: never.
	Deadline time.Time
	// Waiter is notified when Reply or Err is set.
	Waiter Waiter

	Reply invokestream.Reply
	Err   error // of the stream; errors of the server are in Reply

	// Guarded by the stream's mu.
	sent      bool
	slot      uint32
	finished  bool
	abandoned bool // nobody waits
}

// Waiter waits for the end of a call. Finished is called once, from any goroutine, when
// the call ends, and never for an abandoned call. Finished must not block: other calls
// wait for their replies meanwhile.
type Waiter interface{ Finished(ca *Call) }
