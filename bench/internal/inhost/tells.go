package inhost

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// TellRole has pairs of actors tell each other.
const TellRole = "in-host-tells"

// TellSpec says how.
type TellSpec struct {
	Dir  string
	Wasm string // path of the module of bench/tellguest; empty: the same in Go, without Wasm
	// Pings has a message go to and fro, instead of many that go one way.
	Pings bool
	// Plan has a pair for each call outstanding. Its calls are messages that were heard, or
	// rounds of ping-pong.
	Plan load.Plan
}

// pair is two actors that tell each other.
type pair struct {
	left atomic.Int64 // turns, until the call is over
	over chan error   // of capacity 1
}

// ended notes the end of a turn.
func (p *pair) ended(err error) {
	if err != nil || p.left.Add(-1) == 0 {
		p.over <- err
	}
}

// tellsOfTurn is how many messages a turn tells, far fewer than a mailbox takes.
const tellsOfTurn = 256

// Tells plays [TellRole].
func Tells(ctx context.Context, s TellSpec) (load.Result, error) {
	st := must.Get(embedded.Open(ctx, embedded.Config{Dir: s.Dir, Logger: quiet}))
	cfg := host.Config{Committer: st, Logger: quiet}
	if s.Wasm == "" {
		defer must.Close(st.Close)
		w := hosttest.New()
		w.Deploy(actor.DefaultApp, "Teller", hosttest.Actor{Methods: map[string]hosttest.Func{"Say": say, "Hear": hear, "Ping": ping}})
		cfg.Engine, cfg.Modules = w, w
	} else {
		p := assemble(ctx, st, s.Wasm)
		defer must.Close(p.end)
		cfg = p.host
	}
	pairs := make([]pair, s.Plan.Outstanding)
	for i := range pairs {
		pairs[i].over = make(chan error, 1)
	}
	cfg.Observers = []host.Events{{TurnEnd: func(e host.TurnEnd) {
		if e.Method != "Say" {
			pairs[must.Get(strconv.Atoi(e.Key.ID[1:]))].ended(e.Err)
		}
	}}}
	h := must.Get(host.New(cfg))
	must.Check(h.Start(ctx))
	defer must.Close(func() error { return h.Stop(ctx) })

	method, turns, payload := "Say", tellsOfTurn, tellsOfTurn
	if s.Pings {
		method, turns, payload = "Ping", 2*tellsOfTurn+1, 2*tellsOfTurn
	}
	inv := actor.Invocation{ID: "bench", Method: method, Payload: actor.Payload{Data: strconv.AppendInt(nil, int64(payload), 10)}}
	res, err := load.Drive(ctx, s.Plan, func(ctx context.Context, worker, _, _ int) error {
		p, inv := &pairs[worker], inv
		p.left.Store(int64(turns))
		inv.Key = actor.Key{App: actor.DefaultApp, Type: "Teller", ID: "a" + strconv.Itoa(worker)}
		if _, err := h.Invoke(ctx, inv); err != nil {
			return err
		}
		return <-p.over
	})
	res.Calls *= tellsOfTurn
	return res, err
}

// say tells the other one of a pair so many numbers, as bench/tellguest does.
func say(t *hosttest.Turn) error {
	count := must.Get(strconv.Atoi(string(t.Frame.Payload)))
	for n := range count {
		if err := tell(t, "Hear", n); err != nil {
			return err
		}
	}
	return nil
}

func hear(*hosttest.Turn) error { return nil }

// ping passes the ball on, so many times.
func ping(t *hosttest.Turn) error {
	left := must.Get(strconv.Atoi(string(t.Frame.Payload)))
	if left == 0 {
		return nil
	}
	return tell(t, "Ping", left-1)
}

func tell(t *hosttest.Turn, method string, n int) error {
	other := "b"
	if t.Frame.ID[0] == 'b' {
		other = "a"
	}
	m := abi.Message{Type: "Teller", ID: other + t.Frame.ID[1:], Method: method, Payload: strconv.AppendInt(nil, int64(n), 10), Flags: abi.MessageVolatile}
	if code, err := t.Calls.Send(&m); code != 0 || err != nil {
		return fmt.Errorf("tell: code %d, %w", code, err)
	}
	return nil
}
