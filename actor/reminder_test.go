package actor

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func validSpec() ReminderSpec {
	return ReminderSpec{
		Key: Key{App: "default", Type: "Cart", ID: "ann"}, Name: "expire", Method: "Expire",
		Schedule: Schedule{After: time.Hour},
	}
}

func TestReminderSpecValidate(t *testing.T) {
	if spec := validSpec(); spec.Validate() != nil {
		t.Fatal(spec.Validate())
	}
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, field string
		change      func(*ReminderSpec)
	}{
		{"no app", "app", func(s *ReminderSpec) { s.Key.App = "" }},
		{"no name", "reminder name", func(s *ReminderSpec) { s.Name = "" }},
		{"a name of 10 KB", "reminder name", func(s *ReminderSpec) { s.Name = strings.Repeat("n", 10<<10) }},
		{"control character", "reminder name", func(s *ReminderSpec) { s.Name = "a\nb" }},
		{"name not UTF-8", "reminder name", func(s *ReminderSpec) { s.Name = "a\xff" }},
		{"no method", "reminder method", func(s *ReminderSpec) { s.Method = "" }},
		{"payload", "reminder payload", func(s *ReminderSpec) { s.Payload.Data = make([]byte, MaxReminderPayload+1) }},
		{"content type", "reminder content type", func(s *ReminderSpec) { s.Payload.ContentType = strings.Repeat("t", 257) }},
		{"zero byte in the content type", "reminder content type", func(s *ReminderSpec) { s.Payload.ContentType = "text/plain\x00" }},
		{"content type of two lines", "reminder content type", func(s *ReminderSpec) { s.Payload.ContentType = "text/plain\r\nX: y" }},
		{"long delay", "reminder delay", func(s *ReminderSpec) { s.Schedule.After = MaxReminderDuration + 1 }},
		{"long period", "reminder period", func(s *ReminderSpec) { s.Schedule.Every = MaxReminderDuration + 1 }},
		{"long interval", "reminder retry interval", func(s *ReminderSpec) { s.Failure.Interval = MaxReminderDuration + 1 }},
		{"long longest interval", "reminder longest retry interval", func(s *ReminderSpec) {
			s.Failure = FailurePolicy{Kind: FailureExponential, Max: MaxReminderDuration + 1}
		}},
		{"long missed after", "reminder missed after", func(s *ReminderSpec) {
			s.Missed = MissedPolicy{Kind: MissedSkip, After: MaxReminderDuration + 1}
		}},
		{"due and delay", "reminder schedule", func(s *ReminderSpec) { s.Schedule.At = at }},
		{"negative delay", "reminder delay", func(s *ReminderSpec) { s.Schedule.After = -1 }},
		{"far due time", "reminder due time", func(s *ReminderSpec) { s.Schedule = Schedule{At: MaxReminderTime.Add(1)} }},
		{"period and cron", "reminder schedule", func(s *ReminderSpec) { s.Schedule.Every, s.Schedule.Cron = time.Hour, "@daily" }},
		{"negative period", "reminder period", func(s *ReminderSpec) { s.Schedule.Every = -time.Second }},
		{"tiny period", "reminder period", func(s *ReminderSpec) { s.Schedule.Every = time.Microsecond }},
		{"long cron", "reminder cron", func(s *ReminderSpec) { s.Schedule.Cron = strings.Repeat("*", 300) }},
		{"zone alone", "reminder zone", func(s *ReminderSpec) { s.Schedule.Zone = "Europe/Berlin" }},
		{"count alone", "reminder count", func(s *ReminderSpec) { s.Schedule.Times = 2 }},
		{"far end", "reminder end", func(s *ReminderSpec) { s.Schedule.Until = MaxReminderTime.Add(1) }},
		{"negative jitter", "reminder jitter", func(s *ReminderSpec) { s.Schedule.Jitter = -1 }},
		{"jitter above the period", "reminder jitter", func(s *ReminderSpec) { s.Schedule.Every, s.Schedule.Jitter = time.Second, time.Second }},
		{"unknown missed policy", "reminder missed policy", func(s *ReminderSpec) { s.Missed.Kind = 3 }},
		{"limit of collapse", "reminder missed limit", func(s *ReminderSpec) { s.Missed.Limit = 1 }},
		{"after of collapse", "reminder missed after", func(s *ReminderSpec) { s.Missed.After = 1 }},
		{"catch up with all", "reminder missed limit", func(s *ReminderSpec) { s.Missed = MissedPolicy{Kind: MissedCatchUp, Limit: MaxCatchUp + 1} }},
		{"unknown failure policy", "reminder failure policy", func(s *ReminderSpec) { s.Failure.Kind = 3 }},
		{"drop with attempts", "reminder failure policy", func(s *ReminderSpec) { s.Failure = FailurePolicy{Kind: FailureDrop, Attempts: 1} }},
		{"attempts without end", "reminder attempts", func(s *ReminderSpec) { s.Failure.Attempts = math.MaxUint32 }},
		{"negative interval", "reminder retry interval", func(s *ReminderSpec) { s.Failure.Interval = -1 }},
		{"longest of constant", "reminder longest retry interval", func(s *ReminderSpec) { s.Failure.Max = 1 }},
		{"longest below first", "reminder longest retry interval", func(s *ReminderSpec) {
			s.Failure = FailurePolicy{Kind: FailureExponential, Interval: 2, Max: 1}
		}},
		{"empty key", "reminder metadata", func(s *ReminderSpec) { s.Metadata = map[string]string{"": "x"} }},
		{"zero byte", "reminder metadata", func(s *ReminderSpec) { s.Metadata = map[string]string{"a": "\x00"} }},
		{"much metadata", "reminder metadata", func(s *ReminderSpec) {
			s.Metadata = map[string]string{"a": strings.Repeat("x", MaxReminderMetadataBytes)}
		}},
		{"many entries", "reminder metadata", func(s *ReminderSpec) {
			s.Metadata = map[string]string{}
			for i := range MaxReminderMetadata + 1 {
				s.Metadata[strconv.Itoa(i)] = ""
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := validSpec()
			tt.change(&spec)
			var bad *ArgumentError
			if err := spec.Validate(); !errors.As(err, &bad) || bad.Field != tt.field {
				t.Errorf("%v, want a fault of %q", err, tt.field)
			} else if len(bad.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(bad.Error()))
			}
		})
	}
}

