package activation

import (
	"slices"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestMessagesThatWaitForASet: a commit takes the messages that wait if it leaves the actor with a set in which they do
// not, or ends its life. What waits in several sets, since some were refused before the commit of the set, is taken with the
// next one. The account of memory follows.
func TestMessagesThatWaitForASet(t *testing.T) {
	firing := func(token uint32) *actor.Firing { return &actor.Firing{Reminder: actor.ReminderID{Token: token}} }
	become := func(set string) *actor.RowWrite { return &actor.RowWrite{MethodSet: &set} }
	for name, tc := range map[string]struct {
		in   []string // the sets in which the messages 0, 1, … are refused
		by   *actor.RowWrite
		want int
	}{
		"another set":                   {[]string{"a", "a"}, become("b"), 2},
		"the same set":                  {[]string{"a", "a"}, become("a"), 0},
		"no set":                        {[]string{"a"}, become(""), 1},
		"no set, refused in several":    {[]string{"a", "b"}, become(""), 2},
		"the last of several sets":      {[]string{"a", "b"}, become("b"), 2},
		"the first of several sets":     {[]string{"a", "b"}, become("a"), 2},
		"the last of three refusals":    {[]string{"a", "b", "b"}, become("b"), 3},
		"a commit that sets none":       {[]string{"a"}, new(actor.RowWrite), 0},
		"the end of the life":           {[]string{"a"}, &actor.RowWrite{NewLife: true}, 1},
		"no message":                    {nil, become("a"), 0},
		"no message, the end of a life": {nil, &actor.RowWrite{NewLife: true}, 0},
	} {
		k := newKnown()
		k.Weigh()
		empty := k.Table.States.Load()
		for i, set := range tc.in {
			KeepWaiting(k.Activation, firing(uint32(i)), set)
			KeepWaiting(k.Activation, nil, set)
		}
		if got, want := k.Table.States.Load()-empty, int64(len(tc.in)*waitingCost); got != want {
			t.Errorf("%s: they count for %d bytes, want %d", name, got, want)
		}
		got := TakeWaiting(k.Activation, tc.by)
		var want []actor.ReminderID
		for i := range tc.want {
			want = append(want, firing(uint32(i)).Reminder)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: took %v, want %v", name, got, want)
		}
		if left, want := k.Table.States.Load()-empty, int64((len(tc.in)-tc.want)*waitingCost); left != want {
			t.Errorf("%s: what is left counts for %d bytes, want %d", name, left, want)
		}
		if len(got) == 0 {
			continue
		}
		KeepWaiting(k.Activation, firing(9), "c")
		if again := TakeWaiting(k.Activation, become("c")); len(again) > 0 {
			t.Errorf("%s: the set is not that of the messages that came afterwards", name)
		}
	}
}

// TestWaitingMessagesAreWeighed: what an activation remembers of messages counts in the table's memory
// until they are taken, each message once, and no more than maxWaiting.
func TestWaitingMessagesAreWeighed(t *testing.T) {
	k := newKnown()
	k.Weigh()
	empty := k.States.Load()
	become := &actor.RowWrite{NewLife: true}
	KeepWaiting(k.Activation, nil, "a")
	for n := range 2 * maxWaiting {
		f := &actor.Firing{Reminder: actor.ReminderID{Token: uint32(n)}}
		for range 2 {
			KeepWaiting(k.Activation, f, "a")
		}
		if got, want := k.States.Load(), empty+int64(min(n+1, maxWaiting))*waitingCost; got != want {
			t.Fatalf("after %d messages %d bytes count, want %d", n+1, got, want)
		}
	}
	if taken := TakeWaiting(k.Activation, become); len(taken) != maxWaiting || k.States.Load() != empty {
		t.Errorf("%d were taken, and %d bytes count, want %d", len(taken), k.States.Load(), empty)
	}
	if again := TakeWaiting(k.Activation, become); len(again) != 0 {
		t.Errorf("%d were taken twice", len(again))
	}
}
