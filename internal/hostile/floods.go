// Package hostile is a tenant with an ordinary token that takes as much of a server as it can get.
// Tests and benchmarks use it to find out what the tenant's neighbours notice.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
)

// Flood is one thing that a tenant does too much.
type Flood struct {
	// Name says what it is, in a word or two.
	Name string
	// N is how many of it there are at a time.
	N int
	// prepare prepares the flood and returns it: what goes on until ctx ends.
	prepare func(ctx context.Context, t *tenant) (flood func(), err error)
}

// Count says how often the server did what a flood asked for, and how often it did not.
type Count struct {
	Done, Refused atomic.Int64

	last atomic.Pointer[error]
}

// Last is what the last refusal said, empty if there was none.
func (c *Count) Last() string {
	if err := c.last.Load(); err != nil {
		return (*err).Error()
	}
	return ""
}

func (c *Count) add(err error) {
	if err == nil {
		c.Done.Add(1)
	} else {
		c.Refused.Add(1)
		c.last.Store(&err)
	}
}

// tenant is what a flood works with.
type tenant struct {
	App
	n     int
	count *Count
	due   time.Time // of reminders
	http  *http.Client
}

// The floods. Each has actor types of its own.
var floods = []Flood{
	{"reminders, one instant", 100_000, func(ctx context.Context, t *tenant) (func(), error) {
		return t.reminders(ctx, "Due", Idle("Due", 0))
	}},
	{"reminders, failing", 100_000, func(ctx context.Context, t *tenant) (func(), error) {
		return t.reminders(ctx, "Failing", failing("Failing"))
	}},
	{"reminders, hanging", 2_000, func(ctx context.Context, t *tenant) (func(), error) {
		return t.reminders(ctx, "Hanging", spinning("Hanging"))
	}},
	{"subscribers, deaf", 2_000, subscribe},
	{"turns, endless", 500, func(ctx context.Context, t *tenant) (func(), error) { return t.spin(ctx, "Endless", 0) }},
	{"payloads", 186, func(ctx context.Context, t *tenant) (func(), error) { return t.spin(ctx, "Payload", replyBytes-1<<10) }},
	{"replies, unread", 120, reply},
	{"timers", 8, timers},
	{"uploads, slow", 100, trickle},
	{"modules, heavy", 64, func(ctx context.Context, t *tenant) (func(), error) { return t.upload(ctx, nested), nil }},
	{"modules, many", 4, func(ctx context.Context, t *tenant) (func(), error) {
		const padding = 256 << 10
		return t.upload(ctx, func(seed int) []byte { return large(seed, padding) }), nil
	}},
	{"connections", 1_500, occupy},
	{"bodies, declared", 100, declare},
	{"lists", 100, list},
	{"log readers", 100, tail},
	{"streams", 1_000, stream},
}

// Floods returns the floods of these names, or all floods if none is named.
func Floods(names ...string) []Flood {
	if len(names) == 0 {
		return floods
	}
	return slices.DeleteFunc(slices.Clone(floods), func(f Flood) bool { return !slices.Contains(names, f.Name) })
}

// Prepare deploys and sets what the flood needs, and returns the flood: it goes on until ctx
// ends, and returns when nothing of it is under way. Its reminders are due at due.
func (f Flood) Prepare(ctx context.Context, a App, due time.Time, count *Count) (flood func(), err error) {
	t := &tenant{App: a, n: f.N, count: count, due: due, http: a.HTTP()}
	run, err := f.prepare(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return func() {
		defer t.http.CloseIdleConnections()
		run()
	}, nil
}

// each calls f again and again until ctx ends, n calls at a time. After a refusal it pauses.
func (t *tenant) each(ctx context.Context, n int, f func(i int) error) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				err := f(i)
				if ctx.Err() != nil {
					return
				}
				if t.count.add(err); err != nil {
					const pause = 100 * time.Millisecond
					wait(ctx, pause)
				}
			}
		})
	}
	all.Wait()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// batch is how many reminders a turn sets.
const batch = 1_000