func TestPrefix(t *testing.T) {
	for n, want := range map[Prefix]string{1: "A", 2: "B", 26: "Z", 27: "AA", 31: "AE", 702: "ZZ", 703: "AAA"} {
		if got := n.String(); got != want {
			t.Errorf("prefix %d is %s, want %s", n, got, want)
		}
	}
}

func TestReminderID(t *testing.T) {
	id := ReminderID{Prefix: 31, Token: 1_203_000, Vector: Vector([]byte("qkzmwpta"))}
	if got := id.String(); got != "reminder||AE||1203000||qkzmwpta" {
		t.Errorf("ID %s", got)
	}
	if b := id.Bucket(); b.Index != 12 || b.Token(3000) != id {
		t.Errorf("bucket %s", b)
	}
	if size := unsafe.Sizeof(id); size != 16 {
		t.Errorf("an ID has %d bytes: indexes in memory count on 16", size)
	}
	for _, bad := range []string{
		"", "reminder", "reminder||B||1", "timer||B||1||abcdefgh", "reminder||||1||abcdefgh", "reminder||b||1||abcdefgh",
		"reminder||AAAAAAAA||1||abcdefgh", "reminder||B||01||abcdefgh", "reminder||B||-1||abcdefgh", "reminder||B||4294967295||abcdefgh",
		"reminder||B||4294967296||abcdefgh", "reminder||B||1||abcdefg", "reminder||B||1||abcdefgH", "reminder||B||1||abcdefgh||",
	} {
		var fault *ArgumentError
		if _, err := ParseReminderID(bad); !errors.As(err, &fault) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := ReminderID{
			Prefix: Prefix(rapid.Uint32Min(1).Draw(t, "prefix")),
			Token:  rapid.Uint32Range(0, BucketsOfLap*BucketSize-1).Draw(t, "token"),
			Vector: Vector([]byte(rapid.StringMatching("[a-z]{8}").Draw(t, "vector"))),
		}
		if got, err := ParseReminderID(id.String()); err != nil || got != id {
			t.Fatalf("%s is read as %v, %v", id, got, err)
		}
	})
}

