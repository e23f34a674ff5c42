package dapr

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/reminders"
	"github.com/greenroom-run/greenroom/store"
)

// Reminders reads reminders.
type Reminders interface {
	// Now is database time; zero before there are reminders.
	Now() time.Time
	Get(ctx context.Context, name actor.ReminderName) (actor.Reminder, error)
	List(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error)
}

// remindersForm is the plain HTTP form of reminders.
type remindersForm struct {
	reader Reminders
	setter reminders.Setter
}

func (f remindersForm) validateName(name string) error { return actor.ValidateReminderName(name) }

func (f remindersForm) get(ctx context.Context, name actor.ReminderName) (any, error) {
	found, err := f.reader.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return encodeReminder(&found), nil
}

// list returns a page of an actor's reminders, those after a name.
func (f remindersForm) list(ctx context.Context, after actor.ReminderName) (any, error) {
	q := store.ReminderQuery{App: after.Key.App, Type: after.Key.Type, ID: after.Key.ID, Limit: reminders.PayloadPage, After: after}
	found, next, err := f.reader.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := listedReminders{Reminders: make([]namedReminder, len(found)), After: next.Name}
	for i := range found {
		out.Reminders[i] = namedReminder{found[i].Name, encodeReminder(&found[i])}
	}
	return out, nil
}

func (f remindersForm) put(ctx context.Context, name actor.ReminderName, body []byte) error {
	now := f.reader.Now()
	if now.IsZero() {
		return fmt.Errorf("%w: reminders have not started", actor.ErrNoTokens)
	}
	spec, err := decodeReminder(body, name, now)
	if err != nil {
		return err
	}
	spec.Key, spec.Name = name.Key, name.Name
	_, _, err = f.setter.Set(ctx, spec)
	return err
}

func (f remindersForm) remove(ctx context.Context, name actor.ReminderName) error {
	_, err := f.setter.Remove(ctx, name)
	return err
}

// listedReminders is a page of an actor's reminders, in byte order of their names.
type listedReminders struct {
	Reminders []namedReminder `json:"reminders"`
	// After is what the next page is asked for with, as ?after=; absent: this is the last.
	After string `json:"after,omitempty"`
}

type namedReminder struct {
	Name string `json:"name"`
	wireReminder
}

// wireReminder is a reminder in JSON: the members that Dapr has, and then ours.
type wireReminder struct {
	// DueTime is a time or a duration; at once, if it is empty.
	DueTime string `json:"dueTime,omitempty"`
	// Period is a duration, or repetitions with one: R5/PT1M.
	Period string `json:"period,omitempty"`
	// TTL is a time or a duration.
	TTL  string          `json:"ttl,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	// Overwrite replaces a reminder of that name; otherwise it is kept. Absent: true.
	Overwrite     *bool              `json:"overwrite,omitempty"`
	FailurePolicy *wireFailurePolicy `json:"failurePolicy,omitempty"`

	// Method is what a firing runs; the reminder's name, if it is empty.
	Method string `json:"method,omitempty"`
	// ContentType is the data's; if it is not JSON, the data is base64 in a string.
	ContentType string            `json:"contentType,omitempty"`
	Cron        string            `json:"cron,omitempty"`
	Zone        string            `json:"zone,omitempty"`
	Jitter      string            `json:"jitter,omitempty"`
	Missed      string            `json:"missed,omitempty"` // collapse, skip, catchup
	MissedLimit uint32            `json:"missedLimit,omitempty"`
	MissedAfter string            `json:"missedAfter,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`

	wireProgress
}

// wireProgress is what only answers have.
type wireProgress struct {
	ID        string `json:"id,omitempty"`
	Paused    bool   `json:"paused,omitempty"`
	Failures  uint32 `json:"failures,omitempty"`
	LastError string `json:"lastError,omitempty"`
}

// wireFailurePolicy has one of its members.
type wireFailurePolicy struct {
	Drop        *struct{}  `json:"drop,omitempty"`
	Constant    *wireRetry `json:"constant,omitempty"`
	Exponential *wireRetry `json:"exponential,omitempty"`
}

type wireRetry struct {
	Interval    string `json:"interval,omitempty"`
	MaxInterval string `json:"maxInterval,omitempty"`
	// MaxRetries counts the deliveries after the first. Absent: 2.
	MaxRetries *uint32 `json:"maxRetries,omitempty"`
}

