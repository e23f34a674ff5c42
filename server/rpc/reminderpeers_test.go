package rpc

import (
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
)

// anyHello accepts every hello.
type anyHello struct{ Interconnect }

func (anyHello) Accept(*greenroomv1.ExchangeHello) (*routing.Accepted, *greenroomv1.ExchangeHello, error) {
	return nil, nil, nil
}

// A notice of more reminders than one may be of is refused, and not answered as if it had been
// taken.
func TestNoticeOfTooManyReminders(t *testing.T) {
	i := &interconnect{s: &Services{Backends: Backends{Interconnect: anyHello{}}}}
	notice := func(n int) error {
		req := &greenroomv1.ExchangeNoticeRequest{}
		for j := range n {
			id := actor.ReminderID{Prefix: 1, Token: uint32(j), Vector: actor.Vector([]byte("abcdefgh"))} //nolint:gosec // of a test
			req.Reminders = append(req.Reminders, &greenroomv1.NoticedReminder{Id: id.String()})
		}
		_, err := i.NoticeReminders(t.Context(), connect.NewRequest(req))
		return err
	}
	if err := notice(reminder.MaxRelease); err != nil {
		t.Errorf("of as many as may be: %v", err)
	}
	if bad := new(actor.ArgumentError); !errors.As(notice(reminder.MaxRelease+1), &bad) || bad.Field != "reminders" {
		t.Errorf("of one more: %+v", bad)
	}
}
