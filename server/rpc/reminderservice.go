package rpc

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/reminders"
	"github.com/greenroom-run/greenroom/store"
)

// reminderService is ReminderService over package scheduler/reminder.
type reminderService struct{ s *Services }

var _ greenroomv1connect.ReminderServiceHandler = reminderService{}

const (
	// readReminders is how many reminders are read at once.
	readReminders = 100
	// changedAtOnce is how many reminders a request about all of them changes.
	changedAtOnce = 1000
)

func newReminderService(s *Services) edge.Service {
	sv := edge.Service{Name: greenroomv1connect.ReminderServiceName}
	requests := edge.Route{MaxBody: reminders.MaxBody, BodyErr: edge.ErrMessageTooLarge(reminders.MaxBody)}
	_, h := greenroomv1connect.NewReminderServiceHandler(reminderService{s}, s.edge.HandlerOptions(requests)...)
	sv.Serve(edge.RoleRead, requests, h,
		greenroomv1connect.ReminderServiceGetReminderProcedure,
		greenroomv1connect.ReminderServiceListRemindersProcedure,
		greenroomv1connect.ReminderServiceListDeadLettersProcedure,
		greenroomv1connect.ReminderServiceGetDeadLetterProcedure,
		greenroomv1connect.ReminderServiceListBucketsProcedure)
	sv.Serve(edge.RoleInvoke, requests, h,
		greenroomv1connect.ReminderServiceCreateReminderProcedure,
		greenroomv1connect.ReminderServiceDeleteRemindersProcedure,
		greenroomv1connect.ReminderServicePauseRemindersProcedure,
		greenroomv1connect.ReminderServiceResumeRemindersProcedure,
		greenroomv1connect.ReminderServiceRetryDeadLetterProcedure)
	sv.Serve(edge.RoleDeploy, requests, h, greenroomv1connect.ReminderServiceDeleteDeadLetterProcedure)

	// Subscribers do what reminders are for, and so move them on.
	frames := edge.Route{MaxBody: edge.Unbounded, LongLived: true, MaxMessage: subscriberFrame}
	_, h = greenroomv1connect.NewReminderServiceHandler(reminderService{s}, s.edge.StreamOptions(frames.MaxMessage, edge.ErrMessageTooLarge(frames.MaxMessage))...)
	sv.Serve(edge.RoleInvoke, frames, h, greenroomv1connect.ReminderServiceConnectProcedure)
	return sv
}

func (rs reminderService) CreateReminder(ctx context.Context, req *connect.Request[greenroomv1.CreateReminderRequest]) (*connect.Response[greenroomv1.CreateReminderResponse], error) {
	now := rs.s.Reminders.Now()
	if now.IsZero() {
		return nil, fmt.Errorf("%w: reminders have not started", actor.ErrNoTokens)
	}
	spec, err := specOf(req.Msg.GetSpec(), now)
	if err != nil {
		return nil, err
	}
	spec.Key, spec.Name = keyOf(req.Msg.GetActor()), req.Msg.GetName()
	spec.Keep, spec.Hold = req.Msg.GetKeep(), req.Msg.GetPaused()
	r, outcome, err := rs.s.Setter().Set(ctx, spec)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&greenroomv1.CreateReminderResponse{Reminder: reminderToProto(&r, true), Outcome: outcomes[outcome]}), nil
}

var outcomes = map[reminder.Outcome]greenroomv1.CreateOutcome{
	reminder.Created:  greenroomv1.CreateOutcome_CREATE_OUTCOME_CREATED,
	reminder.Replaced: greenroomv1.CreateOutcome_CREATE_OUTCOME_REPLACED,
	reminder.Kept:     greenroomv1.CreateOutcome_CREATE_OUTCOME_KEPT,
}

func (rs reminderService) GetReminder(ctx context.Context, req *connect.Request[greenroomv1.GetReminderRequest]) (*connect.Response[greenroomv1.GetReminderResponse], error) {
	r, err := rs.s.Reminders.Get(ctx, actor.ReminderName{Key: keyOf(req.Msg.GetActor()), Name: req.Msg.GetName()})
	if err != nil {
		return nil, err
	}
	return uncached(&greenroomv1.GetReminderResponse{Reminder: reminderToProto(&r, true)}), nil
}

