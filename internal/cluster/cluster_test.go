//go:build unix

// Package cluster_test runs three real servers on one real database, breaks them while
// callers go on, and checks what the callers saw.
package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/history"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/scheduler"
)

const (
	// rounds of faults in CI, of each kind of placement: each fault once; GREENROOM_KILL_ROUNDS changes it
	// (make soak).
	defaultRounds = 9
	callers       = 12
	counters      = 12
	// lease of the servers: short, so that what waits for it does not wait long.
	lease = time.Second
	// stalled is for how long nothing may be answered: far above a lease.
	stalled = 2 * time.Minute
	// attemptTime bounds one attempt of a call.
	attemptTime = 5 * time.Second
	// stale is how old what a default read answers may be: a lease, and what a busy
	// machine adds to any time.
	stale = lease + 2*time.Second
)

var binary, guest string // built once by TestMain

func TestMain(m *testing.M) { os.Exit(crash.Main(m, &binary, &guest)) }

// member is one of the servers.
type member struct {
	options crash.Options
	process *crash.Process
	proxy   *proxy // by which the others reach it
	db      *proxy // by which it reaches the database
}

func (m *member) start(t *testing.T) {
	t.Helper()
	process, err := crash.Start(t.Context(), m.options)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	m.process = process
}

func (m *member) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(m.process.PID(), s); err != nil {
		t.Fatal(err)
	}
}

// freeAddress finds a port that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, answers at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startCluster starts three servers that reach each other and the database through
// proxies, and deploys the counter. change may change how each is started; nil: nothing.
func startCluster(t *testing.T, storeURL string, change func(i int, o *crash.Options), args ...string) []*member {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "servers.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			// Past t, whose own lines come after it without -v: of long output the end is kept.
			text, _ := os.ReadFile(log.Name())
			fmt.Fprintf(os.Stdout, "end of the servers' log of %s:\n%s\n", t.Name(), text[max(0, len(text)-8000):])
		}
		_ = log.Close()
	})
	store, err := url.Parse(storeURL)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*member, 3)
	for i := range all {
		addr := freeAddress(t)
		m := &member{proxy: newProxy(t, addr), db: newProxy(t, store.Host)}
		through := *store
		through.Host = m.db.Addr().String()
		m.options = crash.Options{Binary: binary, Listen: addr, Log: log, Args: append([]string{
			"--store", through.String(), "--name", fmt.Sprint("host-", i), "--advertise", m.proxy.Addr().String(), "--advertise-api", addr,
			"--lease", lease.String(),
		}, args...)}
		if change != nil {
			change(i, &m.options)
		}
		m.start(t)
		t.Cleanup(func() { _ = m.process.Kill() })
		all[i] = m
	}
	deploy := exec.CommandContext(t.Context(), binary, "deploy", guest, "--server", all[0].process.URL)
	if out, err := deploy.CombinedOutput(); err != nil {
		t.Fatalf("deploy: %v\n%s", err, out)
	}
	return all
}

// fault breaks something and mends it.
type fault struct {
	name string
	do   func(t *testing.T, r *run, random *rand.Rand)
}

