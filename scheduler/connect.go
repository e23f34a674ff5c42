package scheduler

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// Handler serves SchedulerService: the sessions of other hosts, while this process leads.
func (s *Service) Handler() http.Handler {
	_, h := greenroomv1connect.NewSchedulerServiceHandler(handler{s})
	return h
}

type handler struct{ s *Service }

// ReportActorTypes implements SchedulerService.
func (h handler) ReportActorTypes(ctx context.Context, bidi *connect.BidiStream[greenroomv1.ReportActorTypesRequest, greenroomv1.ReportActorTypesResponse]) error {
	return h.s.Serve(ctx, bidi)
}

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
func (d Dialer) Dial(ctx context.Context, leader actor.Host) (Stream, error) {
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
	return &dialed{bidi, cancel}, nil
}

// dialed is the host's end of a session.
type dialed struct {
	*connect.BidiStreamForClient[greenroomv1.ReportActorTypesRequest, greenroomv1.ReportActorTypesResponse]
	cancel context.CancelFunc
}

// Close implements [Stream].
func (s *dialed) Close() error {
	s.cancel()
	_ = s.CloseRequest() // the stream is over whatever they say
	_ = s.CloseResponse()
	return nil
}
