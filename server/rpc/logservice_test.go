package rpc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/failure"
)

// logPeers are other servers. One without logs does not answer.
type logPeers struct {
	mu     sync.Mutex
	logs   map[actor.HostID]*Logs
	broken map[actor.HostID]func() // breaks its streams
}

func (p *logPeers) set(id actor.HostID, l *Logs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logs[id] = l
}

func (p *logPeers) cut(id actor.HostID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[id]()
}

func (p *logPeers) others() (all []actor.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.logs {
		all = append(all, actor.Host{ID: id, Name: "web-" + string(id)})
	}
	return all
}

func (p *logPeers) tail(ctx context.Context, id actor.HostID, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	l := p.logs[id]
	p.broken[id] = func() { cancel(errors.New("cut")) }
	p.mu.Unlock()
	if l == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.tail(ctx, req, each)
}

// logAt logs a line at a second.
func logAt(l *Logs, second int64, text string) {
	l.Publish(time.Unix(second, 0), host.GuestLog{Key: logKey, Text: text})
}

// gathered runs gather in the background; its messages come as their lines joined, with
// the missing servers behind them.
func gathered(ctx context.Context, s *logService, req *greenroomv1.TailRequest) (messages chan string, ended chan error) {
	messages, ended = make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- s.gather(ctx, req, func(m *greenroomv1.TailResponse) error {
			var all []string
			for _, l := range m.GetLines() {
				all = append(all, l.GetText())
			}
			for _, name := range m.GetMissing() {
				all = append(all, "without "+name)
			}
			messages <- strings.Join(all, " ")
			return nil
		})
	}()
	return messages, ended
}

// TestLogsOfAllServers: the lines of all servers come in the order of their times, as many
// as were asked for; a server that does not answer is named, and keeps nobody.
func TestLogsOfAllServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := NewLogs()
		s := &logService{logs: NewLogs()}
		peers := &logPeers{logs: map[actor.HostID]*Logs{"two": two, "three": NewLogs()}, broken: map[actor.HostID]func(){}}
		s.others, s.tailOf = peers.others, peers.tail
		for i := range 3 {
			logAt(s.logs, int64(10*i), "here"+string(rune('0'+i)))
			logAt(two, int64(10*i+5), "two"+string(rune('0'+i)))
		}
		got, ended := gathered(t.Context(), s, &greenroomv1.TailRequest{Last: 3})
		if lines := <-got; lines != "two1 here2 two2" {
			t.Errorf("got %q", lines)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		peers.set("three", nil)
		got, ended = gathered(t.Context(), s, &greenroomv1.TailRequest{Last: 1})
		if lines := <-got; lines != "two2 without web-three" {
			t.Errorf("got %q", lines)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestLogsOfAllServersAreFollowed: lines come from every server, from one that joins later
// and from one whose stream broke, each once.
func TestLogsOfAllServersAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two, three := NewLogs(), NewLogs()
		s := &logService{logs: NewLogs()}
		peers := &logPeers{logs: map[actor.HostID]*Logs{"two": two}, broken: map[actor.HostID]func(){}}
		s.others, s.tailOf = peers.others, peers.tail
		ctx, cancel := context.WithCancel(t.Context())
		logAt(two, 1, "old")
		got, ended := gathered(ctx, s, &greenroomv1.TailRequest{Follow: true})
		var all []string
		take := func(want string) {
			t.Helper()
			all = append(all, <-got)
			if all[len(all)-1] != want {
				t.Errorf("got %q, want %q", all, want)
			}
		}
		take("")
		logAt(s.logs, 2, "here")
		take("here")
		logAt(two, 3, "two")
		take("two")
		peers.cut("two")
		synctest.Wait()
		logAt(two, 4, "meanwhile")
		take("meanwhile")
		logAt(three, 5, "joined")
		peers.set("three", three)
		take("joined")
		logAt(three, 6, "three")
		take("three")
		<-time.After(10 * tailLookAround) // virtual: streams that stand are not begun again
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("%q and more: %q", all, <-got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if !slices.Contains(all, "three") || len(s.logs.readers)+len(two.readers)+len(three.readers) != 0 {
			t.Error("readers stay behind")
		}
	})
}

// TestLogsEndWithTheServer: a follower of all servers ends with the one that it asked.
func TestLogsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &logService{logs: NewLogs()}
		peers := &logPeers{logs: map[actor.HostID]*Logs{"two": NewLogs()}, broken: map[actor.HostID]func(){}}
		s.others, s.tailOf = peers.others, peers.tail
		got, ended := gathered(t.Context(), s, &greenroomv1.TailRequest{Follow: true})
		<-got
		s.logs.Close()
		if err := <-ended; !errors.Is(err, failure.ErrStopping) {
			t.Error(err)
		}
	})
}