// faults are all that are tried; that of the database itself if it is one of this test's.
func faults(db *pgtest.Server) []fault {
	any := func(r *run, random *rand.Rand) *member { return r.members[random.IntN(len(r.members))] }
	all := []fault{
		{"kill -9", func(t *testing.T, r *run, random *rand.Rand) {
			m := any(r, random)
			if err := m.process.Kill(); err != nil {
				t.Fatal(err)
			}
			r.everyCounter(t) // by the others
			m.start(t)
		}},
		{"kill -9 of the leader", func(t *testing.T, r *run, _ *rand.Rand) {
			m, epoch := r.leader(t, 0)
			if err := m.process.Kill(); err != nil {
				t.Fatal(err)
			}
			if next, _ := r.leader(t, epoch+1); next == m {
				t.Error("a server leads that was killed")
			}
			m.start(t)
		}},
		{"freeze for longer than a lease", func(t *testing.T, r *run, random *rand.Rand) {
			m := any(r, random)
			m.signal(t, syscall.SIGSTOP)
			r.everyCounter(t)
			m.signal(t, syscall.SIGCONT)
		}},
		{"freeze for a moment", func(t *testing.T, r *run, random *rand.Rand) {
			m := any(r, random)
			m.signal(t, syscall.SIGSTOP)
			r.await(t, 1)
			m.signal(t, syscall.SIGCONT)
		}},
		{"restart", func(t *testing.T, r *run, random *rand.Rand) {
			m := any(r, random)
			if err := m.process.Stop(t.Context()); err != nil {
				t.Errorf("stop: %v", err)
			}
			m.start(t)
		}},
		{"connections between hosts reset", func(t *testing.T, r *run, random *rand.Rand) {
			for range 5 {
				any(r, random).proxy.cut()
				r.await(t, 5)
			}
		}},
		{"connections to the database reset", func(t *testing.T, r *run, random *rand.Rand) {
			for range 5 {
				any(r, random).db.cut()
				r.await(t, 5)
			}
		}},
		{"one host loses the database", func(t *testing.T, r *run, random *rand.Rand) {
			m := any(r, random)
			m.db.refuse(true)
			r.everyCounter(t) // by the others, once its lease is over
			m.db.refuse(false)
		}},
	}
	if db != nil {
		all = append(all, fault{"database restarted", func(t *testing.T, _ *run, random *rand.Rand) {
			if random.IntN(2) == 0 {
				db.Kill(t)
			} else {
				db.Stop()
			}
			db.Restart(t)
		}})
	}
	return all
}

// TestThreeHosts: whatever breaks, every call ends, no increment that was answered is
// lost or counted twice, strong reads are of the present, turns that change nothing rest on
// what was the newest a moment before, default reads are not older than a lease, and no
// caller is shown less than it was shown before. Every reminder is counted as often as it is
// due, and not before. Every message takes effect once, in the order of its sender.
func TestThreeHosts(t *testing.T) {
	for _, args := range [][]string{nil, {"--sticky"}} {
		name := strings.Join(append([]string{"servers"}, args...), " ")
		t.Run(name, func(t *testing.T) {
			db := pgtest.Start(t)
			threeHosts(t, db.Database(t), db, args...)
		})
		if os.Getenv(pgtest.CockroachVariable) != "" {
			t.Run("cockroachdb "+name, func(t *testing.T) {
				url, _ := pgtest.CockroachURL(t)
				threeHosts(t, url, nil, args...)
			})
		}
	}
}

// threeHosts runs on a database, which is restarted if it is of this test's own server.
func threeHosts(t *testing.T, storeURL string, db *pgtest.Server, args ...string) {
	t.Helper()
	r, random := load(t, startCluster(t, storeURL, nil, args...))
	reminders, messages, events := newAlarms(t, r), newPosts(t, r), newPapers(t, r)
	r.breakAll(t, random, faults(db), func() {
		reminders.wave(t)
		messages.wave(t)
		events.wave(t)
	})
	r.end(t)
	reminders.end(t)
	messages.end(t)
	events.end(t)
	t.Logf("%d calls, %d attempts", r.calls.Len(), r.attempts.Load())
}

// breakAll makes each fault happen at least once, and then faults at random. It calls before ahead
// of each fault.
func (r *run) breakAll(t *testing.T, random *rand.Rand, all []fault, before func()) {
	t.Helper()
	rounds := crash.Rounds(t, defaultRounds)
	fired := map[string]int{}
	for n := range rounds {
		before()
		f := all[random.IntN(len(all))]
		if n < len(all) {
			f = all[n] // each at least once
		}
		t.Logf("round %d: %s", n, f.name)
		f.do(t, r, random)
		fired[f.name]++
		r.everyCounter(t) // the cluster settles
	}
	t.Logf("%d rounds %v", rounds, fired)
	for _, f := range all {
		if rounds >= len(all) && fired[f.name] == 0 {
			t.Errorf("this never happened: %s", f.name)
		}
	}
}

