package actor_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor/config"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Subject is the type of the behaviour vectors, abi/testdata/vectors/README.md.
type Subject struct {
	Count int64  `json:"count"`
	Label string `json:"label,omitempty"`
}

type AddInput struct {
	Amount int64  `json:"amount"`
	Label  string `json:"label"`
}

type PutInput struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type FailInput struct {
	Status       actor.Status `json:"status"`
	Code         string       `json:"code"`
	Message      string       `json:"message"`
	Retry        bool         `json:"retry"`
	RetryAfterMS int64        `json:"retry_after_ms"`
	Detail       *string      `json:"detail"`
}

func (s *Subject) Add(_ *actor.Context, in AddInput) (Subject, error) {
	s.Count += in.Amount
	if in.Label != "" {
		s.Label = in.Label
	}
	return *s, nil
}

func (s *Subject) AddAndRefuse(_ *actor.Context, in AddInput) (actor.None, error) {
	s.Count += in.Amount
	return actor.None{}, actor.Errorf("refused", "not %d", in.Amount)
}

func (s *Subject) View(*actor.Context, actor.None) (Subject, error) { return *s, nil }

func (s *Subject) Wipe(ctx *actor.Context, _ actor.None) (Subject, error) {
	_, err := ctx.State().DeleteAll()
	return *s, err
}

func (s *Subject) WipeAndAdd(ctx *actor.Context, in AddInput) (Subject, error) {
	if _, err := ctx.State().DeleteAll(); err != nil {
		return Subject{}, err
	}
	return s.Add(ctx, in)
}

func (*Subject) Put(ctx *actor.Context, in PutInput) (actor.None, error) {
	return actor.None{}, ctx.State().Set(in.Key, in.Value)
}

func (*Subject) Each(ctx *actor.Context, prefix string) ([][2]string, error) {
	list := [][2]string{}
	for e, err := range actor.Each[string](ctx, prefix) {
		if err != nil {
			return nil, err
		}
		list = append(list, [2]string{e.Key, e.Value})
	}
	return list, nil
}

func (*Subject) Fail(_ *actor.Context, in FailInput) (actor.None, error) {
	e := actor.NewError(in.Status, in.Code, in.Message)
	if in.Retry {
		e = e.Retry(time.Duration(in.RetryAfterMS) * time.Millisecond)
	}
	if in.Detail != nil {
		e = e.WithDetail(*in.Detail)
	}
	return actor.None{}, e
}

func (*Subject) Plain(*actor.Context, actor.None) (actor.None, error) {
	return actor.None{}, errors.New("no such luck")
}

func (*Subject) Echo(_ *actor.Context, text string) (string, error) { return text, nil }

func (*Subject) BadReply(*actor.Context, actor.None) (float64, error) { return math.NaN(), nil }

func (*Subject) BadValue(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, ctx.State().Set("x", math.Inf(1))
}

type RemindInput struct {
	Name       string `json:"name"`
	Method     string `json:"method"`
	Amount     int64  `json:"amount"`
	AtMS       int64  `json:"at_ms"`
	AfterMS    int64  `json:"after_ms"`
	EveryMS    int64  `json:"every_ms"`
	Cron       string `json:"cron"`
	Zone       string `json:"zone"`
	Times      int    `json:"times"`
	UntilMS    int64  `json:"until_ms"`
	Missed     string `json:"missed"`
	Attempts   int    `json:"attempts"`
	IntervalMS int64  `json:"interval_ms"`
	LongestMS  int64  `json:"longest_ms"`
	Drop       bool   `json:"drop"`
	Keep       bool   `json:"keep"`
	Refuse     bool   `json:"refuse"`
}

func (*Subject) Remind(ctx *actor.Context, in RemindInput) (actor.None, error) {
	const ms = time.Millisecond
	r := actor.Reminder{
		Name: in.Name, Method: in.Method,
		After: time.Duration(in.AfterMS) * ms, Every: time.Duration(in.EveryMS) * ms, Cron: in.Cron, Zone: in.Zone, Times: in.Times,
		Retry: actor.Retry{Attempts: in.Attempts, Interval: time.Duration(in.IntervalMS) * ms, Longest: time.Duration(in.LongestMS) * ms, Drop: in.Drop},
		Keep:  in.Keep,
	}
	r.In = struct {
		Amount int64 `json:"amount"`
	}{in.Amount}
	if in.AtMS != 0 {
		r.At = time.UnixMilli(in.AtMS)
	}
	if in.UntilMS != 0 {
		r.Until = time.UnixMilli(in.UntilMS)
	}
	switch in.Missed {
	case "skip":
		r.Missed = actor.SkipMissed(0)
	case "catch_up":
		r.Missed = actor.CatchUp(0)
	}
	if err := actor.SetReminder(ctx, r); err != nil {
		return actor.None{}, err
	}
	if in.Refuse {
		return actor.None{}, actor.Errorf("refused", "not %s", in.Name)
	}
	return actor.None{}, nil
}

