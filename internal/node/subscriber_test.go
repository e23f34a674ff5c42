package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestSubscriberAtAnotherServer has reminders set at one server, and their subscriber at
// another: that one takes them over, under IDs of its own. A client that follows the one that is
// not over learns its new ID, on the stream that it has and on a later one.
func TestSubscriberAtAnotherServer(t *testing.T) {
	url := pgtest.URL(t)
	// No lease is lost, however busy the machine is: reminders of a lost server are kept from subscribers for
	// as long as a turn may take.
	member := func() node.Config {
		return inCluster(url, func(c *node.Config) { c.Cluster.Lease = time.Minute })
	}
	first, second := start(t, member()), start(t, member())
	h := h2c()
	defer h.CloseIdleConnections()
	reminders := greenroomv1connect.NewReminderServiceClient(h, first.URL)
	set, err := reminders.CreateReminder(t.Context(), connect.NewRequest(&greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{Type: actor.SubscriptionType, Id: "jobs"}, Name: "n", Spec: &greenroomv1.ReminderSpec{Payload: []byte(`1`)},
	}))
	if err != nil {
		t.Fatal(err, detail(err))
	}
	hourly, err := reminders.CreateReminder(t.Context(), connect.NewRequest(&greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{Type: actor.SubscriptionType, Id: "jobs"}, Name: "hourly", Spec: &greenroomv1.ReminderSpec{
			Schedule: &greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_At{At: timestamppb.New(time.Unix(0, 0))}, Every: durationpb.New(time.Hour)},
		},
	}))
	if err != nil {
		t.Fatal(err, detail(err))
	}
	was := hourly.Msg.Reminder.Id
	c, err := client.New(client.Config{URL: second.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	firings, ended := make(chan client.Firing, 10), make(chan error)
	prefixes, followed := make(chan string, 10), make(chan client.FollowedReminder, 10)
	what := client.Subscription{
		Names: []string{"jobs"}, Welcomed: func(p string) { prefixes <- p },
		Follow: []string{was}, Followed: func(f client.FollowedReminder) { followed <- f },
		Do: func(_ context.Context, f client.Firing) error {
			firings <- f
			return nil
		},
	}
	go func() { ended <- c.SubscribeReminders(ctx, what) }()
	for range 2 {
		f := <-firings
		if f.Name == "n" && (string(f.Payload) != "1" || f.ReminderID == set.Msg.Reminder.Id) || f.Name == "hourly" && f.ReminderID == was {
			t.Errorf("%+v, was %s and %s", f, set.Msg.Reminder.Id, was)
		}
	}
	if p := <-prefixes; !strings.HasPrefix(was, "reminder||"+p+"||") {
		t.Errorf("the prefix %q, of %s", p, was)
	}
	now := <-followed
	if now.ID != was || now.Name != "hourly" || now.ActorID != "jobs" {
		t.Errorf("%+v, was %s", now, was)
	}
	for now.NewID == was { // it is as it was before the take-over
		now = <-followed
	}
	for {
		list, err := reminders.ListReminders(t.Context(), connect.NewRequest(&greenroomv1.ListRemindersRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Msg.Reminders) == 1 && list.Msg.Reminders[0].Due.AsTime().After(time.Unix(1, 0)) {
			if id := list.Msg.Reminders[0].Id; id != now.NewID {
				t.Errorf("it is %s, and followed as %s", id, now.NewID)
			}
			break // the answers were committed
		}
	}
	cancel()
	<-ended
	ctx, cancel = context.WithCancel(t.Context())
	go func() { ended <- c.SubscribeReminders(ctx, what) }()
	if late := <-followed; late.ID != was || late.NewID != now.NewID {
		t.Errorf("a later stream: %+v, is %s", late, now.NewID)
	}
	cancel()
	<-ended
	if len(firings) != 0 {
		t.Errorf("executed %d times more", len(firings))
	}
}