// TestRoles: a server that leads and runs no actors, and two that run them and do not lead.
// Calls of the first one are passed on; when it is lost, what has its place goes on.
func TestRoles(t *testing.T) {
	members := startCluster(t, pgtest.URL(t), func(i int, o *crash.Options) {
		role := scheduler.RoleHost
		if i == 0 {
			role = scheduler.RoleScheduler
		}
		o.Args = append(o.Args, "--roles", role)
	})
	r, _ := load(t, members)
	at := func(m *member, id string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, m.process.URL+"/v2.0/actors/default/Counter/"+id+"/method/Add", strings.NewReader(`{"amount":0}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", id, resp.Status)
		}
		return resp.Header.Get("Greenroom-Host")
	}
	holders := map[string]bool{}
	for n := range counters {
		holders[at(members[0], fmt.Sprint("c", n))] = true
	}
	if len(holders) != 2 || holders[""] {
		t.Errorf("actors are at %v, called at the server that leads", holders)
	}
	if err := members[0].process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.everyCounter(t)
	}
	members[0].start(t)
	r.everyCounter(t)
	r.end(t)
}

// TestReadsOutliveTheirHost: when the server that holds an actor of a ring:2 type is killed,
// its reader goes on answering reads at once, long before anybody takes the actor over.
func TestReadsOutliveTheirHost(t *testing.T) {
	const long = "60s" // the lease: the test is over before
	members := startCluster(t, pgtest.URL(t), nil, "--lease", long)
	command := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), binary, append(args, "--server", members[0].process.URL)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	command("deploy", guest, "--placement", "Counter=ring:2")
	// The first server stays: it leads.
	var id, held, reads string
	deadline := time.Now().Add(stalled)
	for i := 0; held == "" || reads == "" || held == "host-0"; i++ {
		if time.Now().After(deadline) {
			t.Fatal("no actor of another server than the first has a reader")
		}
		id, held, reads = fmt.Sprint("c", i%50), "", ""
		for line := range strings.Lines(command("where", "Counter", id)) {
			if f := strings.Fields(line); len(f) == 4 && f[3] == "(ring:2)" {
				held = f[1]
			} else if len(f) == 4 && f[3] == "(reads)" {
				reads = f[1]
			}
		}
	}
	named := func(name string) *member { return members[name[len(name)-1]-'0'] }
	method := "/v2.0/actors/default/Counter/" + id + "/method/"
	call := func(verb, url, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), verb, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s %s, %v", verb, url, res.Status, text, err)
		}
		return string(text)
	}
	want := call(http.MethodPut, named(held).process.URL+method+"Add", `{"amount":7}`)
	if err := named(held).process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := call(http.MethodGet, named(reads).process.URL+method+"Get", ""); got != want {
			t.Errorf("read %s, want %s", got, want)
		}
	}
}

// TestMixedVersions: servers of two versions are one cluster. Three of the version before
// are upgraded one after the other under load: no request fails, and the history is as
// without. One that speaks the older protocol again is taken in as well. Where the version
// before cannot be built, all of that is tested with this one, which speaks as the other
// did; if it holds, the test is not passed but skipped.
func TestMixedVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the version before")
	}
	before, present := older(t)
	members := startCluster(t, pgtest.URL(t), func(_ int, o *crash.Options) { before(o) })
	r, _ := load(t, members)
	const now, then = scheduler.MaxProtocol, scheduler.MaxProtocol - 1
	r.speak(t, then, then, then)
	restart := func(m *member, change func(o *crash.Options)) {
		t.Helper()
		if err := m.process.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
		change(&m.options)
		m.start(t)
		r.everyCounter(t)
	}
	for i, want := range [][]int{{now, then, then}, {now, now, then}, {now, now, now}} {
		restart(members[i], func(o *crash.Options) { o.Binary, o.Env = binary, nil })
		r.speak(t, want...)
	}
	restart(members[1], func(o *crash.Options) { o.Env = []string{"GREENROOM_CLUSTER_PROTOCOL=" + strconv.Itoa(then)} })
	r.speak(t, now, then, now)
	r.end(t)
	if n, err := r.failed.Load(), r.failure.Load(); n > 0 {
		t.Errorf("%d requests failed, one of them with %v", n, *err)
	}
	t.Logf("%d requests", r.attempts.Load())
	if present != nil && !t.Failed() {
		t.Skipf("no server was of the version before: those in its place were of the present source, and spoke protocol %d: %v", then, present)
	}
}

// speak waits until the cluster's servers are these, by the newest protocols that they
// speak, and each has a session with the leader.
func (r *run) speak(t *testing.T, protocols ...int) {
	t.Helper()
	conn := &http.Client{Timeout: attemptTime}
	defer conn.CloseIdleConnections()
	c := greenroomv1connect.NewClusterServiceClient(conn, r.members[0].process.URL)
	var found string
	for deadline := time.Now().Add(stalled); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		resp, err := c.ListHosts(t.Context(), connect.NewRequest(&greenroomv1.ListHostsRequest{}))
		if err != nil {
			found = err.Error()
			continue
		}
		found = fmt.Sprint(resp.Msg.Hosts)
		fits := len(resp.Msg.Hosts) == len(protocols)
		for _, h := range resp.Msg.Hosts {
			i, err := strconv.Atoi(strings.TrimPrefix(h.Name, "host-"))
			fits = fits && err == nil && h.Connected && int(h.MaxProtocol) == protocols[i] && h.MinProtocol == scheduler.MinProtocol
		}
		if fits {
			return
		}
	}
	t.Fatalf("no cluster of servers that speak %v: %s", protocols, found)
}

// run is the calls of a test and their history.
type run struct {
	members  []*member
	client   *client.Client
	names    int // of what is called
	acks     chan string
	stop     chan struct{}
	ended    chan struct{} // closed when a caller has ended before it was told to
	calls    history.History
	attempts atomic.Int64
	failed   atomic.Int64 // of the attempts
	failure  atomic.Pointer[error]
	callers  sync.WaitGroup
}

// load has callers call all counters until [run.end]. It returns the randomness of the
// test as well.
func load(t *testing.T, members []*member) (*run, *rand.Rand) {
	t.Helper()
	r := &run{members: members, client: newClient(t, members, 0), names: counters}
	return r, r.begin(t, r.call)
}

// newClient returns a client of all members; attempts is how often it makes a call, 0 the usual.
func newClient(t *testing.T, members []*member, attempts int) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: members[0].process.URL, URLs: []string{members[1].process.URL, members[2].process.URL}, MaxAttempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// begin starts the callers, and waits until everything has answered. It returns the randomness of
// the test; see [crash.Seeded].
func (r *run) begin(t *testing.T, call func(ctx context.Context, t *testing.T, caller int, random *rand.Rand)) *rand.Rand {
	t.Helper()
	random, seed := crash.Seeded(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.acks, r.stop, r.ended = make(chan string, 1<<16), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		cancel()
		r.callers.Wait()
	})
	var once sync.Once
	for caller := range callers {
		r.callers.Go(func() {
			call(ctx, t, caller, rand.New(rand.NewPCG(seed, uint64(caller)+1)))
			select {
			case <-r.stop:
			default:
				once.Do(func() { close(r.ended) })
			}
		})
	}
	r.everyCounter(t)
	return random
}

// finish lets the callers finish.
func (r *run) finish() {
	close(r.stop)
	r.callers.Wait()
}

// end lets the callers finish, and checks what they saw.
func (r *run) end(t *testing.T) {
	t.Helper()
	r.finish()
	if !t.Failed() {
		r.calls.Check(t)
		r.calls.CheckCallers(t)
	}
}

// leader waits until a server leads of at least an epoch, and has a session with another;
// it returns the server and its epoch.
func (r *run) leader(t *testing.T, epoch uint64) (*member, uint64) {
	t.Helper()
	conn := &http.Client{Timeout: attemptTime}
	defer conn.CloseIdleConnections()
	for deadline := time.Now().Add(stalled); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		for i, asked := range r.members {
			c := greenroomv1connect.NewClusterServiceClient(conn, asked.process.URL)
			resp, err := c.ListHosts(t.Context(), connect.NewRequest(&greenroomv1.ListHostsRequest{}))
			if err != nil || !resp.Msg.LeaderAnswered || resp.Msg.LeaderEpoch < epoch {
				continue
			}
			for _, h := range resp.Msg.Hosts {
				if n, err := strconv.Atoi(strings.TrimPrefix(h.Name, "host-")); err == nil && h.Leader && n != i {
					return r.members[n], resp.Msg.LeaderEpoch
				}
			}
		}
	}
	t.Fatalf("no server leads of epoch %d or later", epoch)
	return nil, 0
}

// await waits for so many answers.
func (r *run) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		r.next(t)
	}
}

func (r *run) next(t *testing.T) string {
	t.Helper()
	select {
	case counter := <-r.acks:
		return counter
	case <-r.ended:
		t.Fatal("a caller has ended early")
		return ""
	case <-time.After(stalled):
		t.Fatalf("no call was answered for %v", stalled)
		return ""
	}
}

// everyCounter waits until each counter has answered a call that came after now.
func (r *run) everyCounter(t *testing.T) {
	t.Helper()
	for len(r.acks) > 0 {
		<-r.acks
	}
	seen := map[string]int{}
	for done, since := 0, time.Now(); done < r.names; {
		counter := r.next(t)
		if seen[counter]++; seen[counter] == callers+1 { // the first ones may have begun before
			done, since = done+1, time.Now()
		}
		if time.Since(since) > stalled {
			t.Fatalf("for %v, %d of %d were not answered often enough, others were: %v", stalled, r.names-done, r.names, seen)
		}
	}
}

// call makes calls, one after the other, until the run stops.
func (r *run) call(ctx context.Context, t *testing.T, caller int, random *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-r.stop:
			return
		default:
		}
		counter := fmt.Sprint("c", random.IntN(counters))
		in := history.Call{Counter: counter}
		req := client.Request{Type: "Counter", ID: counter, Method: "Get", ReadOnly: true}
		var call *history.Pending
		switch kind := random.IntN(7); kind {
		case 0: // a default read
			call = r.calls.BeginStale(caller, in, stale)
		case 1: // a turn that changes nothing, and commits nothing
			req.Method, req.ReadOnly, req.Payload = "Add", false, []byte(`{"amount":0}`)
			call = r.calls.BeginStale(caller, in, actor.MaxReadAge)
		case 2:
			req.Strong = true
			call = r.calls.Begin(caller, in)
		default:
			in.Add = int64(kind - 2)
			req.Method, req.ReadOnly = "Add", false
			req.Payload, req.IdempotencyKey = fmt.Appendf(nil, `{"amount":%d}`, in.Add), fmt.Sprint(caller, "-", n)
			call = r.calls.Begin(caller, in)
		}
		value, err := r.ask(ctx, req)
		if err == nil {
			call.Answered(value)
		}
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("%s: %v", counter, err)
			}
			return
		}
		select {
		case r.acks <- counter:
		default:
		}
	}
}

// ask repeats a call of a counter until it is answered.
func (r *run) ask(ctx context.Context, req client.Request) (int64, error) {
	payload, err := r.reply(ctx, req)
	if err != nil {
		return 0, err
	}
	var obj struct{ Count int64 }
	err = json.Unmarshal(payload, &obj)
	return obj.Count, err
}

// reply repeats a call until it is answered.
func (r *run) reply(ctx context.Context, req client.Request) ([]byte, error) {
	for {
		r.attempts.Add(1)
		attempt, cancel := context.WithTimeout(actor.NewTrace().Context(ctx), attemptTime)
		reply, err := r.client.Do(attempt, req)
		late := errors.Is(attempt.Err(), context.DeadlineExceeded) // which a busy machine may be
		cancel()
		if err != nil && !late {
			r.failed.Add(1)
			r.failure.Store(&err)
		}
		if err == nil {
			return reply.Payload, nil
		}
		var e *client.Error
		if !errors.As(err, &e) || !e.Retryable && !e.OutcomeUnknown && e.Kind != client.KindDeadline {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
