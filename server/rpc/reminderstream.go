package rpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

const (
	// subscriberProtocol is that of the frames of ReminderService.Connect.
	subscriberProtocol = 1
	// missedHeartbeats is after how many intervals without a frame a stream is given up.
	missedHeartbeats = 3
	// subscriberFrame bounds what a subscriber sends at once, in bytes.
	subscriberFrame = 64 << 10
	// bucketsAtOnce is how many buckets one frame has at most.
	bucketsAtOnce = 1000
	// maxFailureCode is the longest code of a failure, in bytes.
	maxFailureCode = 256
)

// subscriberStream is one stream of ReminderService.Connect.
type subscriberStream struct {
	s          *Services
	x          *edge.Exchange
	bidi       *connect.BidiStream[greenroomv1.ConnectRequest, greenroomv1.ConnectResponse]
	app        string
	subscriber *reminder.Subscriber
	follower   *reminder.Follower // nil before the client follows anything
	prefix     actor.Prefix       // of the app
	following  sync.WaitGroup
	tables     bool                          // the client asked for them
	complete   bool                          // it was sent a whole one
	known      map[actor.Bucket]bucketStatus // what it was sent
}

// bucketStatus is the state of a bucket; clients get its changes.
type bucketStatus struct {
	epoch  uint64
	closed bool
}

// read hands on what the client sends, until the stream is over.
func (st *subscriberStream) read(frames chan<- *greenroomv1.ConnectRequest, over <-chan struct{}) error {
	for {
		m, err := st.bidi.Receive()
		st.x.MessageReceived()
		switch {
		case tooLarge(err):
			return edge.ErrMessageTooLarge(st.x.Route.MaxMessage)
		case err != nil:
			return err
		}
		select {
		case frames <- m:
		case <-over:
			return nil
		}
	}
}

