package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// Subscription says which reminders a client executes. They are set with
// ReminderService.CreateReminder, for the type "greenroom.subscription", whose IDs are the
// names of subscriptions.
type Subscription struct {
	// App is empty for the client's.
	App string
	// Names are 1 to 64 names of subscriptions. Required.
	Names []string
	// MaxExecutions is how many calls of Do there are at a time, at most 1000. Defaults
	// to 16.
	MaxExecutions int
	// Welcomed is called with the prefix that the IDs of all of the app's reminders have, each time
	// that a server takes the subscription. Optional, as is what follows.
	Welcomed func(prefix string)
	// Follow are IDs of at most 256 reminders of the app, whatever they are for. Followed is
	// called with what each is now, each time that a server takes the subscription, and
	// when one of them has another ID from then on. The calls come one after the other, and
	// the stream waits for them.
	Follow   []string
	Followed func(FollowedReminder)
	// Do does what a reminder is for. Nil says that it is done; any other error that it
	// failed, and the reminder's failure policy says what then: the code of a
	// [*FiringError] is kept. Its context ends when the answer would come too late, or
	// could not be given any more: then the firing is executed again, here or by
	// another subscriber, as it is after a crash. So Do may be called for one firing more
	// than once: its Name and Due tell. Required.
	Do func(ctx context.Context, f Firing) error
}

// Firing is what a reminder asks of a subscriber.
type Firing struct {
	Subscription string
	// Name is the reminder's; ReminderID changes when it is set anew or moves to another
	// server.
	Name, ReminderID string
	Payload          []byte
	ContentType      string // empty means application/json
	Metadata         map[string]string
	// Due is the occurrence; where it stands for several, the first of them.
	Due time.Time
	// Missed is for how many further occurrences it stands, and how many were passed over.
	Missed uint32
	// Attempt is 1 for the first time; failures count it up.
	Attempt uint32
}

// FollowedReminder is what a reminder is that a subscription follows.
type FollowedReminder struct {
	// ID is the one that was followed, and NewID the one that the reminder has now: another one
	// once another server has taken it over, or its name was set anew. NewID is empty if no
	// reminder has the ID any more: then it is followed no more.
	ID, NewID string
	// ActorType, ActorID and Name say which reminder it is; of one for subscribers ActorID is the
	// name of the subscription.
	ActorType, ActorID, Name string
	// Due is the occurrence that is next.
	Due    time.Time
	Paused bool
}

// FiringError is a failure of [Subscription].Do with the application's own name for it.
type FiringError struct{ Code, Message string }

// Error returns the code and the message.
func (e *FiringError) Error() string { return e.Code + ": " + e.Message }

const (
	subscriberProtocol = 1
	// missedHeartbeats is after how many intervals without a frame a stream is given up.
	missedHeartbeats = 3
	// openHeartbeat is the interval before the server has said its own.
	openHeartbeat = openTimeout / missedHeartbeats
)

// SubscribeReminders executes the firings of a subscription until ctx ends, or the client
// is closed, or a server refuses it for a reason that does not pass. It goes on with the
// next server when one is lost or stops. It returns when all calls of Do have returned; the
// error is ctx's, or an [*Error].
func (c *Client) SubscribeReminders(ctx context.Context, s Subscription) error {
	if s.App == "" {
		s.App = c.conf.App
	}
	s.Follow = slices.Clone(s.Follow) // kept up to date for the next stream
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	failures := 0
	for at := 0; ; at++ {
		servers := c.servers.configured
		welcomed, err := c.subscribe(ctx, servers[at%len(servers)], &s)
		if c.ctx.Err() != nil {
			return errClosed()
		}
		if cause := ctx.Err(); cause != nil {
			return cause
		}
		e, answered := errorOfRPC(err)
		switch e.Code {
		case connect.CodeInvalidArgument, connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeUnimplemented:
			return e
		default:
		}
		if failures++; welcomed {
			failures = 1
		}
		if welcomed && answered && e.Kind == kindStopping && len(servers) > 1 {
			continue
		}
		if c.pause(ctx, c.backoff(min(failures, 16))) != nil && c.ctx.Err() == nil {
			return ctx.Err()
		}
	}
}

// What servers take of a failure, in bytes.
const (
	maxFailureCode    = 256
	maxFailureMessage = 4 << 10
)

