package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/history"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

const (
	// freezeRounds in CI; GREENROOM_KILL_ROUNDS changes it (make soak).
	freezeRounds = 12
	// attemptTime is after how long a caller first turns to the other server: short,
	// so that a call meets both. Each time it waits twice as long as before, up to
	// maxAttemptTime, in which the slowest database answers.
	attemptTime    = 250 * time.Millisecond
	maxAttemptTime = roundDeadline / 4
	// buried is how many deleted actors lists pass, in several steps.
	buried = 12_000
	// deadEvery is how many rounds there are to one in which a connection dies: it takes
	// the server 20 s to give it up.
	deadEvery = 24
)

// TestFrozenHosts lets two servers on one database overtake each other: one of
// them is stopped by SIGSTOP in the middle of whatever it does, or killed, while
// callers turn to the other with the same idempotency keys; then it goes on with
// what it remembers. Every call ends, and all that was answered is linearizable:
// no increment is lost or counted twice, and no strong read is of the past. A server may also
// vanish in the middle of a message to the database, or lose one connection that way, while
// callers list all actors of the type; most of these are deleted.
func TestFrozenHosts(t *testing.T) {
	t.Parallel()
	frozenHosts(t, pgtest.URL(t))
}

func TestFrozenHostsCockroachDB(t *testing.T) {
	url, ok := pgtest.CockroachURL(t)
	if !ok {
		t.Skip("GREENROOM_TEST_COCKROACH_URL is not set")
	}
	frozenHosts(t, url)
}

func frozenHosts(t *testing.T, url string) {
	t.Helper()
	rounds := crash.Rounds(t, freezeRounds)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	log, err := os.Create(filepath.Join(t.TempDir(), "servers.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fatal := func(format string, args ...any) {
		t.Helper()
		fatalAfterLog(t, log.Name(), format, args...)
	}

	var pair [2]*member
	for i := range pair {
		database, through := cutBefore(t, url)
		m := &member{database: database, log: log.Name(), options: crash.Options{Binary: binary, Args: append([]string{"--store", through, "--lease", "1s"}, patient...), Log: log}}
		m.start(t)
		defer func() { m.process.Kill() }()
		m.options.Listen = strings.TrimPrefix(m.process.URL, "http://") // its client knows one address
		// Twice, for the pause between: what a server without its lease refuses at once would keep
		// the processor from the others.
		if m.client, err = client.New(client.Config{URL: m.process.URL, MaxAttempts: 2}); err != nil {
			t.Fatal(err)
		}
		defer m.client.Close()
		pair[i] = m
	}
	if out, err := exec.CommandContext(t.Context(), binary, "deploy", guest, "--server", pair[0].process.URL).CombinedOutput(); err != nil {
		fatal("deploy: %v\n%s", err, out)
	}

	bury(t, url, buried)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lists atomic.Int64
	var listing sync.WaitGroup
	defer listing.Wait()
	defer cancel()
	for _, m := range pair {
		url := m.process.URL
		listing.Go(func() { lists.Add(int64(list(ctx, url))) })
	}
	run := &frozenRun{pair: pair, acks: make(chan struct{}, 1<<16), stop: make(chan struct{}), failures: make(chan error, callers)}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() { run.call(ctx, caller, rand.New(rand.NewPCG(seed, uint64(caller)+1))) })
	}
	await := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-run.acks:
			case <-time.After(roundDeadline):
				fatal("no call was answered for %v", roundDeadline)
			}
		}
	}
	struck := func(c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(roundDeadline):
			fatal("nothing was sent to the database for %v", roundDeadline)
		}
	}
	cuts := 0
	for round := range rounds {
		await(1 + random.IntN(mostAcks/4))
		m := pair[random.IntN(len(pair))]
		if round%deadEvery == deadEvery/4 { // calls wait for this one, until the server gives it up
			struck(m.database.cutNext(false, random))
			cuts++
			continue
		}
		switch random.IntN(4) {
		case 0:
			m.process.Kill()
			m.start(t)
			continue
		case 1: // with its machine
			struck(m.database.cutNext(true, random))
			cuts++
			m.signal(t, syscall.SIGSTOP)
			await(1 + random.IntN(mostAcks/8)) // by the other one
			m.process.Kill()
			m.database.resume()
			m.start(t)
			continue
		}
		m.signal(t, syscall.SIGSTOP)
		await(1 + random.IntN(mostAcks/8)) // by the other one
		m.signal(t, syscall.SIGCONT)
	}
	await(mostAcks / 8)
	close(run.stop)
	group.Wait()
	select {
	case err := <-run.failures:
		fatal("%v", err)
	default:
	}
	run.calls.Check(t)
	cancel()
	listing.Wait()
	t.Logf("%d rounds, %d cuts, %d calls, %d attempts, %d lists", rounds, cuts, run.calls.Len(), run.attempts.Load(), lists.Load())
	if lists.Load() == 0 {
		t.Error("no list came to its end")
	}
	if run.attempts.Load() == int64(run.calls.Len()) {
		t.Error("no call was repeated: nothing met a frozen server")
	}
}

// member is one of the two servers.
type member struct {
	options crash.Options
	log     string // the name of its log's file
	process *crash.Process
	client  *client.Client
	// database stands between it and the database.
	database *cutter
}

func (m *member) start(t *testing.T) {
	t.Helper()
	process, err := crash.Start(t.Context(), m.options)
	if err != nil {
		fatalAfterLog(t, m.log, "start: %v", err)
	}
	m.process = process
}

func (m *member) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(m.process.PID(), s); err != nil {
		t.Fatal(err)
	}
}

// frozenRun is the calls of a test and their history.
type frozenRun struct {
	pair     [2]*member
	acks     chan struct{}
	stop     chan struct{}
	calls    history.History
	attempts atomic.Int64
	failures chan error // of capacity callers: each ends with its first
}

// call makes calls, one after the other, until the run stops.
func (r *frozenRun) call(ctx context.Context, caller int, random *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-r.stop:
			return
		default:
		}
		in := history.Call{Counter: fmt.Sprint("frozen-", random.IntN(counters)), Add: random.Int64N(3)}
		req := client.Request{Type: "Counter", ID: in.Counter, Method: "Get", ReadOnly: true, Strong: true}
		if in.Add > 0 {
			req = client.Request{Type: "Counter", ID: in.Counter, Method: "Add", Payload: fmt.Appendf(nil, `{"amount":%d}`, in.Add), IdempotencyKey: fmt.Sprint(caller, "-", n)}
		}
		call := r.calls.Begin(caller, in)
		value, err := r.ask(ctx, req, random)
		if err != nil {
			r.failures <- fmt.Errorf("%+v: %w", in, err)
			return
		}
		call.Answered(value)
		select {
		case r.acks <- struct{}{}:
		default:
		}
	}
}

// ask repeats a call at either server until one of them answers it.
func (r *frozenRun) ask(ctx context.Context, req client.Request, random *rand.Rand) (int64, error) {
	for patience := attemptTime; ; patience = min(2*patience, maxAttemptTime) {
		r.attempts.Add(1)
		attempt, cancel := context.WithTimeout(ctx, patience)
		reply, err := r.pair[random.IntN(len(r.pair))].client.Do(attempt, req)
		cancel()
		if err == nil {
			var obj struct{ Count int64 }
			err := json.Unmarshal(reply.Payload, &obj)
			return obj.Count, err
		}
		var e *client.Error
		if !errors.As(err, &e) || !e.Retryable && !e.OutcomeUnknown && e.Kind != client.KindDeadline {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}
