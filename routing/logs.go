package routing

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// TailLogs calls each with the log lines of another host, as LogService.Tail does, until the host
// has no more, ctx ends or each returns an error. It returns [actor.ErrUnavailable] if the host
// cannot be asked.
func (r *Router) TailLogs(ctx context.Context, host actor.HostID, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error {
	p := r.peers.get(host)
	if p == nil || p.protocol < protocolRelease {
		return fmt.Errorf("%w: host %s shows no logs: it is not known as a member, or is of an older version", actor.ErrUnavailable, host)
	}
	ask := connect.NewRequest(&greenroomv1.ExchangeTailRequest{Hello: p.hello(), Tail: req})
	p.authorize(ask.Header())
	stream, err := p.unary.TailLogs(ctx, ask)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it was read to its end, or given up
	for stream.Receive() {
		if err := each(stream.Msg().GetTail()); err != nil {
			return err
		}
	}
	return stream.Err()
}