func (rs reminderService) ListReminders(ctx context.Context, req *connect.Request[greenroomv1.ListRemindersRequest]) (*connect.Response[greenroomv1.ListRemindersResponse], error) {
	list := pageList{greenroomv1connect.ReminderServiceListRemindersProcedure, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()}
	q := store.ReminderQuery{App: list.app, Type: list.typ, ID: req.Msg.GetId(), Prefix: req.Msg.GetPrefix()}
	var err error
	if q.DueFrom, err = timeOf("due_from", req.Msg.GetDueFrom()); err != nil {
		return nil, err
	}
	if q.DueBefore, err = timeOf("due_before", req.Msg.GetDueBefore()); err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	if req.Msg.GetPayloads() {
		size = min(size, reminders.PayloadPage)
	}
	msg := &greenroomv1.ListRemindersResponse{}
	msg.NextPageToken, err = rs.pages(ctx, list, q, req.Msg.GetPageToken(), size, func(part []actor.Reminder) error {
		for i := range part {
			msg.Reminders = append(msg.Reminders, reminderToProto(&part[i], req.Msg.GetPayloads()))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return uncached(msg), nil
}

// pages calls do with the size reminders behind a page token, or as many as there are, in
// parts that are small in memory, and returns the token of the next page. Of a list by due
// times it may call do with fewer where there are others.
func (rs reminderService) pages(ctx context.Context, list pageList, q store.ReminderQuery, token string, size int, do func(part []actor.Reminder) error) (next string, err error) {
	if q.After, err = parsePageToken(list, token, afterReminder); err != nil {
		return "", err
	}
	for size > 0 {
		q.Limit = min(size, readReminders)
		part, next, err := rs.s.Reminders.List(ctx, q)
		if err != nil {
			return "", err
		}
		if err := do(part); err != nil {
			return "", err
		}
		if next.Name == "" {
			return "", nil
		}
		q.After = next
		if size -= len(part); q.ByDue() && len(part) < q.Limit {
			break // as many were looked at as one request may
		}
	}
	return pageToken(list, reminderPosition(q.After)), nil
}

// selector is which reminders a request is about.
type selector interface {
	GetApp() string
	GetType() string
	GetId() string
	GetName() string
	GetPageToken() string
}

// named returns the name of the one reminder that a request is about, and false if it is
// about all of an actor, a type or an app.
func named(m selector) (actor.ReminderName, bool, error) {
	name := actor.ReminderName{Key: actor.Key{App: edge.AppOf(m.GetApp()), Type: m.GetType(), ID: m.GetId()}, Name: m.GetName()}
	if name.Name == "" {
		return name, false, nil
	}
	return name, true, name.Key.Validate()
}

// each calls do with the names of a page of the reminders that a request is about.
func (rs reminderService) each(ctx context.Context, procedure string, m selector, do func(names []actor.ReminderName) error) (next string, err error) {
	list := pageList{procedure, edge.AppOf(m.GetApp()), m.GetType()}
	q := store.ReminderQuery{App: list.app, Type: list.typ, ID: m.GetId()}
	return rs.pages(ctx, list, q, m.GetPageToken(), changedAtOnce, func(part []actor.Reminder) error {
		names := make([]actor.ReminderName, len(part))
		for i := range part {
			names[i] = actor.ReminderName{Key: part[i].Key, Name: part[i].Name}
		}
		return do(names)
	})
}

func (rs reminderService) DeleteReminders(ctx context.Context, req *connect.Request[greenroomv1.DeleteRemindersRequest]) (*connect.Response[greenroomv1.DeleteRemindersResponse], error) {
	name, one, err := named(req.Msg)
	msg := &greenroomv1.DeleteRemindersResponse{}
	switch {
	case err != nil:
		return nil, err
	case one && req.Msg.GetAll():
		return nil, &actor.ArgumentError{Field: "all", Problem: "is set, and so is a name; set one of them"}
	case one:
		existed, err := rs.s.Setter().Remove(ctx, name)
		if existed {
			msg.Deleted = 1
		}
		return done(msg, err)
	case !req.Msg.GetAll():
		return nil, &actor.ArgumentError{Field: "reminder name", Problem: "is empty; name one, or set all to delete all reminders of the actor, the type or the app"}
	}
	msg.NextPageToken, err = rs.each(ctx, greenroomv1connect.ReminderServiceDeleteRemindersProcedure, req.Msg, func(names []actor.ReminderName) error {
		msg.Deleted += uint32(len(names)) //nolint:gosec // a page
		return rs.s.Reminders.Cancel(ctx, names)
	})
	return done(msg, err)
}

func (rs reminderService) PauseReminders(ctx context.Context, req *connect.Request[greenroomv1.PauseRemindersRequest]) (*connect.Response[greenroomv1.PauseRemindersResponse], error) {
	changed, next, err := rs.setPaused(ctx, greenroomv1connect.ReminderServicePauseRemindersProcedure, req.Msg, true)
	return done(&greenroomv1.PauseRemindersResponse{Changed: changed, NextPageToken: next}, err)
}

func (rs reminderService) ResumeReminders(ctx context.Context, req *connect.Request[greenroomv1.ResumeRemindersRequest]) (*connect.Response[greenroomv1.ResumeRemindersResponse], error) {
	changed, next, err := rs.setPaused(ctx, greenroomv1connect.ReminderServiceResumeRemindersProcedure, req.Msg, false)
	return done(&greenroomv1.ResumeRemindersResponse{Changed: changed, NextPageToken: next}, err)
}

func (rs reminderService) setPaused(ctx context.Context, procedure string, m selector, paused bool) (changed uint32, next string, err error) {
	name, one, err := named(m)
	if err != nil {
		return 0, "", err
	}
	if one {
		found, n, err := rs.s.Reminders.SetPaused(ctx, []actor.ReminderName{name}, paused)
		if err == nil && found == 0 {
			err = fmt.Errorf("%w: %s has none that is called %q", actor.ErrReminderNotFound, name.Key, name.Name)
		}
		return uint32(n), "", err //nolint:gosec // 0 or 1
	}
	next, err = rs.each(ctx, procedure, m, func(names []actor.ReminderName) error {
		_, n, err := rs.s.Reminders.SetPaused(ctx, names, paused)
		changed += uint32(n) //nolint:gosec // a page
		return err
	})
	return changed, next, err
}

func (rs reminderService) ListDeadLetters(ctx context.Context, req *connect.Request[greenroomv1.ListDeadLettersRequest]) (*connect.Response[greenroomv1.ListDeadLettersResponse], error) {
	list := pageList{greenroomv1connect.ReminderServiceListDeadLettersProcedure, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterDeadLetter)
	if err != nil {
		return nil, err
	}
	q := store.DeadLetterQuery{App: list.app, Type: list.typ, Kind: deadLetterKinds[req.Msg.GetKind()], AfterID: after.Reminder, AfterDue: after.Due}
	msg := &greenroomv1.ListDeadLettersResponse{}
	for size := pageSize(req.Msg.GetPageSize()); size > 0; {
		q.Limit = min(size, readReminders)
		part, err := rs.s.Reminders.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range part {
			msg.DeadLetters = append(msg.DeadLetters, deadLetterToProto(&part[i], false))
		}
		if len(part) < q.Limit {
			return uncached(msg), nil
		}
		last := &part[len(part)-1]
		q.AfterID, q.AfterDue = last.Reminder.ID, last.Reminder.Due
		size -= len(part)
	}
	msg.NextPageToken = pageToken(list, reminder.DeadLetterID{Reminder: q.AfterID, Due: q.AfterDue}.String())
	return uncached(msg), nil
}

// deadLetterKinds are what lists of dead letters are of. Who says nothing knows of reminders alone.
var deadLetterKinds = map[greenroomv1.DeadLetterKind]store.ReminderKind{
	greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_UNSPECIFIED: store.OnlyReminders,
	greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_REMINDERS:   store.OnlyReminders,
	greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_MESSAGES:    store.OnlyMessages,
	greenroomv1.DeadLetterKind_DEAD_LETTER_KIND_ALL:         store.AnyKind,
}

func deadLetterToProto(d *actor.DeadLetter, payload bool) *greenroomv1.DeadLetter {
	m := &greenroomv1.DeadLetter{
		Id: reminder.DeadLetterIDOf(d).String(), Reminder: reminderToProto(&d.Reminder, payload), Reason: d.Reason, FailedAt: timestamppb.New(d.FailedAt),
	}
	m.Reminder.Failures++ // it is as it was read for the last delivery
	return m
}

func (rs reminderService) GetDeadLetter(ctx context.Context, req *connect.Request[greenroomv1.GetDeadLetterRequest]) (*connect.Response[greenroomv1.GetDeadLetterResponse], error) {
	id, err := reminder.ParseDeadLetterID(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	d, err := rs.s.Reminders.DeadLetter(ctx, edge.AppOf(req.Msg.GetApp()), id)
	if err != nil {
		return nil, err
	}
	return uncached(&greenroomv1.GetDeadLetterResponse{DeadLetter: deadLetterToProto(d, true)}), nil
}

func (rs reminderService) RetryDeadLetter(ctx context.Context, req *connect.Request[greenroomv1.RetryDeadLetterRequest]) (*connect.Response[greenroomv1.RetryDeadLetterResponse], error) {
	id, err := reminder.ParseDeadLetterID(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	r, err := rs.s.Reminders.Retry(ctx, edge.AppOf(req.Msg.GetApp()), id)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&greenroomv1.RetryDeadLetterResponse{Reminder: reminderToProto(&r, true)}), nil
}

func (rs reminderService) DeleteDeadLetter(ctx context.Context, req *connect.Request[greenroomv1.DeleteDeadLetterRequest]) (*connect.Response[greenroomv1.DeleteDeadLetterResponse], error) {
	id, err := reminder.ParseDeadLetterID(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	existed, err := rs.s.Reminders.RemoveDeadLetter(ctx, edge.AppOf(req.Msg.GetApp()), id)
	return done(&greenroomv1.DeleteDeadLetterResponse{Existed: existed}, err)
}

func (rs reminderService) ListBuckets(ctx context.Context, req *connect.Request[greenroomv1.ListBucketsRequest]) (*connect.Response[greenroomv1.ListBucketsResponse], error) {
	app := req.Msg.GetApp()
	if app == "" {
		if x := edge.ExchangeOf(ctx); x != nil {
			if err := x.Caller.RequireEverywhere(); err != nil {
				return nil, err
			}
		}
	} else if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	list := pageList{greenroomv1connect.ReminderServiceListBucketsProcedure, app, ""}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterBucket)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.Msg.GetPageSize())
	rows, err := rs.s.Reminders.Buckets(ctx, app, after, size)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListBucketsResponse{Buckets: make([]*greenroomv1.Bucket, len(rows))}
	for i := range rows {
		msg.Buckets[i] = bucketToProto(&rows[i])
	}
	if len(rows) == size {
		msg.NextPageToken = pageToken(list, bucketPosition(rows[size-1].Bucket))
	}
	return uncached(msg), nil
}

func (rs reminderService) Connect(ctx context.Context, bidi *connect.BidiStream[greenroomv1.ConnectRequest, greenroomv1.ConnectResponse]) error {
	x := edge.ExchangeOf(ctx)
	app := x.Owner() // as it is before the stream says which it is for
	if err := rs.s.subscribers.Enter(app); err != nil {
		return err
	}
	defer rs.s.subscribers.Leave(app)
	st := &subscriberStream{s: rs.s, x: x, bidi: bidi, known: map[actor.Bucket]bucketStatus{}}
	frames, failed, over := make(chan *greenroomv1.ConnectRequest), make(chan error, 1), make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		failed <- st.read(frames, over)
	}()
	serving, cancel := context.WithCancel(ctx)
	err := st.serve(serving, frames, failed)
	cancel()
	st.following.Wait()
	if st.subscriber != nil {
		st.subscriber.Close()
	}
	close(over)
	_ = st.x.Control.SetReadDeadline(time.Unix(1, 0)) // HTTP/2 always can
	<-read
	_ = st.x.Control.SetWriteDeadline(rs.s.edge.BodyDeadline()) // of how the stream ended
	return err
}

// specOf reads a spec, without what it is for. A time to live counts from now.
func specOf(m *greenroomv1.ReminderSpec, now time.Time) (actor.ReminderSpec, error) {
	spec := actor.ReminderSpec{
		Method:   m.GetMethod(),
		Payload:  actor.Payload{ContentType: m.GetContentType(), Data: m.GetPayload()},
		Metadata: m.GetMetadata(),
		Missed:   actor.MissedPolicy{Limit: m.GetMissed().GetLimit()},
		Failure:  actor.FailurePolicy{Attempts: m.GetFailure().GetAttempts()},
	}
	kind, ok := missedKinds[m.GetMissed().GetKind()]
	if !ok {
		return spec, &actor.ArgumentError{Field: "reminder missed policy", Problem: fmt.Sprintf("is the unknown number %d; give collapse, skip or catch up", m.GetMissed().GetKind())}
	}
	spec.Missed.Kind = kind
	failure, ok := failureKinds[m.GetFailure().GetKind()]
	if !ok {
		return spec, &actor.ArgumentError{Field: "reminder failure policy", Problem: fmt.Sprintf("is the unknown number %d; give constant, exponential or drop", m.GetFailure().GetKind())}
	}
	spec.Failure.Kind = failure

	in := m.GetSchedule()
	s := &spec.Schedule
	s.Cron, s.Zone, s.Times = in.GetCron(), in.GetZone(), in.GetTimes()
	var ttl time.Duration
	for _, d := range []struct {
		field string
		from  *durationpb.Duration
		to    *time.Duration
	}{
		{"reminder delay", in.GetAfter(), &s.After},
		{"reminder period", in.GetEvery(), &s.Every},
		{"reminder time to live", in.GetTtl(), &ttl},
		{"reminder jitter", in.GetJitter(), &s.Jitter},
		{"reminder missed after", m.GetMissed().GetAfter(), &spec.Missed.After},
		{"reminder retry interval", m.GetFailure().GetInterval(), &spec.Failure.Interval},
		{"reminder longest retry interval", m.GetFailure().GetMaxInterval(), &spec.Failure.Max},
	} {
		var err error
		if *d.to, err = durationOf(d.field, d.from); err != nil {
			return spec, err
		}
	}
	if in.GetEvery() != nil && s.Every == 0 {
		return spec, reminders.ErrNoPeriod
	}
	var err error
	if s.At, err = timeOf("reminder due time", in.GetAt()); err != nil {
		return spec, err
	}
	if s.Until, err = timeOf("reminder end", in.GetUntil()); err != nil {
		return spec, err
	}
	if in.GetTtl() != nil {
		s.Until, err = reminders.EndAfter(ttl, now)
	}
	return spec, err
}

var missedKinds = map[greenroomv1.MissedKind]actor.MissedKind{
	greenroomv1.MissedKind_MISSED_KIND_UNSPECIFIED: actor.MissedCollapse,
	greenroomv1.MissedKind_MISSED_KIND_COLLAPSE:    actor.MissedCollapse,
	greenroomv1.MissedKind_MISSED_KIND_SKIP:        actor.MissedSkip,
	greenroomv1.MissedKind_MISSED_KIND_CATCH_UP:    actor.MissedCatchUp,
}

var failureKinds = map[greenroomv1.FailureKind]actor.FailureKind{
	greenroomv1.FailureKind_FAILURE_KIND_UNSPECIFIED: actor.FailureConstant,
	greenroomv1.FailureKind_FAILURE_KIND_CONSTANT:    actor.FailureConstant,
	greenroomv1.FailureKind_FAILURE_KIND_EXPONENTIAL: actor.FailureExponential,
	greenroomv1.FailureKind_FAILURE_KIND_DROP:        actor.FailureDrop,
}
