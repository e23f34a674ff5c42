package server

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
)

const (
	// keptLines are remembered for those who come later: some screenfuls.
	keptLines = 2000
	// readerQueue is how many lines a reader may be behind before it loses some.
	readerQueue = 1024
)

// Logs remembers the latest lines that guests logged, and hands each to those
// who follow. Make it first, give its [Logs.Publish] to the host's events and
// itself to the server. Nothing that reads slowly holds a guest up.
type Logs struct {
	mu      sync.Mutex
	lines   []logLine // a ring once it is full
	next    int       // where the next line goes in it
	readers map[*logReader]struct{}
	closed  chan struct{} // closed when the server stops
	once    sync.Once
}

type logLine struct {
	at   time.Time
	line host.GuestLog
}

// logReader is one follower.
type logReader struct {
	req     *greenroomv1.TailRequest
	lines   chan logLine
	dropped uint64 // guarded by the lock of Logs
}

// NewLogs returns logs that remember nothing yet.
func NewLogs() *Logs {
	return &Logs{readers: make(map[*logReader]struct{}), closed: make(chan struct{})}
}

// Publish adds a line. Any goroutine may call it; it never waits for a reader.
func (l *Logs) Publish(at time.Time, line host.GuestLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := logLine{at, line}
	if len(l.lines) < keptLines {
		l.lines = append(l.lines, entry)
	} else {
		l.lines[l.next] = entry
		l.next = (l.next + 1) % keptLines
	}
	for r := range l.readers {
		if !r.wants(entry) {
			continue
		}
		select {
		case r.lines <- entry:
		default:
			r.dropped++
		}
	}
}

// close ends every follower.
func (l *Logs) close() { l.once.Do(func() { close(l.closed) }) }

func (r *logReader) wants(l logLine) bool {
	key := l.line.Key
	return key.App == appOf(r.req.GetApp()) &&
		(r.req.GetActorType() == "" || key.Type == r.req.GetActorType()) &&
		(r.req.GetActorId() == "" || key.ID == r.req.GetActorId()) &&
		l.line.Level >= r.req.GetMinLevel() &&
		(r.req.GetSince() == nil || !l.at.Before(r.req.GetSince().AsTime()))
}

// subscribe registers a reader and returns the remembered lines that it wants:
// no line is in neither or in both.
func (l *Logs) subscribe(r *logReader) []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	var past []logLine
	for i := range l.lines {
		if e := l.lines[(l.next+i)%len(l.lines)]; r.wants(e) {
			past = append(past, e)
		}
	}
	if r.req.GetFollow() {
		l.readers[r] = struct{}{}
	}
	return past[max(0, len(past)-int(r.req.GetLast())):]
}

func (l *Logs) unsubscribe(r *logReader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
}

// lost returns how many lines r lost since it last asked.
func (l *Logs) lost(r *logReader) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := r.dropped
	r.dropped = 0
	return n
}

// maxReaders is how many may read logs at once, each of whom has a queue.
const maxReaders = 100

// logService is LogService over [Logs].
type logService struct {
	logs    *Logs
	readers places
}

func (s *Server) newLogService() service {
	sv := service{name: greenroomv1connect.LogServiceName}
	_, h := greenroomv1connect.NewLogServiceHandler(&logService{
		logs: s.conf.Logs, readers: places{limit: maxReaders, what: "readers of logs", remedy: retryLater},
	}, s.handlerOptions(s.payloadRoute())...)
	sv.serve(RoleRead, streamRoute(), h, greenroomv1connect.LogServiceTailProcedure)
	return sv
}

var _ greenroomv1connect.LogServiceHandler = (*logService)(nil)

// Tail implements LogService.
func (s *logService) Tail(ctx context.Context, req *connect.Request[greenroomv1.TailRequest], stream *connect.ServerStream[greenroomv1.TailResponse]) error {
	if err := s.readers.enter(); err != nil {
		return err
	}
	defer s.readers.leave()
	r := &logReader{req: req.Msg, lines: make(chan logLine, readerQueue)}
	past := s.logs.subscribe(r)
	defer s.logs.unsubscribe(r)
	// Also when there is nothing: the reader then knows that it is connected.
	if err := stream.Send(logsToProto(past, 0)); err != nil || !req.Msg.GetFollow() {
		return err
	}
	for {
		select {
		case first := <-r.lines:
			batch := r.drain(first)
			if err := stream.Send(logsToProto(batch, s.logs.lost(r))); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.logs.closed:
			return errStopping
		}
	}
}

// drain returns first and all that is queued behind it.
func (r *logReader) drain(first logLine) []logLine {
	batch := []logLine{first}
	for {
		select {
		case l := <-r.lines:
			batch = append(batch, l)
		default:
			return batch
		}
	}
}

func logsToProto(lines []logLine, dropped uint64) *greenroomv1.TailResponse {
	msg := &greenroomv1.TailResponse{Lines: make([]*greenroomv1.LogLine, len(lines)), Dropped: dropped}
	for i, l := range lines {
		key := l.line.Key
		traceID, spanID := l.line.Trace.IDs()
		msg.Lines[i] = &greenroomv1.LogLine{
			Time:         timestamppb.New(l.at),
			Actor:        &greenroomv1.ActorKey{App: key.App, Type: key.Type, Id: key.ID},
			Method:       l.line.Method,
			InvocationId: l.line.InvocationID,
			Level:        l.line.Level,
			Text:         l.line.Text,
			Run:          int32(l.line.Run),
			TraceId:      traceID,
			SpanId:       spanID,
		}
	}
	return msg
}
