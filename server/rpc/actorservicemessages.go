package rpc

import (
	"context"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/reminders"
	"github.com/greenroom-run/greenroom/store"
)

// Messages stores and lists messages to actors.
type Messages interface {
	// Send stores a message from outside, with an idempotency key once: repeated reports
	// whether an earlier call stored it. Errors are those of [inbox.Outbox.Message] and of the
	// store.
	Send(ctx context.Context, r *inbox.Request, idempotencyKey string) (id actor.ReminderID, repeated bool, err error)
	// List lists the messages to an actor.
	List(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error)
}

// sendsAtOnce is how many messages of a request are stored at the same time.
const sendsAtOnce = 64

// errNoMessages refuses messages where there are none.
var errNoMessages = &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no messages"}

// Send implements ActorService.
func (a *actorService) Send(ctx context.Context, req *connect.Request[greenroomv1.SendRequest]) (*connect.Response[greenroomv1.SendResponse], error) {
	if a.s.Messages == nil {
		return nil, errNoMessages
	}
	idempotency, err := edge.IdempotencyKey(req.Header())
	if err != nil {
		return nil, err
	}
	list := req.Msg.GetMessages()
	msg := &greenroomv1.SendResponse{Messages: make([]*greenroomv1.SentMessage, len(list))}
	app := edge.AppOf(req.Msg.GetApp())
	if len(list) == 1 {
		if idempotency != "" {
			list[0].IdempotencyKey = idempotency
		}
		msg.Messages[0], err = a.send(ctx, app, list[0])
		return done(msg, err)
	}
	if idempotency != "" {
		return nil, &actor.ArgumentError{Field: "Idempotency-Key", Problem: "is for a request with one message; give each message a key of its own"}
	}
	places := make(chan struct{}, sendsAtOnce)
	var sending sync.WaitGroup
	for i, m := range list {
		places <- struct{}{}
		sending.Go(func() {
			defer func() { <-places }()
			sent, err := a.send(ctx, app, m)
			if err != nil {
				inv := actor.Invocation{Key: actor.Key{App: app, Type: m.GetType(), ID: m.GetId()}, Method: m.GetMethod(), Token: edge.CallerName(ctx), Trace: edge.TraceOf(ctx)}
				f := a.s.edge.FailTurn(ctx, edge.RequestID(ctx), err, &inv)
				sent = &greenroomv1.SentMessage{Error: &greenroomv1.StreamError{Code: uint32(f.Code), Message: f.Message, Detail: f.Detail}}
			}
			msg.Messages[i] = sent
		})
	}
	sending.Wait()
	return connect.NewResponse(msg), nil
}

// send stores one message.
func (a *actorService) send(ctx context.Context, app string, m *greenroomv1.OutgoingMessage) (*greenroomv1.SentMessage, error) {
	r := inbox.Request{
		To: actor.Key{App: app, Type: m.GetType(), ID: m.GetId()}, Method: m.GetMethod(),
		Payload: actor.Payload{ContentType: m.GetContentType(), Data: m.GetPayload()}, Message: actor.Message{Cookie: m.GetCookie()},
	}
	var err error
	if r.At, err = timeOf("at", m.GetAt()); err != nil {
		return nil, err
	}
	if r.After, err = durationOf("after", m.GetAfter()); err != nil {
		return nil, err
	}
	if m.GetForwardType() != "" || m.GetForwardId() != "" {
		r.Forward = actor.Key{App: app, Type: m.GetForwardType(), ID: m.GetForwardId()}
	}
	if err := actor.ValidateIdempotencyKey(m.GetIdempotencyKey()); m.GetIdempotencyKey() != "" && err != nil {
		return nil, err
	}
	id, repeated, err := a.s.Messages.Send(ctx, &r, m.GetIdempotencyKey())
	if err != nil {
		return nil, &actor.TurnError{Key: r.To, Method: r.Method, Err: err}
	}
	return &greenroomv1.SentMessage{Id: id.String(), Repeated: repeated}, nil
}

// ListMessages implements ActorService.
func (a *actorService) ListMessages(ctx context.Context, req *connect.Request[greenroomv1.ListMessagesRequest]) (*connect.Response[greenroomv1.ListMessagesResponse], error) {
	if a.s.Messages == nil {
		return nil, errNoMessages
	}
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return nil, err
	}
	list := pageList{greenroomv1connect.ActorServiceListMessagesProcedure, key.App, key.Type + "/" + key.ID}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterMessage)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	if req.Msg.GetPayloads() {
		size = min(size, reminders.PayloadPage)
	}
	msg := &greenroomv1.ListMessagesResponse{}
	for size > 0 {
		part, next, err := a.s.Messages.List(ctx, store.MessageQuery{Key: key, After: after, Limit: min(size, readReminders)})
		if err != nil {
			return nil, err
		}
		for i := range part {
			msg.Messages = append(msg.Messages, messageToProto(&part[i], req.Msg.GetPayloads()))
		}
		if next == "" {
			return uncached(msg), nil
		}
		after = next
		size -= len(part)
	}
	msg.NextPageToken = pageToken(list, after)
	return uncached(msg), nil
}

func messageToProto(r *actor.Reminder, payload bool) *greenroomv1.InboxMessage {
	m := &greenroomv1.InboxMessage{
		Id: r.ID.String(), Method: r.Method, ContentType: r.Payload.ContentType, PayloadSize: uint32(len(r.Payload.Data)), //nolint:gosec // at most 64 KiB
		Details: detailsOf(r), Due: timestamppb.New(r.Due), FireAt: timestamppb.New(r.FireAt), Failures: r.Failures, LastError: r.LastError,
		SentAt: timeToProto(r.CreatedAt), ExpiresAt: timeToProto(r.Schedule.Until),
	}
	if payload {
		m.Payload = r.Payload.Data
	}
	return m
}

// detailsOf returns what a message has beside what every reminder has; nil for a reminder.
func detailsOf(r *actor.Reminder) *greenroomv1.MessageDetails {
	m := r.Message
	if m == nil {
		return nil
	}
	_, ordered := actor.SenderOfOrdered(r.Name)
	return &greenroomv1.MessageDetails{
		From: actorToProto(m.From), By: actorToProto(m.By), Ordered: ordered, Undelivered: m.Undelivered, Forward: actorToProto(m.Forward),
		Path: mapped(m.Path, keyToProto), Failed: m.Failed, Cookie: m.Cookie,
	}
}

// actorToProto returns the key of an actor; nil if there is none.
func actorToProto(k actor.Key) *greenroomv1.ActorKey {
	if k.ID == "" {
		return nil
	}
	return keyToProto(k)
}