func (*Subject) Cancel(ctx *actor.Context, name string) (actor.None, error) {
	return actor.None{}, actor.CancelReminder(ctx, name)
}

type ReminderReply struct {
	AtMS    int64  `json:"at_ms"`
	Cron    string `json:"cron"`
	EveryMS int64  `json:"every_ms"`
	In      string `json:"in"`
	Method  string `json:"method"`
	Times   int    `json:"times"`
}

func (*Subject) Reminder(ctx *actor.Context, name string) (*ReminderReply, error) {
	r, found, err := actor.GetReminder(ctx, name)
	if err != nil || !found {
		return nil, err
	}
	in, _ := r.In.(actor.Payload)
	return &ReminderReply{r.At.UnixMilli(), r.Cron, r.Every.Milliseconds(), string(in.Data), r.Method, r.Times}, nil
}

func (*Subject) Reminders(ctx *actor.Context, prefix string) ([]string, error) {
	names, err := actor.ReminderNames(ctx, prefix)
	return append([]string{}, names...), err
}

type TimerInput struct {
	Name    string `json:"name"`
	Method  string `json:"method"`
	Amount  int64  `json:"amount"`
	AfterMS int64  `json:"after_ms"`
	EveryMS int64  `json:"every_ms"`
	Refuse  bool   `json:"refuse"`
}

func (*Subject) Timer(ctx *actor.Context, in TimerInput) (actor.None, error) {
	err := actor.SetTimer(ctx, actor.Timer{
		Name: in.Name, Method: in.Method, In: AddInput{Amount: in.Amount},
		After: time.Duration(in.AfterMS) * time.Millisecond, Every: time.Duration(in.EveryMS) * time.Millisecond,
	})
	if err == nil && in.Refuse {
		err = actor.Errorf("refused", "not %s", in.Name)
	}
	return actor.None{}, err
}

func (*Subject) Stop(ctx *actor.Context, name string) (bool, error) {
	return actor.CancelTimer(ctx, name)
}

func (s *Subject) Tick(ctx *actor.Context, in AddInput) (Subject, error) {
	s.Count += in.Amount
	c := ctx.Cause()
	s.Label = string(c.Kind)
	if c.Kind != actor.CauseCall {
		s.Label = fmt.Sprintf("%s %s %d %d %d", c.Kind, c.Name, c.Due.UnixMilli(), c.Attempt, c.Missed)
	}
	return *s, nil
}

func (s *Subject) TickAt(ctx *actor.Context, in AddInput) (Subject, error) {
	if int64(ctx.Cause().Attempt) < in.Amount {
		return Subject{}, actor.Errorf("not_yet", "this is attempt %d", ctx.Cause().Attempt)
	}
	return s.Tick(ctx, AddInput{Amount: 1})
}

func (*Subject) Name(ctx *actor.Context, _ actor.None) (string, error) { return ctx.Method(), nil }

func (*Subject) Clock(ctx *actor.Context, _ actor.None) (int64, error) {
	return ctx.Now().UnixNano(), nil
}

func (*Subject) Secret(ctx *actor.Context, _ actor.None) (string, error) {
	key, err := config.SecretBytes(ctx, "key")
	return hex.EncodeToString(key), err
}

func (*Subject) SecretText(ctx *actor.Context, _ actor.None) (string, error) {
	return config.Secret(ctx, "key")
}

func (*Subject) Undeclared(ctx *actor.Context, _ actor.None) (string, error) {
	return config.Secret(ctx, "other")
}

