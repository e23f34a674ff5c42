package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
)

// Ledger records the increments of a set of counters that callers asked for and that were
// acknowledged. It outlives the servers.
type Ledger struct {
	counters []*counter
}

type counter struct {
	id string

	mu        sync.Mutex
	attempted int64          // increments sent
	acked     int64          // increments acknowledged
	highest   int64          // highest acknowledged value
	values    map[int64]bool // acknowledged values: no two may be the same
	problems  []string       // what can never be, as it was seen
}

// NewLedger returns a ledger for n counters whose IDs begin with prefix.
func NewLedger(prefix string, n int) *Ledger {
	l := &Ledger{}
	for i := range n {
		l.counters = append(l.counters, &counter{id: fmt.Sprintf("%s-%d", prefix, i), values: map[int64]bool{}})
	}
	return l
}

// Acked returns how many increments were acknowledged so far.
func (l *Ledger) Acked() int64 {
	var n int64
	for _, c := range l.counters {
		c.mu.Lock()
		n += c.acked
		c.mu.Unlock()
	}
	return n
}

// Target is the counter type under load: a method that adds one and replies
// with the new value, and a read-only one that replies with the value.
type Target struct {
	URL, Token         string
	App, Type          string
	AddMethod, AddBody string
	GetMethod          string
}

// CounterTarget is examples/counter on the server at url.
func CounterTarget(url string) Target {
	return Target{URL: url, App: "default", Type: "Counter", AddMethod: "Add", AddBody: `{"amount":1}`, GetMethod: "Get"}
}

// checkAttempts come to some minutes.
const checkAttempts = 200

// Load increments the ledger's counters with workers callers at once until ctx
// ends or the server is gone, calling onAck with the running total after each
// acknowledgement. It returns when no call is in flight any more.
func (l *Ledger) Load(ctx context.Context, t Target, workers int, onAck func(total int64)) {
	transport := &http.Transport{MaxIdleConnsPerHost: workers}
	defer transport.CloseIdleConnections()
	client := greenroomv1connect.NewActorServiceClient(&http.Client{Transport: transport}, t.URL)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	total := atomic.Int64{}
	total.Store(l.Acked())
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				c := l.counters[i%len(l.counters)]
				if err := c.add(ctx, client, t); err != nil {
					if connect.CodeOf(err) == connect.CodeUnavailable && !connect.IsWireError(err) {
						cancel() // the server is gone, which it would not say itself
					}
					continue
				}
				onAck(total.Add(1))
			}
		})
	}
	wg.Wait()
}

func (c *counter) add(ctx context.Context, client greenroomv1connect.ActorServiceClient, t Target) error {
	c.mu.Lock()
	c.attempted++
	c.mu.Unlock()
	resp, err := client.Invoke(ctx, connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor:   &greenroomv1.ActorKey{App: t.App, Type: t.Type, Id: c.id},
		Method:  t.AddMethod,
		Payload: []byte(t.AddBody),
	}))
	if err != nil {
		return err
	}
	value, err := number(resp.Msg.Payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
	switch {
	case err != nil:
		c.problems = append(c.problems, err.Error())
	case c.values[value]:
		c.problems = append(c.problems, fmt.Sprintf("two increments were both answered with %d", value))
	default:
		c.values[value] = true
		c.highest = max(c.highest, value)
	}
	return nil
}

// Add increments the ledger's counter number n, modulo their number, by one call. [Ledger.Check]
// does not expect the increment of a call that failed without effect.
func (l *Ledger) Add(ctx context.Context, cl *client.Client, t Target, n int) error {
	return l.counters[n%len(l.counters)].addOnce(ctx, cl, t)
}

func (c *counter) addOnce(ctx context.Context, cl *client.Client, t Target) error {
	reply, err := cl.Do(ctx, client.Request{App: t.App, Type: t.Type, ID: c.id, Method: t.AddMethod, Payload: []byte(t.AddBody)})
	var value int64
	if err == nil {
		value, err = number(reply.Payload)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed *client.Error
	if err == nil || !errors.As(err, &failed) || !failed.Retryable {
		c.attempted++
	}
	if err != nil {
		return err
	}
	if c.values[value] {
		c.problems = append(c.problems, fmt.Sprintf("two increments were both answered with %d", value))
	}
	c.acked++
	c.values[value] = true
	c.highest = max(c.highest, value)
	return nil
}

// Check reads every counter and reports all that contradicts the ledger: a
// value below what was acknowledged, above what was asked for, or an
// acknowledgement given twice. A server that cannot answer now is asked again.
func (l *Ledger) Check(ctx context.Context, t Target) (problems []string, err error) {
	cl, err := client.New(client.Config{URL: t.URL, Token: t.Token, MaxAttempts: checkAttempts})
	if err != nil {
		return nil, err
	}
	defer func() { _ = cl.Close() }()
	for _, c := range l.counters {
		reply, err := cl.Do(ctx, client.Request{App: t.App, Type: t.Type, ID: c.id, Method: t.GetMethod, ReadOnly: true, Strong: true})
		if err != nil {
			return nil, fmt.Errorf("read counter %s: %w", c.id, err)
		}
		value, err := number(reply.Payload)
		if err != nil {
			return nil, fmt.Errorf("read counter %s: %w", c.id, err)
		}
		c.mu.Lock()
		for _, p := range c.problems {
			problems = append(problems, fmt.Sprintf("counter %s: %s", c.id, p))
		}
		if value < c.acked || value < c.highest {
			problems = append(problems, fmt.Sprintf("counter %s: %d, but %d increments were acknowledged, up to the value %d", c.id, value, c.acked, c.highest))
		}
		if value > c.attempted {
			problems = append(problems, fmt.Sprintf("counter %s: %d, but only %d increments were asked for", c.id, value, c.attempted))
		}
		c.mu.Unlock()
	}
	return problems, nil
}

// number reads a reply that is a JSON number, or an object with the one member
// "count".
func number(payload []byte) (int64, error) {
	var n int64
	if err := json.Unmarshal(payload, &n); err == nil {
		return n, nil
	}
	var obj struct{ Count *int64 }
	if err := json.Unmarshal(payload, &obj); err != nil || obj.Count == nil {
		return 0, fmt.Errorf("the reply %q is not a number", payload)
	}
	return *obj.Count, nil
}