// reminders sets reminders of an actor type, due at one instant and each minute after it,
// which wasm then serves.
func (t *tenant) reminders(ctx context.Context, typ string, wasm []byte) (func(), error) {
	frames := make([]abi.Reminder, min(t.n, batch))
	for i := range frames {
		const attempts = 1_000
		frames[i] = abi.Reminder{Name: fmt.Sprint("r", i), Method: "Do", DueUnixNano: t.due.UnixNano(), PeriodNano: int64(time.Minute), Attempts: attempts}
	}
	if err := t.Deploy(ctx, setting(typ, "reminder_set", frames)); err != nil {
		return nil, err
	}
	c, err := t.Client()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	for i := range (t.n + batch - 1) / batch {
		if _, err := c.Invoke(ctx, typ, fmt.Sprint(i), "Do", nil); err != nil {
			return nil, fmt.Errorf("set reminders: %w", err)
		}
		t.count.Done.Add(int64(len(frames)))
	}
	if err := t.Deploy(ctx, wasm); err != nil {
		return nil, err
	}
	return func() { <-ctx.Done() }, nil
}

// subscribe takes reminders and never answers.
func subscribe(ctx context.Context, t *tenant) (func(), error) {
	c, err := t.Client()
	if err != nil {
		return nil, err
	}
	reminders := greenroomv1connect.NewReminderServiceClient(t.http, t.URL)
	var set atomic.Int64
	return func() {
		defer func() { _ = c.Close() }()
		var all sync.WaitGroup
		all.Go(func() {
			const executions = 1_000
			_ = c.SubscribeReminders(ctx, client.Subscription{Names: []string{"deaf"}, MaxExecutions: executions, Do: func(ctx context.Context, _ client.Firing) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		})
		const callers = 4
		t.each(ctx, callers, func(int) error {
			n := set.Add(1)
			if n > int64(t.n) {
				<-ctx.Done()
				return ctx.Err()
			}
			return t.Remind(ctx, reminders, "greenroom.subscription", "deaf", fmt.Sprint("r", n), "", t.due)
		})
		all.Wait()
	}, nil
}

// spin calls actors whose turns do not end, with payloads of that many bytes.
func (t *tenant) spin(ctx context.Context, typ string, bytes int) (func(), error) {
	if err := t.Deploy(ctx, spinning(typ)); err != nil {
		return nil, err
	}
	c, err := t.Client()
	if err != nil {
		return nil, err
	}
	payload := make([]byte, bytes)
	return func() {
		defer func() { _ = c.Close() }()
		t.each(ctx, t.n, func(i int) error {
			_, err := c.Do(ctx, client.Request{Type: typ, ID: fmt.Sprint(i), Method: "Do", Payload: payload, ContentType: "application/octet-stream"})
			var failed *client.Error
			if errors.As(err, &failed) && !failed.Retryable { // it ran as long as it may
				return nil
			}
			return err
		})
	}, nil
}

// replyBytes is the largest reply that a server gives unless it is configured otherwise.
const replyBytes = 4 << 20

// reply asks for replies and reads no more than their first bytes.
func reply(ctx context.Context, t *tenant) (func(), error) {
	if err := t.Deploy(ctx, replying("Reply", replyBytes)); err != nil {
		return nil, err
	}
	return func() {
		t.each(ctx, t.n, func(i int) error {
			conn, err := t.dial(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET /v2.0/actors/%s/Reply/%d/method/View HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", t.Name, i, t.Token)
			status := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, status); err != nil {
				return err
			}
			if !strings.HasSuffix(string(status), "200") {
				return errors.New(string(status))
			}
			t.count.Done.Add(1)
			const patience = 40 * time.Second // longer than the server's
			wait(ctx, patience)
			return errors.New("cut off")
		})
	}, nil
}

// dial opens a connection whose peer cannot send much ahead.
func (t *tenant) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(t.URL, "http://"))
	if err == nil {
		const window = 4096
		err = conn.(*net.TCPConn).SetReadBuffer(window)
	}
	return conn, err
}

// trickle uploads modules byte by byte.
func trickle(ctx context.Context, t *tenant) (func(), error) {
	modules := greenroomv1connect.NewModuleServiceClient(t.http, t.URL)
	return func() {
		t.each(ctx, t.n, func(int) error {
			stream := modules.Upload(ctx)
			defer stream.CloseResponse() //nolint:errcheck // its outcome is the error of Send or Receive
			err := stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{
				Header: &greenroomv1.UploadHeader{App: t.Name, Size: 1 << 20},
			}})
			for err == nil && ctx.Err() == nil {
				const pause = 10 * time.Second
				if err = stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: []byte{0}}}); err == nil {
					wait(ctx, pause)
				}
			}
			_, err = stream.Receive()
			return err
		})
	}, nil
}

