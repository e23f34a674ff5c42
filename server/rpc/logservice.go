package rpc

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

const (
	// tailPatience is how long the lines that other servers remember are waited for.
	tailPatience = 3 * time.Second
	// tailLookAround is how often a follower looks for servers that it does not follow: new
	// ones, and those whose stream broke.
	tailLookAround = 2 * time.Second
	// allLines is the largest TailRequest.last.
	allLines = 10_000
)

// logService is LogService over the [Logs] of all servers of the cluster.
type logService struct {
	logs *Logs
	// others are the other servers, and tailOf is [Interconnect.TailLogs]; nil: there are
	// none.
	others func() []actor.Host
	tailOf func(ctx context.Context, id actor.HostID, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error
}

func newLogService(s *Services) edge.Service {
	ls := &logService{logs: s.Logs}
	if s.Interconnect != nil && s.Cluster != nil {
		ls.others, ls.tailOf = s.Cluster.Others, s.Interconnect.TailLogs
	}
	sv := edge.Service{Name: greenroomv1connect.LogServiceName}
	_, h := greenroomv1connect.NewLogServiceHandler(ls, s.edge.HandlerOptions(s.edge.PayloadRoute())...)
	sv.Serve(edge.RoleRead, edge.StreamRoute(), h, greenroomv1connect.LogServiceTailProcedure)
	return sv
}

var _ greenroomv1connect.LogServiceHandler = (*logService)(nil)

func (s *logService) Tail(ctx context.Context, req *connect.Request[greenroomv1.TailRequest], stream *connect.ServerStream[greenroomv1.TailResponse]) error {
	app := edge.AppOf(req.Msg.GetApp())
	if err := s.logs.open.Enter(app); err != nil {
		return err
	}
	defer s.logs.open.Leave(app)
	if s.others == nil {
		return s.logs.tail(ctx, req.Msg, stream.Send)
	}
	return s.gather(ctx, req.Msg, stream.Send)
}

// tailed is one server whose lines are gathered.
type tailed struct {
	name string
	req  *greenroomv1.TailRequest
	// answered says that its remembered lines came; open that its stream is.
	answered, open bool
}

// tailEvent is what came from one server: a message, or the end of its stream.
type tailEvent struct {
	from *tailed
	msg  *greenroomv1.TailResponse // nil: the end
	err  error
}

// gather sends the lines of all servers: those that are remembered in one message, in the
// order of their times, and then those that come.
func (s *logService) gather(ctx context.Context, req *greenroomv1.TailRequest, send func(*greenroomv1.TailResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	// What a server remembers, and what ends before, is taken first. Whatever else comes
	// waits at its server, which counts what it loses.
	first, later := make(chan tailEvent), make(chan tailEvent)
	put := func(on chan tailEvent, e tailEvent) error {
		select {
		case on <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	begin := func(t *tailed, tail func(context.Context, *greenroomv1.TailRequest, func(*greenroomv1.TailResponse) error) error) {
		t.open = true
		req := t.req
		running.Go(func() {
			on := first
			err := tail(ctx, req, func(m *greenroomv1.TailResponse) error {
				defer func() { on = later }()
				return put(on, tailEvent{t, m, nil})
			})
			_ = put(on, tailEvent{t, nil, err}) // nobody is left to tell
		})
	}
	here := &tailed{req: req}
	begin(here, s.logs.tail)
	all := map[actor.HostID]*tailed{}
	lookAround := func(req *greenroomv1.TailRequest) {
		members := s.others()
		maps.DeleteFunc(all, func(id actor.HostID, t *tailed) bool {
			return !t.open && !slices.ContainsFunc(members, func(h actor.Host) bool { return h.ID == id })
		})
		for _, h := range members {
			t := all[h.ID]
			if t == nil {
				t = &tailed{name: h.Name, req: req}
				all[h.ID] = t
			}
			if !t.open {
				begin(t, func(ctx context.Context, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error {
					return s.tailOf(ctx, h.ID, req, each)
				})
			}
		}
	}
	lookAround(req)

	past := &greenroomv1.TailResponse{}
	patience := time.NewTimer(tailPatience)
	defer patience.Stop()
	for waiting := len(all) + 1; waiting > 0; {
		select {
		case e := <-first:
			waiting--
			if e.msg == nil {
				e.from.open = false
				if e.from == here {
					return e.err
				}
				continue
			}
			e.from.answered = true
			past.Lines = latest(append(past.Lines, e.msg.GetLines()...), int(req.GetLast()))
			e.from.seen(e.msg)
		case <-patience.C:
			waiting = 0
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, t := range all {
		if !t.answered {
			past.Missing = append(past.Missing, t.name)
		}
	}
	slices.Sort(past.Missing)
	if err := send(past); err != nil || !req.GetFollow() {
		return err
	}

	// All that a server remembers which begins from here on has come since.
	fresh := proto.CloneOf(req)
	fresh.Last = allLines
	around := time.NewTicker(tailLookAround)
	defer around.Stop()
	for {
		var e tailEvent
		select {
		case e = <-first:
		case e = <-later:
		case <-around.C:
			lookAround(fresh)
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		if e.msg == nil {
			if e.from.open = false; e.from == here {
				return e.err
			}
			continue
		}
		e.from.answered = true
		e.from.seen(e.msg)
		if len(e.msg.GetLines()) == 0 && e.msg.GetDropped() == 0 {
			continue
		}
		if err := send(e.msg); err != nil {
			return err
		}
	}
}

// seen notes what came from a server: if its stream breaks, the next one goes on there.
func (t *tailed) seen(m *greenroomv1.TailResponse) {
	if n := len(m.GetLines()); n > 0 {
		t.req = proto.CloneOf(t.req)
		t.req.Last = allLines
		t.req.Since = timestamppb.New(m.GetLines()[n-1].GetTime().AsTime().Add(1))
	}
}

// latest sorts lines by time, and returns the last n of them.
func latest(lines []*greenroomv1.LogLine, n int) []*greenroomv1.LogLine {
	slices.SortStableFunc(lines, func(a, b *greenroomv1.LogLine) int { return a.GetTime().AsTime().Compare(b.GetTime().AsTime()) })
	return lines[max(0, len(lines)-n):]
}
