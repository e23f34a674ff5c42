package host_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// receiver passes its answer on; a second one would block, and fail the test.
type receiver chan answer

func (r receiver) Answer(reply actor.Reply, err error) {
	select {
	case r <- answer{string(reply.Payload.Data), err}:
	default:
		panic("a call was answered twice")
	}
}

func (s *stage) begin(ctx context.Context, id, method string) (receiver, host.Begun) {
	to := make(receiver, 1)
	return to, s.Begin(ctx, actor.Invocation{Key: key(id), Method: method}, to)
}

// TestBegin: callers that do not wait get what others get, once, in every lane.
func TestBegin(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, Methods: map[string]hosttest.Func{"Add": add}, ReadOnly: map[string]hosttest.Func{"View": view},
		})
		var all []receiver
		for range 5 {
			to, _ := s.begin(t.Context(), "a", "Add")
			all = append(all, to)
		}
		synctest.Wait()
		seen := make(map[string]bool)
		for _, to := range all {
			got := <-to
			if got.err != nil {
				t.Error(got.err)
			}
			seen[got.reply] = true
		}
		if len(seen) != 5 || !seen["5"] {
			t.Errorf("got %v", seen)
		}
		if to, _ := s.begin(t.Context(), "a", "View"); (<-to).reply != "5" {
			t.Error("what is read only is answered wrongly")
		}
		to, _ := s.begin(t.Context(), "a", "None")
		wantCondition(t, (<-to).err, actor.ErrMethodNotFound)
	})
}

// placing closes placed when its call has its place.
type placing struct {
	receiver
	placed chan struct{}
}

func (p placing) Placed() { close(p.placed) }

// TestPlacedBeforeTheTurn: who begins calls in order need not wait for their turns, of
// methods of both kinds.
func TestPlacedBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods: map[string]hosttest.Func{"Gate": g.addAfter}, ReadOnly: map[string]hosttest.Func{"View": g.wait},
		})
		for _, method := range []string{"Gate", "View"} {
			to := placing{make(receiver, 1), make(chan struct{})}
			go s.Begin(t.Context(), actor.Invocation{Key: key("a"), Method: method}, to)
			<-g.entered
			<-to.placed
			g.leave <- struct{}{}
			<-to.receiver
		}
	})
}

// TestBeginAnswersWhatIsDurable: no receiver hears of a commit under way.
func TestBeginAnswersWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		held := make(chan struct{})
		s.store.setHold(held)
		to, _ := s.begin(t.Context(), "a", "Add")
		synctest.Wait()
		if len(to) != 0 {
			t.Errorf("answered with %v before the commit", <-to)
		}
		close(held)
		if got := <-to; got.err != nil || got.reply != "1" {
			t.Errorf("got %v", got)
		}
	})
}

// TestGiveUp: what is queued leaves no trace, what runs is stopped, and the
// others never notice.
func TestGiveUp(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Gate": g.addAfter}})
		ctx, cancel := context.WithCancel(t.Context())
		running := make(chan struct{})
		first := make(receiver, 1)
		var firstCall host.Begun
		go func() { // an idle actor's turn runs in Begin
			firstCall = s.Begin(ctx, actor.Invocation{Key: key("a"), Method: "Gate"}, first)
			close(running)
		}()
		<-g.entered
		second, secondCall := s.begin(ctx, "a", "Add")
		third, thirdCall := s.begin(t.Context(), "a", "Add")
		synctest.Wait()
		cancel()
		secondCall.GiveUp()
		secondCall.GiveUp()
		wantCondition(t, (<-second).err, actor.ErrCanceled)
		wantCondition(t, (<-first).err, actor.ErrCanceled)
		<-running
		firstCall.GiveUp()
		if got := <-third; got.err != nil || got.reply != "1" {
			t.Errorf("the one that nobody gave up: %v", got)
		}
		thirdCall.GiveUp() // too late
	})
}

// TestGiveUpOfASealedTurn gets the outcome of its commit, or that it is unknown.
func TestGiveUpOfASealedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{SettleGrace: time.Minute})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		held := make(chan struct{})
		s.store.setHold(held)
		ctx, cancel := context.WithCancel(t.Context())
		quick, quickCall := s.begin(ctx, "a", "Add")
		slow, slowCall := s.begin(ctx, "b", "Add")
		synctest.Wait()
		cancel()
		slowCall.GiveUp()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		wantCondition(t, (<-slow).err, actor.ErrAmbiguous)
		quickCall.GiveUp()
		close(held)
		if got := <-quick; got.err != nil || got.reply != "1" {
			t.Errorf("got %v", got)
		}
	})
}

// TestNoTurnBeginsBeforeItsCallCame: the time that a turn sees is not before its call
// came, also where the call comes while the worker of its actor still clears away the turn
// before: a reminder would seem to fire before it is due.
func TestNoTurnBeginsBeforeItsCallCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closes, closed := make(chan struct{}, 100), make(chan struct{})
		s := newStage(t, host.Config{Observers: []host.Events{{InstanceClosed: func(host.InstanceEvent) {
			closes <- struct{}{}
			<-closed
		}}}})
		g := newGate()
		var at int64
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Gate": g.addAfter,
			"Trap": func(*hosttest.Turn) error { panic("a trap") },
			"Look": func(t *hosttest.Turn) error {
				at = t.Frame.TimeUnixNano
				return nil
			},
		}})
		first := s.start(t.Context(), "a", "Gate")
		<-g.entered
		trapped := s.start(t.Context(), "a", "Trap") // which the first leaves to a worker
		synctest.Wait()
		close(g.leave)
		<-closes // the turn has ended, and its instance is closed
		time.Sleep(time.Second)
		came := time.Now().UnixNano()
		last := s.start(t.Context(), "a", "Look")
		synctest.Wait()
		time.Sleep(time.Second)
		close(closed)
		if a := <-first; a.err != nil {
			t.Error(a.err)
		}
		if a := <-trapped; a.err == nil {
			t.Error("a trap was answered")
		}
		if a := <-last; a.err != nil || at < came {
			t.Errorf("the turn began %v before its call came; %v", time.Duration(came-at), a.err)
		}
	})
}