// decodeMembers reads a JSON object, of a reminder or a timer, into one that has all the
// members that it may have. An empty body has none.
func decodeMembers(body []byte, what string, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields() // a misspelt period would fire once
	err := d.Decode(into)
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) {
		return &actor.ArgumentError{Field: cmp.Or(other.Field, "body"), Problem: fmt.Sprintf("is the JSON %s; give %s", other.Value, jsonKind(other.Type))}
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return &actor.ArgumentError{Field: "body", Problem: "has the unknown member " + name + "; known are " + strings.Join(membersOf(reflect.TypeOf(into).Elem()), ", ")}
		}
		return &actor.ArgumentError{Field: "body", Problem: "is not a " + what + " in JSON: " + err.Error()}
	}
	return nil
}

// membersOf returns the members of the JSON that a type of structure is decoded from, and in
// parentheses those of objects in it.
func membersOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
		case kind.Kind() == reflect.Struct && kind.NumField() > 0:
			names = append(names, name+" ("+strings.Join(membersOf(kind), ", ")+")")
		default:
			names = append(names, name)
		}
	}
	return names
}

// jsonKind says in JSON's words what a value of type t is decoded from.
func jsonKind(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // what members have
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint32:
		return "a whole number, 0 or more"
	default:
		return "an object"
	}
}

// decodeReminder reads a reminder, without what it is for.
func decodeReminder(body []byte, name actor.ReminderName, now time.Time) (actor.ReminderSpec, error) {
	var in wireReminder
	if err := decodeMembers(body, "reminder", &in); err != nil {
		return actor.ReminderSpec{}, err
	}
	if in.wireProgress != (wireProgress{}) {
		return actor.ReminderSpec{}, &actor.ArgumentError{Field: "body", Problem: "has a member that only answers have (id, paused, failures, lastError); leave it out"}
	}
	spec := actor.ReminderSpec{
		Method: in.Method, Metadata: in.Metadata, Keep: in.Overwrite != nil && !*in.Overwrite,
		Schedule: actor.Schedule{Cron: in.Cron, Zone: in.Zone},
		Missed:   actor.MissedPolicy{Limit: in.MissedLimit},
	}
	if spec.Method == "" && !name.Key.IsSubscription() {
		spec.Method = name.Name
		if actor.ValidateName("method", name.Name) != nil {
			return spec, &actor.ArgumentError{Field: "method", Problem: "is missing, and the reminder's name is no name of a method; say which method a firing runs"}
		}
	}
	err := errors.Join( // the first one counts: all are about the same request
		in.decodeSchedule(&spec.Schedule, now),
		in.decodePolicies(&spec),
		in.decodeData(&spec.Payload),
	)
	return spec, err
}

func (in *wireReminder) decodeSchedule(s *actor.Schedule, now time.Time) error {
	var err error
	if in.DueTime == "" {
		s.At = now
		if in.Cron != "" {
			s.At = time.Time{}
		}
	} else if s.At, s.After, err = parseMoment("dueTime", in.DueTime); err != nil {
		return err
	}
	if s.At.IsZero() && s.After == 0 && in.Cron == "" {
		s.At = now // without a delay, not after one period
	}
	if in.Period != "" {
		if s.Every, s.Times, err = parsePeriod(in.Period); err != nil {
			return err
		}
	}
	if in.Jitter != "" {
		if s.Jitter, err = parseDuration("jitter", in.Jitter); err != nil {
			return err
		}
	}
	if in.TTL == "" {
		return nil
	}
	var ttl time.Duration
	if s.Until, ttl, err = parseMoment("ttl", in.TTL); err != nil || !s.Until.IsZero() {
		return err
	}
	s.Until, err = reminders.EndAfter(ttl, now)
	return err
}

