package scheduler

import greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"

// Stream is a host's end of a session with the leader. Send is called by one goroutine
// at a time, and so is Receive, beside it.
type Stream interface {
	Send(*greenroomv1.ReportActorTypesRequest) error
	Receive() (*greenroomv1.ReportActorTypesResponse, error)
	// Close ends the session: Send and Receive that are under way return.
	Close() error
}

// ServerStream is the leader's end of a session, used alike. The session is over when
// what serves it returns.
type ServerStream interface {
	Send(*greenroomv1.ReportActorTypesResponse) error
	Receive() (*greenroomv1.ReportActorTypesRequest, error)
}