func (st *subscriberStream) serve(ctx context.Context, frames <-chan *greenroomv1.ConnectRequest, failed <-chan error) error {
	interval := st.s.edge.Conf.SubscriberHeartbeat
	silence := time.NewTimer(missedHeartbeats * interval)
	defer silence.Stop()
	beat := time.NewTicker(interval)
	defer beat.Stop()
	var ready, over, changed <-chan struct{}
	var news <-chan []reminder.Followed
	for {
		var err error
		select {
		case m := <-frames:
			silence.Reset(missedHeartbeats * interval)
			if st.subscriber != nil {
				err = st.handle(ctx, m)
				if st.follower != nil {
					news = st.follower.News()
				}
				break
			}
			if err = st.begin(ctx, m); err == nil {
				ready, over = st.subscriber.Ready(), st.subscriber.Ended()
				changed, err = st.sendTable()
			}
		case err = <-failed:
			if ended(err) {
				return nil
			}
		case <-ready:
			err = st.sendExecutions()
		case <-changed:
			changed, err = st.sendTable()
		case list := <-news:
			err = st.sendFollowed(list)
		case <-beat.C:
			if st.subscriber != nil {
				err = st.send(&greenroomv1.ConnectResponse{Frame: &greenroomv1.ConnectResponse_Heartbeat{Heartbeat: &greenroomv1.Heartbeat{}}})
			}
		case <-silence.C:
			return &failure.Error{Kind: failure.KindBodyTimeout, Text: fmt.Sprintf("no frame came for %v; send a heartbeat every %v", missedHeartbeats*interval, interval)}
		case <-over:
			return failure.ErrStopping
		case <-st.s.draining.Done():
			return failure.ErrStopping
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// begin takes the hello and answers it.
func (st *subscriberStream) begin(ctx context.Context, m *greenroomv1.ConnectRequest) error {
	hello := m.GetHello()
	if hello == nil {
		return &actor.ArgumentError{Field: "frame", Problem: "is no hello, and the first one must be"}
	}
	if hello.GetProtocol() != subscriberProtocol {
		return &actor.ArgumentError{Field: "protocol", Problem: fmt.Sprintf("is %d; this server speaks %d", hello.GetProtocol(), subscriberProtocol)}
	}
	limit := int(min(hello.GetMaxExecutions(), reminder.MaxExecutions+1))
	st.app, st.tables = edge.AppOf(hello.GetApp()), hello.GetBucketTable()
	var err error
	if st.subscriber, err = st.s.Reminders.Subscribe(st.app, hello.GetSubscriptions(), limit); err != nil {
		return err
	}
	if st.prefix, err = st.s.Reminders.Prefix(ctx, st.app); err != nil {
		return err
	}
	if limit == 0 {
		limit = reminder.DefaultExecutions
	}
	return st.send(&greenroomv1.ConnectResponse{Frame: &greenroomv1.ConnectResponse_Welcome{Welcome: &greenroomv1.SubscriberWelcome{
		Protocol: subscriberProtocol, MaxExecutions: uint32(limit), HeartbeatInterval: durationpb.New(st.s.edge.Conf.SubscriberHeartbeat), //nolint:gosec // at most MaxExecutions
		Prefix: st.prefix.String(),
	}}})
}

// handle takes any other frame.
func (st *subscriberStream) handle(ctx context.Context, m *greenroomv1.ConnectRequest) error {
	switch f := m.GetFrame().(type) {
	case *greenroomv1.ConnectRequest_Heartbeat:
		return nil
	case *greenroomv1.ConnectRequest_Executed:
		return st.subscriber.Answer(f.Executed.GetExecution(), failureOfExecution(f.Executed.GetFailure()))
	case *greenroomv1.ConnectRequest_Follow:
		return st.follow(ctx, f.Follow.GetReminderIds())
	case *greenroomv1.ConnectRequest_Hello:
		return &actor.ArgumentError{Field: "frame", Problem: "is a second hello; open another stream for other subscriptions"}
	}
	return &actor.ArgumentError{Field: "frame", Problem: "is empty, or of a kind that this server does not know"}
}

// follow sends the client the changes of reminders until ctx ends.
func (st *subscriberStream) follow(ctx context.Context, texts []string) error {
	ids := make([]actor.ReminderID, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = actor.ParseReminderID(text); err != nil {
			return err
		}
	}
	if st.follower == nil {
		f := st.s.Reminders.Follow(st.app, st.prefix)
		st.follower = f
		st.following.Go(func() { f.Run(ctx) })
	}
	return st.follower.Add(ids)
}

// sendFollowed sends what reminders are now that the client follows.
func (st *subscriberStream) sendFollowed(list []reminder.Followed) error {
	m := &greenroomv1.FollowedReminders{}
	for i := range list {
		f := &greenroomv1.FollowedReminder{ReminderId: list[i].ID.String()}
		if r := &list[i].Reminder; r.Version > 0 {
			f.Reminder = reminderToProto(r, false)
		}
		m.Reminders = append(m.Reminders, f)
	}
	return st.send(&greenroomv1.ConnectResponse{Frame: &greenroomv1.ConnectResponse_Followed{Followed: m}})
}

func failureOfExecution(f *greenroomv1.ExecutionFailure) error {
	if f == nil {
		return nil
	}
	said := &actor.GuestError{Code: failure.Bounded(f.GetCode(), maxFailureCode), Message: failure.Bounded(f.GetMessage(), failure.MaxMessage)}
	if said.Code == "" && said.Message == "" {
		said.Message = "the subscriber says that it failed, and not why"
	}
	return said
}

// send writes a frame, which the client has the body timeout to accept.
func (st *subscriberStream) send(m *greenroomv1.ConnectResponse) error {
	_ = st.x.Control.SetWriteDeadline(st.s.edge.BodyDeadline())
	return st.bidi.Send(m)
}

func (st *subscriberStream) sendExecutions() error {
	for _, x := range st.subscriber.Take() {
		f := &x.Firing
		if err := st.send(&greenroomv1.ConnectResponse{Frame: &greenroomv1.ConnectResponse_Execute{Execute: &greenroomv1.ExecuteReminder{
			Execution: x.ID, Subscription: f.Key.ID, Name: f.Name, ReminderId: f.Reminder.String(),
			Payload: f.Payload.Data, ContentType: f.Payload.ContentType, Metadata: f.Metadata,
			Due: timestamppb.New(f.Due), Missed: f.Missed, Attempt: f.Attempt, Timeout: durationpb.New(time.Until(x.Deadline)),
		}}}); err != nil {
			return err
		}
	}
	return nil
}

// sendTable sends what the client does not know of the buckets, and returns what is closed
// when there is more.
func (st *subscriberStream) sendTable() (changed <-chan struct{}, err error) {
	if !st.tables {
		return nil, nil
	}
	rows, changed := st.s.Reminders.Table(st.app)
	first := !st.complete
	table := &greenroomv1.BucketTable{}
	flush := func() error {
		err := st.send(&greenroomv1.ConnectResponse{Frame: &greenroomv1.ConnectResponse_Buckets{Buckets: table}})
		table = &greenroomv1.BucketTable{}
		return err
	}
	there := make(map[actor.Bucket]struct{}, len(rows))
	for i := range rows {
		r := &rows[i]
		there[r.Bucket] = struct{}{}
		status := bucketStatus{r.Epoch, r.Closed}
		if known, sent := st.known[r.Bucket]; sent && known == status {
			continue
		}
		st.known[r.Bucket] = status
		if table.Changed = append(table.Changed, bucketToProto(r)); len(table.Changed) == bucketsAtOnce {
			if err := flush(); err != nil {
				return changed, err
			}
		}
	}
	for b := range st.known {
		if _, still := there[b]; !still {
			delete(st.known, b)
			table.Removed = append(table.Removed, &greenroomv1.Bucket{
				App: st.app, Prefix: b.Prefix.String(), Vector: b.Vector.String(), FirstToken: b.First(),
			})
		}
	}
	if !first && len(table.Changed)+len(table.Removed) == 0 {
		return changed, nil // another app's
	}
	table.Complete = true
	return changed, flush()
}
