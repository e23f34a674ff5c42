package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// reminderFlags are what a reminder is made from, beside its arguments.
type reminderFlags struct {
	at, cron, zone, until       string
	after, every, ttl, jitter   time.Duration
	times                       uint32
	missed                      string
	missedLimit                 uint32
	missedAfter                 time.Duration
	failure                     string
	attempts                    uint32
	retryInterval, retryLongest time.Duration
	metadata                    []string
	contentType                 string
	keep, paused                bool
}

func remindersCreateCommand(c *cli) *cobra.Command {
	var f reminderFlags
	cmd := &cobra.Command{
		Use:        "create TYPE ID NAME METHOD [PAYLOAD]",
		SuggestFor: []string{"set", "add"},
		Short:      "Set a reminder",
		Long: `Set a reminder: METHOD of the actor is run with PAYLOAD when it is due, as a turn that
takes effect once. One of the same name is replaced, or kept with --keep. PAYLOAD is
given as to "greenroom call".

A reminder for subscribers has the type greenroom.subscription, the name that they
subscribe to as its ID, and no METHOD: PAYLOAD follows NAME.

Without --at and --after, the first occurrence is one period from now with --every, or
at the next match of --cron. With none of --at, --after, --every and --cron the reminder
fires at once, and once; so does one whose time is past.

Times are given as 2026-12-24T18:00:00Z (RFC 3339), or as "2026-12-24 18:00" in the
zone of this machine. Durations are like 90s, 1h30m or 250ms.`,
		Example: `  greenroom reminders create Cart alice expire Expire --after 30m
  greenroom reminders create Meter m1 read Read '{"unit": "kWh"}' --every 15m --jitter 30s
  greenroom reminders create Report eu weekly Send --cron '0 9 * * MON' --zone Europe/Berlin
  greenroom reminders create Order 17 charge Charge --failure exponential --attempts 8 --retry-interval 1m
  greenroom reminders create greenroom.subscription invoices eu '{"region": "eu"}' --cron '0 6 1 * *'`,
		Args:              takesReminder,
		ValidArgsFunction: complete{c}.newReminder,
		RunE: func(cmd *cobra.Command, args []string) error {
			return createReminder(c, cmd, args, &f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.at, "at", "", "due at this `time`")
	flags.DurationVar(&f.after, "after", 0, "due after this `time`")
	flags.DurationVar(&f.every, "every", 0, "again and again, with this `period`; at least 1ms")
	flags.StringVar(&f.cron, "cron", "", "again and again, as this `expression` says: minute, hour, day of the month, month, day of the week")
	flags.StringVar(&f.zone, "zone", "", "time `zone` of --cron, such as Europe/Berlin (default UTC)")
	flags.Uint32Var(&f.times, "times", 0, "this `number` of times; 0, the default: no limit")
	flags.StringVar(&f.until, "until", "", "not after this `time`")
	flags.DurationVar(&f.ttl, "ttl", 0, "not after this `time` from now")
	flags.DurationVar(&f.jitter, "jitter", 0, "delay each delivery by up to this `time`; a reminder always has the same delay")
	flags.StringVar(&f.missed, "missed", "", "`policy` for what was missed: collapse (default), skip or catchup")
	flags.Uint32Var(&f.missedLimit, "missed-limit", 0, "for catchup: at most this `number` (default 100)")
	flags.DurationVar(&f.missedAfter, "missed-after", 0, "for skip: an occurrence is missed if it is later than this `time` (default 1m)")
	flags.StringVar(&f.failure, "failure", "", "`policy` for turns that fail: constant (default), exponential or drop")
	flags.Uint32Var(&f.attempts, "attempts", 0, "deliver at most this `number` of times, then it is a dead letter; 0: the default, 3")
	flags.DurationVar(&f.retryInterval, "retry-interval", 0, "wait this `time` before the second attempt (default 1s)")
	flags.DurationVar(&f.retryLongest, "retry-longest", 0, "for exponential: wait at most this `time` (default 1h)")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "`key=value` that the method finds beside the payload; may be repeated")
	flags.StringVar(&f.contentType, "content-type", actor.ContentTypeJSON, "media `type` of the payload")
	flags.BoolVar(&f.keep, "keep", false, "leave a reminder of that name as it is")
	flags.BoolVar(&f.paused, "paused", false, "set it paused: it does not fire before it is resumed")
	completeFlag(cmd, "missed", fixedCompletion("collapse", "skip", "catchup"))
	completeFlag(cmd, "failure", fixedCompletion("constant", "exponential", "drop"))
	return cmd
}

// takesReminder is what create takes: a reminder for subscribers runs no method.
func takesReminder(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == actor.SubscriptionType {
		return takes("TYPE", "ID", "NAME", "[PAYLOAD]")(cmd, args)
	}
	return takes("TYPE", "ID", "NAME", "METHOD", "[PAYLOAD]")(cmd, args)
}

func createReminder(c *cli, cmd *cobra.Command, args []string, f *reminderFlags) error {
	key, err := actorKey(c, args[0], args[1])
	if err != nil {
		return err
	}
	if err := actor.ValidateReminderName(args[2]); err != nil {
		return err
	}
	method, payload := "", args[3:]
	if args[0] != actor.SubscriptionType {
		method, payload = args[3], args[4:]
		if err := actor.ValidateName("method", method); err != nil {
			return err
		}
	}
	spec, err := f.spec(cmd)
	if err != nil {
		return err
	}
	spec.Method = method
	if len(payload) > 0 {
		if spec.Payload, err = readPayload(cmd.Context(), c, payload[0], f.contentType); err != nil {
			return err
		}
		spec.ContentType = f.contentType
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	resp, err := unary(cmd.Context(), a.reminders.CreateReminder, &greenroomv1.CreateReminderRequest{Actor: key, Name: args[2], Spec: spec, Keep: f.keep, Paused: f.paused})
	if err != nil {
		return withNearest(cmd.Context(), c, a, err, args[:1], method)
	}
	if c.wantsJSON() {
		return c.writeMessage(resp)
	}
	said := map[greenroomv1.CreateOutcome]string{
		greenroomv1.CreateOutcome_CREATE_OUTCOME_CREATED:  "set",
		greenroomv1.CreateOutcome_CREATE_OUTCOME_REPLACED: "replaced",
		greenroomv1.CreateOutcome_CREATE_OUTCOME_KEPT:     "kept",
	}[resp.Outcome]
	r := resp.Reminder
	c.printf(c.stderr, "%s %s of %s %s, due %s\n", said, r.Name, r.Actor.GetType(), r.Actor.GetId(), when(r.Due))
	return nil
}

// spec is what the flags say.
func (f *reminderFlags) spec(cmd *cobra.Command) (*greenroomv1.ReminderSpec, error) {
	given := cmd.Flags().Changed
	duration := func(flag string, d time.Duration) *durationpb.Duration {
		if !given(flag) {
			return nil
		}
		return durationpb.New(d)
	}
	for _, pair := range [][2]string{{"at", "after"}, {"every", "cron"}, {"until", "ttl"}} {
		if given(pair[0]) && given(pair[1]) {
			return nil, usagef("--%s and --%s exclude each other; give one", pair[0], pair[1])
		}
	}
	s := &greenroomv1.ReminderSchedule{Every: duration("every", f.every), Cron: f.cron, Zone: f.zone, Times: f.times, Jitter: duration("jitter", f.jitter)}
	at, err := timeFlag("at", f.at)
	if err != nil {
		return nil, err
	}
	until, err := timeFlag("until", f.until)
	if err != nil {
		return nil, err
	}
	switch {
	case at != nil:
		s.First = &greenroomv1.ReminderSchedule_At{At: at}
	case given("after"):
		s.First = &greenroomv1.ReminderSchedule_After{After: durationpb.New(f.after)}
	}
	switch {
	case until != nil:
		s.End = &greenroomv1.ReminderSchedule_Until{Until: until}
	case given("ttl"):
		s.End = &greenroomv1.ReminderSchedule_Ttl{Ttl: durationpb.New(f.ttl)}
	}
	spec := &greenroomv1.ReminderSpec{
		Schedule: s,
		Missed:   &greenroomv1.MissedPolicy{Limit: f.missedLimit, After: duration("missed-after", f.missedAfter)},
		Failure: &greenroomv1.FailurePolicy{
			Attempts: f.attempts, Interval: duration("retry-interval", f.retryInterval), MaxInterval: duration("retry-longest", f.retryLongest),
		},
	}
	if spec.Missed.Kind, err = wordFlag("missed", f.missed, missedWords); err != nil {
		return nil, err
	}
	if spec.Failure.Kind, err = wordFlag("failure", f.failure, failureWords); err != nil {
		return nil, err
	}
	for _, pair := range f.metadata {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, usagef("--metadata is %q; give KEY=VALUE", pair)
		}
		if spec.Metadata == nil {
			spec.Metadata = map[string]string{}
		}
		spec.Metadata[k] = v
	}
	return spec, nil
}
