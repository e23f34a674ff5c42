package sqlstore

import (
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestRepeatsAskForAWhile holds the question to what a failed group costs: so
// many commits that record calls ask after a key was found, and no more.
func TestRepeatsAskForAWhile(t *testing.T) {
	var r repeats
	keyed := &attempt{commit: &actor.Commit{Effects: actor.Effects{Idempotency: make([]actor.IdempotencyRecord, 2)}}}
	plain := &attempt{commit: &actor.Commit{}}
	group := []*attempt{keyed, plain, keyed}
	if r.expected(group) {
		t.Fatal("a repeated key is expected, and none was found")
	}
	for range 2 {
		r.found()
		asked := 0
		for r.expected(group) {
			asked += 2
		}
		if asked != doubts {
			t.Fatalf("%d commits ask, want %d", asked, doubts)
		}
	}
	r.found()
	for range doubts {
		r.expected([]*attempt{plain})
	}
	if !r.expected(group) {
		t.Fatal("commits without records have taken the place of those that ask")
	}
}
