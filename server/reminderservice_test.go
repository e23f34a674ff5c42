package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// noReminders are on a store that cannot be reached.
type noReminders struct{}

func (noReminders) Now() time.Time { return time.Unix(1e9, 0) }
func (noReminders) Set(context.Context, actor.ReminderSpec) (actor.Reminder, reminder.Outcome, error) {
	return actor.Reminder{}, 0, actor.ErrUnavailable
}
func (noReminders) Get(context.Context, actor.ReminderName) (actor.Reminder, error) {
	return actor.Reminder{}, actor.ErrUnavailable
}
func (noReminders) List(context.Context, store.ReminderQuery) ([]actor.Reminder, actor.ReminderName, error) {
	return nil, actor.ReminderName{}, actor.ErrUnavailable
}
func (noReminders) DeadLetter(context.Context, string, reminder.DeadLetterID) (*actor.DeadLetter, error) {
	return nil, actor.ErrUnavailable
}
func (noReminders) Cancel(context.Context, []actor.ReminderName) error { return actor.ErrUnavailable }
func (noReminders) SetPaused(context.Context, []actor.ReminderName, bool) (int, int, error) {
	return 0, 0, actor.ErrUnavailable
}
func (noReminders) DeadLetters(context.Context, store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	return nil, actor.ErrUnavailable
}
func (noReminders) Retry(context.Context, string, reminder.DeadLetterID) (actor.Reminder, error) {
	return actor.Reminder{}, actor.ErrUnavailable
}
func (noReminders) RemoveDeadLetter(context.Context, string, reminder.DeadLetterID) (bool, error) {
	return false, actor.ErrUnavailable
}
func (noReminders) Buckets(context.Context, string, actor.Bucket, int) ([]actor.BucketRow, error) {
	return nil, actor.ErrUnavailable
}
func (noReminders) Prefix(context.Context, string) (actor.Prefix, error) {
	return 0, actor.ErrUnavailable
}

func (noReminders) Follow(string, actor.Prefix) *reminder.Follower { return nil }

func (noReminders) Subscribe(string, []string, int) (*reminder.Subscriber, error) {
	return nil, actor.ErrUnavailable
}
func (noReminders) Notice([]store.ReminderHead) {}
func (noReminders) Release(context.Context, reminder.ReleaseRequest) ([]actor.ReminderID, error) {
	return nil, actor.ErrUnavailable
}
func (noReminders) Table(string) ([]actor.BucketRow, <-chan struct{}) { return nil, nil }
func (noReminders) Stats() reminder.Stats                             { return reminder.Stats{InMemory: 5, Buckets: 2} }

// deliverer commits the step of each firing, unless refuse says why not.
type deliverer struct {
	store  store.Store
	refuse func(f actor.Firing) error
	fired  chan actor.Firing // committed or refused
}

func (d *deliverer) deliver(ctx context.Context, f actor.Firing) error {
	err := d.refuse(f)
	if err == nil {
		c := actor.CommitOf()
		c.Reminders.Steps = []actor.ReminderStep{f.Step}
		err = d.store.Commit(ctx, []actor.Commit{c})[0]
	}
	select {
	case d.fired <- f:
	case <-ctx.Done():
	}
	return err
}

// remindersModules serve the type Counter of the app default, whose methods are Get and,
// read-only, View, and, private, Expire.
type remindersModules struct{ *fakeModules }

func (remindersModules) Types(_ context.Context, app string) ([]modules.ServedType, error) {
	if app != actor.DefaultApp {
		return nil, nil
	}
	return []modules.ServedType{{Spec: &abi.TypeSpec{Name: "Counter", Methods: []abi.MethodSpec{{Name: "Get"}, {Name: "View", ReadOnly: true}, {Name: "Expire", Private: true}}}}}, nil
}

func (m remindersModules) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	if ts, err := m.Types(context.Background(), app); err == nil && len(ts) > 0 && typ == "Counter" {
		return actor.Deployment{}, ts[0].Spec, nil
	}
	return actor.Deployment{}, nil, actor.ErrTypeNotFound
}