func TestFailurePolicyWait(t *testing.T) {
	const none = time.Duration(-1)
	for _, tt := range []struct {
		name   string
		policy FailurePolicy
		want   []time.Duration // after one failure, after two and so on
	}{
		{"default", FailurePolicy{}, []time.Duration{time.Second, time.Second, none}},
		{"once", FailurePolicy{Attempts: 1}, []time.Duration{none}},
		{"drop", FailurePolicy{Kind: FailureDrop}, []time.Duration{none}},
		{"constant", FailurePolicy{Attempts: 4, Interval: time.Minute}, []time.Duration{time.Minute, time.Minute, time.Minute, none}},
		{"exponential", FailurePolicy{Kind: FailureExponential, Attempts: 6, Interval: time.Second, Max: 5 * time.Second},
			[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second, none}},
		{"a first wait above the default of the longest", FailurePolicy{Kind: FailureExponential, Interval: 3 * time.Hour},
			[]time.Duration{3 * time.Hour, 3 * time.Hour, none}},
	} {
		for i, want := range tt.want {
			got, again := tt.policy.Wait(uint32(i + 1))
			if !again {
				got = none
			}
			if got != want {
				t.Errorf("%s: after %d failures %v, want %v", tt.name, i+1, got, want)
			}
		}
	}
	if got, again := (FailurePolicy{Kind: FailureExponential, Attempts: MaxAttempts}).Wait(MaxAttempts - 1); got != time.Hour || !again {
		t.Errorf("after many failures %v, %v", got, again)
	}
}

// TestReminderEffectsAdd folds what one turn does and what a later one does.
func TestReminderEffectsAdd(t *testing.T) {
	key := Key{App: "a", Type: "T", ID: "x"}
	name := ReminderName{Key: key, Name: "n"}
	set := func(token uint32, keep bool) ReminderEffects {
		r := Reminder{ID: ReminderID{Prefix: 1, Token: token}, ReminderSpec: ReminderSpec{Key: key, Name: "n", Keep: keep}}
		return ReminderEffects{Set: []Reminder{r}}
	}
	cancel := ReminderEffects{Cancel: []ReminderName{name}}
	step := ReminderEffects{Steps: []ReminderStep{{ReminderName: name, Version: 7}}}
	with := func(effects ...ReminderEffects) (all ReminderEffects) {
		for _, e := range effects {
			all.Steps, all.Cancel, all.Set = append(all.Steps, e.Steps...), append(all.Cancel, e.Cancel...), append(all.Set, e.Set...)
		}
		return all
	}
	for what, tt := range map[string]struct{ turns, want []ReminderEffects }{
		"set anew":                   {[]ReminderEffects{set(1, false), set(2, false)}, []ReminderEffects{set(2, false)}},
		"kept as it was set":         {[]ReminderEffects{set(1, false), set(2, true)}, []ReminderEffects{set(1, false)}},
		"kept twice":                 {[]ReminderEffects{set(1, true), set(2, true)}, []ReminderEffects{set(1, true)}},
		"kept, then set":             {[]ReminderEffects{set(1, true), set(2, false)}, []ReminderEffects{set(2, false)}},
		"set, then cancelled":        {[]ReminderEffects{set(1, false), cancel}, []ReminderEffects{cancel}},
		"cancelled twice":            {[]ReminderEffects{cancel, cancel}, []ReminderEffects{cancel}},
		"cancelled, then set":        {[]ReminderEffects{cancel, set(1, false)}, []ReminderEffects{set(1, false)}},
		"cancelled, so none to keep": {[]ReminderEffects{cancel, set(1, true)}, []ReminderEffects{set(1, false)}},
		"stepped, then cancelled":    {[]ReminderEffects{step, cancel}, []ReminderEffects{step, cancel}},
		"stepped, then kept":         {[]ReminderEffects{step, set(1, true)}, []ReminderEffects{step, set(1, true)}},
	} {
		var got ReminderEffects
		for i := range tt.turns {
			got.Add(&tt.turns[i])
		}
		want := with(tt.want...)
		if !slices.Equal(got.Cancel, want.Cancel) || len(got.Steps) != len(want.Steps) || !slices.EqualFunc(got.Set, want.Set, func(a, b Reminder) bool {
			return a.ID == b.ID && a.Keep == b.Keep
		}) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		if !got.Names(name) || got.Names(ReminderName{Key: key, Name: "m"}) || got.Size() == 0 {
			t.Errorf("%s: it does not know its names", what)
		}
	}
}
