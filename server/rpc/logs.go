package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

const (
	// keptLines and keptBytes are remembered of each app for those who come later: some
	// screenfuls.
	keptLines = 2000
	keptBytes = 4 << 20
	// keptOfAll bounds the memory of all apps' lines, in bytes. Each app has the same share.
	keptOfAll = 64 << 20
	// lineOverhead is what a line takes beside its texts, in bytes.
	lineOverhead = 256
	// readerQueue is how many lines a reader may be behind before it loses some.
	readerQueue = 1024
	// maxReaders is how many may read an app's logs at once, each of whom has a queue.
	maxReaders = 20
	// maxOfAllReaders is how many may read those of all apps that have more than alwaysReaders, and
	// how many those that have no more: callers of all apps may read of any name.
	maxOfAllReaders = 16 * maxReaders
	alwaysReaders   = 2
)

// Logs remembers the latest lines that the guests of each app logged, and hands each to
// those who follow. Make it first, give its [Logs.Publish] to the host's events and
// itself to the server. Nothing that reads slowly holds a guest up, and no app takes
// from what is remembered of another, but for its equal share.
type Logs struct {
	mu      sync.Mutex
	apps    map[string]*appLines               // those that have logged
	readers map[string]map[*logReader]struct{} // who follows, by app
	open    edge.Places                        // for readers
	closed  chan struct{}                      // closed when the server stops
	once    sync.Once
}

// appLines are the lines of one app.
type appLines struct {
	lines []logLine // oldest first
	bytes int
}

type logLine struct {
	at   time.Time
	line host.GuestLog
}

func (e *logLine) size() int {
	return lineOverhead + len(e.line.Key.ID) + len(e.line.Method) + len(e.line.InvocationID) + len(e.line.Text)
}

// trim removes the oldest lines that are too many. The newest stays.
func (a *appLines) trim(share int) {
	for len(a.lines) > 1 && (len(a.lines) > keptLines || a.bytes > share) {
		a.bytes -= a.lines[0].size()
		a.lines[0] = logLine{}
		a.lines = a.lines[1:]
	}
}

// logReader is one follower.
type logReader struct {
	req     *greenroomv1.TailRequest
	lines   chan logLine
	dropped uint64 // guarded by the lock of Logs
}

// NewLogs returns logs that remember nothing yet.
func NewLogs() *Logs {
	return &Logs{apps: map[string]*appLines{}, readers: map[string]map[*logReader]struct{}{}, open: edge.NewPlaces(fair.Bounds{Name: "readers of logs", Total: maxOfAllReaders, PerApp: maxReaders, Always: alwaysReaders, Most: maxOfAllReaders}, edge.RetryLater), closed: make(chan struct{})}
}

// share is how many bytes are remembered of each app.
func (l *Logs) share() int { return min(keptBytes, keptOfAll/max(len(l.apps), 1)) }

// Publish adds a line. Any goroutine may call it; it never waits for a reader.
func (l *Logs) Publish(at time.Time, line host.GuestLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := logLine{at, line}
	app := l.apps[line.Key.App]
	if app == nil {
		app = &appLines{}
		l.apps[line.Key.App] = app
		for _, other := range l.apps {
			other.trim(l.share())
		}
	}
	app.lines = append(app.lines, entry)
	app.bytes += entry.size()
	app.trim(l.share())
	for r := range l.readers[line.Key.App] {
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

// Close ends every follower.
func (l *Logs) Close() { l.once.Do(func() { close(l.closed) }) }

// wants reports whether a line of the reader's app is among those that it asked for.
func (r *logReader) wants(l logLine) bool {
	key := l.line.Key
	return (r.req.GetActorType() == "" || key.Type == r.req.GetActorType()) &&
		(r.req.GetActorId() == "" || key.ID == r.req.GetActorId()) &&
		l.line.Level >= r.req.GetMinLevel() &&
		(r.req.GetSince() == nil || !l.at.Before(r.req.GetSince().AsTime()))
}

// subscribe registers a reader and returns the remembered lines that it wants:
// no line is in neither or in both.
func (l *Logs) subscribe(r *logReader) []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := edge.AppOf(r.req.GetApp())
	var past []logLine
	if app := l.apps[name]; app != nil {
		for _, e := range app.lines {
			if r.wants(e) {
				past = append(past, e)
			}
		}
	}
	if r.req.GetFollow() {
		if l.readers[name] == nil {
			l.readers[name] = map[*logReader]struct{}{}
		}
		l.readers[name][r] = struct{}{}
	}
	return past[max(0, len(past)-int(r.req.GetLast())):]
}

func (l *Logs) unsubscribe(r *logReader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := edge.AppOf(r.req.GetApp())
	if delete(l.readers[name], r); len(l.readers[name]) == 0 {
		delete(l.readers, name)
	}
}

// lost returns how many lines r lost since it last asked.
func (l *Logs) lost(r *logReader) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := r.dropped
	r.dropped = 0
	return n
}

// tail calls each with the lines that req asks for. The first message has the remembered lines,
// perhaps none. It returns when there are no more lines, or when ctx or the server ends.
func (l *Logs) tail(ctx context.Context, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error {
	r := &logReader{req: req, lines: make(chan logLine, readerQueue)}
	past := l.subscribe(r)
	defer l.unsubscribe(r)
	if err := each(logsToProto(past, 0)); err != nil || !req.GetFollow() {
		return err
	}
	for {
		select {
		case first := <-r.lines:
			batch := r.drain(first)
			if err := each(logsToProto(batch, l.lost(r))); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closed:
			return failure.ErrStopping
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