// remindersFixture is a server whose reminders are real.
type remindersFixture struct {
	*fixture
	*deliverer
	api greenroomv1connect.ReminderServiceClient
}

// startReminders starts one; refuse, if it is not nil, fails firings.
func startReminders(t *testing.T, refuse func(f actor.Firing) error, change func(*Config)) *remindersFixture {
	t.Helper()
	st, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	if refuse == nil {
		refuse = func(actor.Firing) error { return nil }
	}
	d := &deliverer{store: st, refuse: refuse, fired: make(chan actor.Firing, 1000)}
	metrics := metrics.New()
	svc, err := reminder.New(reminder.Config{Store: st, Deliverer: remindertest.DeliverFunc(d.deliver), Host: "here", Events: metrics.ReminderEvents()})
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f := start(t, func(c *Config) {
		c.Reminders, c.Metrics, c.Modules = reminder.NewAdmin(svc, st), metrics, remindersModules{newFakeModules()}
		if change != nil {
			change(c)
		}
	})
	return &remindersFixture{f, d, greenroomv1connect.NewReminderServiceClient(client(t, false), f.url)}
}

// create sets a reminder of the actor a that is due in an hour, as change has it.
func (f *remindersFixture) create(t *testing.T, name string, change func(*greenroomv1.CreateReminderRequest)) (*greenroomv1.CreateReminderResponse, error) {
	t.Helper()
	req := &greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{Type: "Counter", Id: "a"}, Name: name,
		Spec: &greenroomv1.ReminderSpec{Method: "Get", Schedule: &greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_After{After: durationpb.New(time.Hour)}}},
	}
	if change != nil {
		change(req)
	}
	res, err := f.api.CreateReminder(t.Context(), connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

func (f *remindersFixture) mustCreate(t *testing.T, name string, change func(*greenroomv1.CreateReminderRequest)) *greenroomv1.CreateReminderResponse {
	t.Helper()
	res, err := f.create(t, name, change)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (f *remindersFixture) get(t *testing.T, name string) (*greenroomv1.Reminder, error) {
	t.Helper()
	res, err := f.api.GetReminder(t.Context(), connect.NewRequest(&greenroomv1.GetReminderRequest{Actor: &greenroomv1.ActorKey{Type: "Counter", Id: "a"}, Name: name}))
	if err != nil {
		return nil, err
	}
	return res.Msg.Reminder, nil
}

func (f *remindersFixture) list(t *testing.T, req *greenroomv1.ListRemindersRequest) (names []string) {
	t.Helper()
	for {
		res, err := f.api.ListReminders(t.Context(), connect.NewRequest(req))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.Msg.Reminders {
			names = append(names, r.Actor.Id+"/"+r.Name)
		}
		if req.PageToken = res.Msg.NextPageToken; req.PageToken == "" {
			return names
		}
	}
}

// TestReminderSaysWhatItWasToldToSay: everything that a request has is in the reminder
// that is read back, with what was worked out.
func TestReminderSaysWhatItWasToldToSay(t *testing.T) {
	f := startReminders(t, nil, nil)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	spec := &greenroomv1.ReminderSpec{
		Method: "Get", Payload: []byte{0, 1, 255}, ContentType: "application/x-test", Metadata: map[string]string{"a": "b"},
		Schedule: &greenroomv1.ReminderSchedule{
			First: &greenroomv1.ReminderSchedule_At{At: timestamppb.New(at)}, Every: durationpb.New(time.Minute), Times: 5,
			End: &greenroomv1.ReminderSchedule_Until{Until: timestamppb.New(at.Add(time.Hour))}, Jitter: durationpb.New(time.Second),
		},
		Missed:  &greenroomv1.MissedPolicy{Kind: greenroomv1.MissedKind_MISSED_KIND_CATCH_UP, Limit: 7},
		Failure: &greenroomv1.FailurePolicy{Kind: greenroomv1.FailureKind_FAILURE_KIND_EXPONENTIAL, Attempts: 4, Interval: durationpb.New(time.Second), MaxInterval: durationpb.New(time.Minute)},
	}
	made := f.mustCreate(t, "full", func(req *greenroomv1.CreateReminderRequest) { req.Spec = spec })
	if made.Outcome != greenroomv1.CreateOutcome_CREATE_OUTCOME_CREATED {
		t.Errorf("outcome: %v", made.Outcome)
	}
	got, err := f.get(t, "full")
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got.Spec, spec) {
		t.Errorf("stored %v\nof     %v", got.Spec, spec)
	}
	if !got.Due.AsTime().Equal(at) || got.Left != 5 || got.FireAt.AsTime().Sub(at) > time.Second || got.Id != made.Reminder.Id || got.Actor.App != "default" || got.CreatedAt == nil {
		t.Errorf("%v", got)
	}
	cron := f.mustCreate(t, "cron", func(req *greenroomv1.CreateReminderRequest) {
		req.Spec.Schedule = &greenroomv1.ReminderSchedule{Cron: "0 9 * * MON", Zone: "Europe/Berlin", End: &greenroomv1.ReminderSchedule_Ttl{Ttl: durationpb.New(1000 * time.Hour)}}
		req.Spec.Missed = &greenroomv1.MissedPolicy{Kind: greenroomv1.MissedKind_MISSED_KIND_SKIP, After: durationpb.New(time.Second)}
		req.Spec.Failure = &greenroomv1.FailurePolicy{Kind: greenroomv1.FailureKind_FAILURE_KIND_DROP}
	}).Reminder
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if due := cron.Due.AsTime().In(berlin); due.Weekday() != time.Monday || due.Hour() != 9 || due.Minute() != 0 {
		t.Errorf("every Monday at nine is %v", due)
	}
	if cron.Spec.Failure.Kind != greenroomv1.FailureKind_FAILURE_KIND_DROP || cron.Spec.Missed.Kind != greenroomv1.MissedKind_MISSED_KIND_SKIP || cron.Spec.Schedule.GetUntil() == nil {
		t.Errorf("%v", cron)
	}
}

// TestReminderThatIsSetAgain is replaced, or kept.
func TestReminderThatIsSetAgain(t *testing.T) {
	f := startReminders(t, nil, nil)
	first := f.mustCreate(t, "n", nil)
	kept := f.mustCreate(t, "n", func(req *greenroomv1.CreateReminderRequest) { req.Keep = true })
	if kept.Outcome != greenroomv1.CreateOutcome_CREATE_OUTCOME_KEPT || kept.Reminder.Id != first.Reminder.Id {
		t.Errorf("kept: %v", kept)
	}
	replaced := f.mustCreate(t, "n", nil)
	if replaced.Outcome != greenroomv1.CreateOutcome_CREATE_OUTCOME_REPLACED || replaced.Reminder.Id == first.Reminder.Id {
		t.Errorf("replaced: %v", replaced)
	}
	if got, err := f.get(t, "n"); err != nil || got.Id != replaced.Reminder.Id {
		t.Errorf("%v, %v", got, err)
	}
}

// TestReminderThatCannotBe is refused with what is wrong, and nothing is stored.
func TestReminderThatCannotBe(t *testing.T) {
	f := startReminders(t, nil, nil)
	schedule := func(s *greenroomv1.ReminderSchedule) func(*greenroomv1.CreateReminderRequest) {
		return func(req *greenroomv1.CreateReminderRequest) { req.Spec.Schedule = s }
	}
	for name, tt := range map[string]struct {
		change func(*greenroomv1.CreateReminderRequest)
		kind   actor.Kind
		code   connect.Code
		says   string
	}{
		"period of zero":        {change: schedule(&greenroomv1.ReminderSchedule{Every: durationpb.New(0)}), says: "reminder period"},
		"negative period":       {change: schedule(&greenroomv1.ReminderSchedule{Every: durationpb.New(-time.Second)}), says: "reminder period"},
		"cron that never comes": {change: schedule(&greenroomv1.ReminderSchedule{Cron: "0 0 30 2 *"}), says: "never matches"},
		"cron of nonsense":      {change: schedule(&greenroomv1.ReminderSchedule{Cron: "often"}), says: "reminder cron"},
		"unknown zone":          {change: schedule(&greenroomv1.ReminderSchedule{Cron: "@daily", Zone: "Europe/Atlantis"}), says: "reminder zone"},
		"cron and period":       {change: schedule(&greenroomv1.ReminderSchedule{Cron: "@daily", Every: durationpb.New(time.Hour)}), says: "reminder schedule"},
		"ends before it begins": {change: schedule(&greenroomv1.ReminderSchedule{
			First: &greenroomv1.ReminderSchedule_After{After: durationpb.New(time.Hour)}, End: &greenroomv1.ReminderSchedule_Ttl{Ttl: durationpb.New(time.Minute)},
		}), says: "before the first occurrence"},
		"no life":                    {change: schedule(&greenroomv1.ReminderSchedule{End: &greenroomv1.ReminderSchedule_Ttl{Ttl: durationpb.New(0)}}), says: "time to live"},
		"due in the year 0":          {change: schedule(&greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_At{At: &timestamppb.Timestamp{Seconds: -1 << 40}}}), says: "due time"},
		"due when the year 1 begins": {change: schedule(&greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_At{At: timestamppb.New(time.Time{})}}), says: "beginning of the year 1"},
		"content type of two lines":  {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.ContentType = "text/plain\nX: y" }, says: "control character"},
		"delay of 3000 years":        {change: schedule(&greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_After{After: &durationpb.Duration{Seconds: 3000 * 365 * 86400}}}), says: "reminder delay"},
		"large payload":              {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.Payload = make([]byte, 64<<10+1) }, says: "reminder payload"},
		"payload of 1 MB":            {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.Payload = bytes.Repeat([]byte("x"), 1<<20) }, kind: actor.ErrPayloadTooLarge.Kind(), says: "payload"},
		"name of 10 KB":              {change: func(req *greenroomv1.CreateReminderRequest) { req.Name = strings.Repeat("n", 10<<10) }, says: "name"},
		"name with a newline":        {change: func(req *greenroomv1.CreateReminderRequest) { req.Name = "a\nb" }, says: "reminder name"},
		"no name":                    {change: func(req *greenroomv1.CreateReminderRequest) { req.Name = "" }, says: "name"},
		"no spec":                    {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec = nil }, says: "spec"},
		"unknown type":               {change: func(req *greenroomv1.CreateReminderRequest) { req.Actor.Type = "Nothing" }, kind: actor.ErrTypeNotFound.Kind(), code: connect.CodeNotFound, says: "Nothing"},
		"unknown method":             {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.Method = "Nothing" }, kind: actor.ErrMethodNotFound.Kind(), code: connect.CodeNotFound, says: "its methods are Get, View"},
		"read-only method":           {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.Method = "View" }, says: "View is read-only"},
		"unknown missed":             {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.Missed = &greenroomv1.MissedPolicy{Kind: 77} }, says: "missed policy"},
		"unknown failure":            {change: func(req *greenroomv1.CreateReminderRequest) { req.Spec.Failure = &greenroomv1.FailurePolicy{Kind: 77} }, says: "failure policy"},
	} {
		_, err := f.create(t, "n", tt.change)
		if tt.code == 0 {
			tt.code = connect.CodeInvalidArgument
		}
		if tt.kind == "" {
			tt.kind = failure.KindInvalidArgument
		}
		t.Run(name, func(t *testing.T) { wantError(t, err, tt.code, tt.kind) })
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names := f.list(t, &greenroomv1.ListRemindersRequest{}); len(names) > 0 {
		t.Errorf("stored: %v", names)
	}
}