// sendable returns the beginning of s as text that can be sent.
func sendable(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// subscriber is one stream of ReminderService.Connect.
type subscriber struct {
	*Subscription
	bidi    *connect.BidiStreamForClient[greenroomv1.ConnectRequest, greenroomv1.ConnectResponse]
	cut     context.CancelFunc
	silence *time.Timer

	mu sync.Mutex // of what is sent
}

// subscribe keeps one stream open, and returns why it has ended.
func (c *Client) subscribe(ctx context.Context, s *target, what *Subscription) (welcomed bool, err error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	streams, _ := c.httpClients(s.base)
	st := &subscriber{Subscription: what, cut: cut, bidi: greenroomv1connect.NewReminderServiceClient(streams, s.base).Connect(ctx)}
	c.authorize(st.bidi.RequestHeader())
	var running sync.WaitGroup
	defer running.Wait()
	defer func() {
		cut()
		_ = st.bidi.CloseRequest()
		_ = st.bidi.CloseResponse()
	}()
	st.silence = time.AfterFunc(missedHeartbeats*openHeartbeat, cut)
	defer st.silence.Stop()
	if err := st.send(&greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Hello{Hello: &greenroomv1.SubscriberHello{
		Protocol: subscriberProtocol, App: what.App, Subscriptions: what.Names, MaxExecutions: uint32(max(0, what.MaxExecutions)), //nolint:gosec // the server checks it
	}}}); err != nil {
		return false, err
	}
	interval := openHeartbeat
	for {
		m, err := st.bidi.Receive()
		if err != nil {
			return welcomed, err
		}
		st.silence.Reset(missedHeartbeats * interval)
		switch f := m.GetFrame().(type) {
		case *greenroomv1.ConnectResponse_Welcome:
			if d := f.Welcome.GetHeartbeatInterval().AsDuration(); d > 0 && !welcomed {
				interval = d
			}
			if !welcomed {
				welcomed = true
				running.Go(func() { st.beat(ctx, interval) })
				if what.Welcomed != nil {
					what.Welcomed(f.Welcome.GetPrefix())
				}
				if len(what.Follow) > 0 && f.Welcome.GetPrefix() != "" { // an older server has neither
					st.tell(&greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Follow{Follow: &greenroomv1.FollowReminders{ReminderIds: what.Follow}}})
				}
			}
		case *greenroomv1.ConnectResponse_Execute:
			running.Go(func() { st.execute(ctx, f.Execute) })
		case *greenroomv1.ConnectResponse_Followed:
			for _, r := range f.Followed.GetReminders() {
				st.followed(r)
			}
		}
	}
}

// followed notes what a reminder is that is followed, and hands it on.
func (st *subscriber) followed(r *greenroomv1.FollowedReminder) {
	now := r.GetReminder()
	if i := slices.Index(st.Follow, r.GetReminderId()); i >= 0 && now.GetId() != "" {
		st.Follow[i] = now.GetId()
	} else if i >= 0 {
		st.Follow = slices.Delete(st.Follow, i, i+1)
	}
	if st.Followed == nil {
		return
	}
	f := FollowedReminder{
		ID: r.GetReminderId(), NewID: now.GetId(), Name: now.GetName(), Paused: now.GetPaused(),
		ActorType: now.GetActor().GetType(), ActorID: now.GetActor().GetId(),
	}
	if now.GetDue() != nil {
		f.Due = now.GetDue().AsTime()
	}
	st.Followed(f)
}

func (st *subscriber) send(m *greenroomv1.ConnectRequest) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	err := st.bidi.Send(m)
	if err == nil {
		return nil
	}
	if _, said := st.bidi.Receive(); said != nil { // why the server takes nothing
		err = said
	}
	return err
}

// beat tells the server that the client is there.
func (st *subscriber) beat(ctx context.Context, interval time.Duration) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			st.tell(&greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Heartbeat{Heartbeat: &greenroomv1.Heartbeat{}}})
		case <-ctx.Done():
			return
		}
	}
}

// tell sends a frame while another goroutine receives: that one learns why if it cannot be
// sent.
func (st *subscriber) tell(m *greenroomv1.ConnectRequest) {
	st.mu.Lock()
	defer st.mu.Unlock()
	_ = st.bidi.Send(m)
}

func (st *subscriber) execute(ctx context.Context, x *greenroomv1.ExecuteReminder) {
	ctx, cancel := context.WithTimeout(ctx, x.GetTimeout().AsDuration())
	defer cancel()
	err := st.Do(ctx, Firing{
		Subscription: x.GetSubscription(), Name: x.GetName(), ReminderID: x.GetReminderId(),
		Payload: x.GetPayload(), ContentType: x.GetContentType(), Metadata: x.GetMetadata(),
		Due: x.GetDue().AsTime(), Missed: x.GetMissed(), Attempt: x.GetAttempt(),
	})
	if err != nil && ctx.Err() != nil {
		return // it was not to finish, which is no failure: it is executed again
	}
	done := &greenroomv1.ReminderExecuted{Execution: x.GetExecution()}
	if err != nil {
		done.Failure = &greenroomv1.ExecutionFailure{Message: err.Error()}
		if said := (*FiringError)(nil); errors.As(err, &said) {
			done.Failure.Code, done.Failure.Message = said.Code, said.Message
		}
		// What cannot be sent would be no answer, and the reminder be executed again.
		done.Failure.Code, done.Failure.Message = sendable(done.Failure.Code, maxFailureCode), sendable(done.Failure.Message, maxFailureMessage)
	}
	st.tell(&greenroomv1.ConnectRequest{Frame: &greenroomv1.ConnectRequest_Executed{Executed: done}})
}
