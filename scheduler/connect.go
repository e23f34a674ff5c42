package scheduler

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/scheduler/leader"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

type handler struct{ elector *leader.Elector }

// ReportActorTypes implements SchedulerService.
func (h handler) ReportActorTypes(ctx context.Context, bidi *connect.BidiStream[greenroomv1.ReportActorTypesRequest, greenroomv1.ReportActorTypesResponse]) error {
	err := h.elector.Serve(ctx, bidi)
	if errors.Is(err, protocol.ErrNotLeader) {
		return connect.NewError(codeNotLeader, err)
	}
	return err
}

// codeNotLeader is the code of [protocol.ErrNotLeader], and of no other error of a session.
const codeNotLeader = connect.CodeAborted

// Dialer opens sessions over HTTP/2.
type Dialer struct {
	// Client speaks HTTP/2 to other hosts. Required.
	Client *http.Client
	// TLS says that they speak TLS, which Client is made for.
	TLS bool
	// Token is sent to them. Empty: none.
	Token string
}

// Dial opens a session with a leader; it is what [Config.Dial] asks for.
func (d Dialer) Dial(ctx context.Context, leader actor.Host) (protocol.Stream, error) {
	scheme := "http://"
	if d.TLS {
		scheme = "https://"
	}
	ctx, cancel := context.WithCancel(ctx)
	bidi := greenroomv1connect.NewSchedulerServiceClient(d.Client, scheme+leader.Address,
		connect.WithAcceptCompression("gzip", nil, nil)).ReportActorTypes(ctx) // most messages are a few bytes
	if d.Token != "" {
		bidi.RequestHeader().Set("Authorization", "Bearer "+d.Token)
	}
	return &dialed{bidi, cancel, d.Client}, nil
}

// dialed is the host's end of a session.
type dialed struct {
	*connect.BidiStreamForClient[greenroomv1.ReportActorTypesRequest, greenroomv1.ReportActorTypesResponse]
	cancel context.CancelFunc
	client *http.Client
}

// Receive implements [protocol.Stream].
func (s *dialed) Receive() (*greenroomv1.ReportActorTypesResponse, error) {
	m, err := s.BidiStreamForClient.Receive()
	if connect.CodeOf(err) == codeNotLeader {
		err = protocol.ErrNotLeader
	}
	return m, err
}

func (s *dialed) Close() error {
	s.cancel()
	_ = s.CloseRequest() // the stream is over whatever they say
	_ = s.CloseResponse()
	s.client.CloseIdleConnections() // who leads no more may be about to stop, which waits for them
	return nil
}