// TestReminderOfThePastFiresAtOnce, and is gone then.
func TestReminderOfThePastFiresAtOnce(t *testing.T) {
	f := startReminders(t, nil, nil)
	long := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	f.mustCreate(t, "n", func(req *greenroomv1.CreateReminderRequest) {
		req.Spec.Payload = []byte(`"x"`)
		req.Spec.Schedule = &greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_At{At: timestamppb.New(long)}}
	})
	if got := <-f.fired; got.Name != "n" || got.Method != firedMethod || string(got.Payload.Data) != `"x"` || !got.Due.Equal(long) {
		t.Errorf("%+v", got)
	}
	_, err := f.get(t, "n")
	wantError(t, err, connect.CodeNotFound, actor.ErrReminderNotFound.Kind())
}

// TestRemindersOfAMisspeltRequest: a member that the message does not have is an error,
// and not a request about all reminders of the app.
func TestRemindersOfAMisspeltRequest(t *testing.T) {
	f := startReminders(t, nil, nil)
	f.mustCreate(t, "n", func(req *greenroomv1.CreateReminderRequest) {
		req.Spec.Schedule.First = &greenroomv1.ReminderSchedule_After{After: durationpb.New(time.Hour)}
	})
	for procedure, body := range map[string]string{
		greenroomv1connect.ReminderServicePauseRemindersProcedure:  `{"actor":{"type":"Counter","id":"eve"}}`,
		greenroomv1connect.ReminderServiceDeleteRemindersProcedure: `{"actor":{"type":"Counter","id":"eve"},"all":true}`,
		greenroomv1connect.ReminderServiceCreateReminderProcedure:  `{"actor":{"type":"Counter","id":"a"},"spec":{"name":"m","method":"Fire","schedule":{"evry":"60s"}}}`,
	} {
		res, err := http.Post(f.url+procedure, "application/json", strings.NewReader(body)) //nolint:noctx // the test's own time bounds it
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "unknown field") || !strings.Contains(string(text), "; known are ") {
			t.Errorf("%s: %d %s", procedure, res.StatusCode, text)
		}
	}
	if r, err := f.get(t, "n"); err != nil || r.GetPaused() {
		t.Errorf("%v %v", r, err)
	}
}

