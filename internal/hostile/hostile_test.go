package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

var duration = flag.Duration("duration", 0, "how long the tenant floods the server, with all of each flood; 0: seconds, with little of each")

const (
	short = 5 * time.Second
	// shortOf is how much of each flood a short round has: one part in so many.
	shortOf = 50
	// patience bounds each call of a neighbour, and settling the wait for its last
	// reminders: generously, since the machine is as busy as the tenant can make it.
	patience = 2 * time.Minute
	settling = time.Minute
)

// TestHostileTenant lets a tenant do all that it can to a server at once, beside two
// neighbours that keep ledgers: what was acknowledged is in their states, nothing doubled,
// each of their reminders fires once, and nothing of theirs is refused.
func TestHostileTenant(t *testing.T) {
	dir := t.TempDir()
	server, apps := serve(t, dir, "tenant", "first", "second")
	tenant, neighbours := apps[0], apps[1:]
	span, part := *duration, 1
	if span == 0 {
		span, part = short, shortOf
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var table bytes.Buffer
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "flood\tat a time\tdone\trefused\tthe last one")
	var runs, report []func()
	due := time.Now().Add(span / 2)
	for _, f := range hostile.Floods() {
		count := &hostile.Count{}
		f.N = max(1, f.N/part)
		run, err := f.Prepare(ctx, tenant, due, count)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
		report = append(report, func() {
			fmt.Fprintf(rows, "%s\t%d\t%d\t%d\t%.80s\n", f.Name, f.N, count.Done.Load(), count.Refused.Load(), strings.ReplaceAll(count.Last(), "\n", " "))
		})
	}
	calm, end := context.WithTimeout(ctx, span)
	defer end()
	var flooding, running sync.WaitGroup
	for _, run := range runs {
		flooding.Go(run)
	}
	var ledgers []*neighbour
	for _, app := range neighbours {
		n := open(t, app)
		ledgers = append(ledgers, n)
		running.Go(func() { n.live(calm) })
	}
	running.Wait()
	stop()
	flooding.Wait()
	for _, r := range report {
		r()
	}
	fmt.Fprintln(rows, "\nneighbour\tdone\tfailed\tp50\tp99\tmost\t")
	for _, n := range ledgers {
		n.settle(t)
		n.report(rows)
	}
	rows.Flush()
	t.Logf("%v beside a hostile tenant:\n%s", span, table.String())
	for _, n := range ledgers {
		for kind, w := range n.work {
			for why, times := range w.failed {
				t.Logf("%s: %s, %d times: %s", n.Name, kind, times, why)
			}
		}
		for _, problem := range slices.Compact(slices.Sorted(slices.Values(n.problems))) {
			t.Errorf("%s: %s", n.Name, problem)
		}
	}
	if server.Ended() {
		t.Error("the server ended")
	}
}

// TestMaxRunningTurnsReachesTheHost: with --max-running-turns 1, one endless turn runs and the
// others wait for a processor.
func TestMaxRunningTurnsReachesTheHost(t *testing.T) {
	const turns = 5
	dir := t.TempDir()
	server, err := crash.Start(t.Context(), crash.Options{
		Binary: buildServer(t, dir), Args: []string{"--data-dir", filepath.Join(dir, "data"), "--max-running-turns", "1"}, Log: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	f := hostile.Floods("turns, endless")[0]
	f.N = turns
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run, err := f.Prepare(ctx, hostile.App{URL: server.URL, Name: "default"}, time.Time{}, &hostile.Count{})
	if err != nil {
		t.Fatal(err)
	}
	var flooding sync.WaitGroup
	flooding.Go(run)
	for want := fmt.Sprintf("\ngreenroom_turns_waiting_for_processor %d\n", turns-1); !strings.Contains(metrics(ctx, t, server.URL), want); {
	}
	cancel()
	flooding.Wait()
}

// metrics returns the metrics of a server as text.
func metrics(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// buildServer builds the program into a folder, and returns its path.
func buildServer(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "greenroom")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/greenroom").CombinedOutput(); err != nil {
		t.Fatalf("build greenroom: %v\n%s", err, out)
	}
	return binary
}

// serve starts a server with the neighbours' guest deployed to all apps but the first.
func serve(t *testing.T, dir string, names ...string) (*crash.Process, []hostile.App) {
	t.Helper()
	binary := buildServer(t, dir)
	guest, err := guestbuild.Build(t.Context(), guestbuild.Request{Dir: "../../bench/reminderguest", Out: filepath.Join(dir, "guest.wasm")})
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(guest.Path)
	if err != nil {
		t.Fatal(err)
	}
	var apps []hostile.App
	var tokens []map[string]string
	for _, name := range names {
		app := hostile.App{Name: name, Token: "token-of-the-app-" + name}
		apps = append(apps, app)
		tokens = append(tokens, map[string]string{"name": name, "role": "deploy", "token": app.Token, "app": name})
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tokens.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := crash.Start(t.Context(), crash.Options{
		Binary: binary, Args: []string{"--data-dir", filepath.Join(dir, "data"), "--tokens-file", file, "--log-level", "error"}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Kill()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			const most = 10_000
			t.Logf("the server's log ends:\n%s", text[max(0, len(text)-most):])
		}
	})
	for i := range apps {
		apps[i].URL = server.URL
		if i > 0 {
			if err := apps[i].Deploy(t.Context(), wasm); err != nil {
				t.Fatal(err)
			}
		}
	}
	return server, apps
}

// neighbour is an app that does little, and writes down what became of it.
type neighbour struct {
	hostile.App
	client    *client.Client
	reminders greenroomv1connect.ReminderServiceClient
	ledger    *crash.Ledger
	target    crash.Target

	mu       sync.Mutex
	work     map[string]*work
	set      map[string]bool // reminders by name; true: acknowledged, false: perhaps set
	problems []string
}

// work is what became of one kind of request.
type work struct {
	took   []time.Duration
	failed map[string]int
}

// The kinds of requests of a neighbour, and one for its reminders, which are as late as its
// durations say.
const (
	calls   = "calls"
	setting = "setting reminders"
	deploys = "deploys"
	firings = "reminders, late"
)

const (
	counters = 64
	// alarmed is how many reminders an actor has at most.
	alarmed = 100
)

func open(t *testing.T, app hostile.App) *neighbour {
	t.Helper()
	cl, err := app.Client()
	if err != nil {
		t.Fatal(err)
	}
	hc := app.HTTP()
	t.Cleanup(func() {
		_ = cl.Close()
		hc.CloseIdleConnections()
	})
	return &neighbour{
		App: app, client: cl, reminders: greenroomv1connect.NewReminderServiceClient(hc, app.URL),
		ledger: crash.NewLedger("c", counters),
		target: crash.Target{URL: app.URL, Token: app.Token, App: app.Name, Type: "Counter", AddMethod: "Add", AddBody: "1", GetMethod: "Get"},
		work:   map[string]*work{calls: {}, setting: {}, deploys: {}, firings: {}}, set: map[string]bool{},
	}
}

// live makes requests of each kind at its rate, whether or not earlier ones have ended, until ctx
// ends. A request has taken as long as since it was due.
func (n *neighbour) live(ctx context.Context) {
	var all sync.WaitGroup
	steadily := func(kind string, every time.Duration, do func(ctx context.Context, i int) error) {
		all.Go(func() {
			began := time.Now()
			for i := 0; ; i++ {
				due := began.Add(time.Duration(i) * every)
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(due)):
				}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
					defer cancel()
					err := do(ctx, i)
					n.note(kind, time.Since(due), err)
				})
			}
		})
	}
	const often, sometimes, seldom = 20 * time.Millisecond, 100 * time.Millisecond, time.Second
	steadily(calls, often, func(ctx context.Context, i int) error { return n.ledger.Add(ctx, n.client, n.target, i) })
	steadily(setting, sometimes, n.remind)
	steadily(deploys, seldom, func(ctx context.Context, i int) error { return n.Deploy(ctx, hostile.Idle("Small", i)) })
	all.Wait()
}

