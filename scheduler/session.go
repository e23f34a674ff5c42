package scheduler

import (
	"context"
	"errors"
	"sync"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// session is this host's end of a stream to the leader.
type session struct {
	protocol.Session
	ctx  context.Context //nolint:containedctx // the session's life, for its hand-overs
	end  context.CancelCauseFunc
	out  *protocol.Outbox[*greenroomv1.ReportActorTypesRequest]
	work sync.WaitGroup // hand-overs, and reads of types
	met  bool           // the leader has answered
	// queries are those that wait for an answer, by their numbers.
	queries   map[uint64]chan<- answerOrEnd
	lastQuery uint64
}

// put sends a message to the leader, after those before it. It does nothing without a session.
func (s *session) put(m *greenroomv1.ReportActorTypesRequest) {
	if s != nil {
		s.out.Put(m)
	}
}

// answerOrEnd is the result of a query; the channel is closed when the session ends.
type answerOrEnd struct{ answer *greenroomv1.LeaderAnswer }

// errNoLeader says that nobody leads now.
var errNoLeader = errors.New("nobody leads the cluster now")
