package actor

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Rules are what an app's owners and operators have set for its calls. They hold at every host. The
// zero value sets nothing.
type Rules struct {
	// Paused has the types whose turns do not begin.
	Paused map[string]Pause
	// Quotas bound the app as a whole, by name.
	Quotas map[Quota]Rate
	// Stored bounds what the app stores.
	Stored map[Quota]int64
	// Limits bound types and methods.
	Limits map[LimitScope]Limit
}

// Pause says what happens to calls of a type that is paused.
type Pause struct {
	// Refuse refuses them at once. Otherwise they wait, for as long as a turn of the type may take.
	Refuse bool `json:"refuse,omitempty"`
}

// Quota names what an app may have only so much of.
type Quota string

// The quotas.
const (
	QuotaTurns Quota = "turns" // turns per second
	QuotaFuel  Quota = "fuel"  // units of fuel per second

	QuotaActors    Quota = "actors"    // actors with a state
	QuotaBytes     Quota = "bytes"     // of their states, as stored
	QuotaReminders Quota = "reminders" // reminders that are set
	QuotaMessages  Quota = "messages"  // durable messages that nobody has consumed
)

// Quotas are all quotas.
func Quotas() []Quota { return append([]Quota{QuotaTurns, QuotaFuel}, StoredQuotas()...) }

// StoredQuotas are those that bound what is stored.
func StoredQuotas() []Quota { return []Quota{QuotaActors, QuotaBytes, QuotaReminders, QuotaMessages} }

// Stored is what an app stores, or what that grows by.
type Stored struct{ Actors, Bytes, Reminders, Messages int64 }

// Of returns the part that a quota bounds; nil: it bounds nothing that is stored.
func (s *Stored) Of(q Quota) *int64 {
	switch q {
	case QuotaActors:
		return &s.Actors
	case QuotaBytes:
		return &s.Bytes
	case QuotaReminders:
		return &s.Reminders
	case QuotaMessages:
		return &s.Messages
	}
	return nil
}

// Add adds another one, so many times.
func (s *Stored) Add(o Stored, times int64) {
	for _, q := range StoredQuotas() {
		*s.Of(q) += times * *o.Of(q)
	}
}

// StoredLimit is the value of the setting of such a quota.
type StoredLimit struct {
	Most int64 `json:"most"`
}

// Rate is a number per second, and how much may come at once.
type Rate struct {
	PerSecond float64 `json:"per_second,omitempty"`
	// Burst defaults to what a second brings, at least 1.
	Burst float64 `json:"burst,omitempty"`
}

// LimitScope is an actor type, or one method of it.
type LimitScope struct {
	Type   string
	Method string // empty: all methods of the type together
}

// String returns type or type/method.
func (s LimitScope) String() string {
	if s.Method == "" {
		return s.Type
	}
	return s.Type + "/" + s.Method
}

// LimitKey says whose calls a [Limit] counts together.
type LimitKey string

// The keys of limits.
const (
	PerNone  LimitKey = ""      // all calls of the scope
	PerActor LimitKey = "actor" // those of one actor
	PerToken LimitKey = "token" // those that one token admitted; those of actors and reminders are one key
)

// Limit bounds the turns of a [LimitScope].
type Limit struct {
	// Rate bounds the turns that begin, of each key. Zero: no bound.
	Rate
	// Concurrency bounds the turns that run at the same time, of all keys together. Others wait, and
	// keys have the places in turn. Zero: no bound.
	Concurrency int `json:"concurrency,omitempty"`
	// Per is the key.
	Per LimitKey `json:"per,omitempty"`
	// Pool is the pool in which turns wait for a processor, before what the server and the manifest
	// say. A host that has no such pool goes by those.
	Pool string `json:"pool,omitempty"`
}

// maxRate bounds rates and bursts.
const maxRate = 1e15

// Validate reports the first field that cannot be, as an [*ArgumentError]; of is whose rate it is.
func (r Rate) Validate(of string) error {
	switch {
	case !(r.PerSecond >= 0 && r.PerSecond <= maxRate):
		return &ArgumentError{Field: of, Problem: fmt.Sprintf("has the rate %v per second; give a number from 0 to 1e15", r.PerSecond)}
	case !(r.Burst >= 0 && r.Burst <= maxRate):
		return &ArgumentError{Field: of, Problem: fmt.Sprintf("has the burst %v; give a number from 0 to 1e15", r.Burst)}
	case r.Burst > 0 && r.PerSecond == 0:
		return &ArgumentError{Field: of, Problem: "has a burst and no rate; give the rate too"}
	case r.Burst > 0 && r.Burst < 1:
		return &ArgumentError{Field: of, Problem: fmt.Sprintf("has the burst %v; give at least 1, or nothing would be admitted", r.Burst)}
	}
	return nil
}

// Validate reports the first field that cannot be, as an [*ArgumentError].
func (l Limit) Validate() error {
	if err := l.Rate.Validate("limit"); err != nil {
		return err
	}
	switch {
	case l.Concurrency < 0:
		return &ArgumentError{Field: "limit", Problem: fmt.Sprintf("has the concurrency %d; give a number above 0", l.Concurrency)}
	case l.Per != PerNone && l.Per != PerActor && l.Per != PerToken:
		return &ArgumentError{Field: "limit", Problem: fmt.Sprintf("is per %q; give actor or token, or leave it out", l.Per)}
	case l.Pool != "" && ValidateName("pool", l.Pool) != nil:
		return ValidateName("pool", l.Pool)
	case l.Per != PerNone && l.PerSecond == 0 && l.Concurrency == 0:
		return &ArgumentError{Field: "limit", Problem: "says per what, and bounds nothing; give a rate or a concurrency"}
	}
	return nil
}

// LimitError is a call that a pause, a quota or a limit refuses. It is its Condition as well, and its
// text is safe to show to users.
type LimitError struct {
	Condition *Condition // ErrTypePaused, ErrQuotaExceeded or ErrRateLimited
	Reason    string
	// RetryAfter is how long to wait before trying again; 0: not known.
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return e.Condition.text + ": " + e.Reason }

// Unwrap makes it the condition.
func (e *LimitError) Unwrap() error { return e.Condition }

// The kinds of settings that are rules. The name of a pause is the type, that of a limit is its scope.
const (
	SettingPause SettingKind = "pause"
	SettingQuota SettingKind = "quota"
	SettingLimit SettingKind = "limit"
)

// Add adds what a setting of a kind of rules says, and reports false if this version cannot read it.
func (r *Rules) Add(s Setting) bool {
	switch s.Kind {
	case SettingPause:
		return add(&r.Paused, s.Name, s.Value)
	case SettingQuota:
		if new(Stored).Of(Quota(s.Name)) == nil {
			return add(&r.Quotas, Quota(s.Name), s.Value)
		}
		var limits map[Quota]StoredLimit
		if !add(&limits, Quota(s.Name), s.Value) {
			return false
		}
		if r.Stored == nil {
			r.Stored = make(map[Quota]int64)
		}
		r.Stored[Quota(s.Name)] = limits[Quota(s.Name)].Most
		return true
	case SettingLimit:
		return add(&r.Limits, ParseLimitScope(s.Name), s.Value)
	}
	return false
}

func add[K comparable, V any](to *map[K]V, key K, value []byte) bool {
	var v V
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	if *to == nil {
		*to = make(map[K]V)
	}
	(*to)[key] = v
	return true
}

// ParseLimitScope reads what [LimitScope.String] wrote.
func ParseLimitScope(text string) LimitScope {
	typ, method, _ := strings.Cut(text, "/")
	return LimitScope{Type: typ, Method: method}
}