func init() {
	actor.Register("Subject", actor.Capabilities{Secrets: []string{"key"}},
		actor.Method("Add", (*Subject).Add), actor.Method("AddAndRefuse", (*Subject).AddAndRefuse), actor.ReadOnly("View", (*Subject).View),
		actor.Method("Wipe", (*Subject).Wipe), actor.Method("WipeAndAdd", (*Subject).WipeAndAdd),
		actor.Method("Put", (*Subject).Put), actor.ReadOnly("PutReadOnly", (*Subject).Put), actor.ReadOnly("Each", (*Subject).Each),
		actor.Method("Fail", (*Subject).Fail), actor.Method("Plain", (*Subject).Plain), actor.Method("Echo", (*Subject).Echo),
		actor.Method("BadReply", (*Subject).BadReply), actor.Method("BadValue", (*Subject).BadValue),
		actor.Method("Name", (*Subject).Name), actor.ReadOnly("NameReadOnly", (*Subject).Name), actor.ReadOnly("Clock", (*Subject).Clock),
		actor.Method("Remind", (*Subject).Remind), actor.ReadOnly("RemindReadOnly", (*Subject).Remind), actor.Method("Cancel", (*Subject).Cancel),
		actor.ReadOnly("Reminder", (*Subject).Reminder), actor.ReadOnly("Reminders", (*Subject).Reminders),
		actor.Method("Timer", (*Subject).Timer), actor.Method("Stop", (*Subject).Stop), actor.Method("Tick", (*Subject).Tick), actor.Method("TickAt", (*Subject).TickAt),
		actor.ReadOnly("Secret", (*Subject).Secret), actor.ReadOnly("SecretText", (*Subject).SecretText), actor.ReadOnly("Undeclared", (*Subject).Undeclared),
	)
}

type behaviour struct {
	Name  string
	Steps []struct {
		Call *struct {
			Method, Payload string
			Reply           *string
			Error           *struct {
				Status           actor.Status
				Code, Message    string
				Retryable        bool
				RetryAfterMillis int64 `json:"retry_after_ms"`
				Detail           string
			}
			State map[string]string
		}
		AdvanceMS  *int64            `json:"advance_ms"`
		DropMemory bool              `json:"drop_memory"`
		Deactivate bool              `json:"deactivate"`
		SetState   map[string]string `json:"set_state"`
		Secret     *string           `json:"secret_hex"`
	}
}

// TestBehaviourVectors plays what both SDKs and both kits do alike.
func TestBehaviourVectors(t *testing.T) {
	text, err := os.ReadFile("../../../abi/testdata/vectors/behaviour.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []behaviour }
	if err := json.Unmarshal(text, &file); err != nil || len(file.Vectors) == 0 {
		t.Fatal(err)
	}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			h := actortest.New(t)
			for n, s := range v.Steps {
				switch {
				case s.DropMemory:
					h.DropInstance()
				case s.Deactivate:
					h.Deactivate("Subject", "s")
				case s.SetState != nil:
					h.SetState("Subject", "s", 0, s.SetState)
				case s.Secret != nil:
					key, err := hex.DecodeString(*s.Secret)
					if err != nil {
						t.Fatal(err)
					}
					h.SetSecret("key", string(key))
				case s.AdvanceMS != nil:
					h.Advance(time.Duration(*s.AdvanceMS) * time.Millisecond)
				case s.Call != nil:
					var reply actor.Payload
					err := h.Call("Subject", "s", s.Call.Method, []byte(s.Call.Payload), &reply)
					if s.Call.Reply != nil && (err != nil || string(reply.Data) != *s.Call.Reply) {
						t.Errorf("step %d, %s: got %q, %v, want %q", n, s.Call.Method, reply.Data, err, *s.Call.Reply)
					}
					if want := s.Call.Error; want != nil {
						var e *actor.Error
						if !errors.As(err, &e) || e.Status != want.Status || e.Code != want.Code || e.Retryable != want.Retryable ||
							e.RetryAfter != time.Duration(want.RetryAfterMillis)*time.Millisecond || string(e.Detail.Data) != want.Detail ||
							want.Message != "" && e.Message != want.Message {
							t.Errorf("step %d, %s: got %+v, want %+v", n, s.Call.Method, err, *want)
						}
					}
					if got := h.State("Subject", "s"); !reflect.DeepEqual(got, s.Call.State) {
						t.Errorf("step %d, %s: the state is %v, want %v", n, s.Call.Method, got, s.Call.State)
					}
				default:
					t.Fatalf("step %d is none that this test knows", n)
				}
			}
		})
	}
}