// note writes down the outcome of a request. A refusal is a problem; on a busy machine a
// deadline that passes is none.
func (n *neighbour) note(kind string, took time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.work[kind]
	w.took = append(w.took, took)
	if err == nil {
		return
	}
	if w.failed == nil {
		w.failed = map[string]int{}
	}
	w.failed[err.Error()]++
	code := connect.CodeOf(err)
	if failed := (*client.Error)(nil); errors.As(err, &failed) {
		code = failed.Code
	}
	if code != connect.CodeDeadlineExceeded {
		n.problems = append(n.problems, fmt.Sprintf("%s: %v", kind, err))
	}
}

func actorOf(i int) string { return fmt.Sprint("a", i/alarmed) }

// remind sets a reminder that is due soon.
func (n *neighbour) remind(ctx context.Context, i int) error {
	const soon = time.Second
	name := fmt.Sprint("r", i)
	err := n.Remind(ctx, n.reminders, "Alarm", actorOf(i), name, "Ring", time.Now().Add(soon))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set[name] = err == nil
	return err
}

// settle waits until each reminder that was set has fired, and compares with the ledgers.
func (n *neighbour) settle(t *testing.T) {
	problems, err := n.ledger.Check(t.Context(), n.target)
	if err != nil {
		t.Fatal(err)
	}
	n.problems = append(n.problems, problems...)
	until := time.Now().Add(settling)
	for {
		fired, late := n.fired(t)
		var lost []string
		for name, sure := range n.set {
			if sure && fired[name] == 0 {
				lost = append(lost, name)
			}
		}
		if len(lost) > 0 && time.Now().Before(until) {
			select {
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		for name, times := range fired {
			if _, ok := n.set[name]; !ok || times > 1 {
				n.problems = append(n.problems, fmt.Sprintf("reminder %s fired %d times", name, times))
			}
		}
		for _, name := range lost {
			n.problems = append(n.problems, fmt.Sprintf("reminder %s did not fire within %v", name, settling))
		}
		n.work[firings].took = late
		return
	}
}

// fired returns how often each reminder has fired, and how late.
func (n *neighbour) fired(t *testing.T) (times map[string]int, late []time.Duration) {
	times = map[string]int{}
	for i := 0; i < len(n.set); i += alarmed {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		reply, err := n.client.Query(ctx, "Alarm", actorOf(i), "Fired", nil)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", n.Name, err)
		}
		var fired struct {
			Names []string
			Late  []int64
		}
		if err := json.Unmarshal(reply.Payload, &fired); err != nil {
			t.Fatal(err)
		}
		for k, name := range fired.Names {
			times[name]++
			late = append(late, time.Duration(fired.Late[k])*time.Microsecond)
		}
	}
	return times, late
}

func (n *neighbour) report(rows *tabwriter.Writer) {
	for _, kind := range []string{calls, setting, deploys, firings} {
		w := n.work[kind]
		failed := 0
		for _, times := range w.failed {
			failed += times
		}
		slices.Sort(w.took)
		at := func(percent int) time.Duration {
			if len(w.took) == 0 {
				return 0
			}
			return w.took[min(len(w.took)*percent/100, len(w.took)-1)].Round(100 * time.Microsecond)
		}
		fmt.Fprintf(rows, "%s: %s\t%d\t%d\t%v\t%v\t%v\t\n", n.Name, kind, len(w.took)-failed, failed, at(50), at(99), at(100))
	}
}
