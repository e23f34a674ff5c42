package sqlstore

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// Stuck returns the places of the commits of which others have rows locked.
func (s *Store) Stuck(ctx context.Context, commits []actor.Commit) ([]int, error) {
	var group []*attempt
	places := make(map[*attempt]int)
	for i := range commits {
		a := &attempt{commit: &commits[i]}
		places[a] = i
		group = append(group, a)
	}
	free, stuck, err := s.probe(ctx, group)
	var at []int
	for _, a := range stuck {
		at = append(at, places[a])
		delete(places, a)
	}
	for _, a := range free {
		delete(places, a)
	}
	if len(places) > 0 {
		panic("a commit is neither free nor stuck")
	}
	return at, err
}
