package modules

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/store"
)

// reminderWarnings say which reminders a change leaves without a method.
type reminderWarnings struct {
	reminders Reminders
	log       *slog.Logger
}

// removedMethod is a method that a change takes away from a type.
type removedMethod struct{ typ, method string }

// warnOfUndeployed says which reminders are of types that were taken out of service.
func (w reminderWarnings) warnOfUndeployed(ctx context.Context, app string, types []string) []string {
	if w.reminders == nil || len(types) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, remindersTime)
	defer cancel()
	var warnings []string
	for _, typ := range types {
		named, all, err := w.methodsOfReminders(ctx, app, typ)
		if err != nil {
			w.log.Warn("reminders of a type that is out of service were not looked at", "app", app, "actor_type", typ, "error", err)
		}
		count := 0
		for _, n := range named {
			count += n
		}
		switch number := fmt.Sprint(count); {
		case !all && count == 0:
			warnings = append(warnings, fmt.Sprintf("%s: its reminders were not looked at; if there are any, %s", typ, firingsWait))
		case !all:
			warnings = append(warnings, fmt.Sprintf("%s: at least %s reminder(s) are set, and not all of them were looked at; %s", typ, number, firingsWait))
		case count > 0:
			warnings = append(warnings, fmt.Sprintf("%s: %s reminder(s) are set; %s", typ, number, firingsWait))
		}
	}
	return warnings
}

// firingsWait is what happens to firings that nothing serves.
const firingsWait = "their firings wait: delete them, or deploy it again"

// Of each type at most so many reminders are looked at for a warning, so many at once
// since their payloads come with them, and for so long.
const (
	remindersLooked = 10_000
	remindersPage   = 100
	remindersTime   = 5 * time.Second
)

// warnOfReminders says which reminders name methods that were taken away. What cannot be
// found out is said as well: the deployment has taken place.
func (w reminderWarnings) warnOfReminders(ctx context.Context, app string, removed []removedMethod) []string {
	if w.reminders == nil || len(removed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, remindersTime)
	defer cancel()
	var warnings []string
	for i, r := range removed {
		if i > 0 && removed[i-1].typ == r.typ {
			continue // those of a type are together
		}
		named, all, err := w.methodsOfReminders(ctx, app, r.typ)
		if err != nil {
			w.log.Warn("reminders were not looked at for methods that are gone", "app", app, "actor_type", r.typ, "error", err)
		}
		for _, m := range removed[i:] {
			if m.typ != r.typ || named[m.method] == 0 {
				continue
			}
			number := fmt.Sprint(named[m.method])
			if !all {
				number = "at least " + number
			}
			warnings = append(warnings, fmt.Sprintf("%s: %s reminder(s) name the method %s, which is gone; %s",
				m.typ, number, m.method, firingsWait))
		}
		if !all {
			warnings = append(warnings, fmt.Sprintf("%s: not all of its reminders were looked at; others may name methods that are gone", r.typ))
		}
	}
	return warnings
}

// methodsOfReminders counts the reminders of a type by the methods that they name, and
// reports whether it saw all of them.
func (w reminderWarnings) methodsOfReminders(ctx context.Context, app, typ string) (named map[string]int, all bool, err error) {
	named = map[string]int{}
	q := store.ReminderQuery{App: app, Type: typ, Limit: remindersPage}
	for range remindersLooked / remindersPage {
		page, next, err := w.reminders.ListReminders(ctx, q)
		if err != nil {
			return named, false, err
		}
		for i := range page {
			named[page[i].Method]++
		}
		if next.Name == "" {
			return named, true, nil
		}
		q.After = next
	}
	return named, false, nil
}