func (in *wireReminder) decodePolicies(spec *actor.ReminderSpec) error {
	var err error
	if in.Missed != "" {
		known := false
		for kind, word := range reminders.MissedNames {
			if word == in.Missed {
				spec.Missed.Kind, known = kind, true
			}
		}
		if !known {
			return &actor.ArgumentError{Field: "missed", Problem: fmt.Sprintf("is %q; give collapse, skip or catchup", in.Missed)}
		}
	}
	if in.MissedAfter != "" {
		if spec.Missed.After, err = parseDuration("missedAfter", in.MissedAfter); err != nil {
			return err
		}
	}
	p := in.FailurePolicy
	if p == nil {
		return nil
	}
	var retry *wireRetry
	switch {
	case p.Drop != nil && p.Constant == nil && p.Exponential == nil:
		spec.Failure.Kind = actor.FailureDrop
		return nil
	case p.Drop == nil && p.Constant != nil && p.Exponential == nil:
		retry = p.Constant
	case p.Drop == nil && p.Constant == nil && p.Exponential != nil:
		spec.Failure.Kind, retry = actor.FailureExponential, p.Exponential
	default:
		return &actor.ArgumentError{Field: "failurePolicy", Problem: "has not one member; give drop, constant or exponential"}
	}
	if retry.MaxRetries != nil {
		if *retry.MaxRetries == math.MaxUint32 {
			return &actor.ArgumentError{Field: "maxRetries", Problem: fmt.Sprintf("is %d; give less than %d", *retry.MaxRetries, actor.MaxAttempts)}
		}
		spec.Failure.Attempts = *retry.MaxRetries + 1
	}
	if retry.Interval != "" {
		if spec.Failure.Interval, err = parseDuration("interval", retry.Interval); err != nil {
			return err
		}
	}
	if retry.MaxInterval != "" {
		spec.Failure.Max, err = parseDuration("maxInterval", retry.MaxInterval)
	}
	return err
}

func (in *wireReminder) decodeData(p *actor.Payload) error {
	p.ContentType = in.ContentType
	if len(in.Data) == 0 || string(in.Data) == "null" {
		return nil
	}
	if !actor.IsJSON(in.ContentType) {
		var text string
		if json.Unmarshal(in.Data, &text) != nil {
			return &actor.ArgumentError{Field: "data", Problem: "is not a string; give data that is not JSON in base64"}
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return &actor.ArgumentError{Field: "data", Problem: "is not base64: " + err.Error()}
		}
		p.Data = data
		return nil
	}
	var b bytes.Buffer
	err := json.Compact(&b, in.Data)
	p.Data = b.Bytes()
	return err
}

// encodeReminder returns a reminder in members that could set it again.
func encodeReminder(r *actor.Reminder) wireReminder {
	out := wireReminder{
		DueTime: r.Due.UTC().Format(time.RFC3339Nano), Method: r.Method, ContentType: r.Payload.ContentType,
		Cron: r.Schedule.Cron, Zone: r.Schedule.Zone, Jitter: durationText(r.Schedule.Jitter),
		Missed: reminders.MissedNames[r.Missed.Kind], MissedLimit: r.Missed.Limit, MissedAfter: durationText(r.Missed.After), Metadata: r.Metadata,
		wireProgress: wireProgress{ID: r.ID.String(), Paused: r.Paused, Failures: r.Failures, LastError: r.LastError},
	}
	if r.Schedule.Every > 0 {
		if out.Period = isoDuration(r.Schedule.Every); r.Left > 0 {
			out.Period = "R" + strconv.FormatUint(uint64(r.Left), 10) + "/" + isoDuration(r.Schedule.Every)
		}
	}
	if !r.Schedule.Until.IsZero() {
		out.TTL = r.Schedule.Until.UTC().Format(time.RFC3339Nano)
	}
	switch data := r.Payload.Data; {
	case len(data) == 0:
	case actor.IsJSON(r.Payload.ContentType) && json.Valid(data):
		out.Data = data
	default:
		out.Data, _ = json.Marshal(data) // base64; bytes are never refused
	}
	retry := &wireRetry{Interval: durationText(r.Failure.Interval), MaxInterval: durationText(r.Failure.Max)}
	if r.Failure.Attempts > 0 {
		retries := r.Failure.Attempts - 1
		retry.MaxRetries = &retries
	}
	switch {
	case r.Failure.Kind == actor.FailureDrop:
		out.FailurePolicy = &wireFailurePolicy{Drop: &struct{}{}}
	case r.Failure.Kind == actor.FailureExponential:
		out.FailurePolicy = &wireFailurePolicy{Exponential: retry}
	case *retry != (wireRetry{}):
		out.FailurePolicy = &wireFailurePolicy{Constant: retry}
	}
	return out
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return isoDuration(d)
}
