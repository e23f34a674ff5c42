package scheduler

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// answerOrEnd is the result of a query; the channel is closed when the session ends.
type answerOrEnd struct{ answer *greenroomv1.LeaderAnswer }

// query asks the leader what only it knows.
func (s *Service) query(ctx context.Context, q *greenroomv1.LeaderQuery) (*greenroomv1.LeaderAnswer, error) {
	s.mu.Lock()
	if s.session == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("no session with the leader of the cluster: %w", actor.ErrUnavailable)
	}
	s.ids++
	q.CorrelationId = s.ids
	answer := make(chan answerOrEnd, 1)
	s.queries[q.CorrelationId] = answer
	s.session.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Query{Query: q}})
	s.mu.Unlock()
	select {
	case a, ok := <-answer:
		if !ok {
			return nil, fmt.Errorf("the session with the leader of the cluster broke: %w", actor.ErrUnavailable)
		}
		return a.answer, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.queries, q.CorrelationId)
		return nil, ctx.Err()
	}
}