// TestRemindersAreListed by actor, type and due range, in pages.
func TestRemindersAreListed(t *testing.T) {
	f := startReminders(t, nil, nil)
	var all []string
	for i := range 7 {
		id, name := fmt.Sprint("a", i/3), fmt.Sprint("n", i%3)
		all = append(all, id+"/"+name)
		f.mustCreate(t, name, func(req *greenroomv1.CreateReminderRequest) {
			req.Actor.Id = id
			req.Spec.Payload = []byte("12345")
			req.Spec.Schedule.First = &greenroomv1.ReminderSchedule_After{After: durationpb.New(time.Duration(i+1) * time.Hour)}
		})
	}
	soon := timestamppb.New(time.Now().Add(210 * time.Minute)) // after the third, before the fourth
	for name, tt := range map[string]struct {
		req  *greenroomv1.ListRemindersRequest
		want []string
	}{
		"all":           {&greenroomv1.ListRemindersRequest{PageSize: 2}, all},
		"payloads":      {&greenroomv1.ListRemindersRequest{PageSize: 2, Payloads: true}, all},
		"type":          {&greenroomv1.ListRemindersRequest{Type: "Counter", PageSize: 3}, all},
		"other type":    {&greenroomv1.ListRemindersRequest{Type: "Other"}, nil},
		"other app":     {&greenroomv1.ListRemindersRequest{App: "other"}, nil},
		"actor":         {&greenroomv1.ListRemindersRequest{Type: "Counter", Id: "a1", PageSize: 1}, all[3:6]},
		"actor, prefix": {&greenroomv1.ListRemindersRequest{Type: "Counter", Id: "a1", Prefix: "n2"}, all[5:6]},
		"due before":    {&greenroomv1.ListRemindersRequest{DueBefore: soon, PageSize: 2}, all[:3]},
		"due from":      {&greenroomv1.ListRemindersRequest{DueFrom: soon, PageSize: 2}, all[3:]},
	} {
		if got := f.list(t, tt.req); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	for _, payloads := range []bool{false, true} {
		res, err := f.api.ListReminders(t.Context(), connect.NewRequest(&greenroomv1.ListRemindersRequest{PageSize: 1, Payloads: payloads}))
		if err != nil {
			t.Fatal(err)
		}
		if r := res.Msg.Reminders[0]; (string(r.Spec.Payload) == "12345") != payloads || (r.PayloadSize == 5) == payloads {
			t.Errorf("payloads %v: %v", payloads, r)
		}
	}
	for _, req := range []*greenroomv1.ListRemindersRequest{{Id: "a"}, {Type: "Counter", Prefix: "n"}, {PageToken: "???"}, {PageSize: 1001}} {
		_, err := f.api.ListReminders(t.Context(), connect.NewRequest(req))
		wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	}
}

// TestRemindersAreDeleted: one by its name, which may be gone, or all that are asked for,
// and none by an oversight.
func TestRemindersAreDeleted(t *testing.T) {
	f := startReminders(t, nil, nil)
	for _, name := range []string{"a", "b", "c"} {
		f.mustCreate(t, name, nil)
		f.mustCreate(t, name, func(req *greenroomv1.CreateReminderRequest) { req.Actor.Id = "other" })
	}
	del := func(req *greenroomv1.DeleteRemindersRequest) (uint32, error) {
		res, err := f.api.DeleteReminders(t.Context(), connect.NewRequest(req))
		if err != nil {
			return 0, err
		}
		return res.Msg.Deleted, nil
	}
	for range 2 { // the second time it is gone
		n, err := del(&greenroomv1.DeleteRemindersRequest{Type: "Counter", Id: "a", Name: "b"})
		if got := f.list(t, &greenroomv1.ListRemindersRequest{Type: "Counter", Id: "a"}); err != nil || n > 1 || !slices.Equal(got, []string{"a/a", "a/c"}) {
			t.Errorf("%d, %v: %v", n, err, got)
		}
	}
	for _, req := range []*greenroomv1.DeleteRemindersRequest{{}, {Type: "Counter"}, {Type: "Counter", Id: "a"}, {Name: "a", All: true}, {Name: "a"}, {Id: "a", All: true}} {
		_, err := del(req)
		wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	}
	if n, err := del(&greenroomv1.DeleteRemindersRequest{Type: "Counter", Id: "a", All: true}); n != 2 || err != nil {
		t.Errorf("all of an actor: %d, %v", n, err)
	}
	if n, err := del(&greenroomv1.DeleteRemindersRequest{All: true}); n != 3 || err != nil {
		t.Errorf("all of the app: %d, %v", n, err)
	}
	if got := f.list(t, &greenroomv1.ListRemindersRequest{}); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// TestRemindersArePaused and resumed, one or all, which changes nothing the second time.
func TestRemindersArePaused(t *testing.T) {
	f := startReminders(t, nil, nil)
	for _, name := range []string{"a", "b"} {
		f.mustCreate(t, name, nil)
	}
	pause := func(req *greenroomv1.PauseRemindersRequest) (uint32, error) {
		res, err := f.api.PauseReminders(t.Context(), connect.NewRequest(req))
		if err != nil {
			return 0, err
		}
		return res.Msg.Changed, nil
	}
	one := &greenroomv1.PauseRemindersRequest{Type: "Counter", Id: "a", Name: "a"}
	for want := range []uint32{1, 0} {
		if n, err := pause(one); err != nil || n != 1-uint32(want) { //nolint:gosec // 0 or 1
			t.Errorf("pause: %d, %v", n, err)
		}
	}
	if n, err := pause(&greenroomv1.PauseRemindersRequest{Type: "Counter"}); n != 1 || err != nil {
		t.Errorf("pause all: %d, %v", n, err)
	}
	_, err := pause(&greenroomv1.PauseRemindersRequest{Type: "Counter", Id: "a", Name: "nobody"})
	wantError(t, err, connect.CodeNotFound, actor.ErrReminderNotFound.Kind())
	if r, err := f.get(t, "a"); err != nil || !r.Paused {
		t.Errorf("%v, %v", r, err)
	}
	res, err := f.api.ResumeReminders(t.Context(), connect.NewRequest(&greenroomv1.ResumeRemindersRequest{}))
	if err != nil || res.Msg.Changed != 2 {
		t.Errorf("resume: %v, %v", res, err)
	}
	if r, err := f.get(t, "a"); err != nil || r.Paused {
		t.Errorf("%v, %v", r, err)
	}
	_, err = f.api.ResumeReminders(t.Context(), connect.NewRequest(&greenroomv1.ResumeRemindersRequest{Type: "Counter", Id: "a", Name: "nobody"}))
	wantError(t, err, connect.CodeNotFound, actor.ErrReminderNotFound.Kind())
}

// TestDeadLetters are listed, retried and deleted, by who may see their app.
func TestDeadLetters(t *testing.T) {
	var refused atomic.Bool
	refused.Store(true)
	f := startReminders(t, func(firing actor.Firing) error {
		if refused.Load() || firing.Name == "bad" {
			return errors.New("no luck")
		}
		return nil
	}, nil)
	once := func(name string) {
		f.mustCreate(t, name, func(req *greenroomv1.CreateReminderRequest) {
			req.Spec.Payload = []byte(`{"of":"` + name + `"}`)
			req.Spec.Schedule = &greenroomv1.ReminderSchedule{}
			req.Spec.Failure = &greenroomv1.FailurePolicy{Attempts: 1}
		})
		<-f.fired
	}
	once("good")
	once("bad")
	var letters []*greenroomv1.DeadLetter
	eventually(t, "two dead letters", func() bool {
		letters = nil
		for req := (&greenroomv1.ListDeadLettersRequest{Type: "Counter", PageSize: 1}); ; {
			res, err := f.api.ListDeadLetters(t.Context(), connect.NewRequest(req))
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, res.Msg.DeadLetters...)
			if req.PageToken = res.Msg.NextPageToken; req.PageToken == "" {
				return len(letters) == 2
			}
		}
	})
	for _, l := range letters {
		if l.Reason != "no luck" || l.Reminder.PayloadSize == 0 || l.FailedAt == nil || l.Reminder.Actor.Id != "a" {
			t.Errorf("%v", l)
		}
	}
	retry := func(app, id string) (*greenroomv1.Reminder, error) {
		res, err := f.api.RetryDeadLetter(t.Context(), connect.NewRequest(&greenroomv1.RetryDeadLetterRequest{App: app, Id: id}))
		if err != nil {
			return nil, err
		}
		return res.Msg.Reminder, nil
	}
	for _, id := range []string{letters[0].Id + "1", "A-1-aaaaaaaa-5"} {
		_, err := retry("", id)
		wantError(t, err, connect.CodeNotFound, actor.ErrDeadLetterNotFound.Kind())
	}
	_, err := retry("", "?")
	wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
	_, err = retry("other", letters[0].Id)
	wantError(t, err, connect.CodeNotFound, actor.ErrDeadLetterNotFound.Kind())

	refused.Store(false)
	good, bad := letters[0], letters[1]
	if good.Reminder.Name != "good" {
		good, bad = bad, good
	}
	// The name is taken meanwhile: the other keeps it.
	f.mustCreate(t, "good", nil)
	r, err := retry("", good.Id)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Name, "good@") {
		t.Errorf("the name %q", r.Name)
	}
	if got := <-f.fired; got.Name != r.Name || string(got.Payload.Data) != `{"of":"good"}` || !got.Due.Equal(good.Reminder.Due.AsTime()) {
		t.Errorf("%+v", got)
	}
	del := func(app, id string) bool {
		res, err := f.api.DeleteDeadLetter(t.Context(), connect.NewRequest(&greenroomv1.DeleteDeadLetterRequest{App: app, Id: id}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg.Existed
	}
	if del("other", bad.Id) || !del("", bad.Id) || del("", bad.Id) || del("", good.Id) {
		t.Error("the dead letter was not deleted once, by its own app")
	}
}

// eventually waits until something is true that happens by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no %s", what)
		}
	}
}

