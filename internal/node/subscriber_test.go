package node_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestSubscriberAtAnotherServer has a reminder set at one server, and its subscriber at
// another: that one takes it over, under an ID of its own.
func TestSubscriberAtAnotherServer(t *testing.T) {
	url := pgtest.URL(t)
	first, second := start(t, inCluster(url, nil)), start(t, inCluster(url, nil))
	h := h2c()
	defer h.CloseIdleConnections()
	reminders := greenroomv1connect.NewReminderServiceClient(h, first.URL)
	set, err := reminders.CreateReminder(t.Context(), connect.NewRequest(&greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{Type: actor.SubscriptionType, Id: "jobs"}, Name: "n", Spec: &greenroomv1.ReminderSpec{Payload: []byte(`1`)},
	}))
	if err != nil {
		t.Fatal(err, detail(err))
	}
	c, err := client.New(client.Config{URL: second.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	firings, ended := make(chan client.Firing, 10), make(chan error)
	go func() {
		ended <- c.SubscribeReminders(ctx, client.Subscription{Names: []string{"jobs"}, Do: func(_ context.Context, f client.Firing) error {
			firings <- f
			return nil
		}})
	}()
	if f := <-firings; f.Name != "n" || string(f.Payload) != "1" || f.ReminderID == set.Msg.Reminder.Id {
		t.Errorf("%+v, was %s", f, set.Msg.Reminder.Id)
	}
	for {
		list, err := reminders.ListReminders(t.Context(), connect.NewRequest(&greenroomv1.ListRemindersRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Msg.Reminders) == 0 {
			break // its answer was committed
		}
	}
	cancel()
	<-ended
	if len(firings) != 0 {
		t.Errorf("executed %d times more", len(firings))
	}
}
