package modules_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

// fakeReminders are so many of each type that name a method, in the order of the types.
type fakeReminders struct {
	app  string
	n    []int
	what []string // type.method
	err  error
}

func (f fakeReminders) ListReminders(_ context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	for i, what := range f.what {
		typ, method, _ := strings.Cut(what, ".")
		for j := range f.n[i] {
			r := actor.Reminder{ReminderSpec: actor.ReminderSpec{Key: actor.Key{App: f.app, Type: typ, ID: method}, Name: fmt.Sprintf("%09d", j), Method: method}}
			after := slices.Compare([]string{typ, method, r.Name}, []string{q.After.Key.Type, q.After.Key.ID, q.After.Name}) > 0
			if q.App == f.app && q.Type == typ && after && len(list) < q.Limit {
				list = append(list, r)
			}
		}
	}
	if len(list) == q.Limit {
		next = actor.ReminderName{Key: list[q.Limit-1].Key, Name: list[q.Limit-1].Name}
	}
	return list, next, f.err
}

// A deployment that takes a method away warns of the reminders that name it; one that
// takes none, or whose reminders name others, does not. Taking the type out of service warns
// of all of them, once.
func TestDeployWarnsOfReminders(t *testing.T) {
	const named = "reminder(s) name the method"
	for name, tt := range map[string]struct {
		reminders fakeReminders
		want      []string
		// undeployed is the warning of taking A out of service afterwards.
		undeployed string
	}{
		"none":              {fakeReminders{app: app}, nil, ""},
		"of other methods":  {fakeReminders{app: app, n: []int{3, 4}, what: []string{"A.Do", "B.Old"}}, nil, "A: 3 reminder(s) are set; their firings wait: delete them, or deploy it again"},
		"of another app":    {fakeReminders{app: "other", n: []int{3}, what: []string{"A.Old"}}, nil, ""},
		"of two methods":    {fakeReminders{app: app, n: []int{5, 250, 1}, what: []string{"A.Do", "A.Old", "A.Older"}}, []string{"A: 250 " + named + " Old", "A: 1 " + named + " Older"}, "A: 256 reminder(s) are set; their firings wait: delete them, or deploy it again"},
		"too many":          {fakeReminders{app: app, n: []int{10_001}, what: []string{"A.Old"}}, []string{"A: at least 10000 " + named + " Old", "A: not all"}, "A: at least 10000 reminder(s) are set, and not all of them were looked at; their firings wait: delete them, or deploy it again"},
		"that are not read": {fakeReminders{app: app, err: errors.New("no luck")}, []string{"A: not all"}, "A: its reminders were not looked at; if there are any, their firings wait: delete them, or deploy it again"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s, err := modules.New(modules.Config{Store: f.store, Inspector: f.inspector, PollInterval: time.Hour, Reminders: tt.reminders})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Stop(context.Background()) })
			f.Service = s
			f.deploy(f.upload(typ("A", "", "Do", "Old", "Older"), typ("B", "", "Old")))
			var got []string
			for _, w := range f.deploy(f.upload(typ("A", "", "Do"), typ("B", "", "Old"))) {
				if !strings.Contains(w, "calls of it fail") {
					got = append(got, w)
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			_, warned, err := f.Undeploy(t.Context(), modules.UndeployRequest{App: app, Types: []string{"A"}})
			if err != nil || strings.Join(warned, " ") != tt.undeployed {
				t.Errorf("undeployed: %q, %v; want %q", warned, err, tt.undeployed)
			}
			if _, warned, err = f.Undeploy(t.Context(), modules.UndeployRequest{App: app, Types: []string{"A"}}); err != nil || len(warned) > 0 {
				t.Errorf("undeployed again: %q, %v", warned, err)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("got %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}