// TestReminderOfPrivateMethod is set from outside by those alone who may deploy.
func TestReminderOfPrivateMethod(t *testing.T) {
	f := startReminders(t, nil, func(c *Config) {
		c.Tokens = []edge.Token{{Name: "invoke", Secret: "invoke", Role: edge.RoleInvoke}, {Name: "deploy", Secret: "deploy", Role: edge.RoleDeploy}}
	})
	private := func(req *greenroomv1.CreateReminderRequest) { req.Spec.Method = "Expire" }
	f.api = greenroomv1connect.NewReminderServiceClient(client(t, false), f.url, connect.WithInterceptors(bearer("invoke")))
	_, err := f.create(t, "n", private)
	wantError(t, err, connect.CodePermissionDenied, actor.ErrMethodPrivate.Kind())
	f.mustCreate(t, "n", nil)
	f.api = greenroomv1connect.NewReminderServiceClient(client(t, false), f.url, connect.WithInterceptors(bearer("deploy")))
	f.mustCreate(t, "p", private)
}

// TestBucketsAreListed with whose they are, to those who may see them.
func TestBucketsAreListed(t *testing.T) {
	f := startReminders(t, nil, func(c *Config) {
		c.Tokens = []edge.Token{{Name: "all", Secret: "all", Role: edge.RoleInvoke}, {Name: "mine", Secret: "mine", Role: edge.RoleInvoke, App: "default"}}
	})
	all, mine := connect.WithInterceptors(bearer("all")), connect.WithInterceptors(bearer("mine"))
	c := greenroomv1connect.NewReminderServiceClient(client(t, false), f.url, all)
	f.api = c
	f.mustCreate(t, "n", nil)
	res, err := c.ListBuckets(t.Context(), connect.NewRequest(&greenroomv1.ListBucketsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if b := res.Msg.Buckets; len(b) != 1 || b[0].App != "default" || b[0].Prefix != "A" || b[0].Creator != "here" || b[0].Owner != "here" || b[0].Epoch == 0 {
		t.Errorf("%v", b)
	}
	page, err := c.ListBuckets(t.Context(), connect.NewRequest(&greenroomv1.ListBucketsRequest{PageSize: 1}))
	if err != nil || page.Msg.NextPageToken == "" {
		t.Fatalf("%v, %v", page, err)
	}
	if page, err = c.ListBuckets(t.Context(), connect.NewRequest(&greenroomv1.ListBucketsRequest{PageToken: page.Msg.NextPageToken})); err != nil || len(page.Msg.Buckets) != 0 {
		t.Errorf("%v, %v", page, err)
	}
	c = greenroomv1connect.NewReminderServiceClient(client(t, false), f.url, mine)
	if res, err := c.ListBuckets(t.Context(), connect.NewRequest(&greenroomv1.ListBucketsRequest{App: "default"})); err != nil || len(res.Msg.Buckets) != 1 {
		t.Errorf("%v, %v", res, err)
	}
	// Empty is every app here, not that of the token, which is called default.
	_, err = c.ListBuckets(t.Context(), connect.NewRequest(&greenroomv1.ListBucketsRequest{}))
	wantError(t, err, connect.CodePermissionDenied, failure.KindPermissionDenied)
}
