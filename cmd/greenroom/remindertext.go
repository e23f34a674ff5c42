package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// scheduleText says in a few words when a reminder comes.
func scheduleText(r *greenroomv1.Reminder) string {
	s := r.Spec.GetSchedule()
	text := "once"
	switch {
	case s.GetCron() != "":
		if text = s.GetCron(); s.GetZone() != "" {
			text += " " + s.GetZone()
		}
	case s.GetEvery() != nil:
		text = "every " + s.GetEvery().AsDuration().String()
	default:
		return text
	}
	if r.Left > 0 {
		text += fmt.Sprintf(", %d left", r.Left)
	}
	return text
}

// overdueAfter is how late a delivery is that something holds up, beyond what clocks
// differ by and a delivery takes.
const overdueAfter = 5 * time.Second

// reminderState describes the state of a reminder.
func reminderState(r *greenroomv1.Reminder, now time.Time) string {
	var words []string
	if r.Paused {
		words = append(words, "paused")
	}
	if r.Failures > 0 {
		words = append(words, fmt.Sprintf("retrying (attempt %d of %d)", r.Failures+1, max(attemptsOf(r.Spec.GetFailure()), r.Failures+1)))
	}
	if late := now.Sub(r.FireAt.AsTime()) > overdueAfter; late && !r.Paused {
		word := "overdue"
		switch {
		case r.LastError != "" && r.Failures == 0:
			word += ": " + r.LastError
		case r.Actor.GetType() == actor.SubscriptionType && r.Failures == 0:
			word += ": no subscriber has answered"
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, ", "), "waiting")
}

// attemptsOf is how often a firing is delivered at most.
func attemptsOf(p *greenroomv1.FailurePolicy) uint32 {
	if n := p.GetAttempts(); n > 0 {
		return n
	}
	return actor.DefaultAttempts
}

// payloadText shows a payload that is short and JSON, and the size of others.
func payloadText(spec *greenroomv1.ReminderSpec) string {
	n := len(spec.GetPayload())
	switch {
	case n == 0:
		return ""
	case actor.IsJSON(spec.GetContentType()) && n <= 200:
		return string(spec.GetPayload())
	}
	return size(int64(n))
}

func missedText(p *greenroomv1.MissedPolicy) string {
	text := missedWords[p.GetKind()]
	switch {
	case p.GetLimit() > 0:
		text += fmt.Sprintf(", at most %d", p.GetLimit())
	case p.GetAfter() != nil:
		text += " after " + p.GetAfter().AsDuration().String()
	}
	return text
}

func failureText(p *greenroomv1.FailurePolicy) string {
	text := failureWords[p.GetKind()]
	if p.GetKind() == greenroomv1.FailureKind_FAILURE_KIND_DROP {
		return text
	}
	text += fmt.Sprintf(", %d attempts", attemptsOf(p))
	if p.GetInterval() != nil {
		text += ", " + p.GetInterval().AsDuration().String()
	}
	if p.GetMaxInterval() != nil {
		text += " up to " + p.GetMaxInterval().AsDuration().String()
	}
	return text
}

var missedWords = map[greenroomv1.MissedKind]string{
	greenroomv1.MissedKind_MISSED_KIND_COLLAPSE: "collapse",
	greenroomv1.MissedKind_MISSED_KIND_SKIP:     "skip",
	greenroomv1.MissedKind_MISSED_KIND_CATCH_UP: "catchup",
}

var failureWords = map[greenroomv1.FailureKind]string{
	greenroomv1.FailureKind_FAILURE_KIND_CONSTANT:    "constant",
	greenroomv1.FailureKind_FAILURE_KIND_EXPONENTIAL: "exponential",
	greenroomv1.FailureKind_FAILURE_KIND_DROP:        "drop",
}

// wordFlag returns what a word of a flag stands for; the zero value if it is not given.
func wordFlag[K comparable](flag, word string, words map[K]string) (kind K, err error) {
	if word == "" {
		return kind, nil
	}
	var all []string
	for k, w := range words {
		if w == word {
			return k, nil
		}
		all = append(all, w)
	}
	return kind, usagef("--%s is %q; give one of %s", flag, word, strings.Join(sorted(all), ", "))
}

// timeFlag reads a time; nil if there is none.
func timeFlag(flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(t), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return timestamppb.New(t), nil
		}
	}
	return nil, usagef("--%s is %q; give a time such as 2026-12-24T18:00:00Z or \"2026-12-24 18:00\"", flag, text)
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

// senderText is who sent a message, for people.
func senderText(m *greenroomv1.MessageDetails) string {
	switch from := m.GetFrom(); {
	case m.GetFailed() != "":
		return "(undelivered) " + from.GetType() + " " + from.GetId()
	case from == nil:
		return "outside"
	case m.GetBy() != nil:
		return from.GetType() + " " + from.GetId() + ", by " + m.GetBy().GetType() + " " + m.GetBy().GetId()
	default:
		return from.GetType() + " " + from.GetId()
	}
}
