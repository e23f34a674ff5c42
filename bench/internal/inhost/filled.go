package inhost

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// FillRole stores actors of an app that nobody calls.
const FillRole = "in-host-fill"

// FillSpec says how many actors of a type to store, each with StateBytes of state: {"ballast":
// "0…", "count": N, "total": N % 1000}. N is the number in the actor's ID, "a" and seven digits.
type FillSpec struct {
	Spec
	App, Type string
	Count     int
}

// fillGroup is how many are in a group of commits.
const fillGroup = 256

// Fill plays [FillRole].
func Fill(ctx context.Context, s FillSpec) (stored int, err error) {
	st := s.open(ctx)
	defer must.Close(st.Close)
	for stored < s.Count {
		commits := make([]actor.Commit, min(fillGroup, s.Count-stored))
		for i := range commits {
			n := stored + i
			rest := fmt.Sprintf(`","count":%d,"total":%d}`, n, n%1000)
			state := fmt.Appendf(nil, `{"ballast":"%0*d%s`, s.StateBytes-len(`{"ballast":"`)-len(rest), 0, rest)
			commits[i] = actor.CommitOf(actor.RowWrite{
				Key: actor.Key{App: s.App, Type: s.Type, ID: fmt.Sprintf("a%07d", n)}, NewVersion: actor.FirstVersion(), Generation: 1,
				State: &actor.EncodedState{Format: actor.FormatJSON, Data: state},
			})
		}
		for _, err := range st.Commit(ctx, commits) {
			must.Check(err)
		}
		stored += len(commits)
	}
	return stored, nil
}