// upload uploads modules that are all different.
func (t *tenant) upload(ctx context.Context, module func(seed int) []byte) func() {
	modules := greenroomv1connect.NewModuleServiceClient(t.http, t.URL)
	var seed atomic.Int64
	return func() {
		t.each(ctx, t.n, func(int) error {
			_, err := Upload(ctx, modules, t.Name, module(int(seed.Add(1))))
			return err
		})
	}
}

// timers has more and more actors set as many timers as they may have.
func timers(ctx context.Context, t *tenant) (func(), error) {
	const timers, bytes = 100, 2_000 // of an actor, and of each payload
	frames := make([]abi.Reminder, timers)
	for i := range frames {
		frames[i] = abi.Reminder{Name: fmt.Sprint("t", i), Method: "Do", Payload: make([]byte, bytes), DelayNano: int64(time.Hour)}
	}
	if err := t.Deploy(ctx, setting("Timers", "timer_set", frames)); err != nil {
		return nil, err
	}
	c, err := t.Client()
	if err != nil {
		return nil, err
	}
	var actors atomic.Int64
	return func() {
		defer func() { _ = c.Close() }()
		t.each(ctx, t.n, func(int) error {
			_, err := c.Invoke(ctx, "Timers", fmt.Sprint(actors.Add(1)), "Do", nil)
			return err
		})
	}, nil
}

// occupy opens connections and sends nothing over them.
func occupy(ctx context.Context, t *tenant) (func(), error) {
	return func() {
		t.each(ctx, t.n, func(int) error {
			conn, err := t.dial(ctx)
			if err != nil {
				return err
			}
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1)) // until the server closes it
			return err
		})
	}, nil
}

// declare sends the headers of calls with large bodies, and no body.
func declare(ctx context.Context, t *tenant) (func(), error) {
	return func() {
		t.each(ctx, t.n, func(i int) error {
			conn, err := t.dial(ctx)
			if err != nil {
				return err
			}
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			fmt.Fprintf(conn, "PUT /v2.0/actors/%s/Declared/%d/method/Do HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", t.Name, i, t.Token, replyBytes)
			answer := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, answer); err != nil {
				return err
			}
			return errors.New(string(answer))
		})
	}, nil
}

// list lists the actors of a type, from the first on.
func list(ctx context.Context, t *tenant) (func(), error) {
	actors := greenroomv1connect.NewActorServiceClient(t.http, t.URL)
	return func() {
		t.each(ctx, t.n, func(int) error {
			const page = 1_000
			_, err := actors.ListActors(ctx, connect.NewRequest(&greenroomv1.ListActorsRequest{App: t.Name, Type: "Due", PageSize: page}))
			return err
		})
	}, nil
}

// tail reads logs of actors that write none.
func tail(ctx context.Context, t *tenant) (func(), error) {
	logs := greenroomv1connect.NewLogServiceClient(t.http, t.URL)
	return func() {
		t.each(ctx, t.n, func(int) error {
			stream, err := logs.Tail(ctx, connect.NewRequest(&greenroomv1.TailRequest{App: t.Name, Follow: true}))
			if err != nil {
				return err
			}
			defer stream.Close() //nolint:errcheck // Err has said it
			for stream.Receive() {
			}
			return stream.Err()
		})
	}, nil
}

// stream opens streams of calls and makes none.
func stream(ctx context.Context, t *tenant) (func(), error) {
	actors := greenroomv1connect.NewActorServiceClient(t.http, t.URL)
	return func() {
		t.each(ctx, t.n, func(int) error {
			stream := actors.InvokeStream(ctx)
			defer stream.CloseResponse() //nolint:errcheck // Receive has said it
			// HTTP/2 notices the end of a context only once the request was sent.
			defer context.AfterFunc(ctx, func() { _ = stream.CloseRequest() })()
			err := stream.Send(nil)
			for err == nil {
				_, err = stream.Receive()
			}
			return err
		})
	}, nil
}
