package actor

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTimerSpec(t *testing.T) {
	good := TimerSpec{Key: Key{App: "default", Type: "T", ID: "a"}, Name: "t", Method: "M", Schedule: Schedule{After: time.Second, Every: time.Minute}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if n := good.Size(); n != 2 {
		t.Errorf("size %d, want 2", n)
	}
	for says, change := range map[string]func(*TimerSpec){
		"timer name":                  func(s *TimerSpec) { s.Name = strings.Repeat("n", MaxReminderName+1) },
		"timer method":                func(s *TimerSpec) { s.Method = "" },
		"timer payload":               func(s *TimerSpec) { s.Payload.Data = make([]byte, MaxReminderPayload+1) },
		"timer content type":          func(s *TimerSpec) { s.Payload.ContentType = "\xff" },
		"set a reminder":              func(s *TimerSpec) { s.Schedule = Schedule{Cron: "@daily"} },
		"set a reminder ":             func(s *TimerSpec) { s.Schedule = Schedule{Jitter: 1} },
		"for a timer that fires once": func(s *TimerSpec) { s.Schedule.Every = -1 },
		"timer delay":                 func(s *TimerSpec) { s.Schedule.After = -1 },
		"actor id":                    func(s *TimerSpec) { s.Key.ID = "" },
	} {
		s := good
		change(&s)
		err := s.Validate()
		if wrong := new(ArgumentError); !errors.As(err, &wrong) || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
