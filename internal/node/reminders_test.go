package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// turnEnds collects the turns that ended, to be waited for.
type turnEnds struct {
	mu    sync.Mutex
	all   []host.TurnEnd
	added chan struct{} // closed when there is another one
}

func watchTurns() *turnEnds { return &turnEnds{added: make(chan struct{})} }

func (w *turnEnds) add(e host.TurnEnd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, e)
	close(w.added)
	w.added = make(chan struct{})
}

// await waits until n turns of a method of an actor have ended without an error.
func (w *turnEnds) await(t *testing.T, id, method string, n int) {
	t.Helper()
	w.awaitAll(t, n, func(e *host.TurnEnd) bool { return e.Key.ID == id && e.Method == method && e.Err == nil })
}

func (w *turnEnds) awaitAll(t *testing.T, n int, which func(*host.TurnEnd) bool) {
	t.Helper()
	for {
		w.mu.Lock()
		met := 0
		for i := range w.all {
			if which(&w.all[i]) {
				met++
			}
		}
		added := w.added
		w.mu.Unlock()
		if met >= n {
			return
		}
		select {
		case <-added:
		case <-t.Context().Done():
			t.Fatalf("%d of %d turns", met, n)
		}
	}
}

// onStores runs a test on each store, with the alarms deployed.
func onStores(t *testing.T, test func(t *testing.T, r *running, turns *turnEnds)) {
	withStores(t, func(t *testing.T, cfg node.Config) {
		turns := watchTurns()
		cfg.TurnEnd = turns.add
		r := start(t, cfg)
		r.deploy(t, "", build(t, filepath.Join("testdata", "alarm"), guestbuild.Go))
		test(t, r, turns)
	})
}

// withStores runs a test with the configuration of a node on every store.
func withStores(t *testing.T, test func(t *testing.T, cfg node.Config)) {
	for name, cfg := range map[string]func(t *testing.T) node.Config{
		"embedded":   func(*testing.T) node.Config { return node.Config{} },
		"postgresql": func(t *testing.T) node.Config { return node.Config{StoreURL: pgtest.URL(t)} },
		"cockroachdb": func(t *testing.T) node.Config {
			url, ok := pgtest.CockroachURL(t)
			if !ok {
				t.Skipf("%s is not set", pgtest.CockroachVariable)
			}
			return node.Config{StoreURL: url}
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, cfg(t)) })
	}
}

type alarm struct {
	Rung int    `json:"rung"`
	Last string `json:"last"`
}

func (r *running) alarm(t *testing.T, typ, id string) (a alarm) {
	t.Helper()
	reply, err := r.call(t.Context(), "", typ, id, "Count", "")
	if err == nil {
		err = json.Unmarshal([]byte(reply), &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRemindersFire sets reminders in turns of a Wasm guest, of types that are kept warm and
// that are locked: each fires as often as it is to, with what it was given.
func TestRemindersFire(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
		for _, typ := range []string{"Alarm", "Locked"} {
			id := strings.ToLower(typ)
			order := `{"set":[{"name":"once","method":"Ring","in":"now","after_ms":20},{"name":"later","method":"Ring","after_ms":3600000}],
				"metadata":{"room":"7","bed":"left"},"get":"once"}`
			r.mustCall(t, "", typ, id, "Do", order, `"once runs Ring every 0s, 0 left"`)
			turns.await(t, id, "Ring", 1)
			want := alarm{1, `reminder once "now" attempt 1 missed 0 map[bed:left room:7] early false`}
			if got := r.alarm(t, typ, id); got != want {
				t.Errorf("%s: %+v, want %+v", typ, got, want)
			}
			r.mustCall(t, "", typ, id, "Names", `""`, `["later"]`)

			order = `{"set":[{"name":"again","method":"Ring","every_ms":1,"times":20}]}`
			r.mustCall(t, "", typ, id, "Do", order, `""`)
			for occurrences := 0; occurrences < 20; {
				turns.await(t, id, "Ring", 2)
				r.mustCall(t, "", typ, id, "Names", `"later"`, `["later"]`)
				if names, err := r.call(t.Context(), "", typ, id, "Names", `""`); err != nil {
					t.Fatal(err)
				} else if names == `["later"]` {
					break // the last has fired
				}
			}
		}
	})
}

// TestReminderEffects shows that what a turn does to reminders is done when it commits, or
// not at all, and what the turn itself and those after it see.
func TestReminderEffects(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
		const id = "x"
		do := func(order, want string) {
			t.Helper()
			r.mustCall(t, "", "Alarm", id, "Do", order, want)
		}
		names := func(want string) {
			t.Helper()
			r.mustCall(t, "", "Alarm", id, "Names", `""`, want)
		}
		hour := `"method":"Ring","after_ms":3600000,"every_ms":3600000`
		do(`{"set":[{"name":"a",`+hour+`,"times":3},{"name":"b",`+hour+`}],"cancel":["c"],"get":"a"}`, `"a runs Ring every 1h0m0s, 3 left"`)
		names(`["a","b"]`)
		if _, err := r.call(t.Context(), "", "Alarm", id, "Do", `{"cancel":["a"],"set":[{"name":"c",`+hour+`}],"fail":true}`); detail(err).GetGuest().GetCode() != "told_to" {
			t.Fatalf("%v", err)
		}
		names(`["a","b"]`)
		do(`{"set":[{"name":"a","method":"Idle","every_ms":7200000,"keep":true}],"get":"a"}`, `"a runs Ring every 1h0m0s, 3 left"`)
		do(`{"get":"a"}`, `"a runs Ring every 1h0m0s, 3 left"`)
		do(`{"cancel":["a"],"set":[{"name":"a","method":"Idle","every_ms":7200000,"keep":true}],"get":"a"}`, `"a runs Idle every 2h0m0s, 0 left"`)
		do(`{"get":"a"}`, `"a runs Idle every 2h0m0s, 0 left"`)
		do(`{"cancel":["a"],"get":"a"}`, `"none"`)
		names(`["b"]`)
		// Deleting all keys leaves reminders alone, deleting the actor does not.
		do(`{"clear":true}`, `""`)
		names(`["b"]`)
		if _, err := r.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: &greenroomv1.ActorKey{Type: "Alarm", Id: id}})); err != nil {
			t.Fatal(err)
		}
		names(`[]`)

		for _, bad := range []struct{ setting, says string }{
			{`{"name":"","method":"Ring"}`, "reminder name is empty"},
			{fmt.Sprintf(`{"name":%q,"method":"Ring"}`, strings.Repeat("n", 10_000)), "at most 256"},
			{`{"name":"n","method":"Fly"}`, "has no method"},
			{`{"name":"n","method":"Count"}`, "read-only"},
			{`{"name":"n","method":"Ring","cron":"0 0 31 2 *"}`, "never matches"},
			{`{"name":"n","method":"Ring","cron":"hourly"}`, "cron"},
			{`{"name":"n","method":"Ring","cron":"0 9 * * *","zone":"Europe/Atlantis"}`, `"Europe/Atlantis" is not known`},
			{`{"name":"n","method":"Ring","every_ms":1000,"zone":"Europe/Berlin"}`, "no cron expression"},
			{`{"name":"n","method":"Ring","after_ms":7200000,"until_ms":3600000}`, "before the first occurrence"},
			{`{"name":"n","method":"Ring","at_ms":7200000,"until_ms":3600000}`, "before the first occurrence"},
			{`{"name":"n","method":"Ring","every_ms":-1}`, "period"},
			{fmt.Sprintf(`{"name":"n","method":"Ring","in":%q}`, strings.Repeat("n", 65_536)), "at most 65536"},
		} {
			_, err := r.call(t.Context(), "", "Alarm", id, "Do", `{"set":[`+bad.setting+`]}`)
			if g := detail(err).GetGuest(); g.GetCode() != "invalid_reminder" || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%.60s: %v, want %q", bad.setting, err, bad.says)
			}
		}
		names(`[]`)
		// What is past is no bad input: it fires at once, for the time that it names.
		do(`{"set":[{"name":"past","method":"Ring","at_ms":-3600000}]}`, `""`)
		turns.await(t, id, "Ring", 1)
		if got, want := r.alarm(t, "Alarm", id), (alarm{1, `reminder past "" attempt 1 missed 0 map[] early false`}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		names(`[]`)
		var many []string
		for i := range 257 {
			many = append(many, fmt.Sprintf(`{"name":"n%d",%s}`, i, hour))
		}
		if _, err := r.call(t.Context(), "", "Alarm", id, "Do", `{"set":[`+strings.Join(many, ",")+`]}`); detail(err).GetGuest().GetCode() != "too_many" {
			t.Errorf("257 reminders in a turn: %v", err)
		}
		do(`{"set":[`+strings.Join(many[:256], ",")+`]}`, `""`)
		reply, err := r.call(t.Context(), "", "Alarm", id, "Names", `"n"`)
		if n := strings.Count(reply, "n"); err != nil || n != 256 {
			t.Errorf("%d of 256 reminders are there, %v", n, err)
		}
	})
}

// TestFailingFirings shows that a turn which fails leaves no trace but its tries, and that
// the next occurrence comes all the same; and that a turn that changes nothing takes its
// firing.
func TestFailingFirings(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
		for _, typ := range []string{"Alarm", "Locked"} {
			id := strings.ToLower(typ)
			r.mustCall(t, "", typ, id, "Do", `{"set":[{"name":"bad","method":"Break","attempts":3}]}`, `""`)
			turns.awaitAll(t, 3, func(e *host.TurnEnd) bool { return e.Key.ID == id && e.Method == "Break" && e.Err != nil })
			for names := ""; names != `[]`; { // the dead letter is written
				var err error
				if names, err = r.call(t.Context(), "", typ, id, "Names", `""`); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.alarm(t, typ, id); got.Rung != 0 {
				t.Errorf("%+v is left of a turn that failed", got)
			}
			r.mustCall(t, "", typ, id, "Do", `{"set":[{"name":"idle","method":"Idle"}]}`, `""`)
			turns.await(t, id, "Idle", 1)
			r.mustCall(t, "", typ, id, "Names", `""`, `[]`)
		}
	})
}

// TestRustReminders runs a guest of the Rust SDK.
func TestRustReminders(t *testing.T) {
	turns := watchTurns()
	r := start(t, node.Config{TurnEnd: turns.add})
	r.deploy(t, "", build(t, filepath.Join("testdata", "alarm-rust"), guestbuild.Cargo))
	r.mustCall(t, "", "Clock", "c", "Start", `5`, `null`)
	want := `[5,"tick tock {\"by\": \"rust\"}",[]]`
	for n := 1; ; n++ {
		turns.await(t, "c", "Tick", n)
		if got, err := r.call(t.Context(), "", "Clock", "c", "View", ""); err != nil || got == want || n == 5 {
			if got != want {
				t.Errorf("%s %v, want %s", got, err, want)
			}
			break
		}
	}
	r.mustCall(t, "", "Clock", "d", "Start", `0`, `null`)
	turns.await(t, "d", "Tick", 3)
	r.mustCall(t, "", "Clock", "d", "Stop", ``, `null`)
	if got, err := r.call(t.Context(), "", "Clock", "d", "View", ""); err != nil || !strings.HasSuffix(got, ",[]]") {
		t.Errorf("%s %v", got, err)
	}
}

// create makes a reminder that fires at once, over the API.
func (r *running) create(t *testing.T, typ, id, method string) {
	t.Helper()
	client := h2c()
	defer client.CloseIdleConnections()
	_, err := greenroomv1connect.NewReminderServiceClient(client, r.URL).CreateReminder(t.Context(), connect.NewRequest(&greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{Type: typ, Id: id}, Name: "n",
		Spec: &greenroomv1.ReminderSpec{Method: method, Payload: []byte(`"hello"`), Metadata: map[string]string{"over": "api"}},
	}))
	if err != nil {
		t.Fatalf("%v %v", err, detail(err))
	}
}

// TestStatelessReminder: a type without state runs what a reminder asks for, once.
func TestStatelessReminder(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, turns *turnEnds) {
		r.create(t, "Bell", "b", "Wake")
		turns.await(t, "b", "Wake", 1)
		client := h2c()
		defer client.CloseIdleConnections()
		list, err := greenroomv1connect.NewReminderServiceClient(client, r.URL).ListReminders(t.Context(), connect.NewRequest(&greenroomv1.ListRemindersRequest{}))
		if err != nil || len(list.Msg.Reminders) != 0 {
			t.Errorf("%v, %v are left", err, list)
		}
	})
}

// TestForwardedFirings: what one node delivers is run by the one that holds the actor, each
// firing in a trace of its own.
func TestForwardedFirings(t *testing.T) {
	url := pgtest.URL(t)
	const actors = 16
	var turns [2]*turnEnds
	all := watchTurns()
	var nodes []*running
	for i := range turns {
		turns[i] = watchTurns()
		nodes = append(nodes, start(t, inCluster(url, func(c *node.Config) {
			c.TurnEnd = func(e host.TurnEnd) { turns[i].add(e); all.add(e) }
		})))
		if i == 0 {
			nodes[0].deploy(t, "", build(t, filepath.Join("testdata", "alarm"), guestbuild.Go))
		}
	}
	held, traces := map[string]int{}, map[string]bool{}
	for i := range actors {
		id := fmt.Sprint("a", i)
		nodes[0].create(t, "Alarm", id, "Ring")
		want := alarm{1, `reminder n "hello" attempt 1 missed 0 map[over:api] early false`}
		var got alarm
		for got = nodes[0].alarm(t, "Alarm", id); got.Rung == 0; got = nodes[0].alarm(t, "Alarm", id) {
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", id, got, want)
		}
		all.await(t, id, "Ring", 1) // it is told of after its answer
		for n, w := range turns {
			w.mu.Lock()
			for _, e := range w.all {
				if e.Key.ID == id && e.Method == "Ring" && e.Err == nil {
					traceID, _ := e.Trace.IDs()
					if traces[traceID] = true; traceID == "" {
						t.Errorf("%s fired in no trace", id)
					}
					held[fmt.Sprint("node ", n)]++
				}
			}
			w.mu.Unlock()
		}
	}
	if len(traces) != actors {
		t.Errorf("%d firings were in %d traces", actors, len(traces))
	}
	if len(held) != len(nodes) {
		t.Errorf("the firings ran on %v; some on each were to", held)
	}
}

// TestSubscriptionExample runs the example on a server: what it starts is billed at once,
// which fails without a provider and is tried again a day later, until it is cancelled.
func TestSubscriptionExample(t *testing.T) { withGoToolchains(t, subscriptionExample) }

func subscriptionExample(t *testing.T, toolchain string) {
	turns := watchTurns()
	r := start(t, node.Config{TurnEnd: turns.add})
	r.deploy(t, "", example(t, "subscription", toolchain))
	if _, err := r.call(t.Context(), "", "Subscription", "ann", "Start", `{"plan":"gold","cents":900}`); err != nil {
		t.Fatal(err, detail(err))
	}
	turns.awaitAll(t, 1, func(e *host.TurnEnd) bool { return e.Method == "Bill" && e.Err != nil })
	client := h2c()
	defer client.CloseIdleConnections()
	reminders := greenroomv1connect.NewReminderServiceClient(client, r.URL)
	get := func() (*greenroomv1.Reminder, error) {
		res, err := reminders.GetReminder(t.Context(), connect.NewRequest(&greenroomv1.GetReminderRequest{
			Actor: &greenroomv1.ActorKey{Type: "Subscription", Id: "ann"}, Name: "bill",
		}))
		if err != nil {
			return nil, err
		}
		return res.Msg.Reminder, nil
	}
	for {
		bill, err := get()
		if err != nil {
			t.Fatal(err)
		}
		if bill.Failures == 0 {
			continue // the failure is being written down
		}
		if wait := bill.FireAt.AsTime().Sub(bill.Due.AsTime()); bill.Failures != 1 || wait < 23*time.Hour {
			t.Errorf("%v", bill)
		}
		break
	}
	reply, err := r.call(t.Context(), "", "Subscription", "ann", "Cancel", "")
	if err != nil || !strings.Contains(reply, `"cancelled"`) {
		t.Error(reply, err)
	}
	if bill, err := get(); detail(err).GetKind() != string(actor.ErrReminderNotFound.Kind()) {
		t.Errorf("the reminder is left: %v %v", bill, err)
	}
}

// TestReadyMeansRemindersCanBeSet: a server says that it is ready when a reminder can be set,
// not before.
func TestReadyMeansRemindersCanBeSet(t *testing.T) {
	for name, cfg := range map[string]func() node.Config{
		"alone":   func() node.Config { return node.Config{} },
		"cluster": func() node.Config { return inCluster(pgtest.URL(t), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, cfg())
			r.ready(t, http.StatusOK, "ok")
			h := h2c()
			defer h.CloseIdleConnections()
			if _, err := greenroomv1connect.NewReminderServiceClient(h, r.URL).CreateReminder(t.Context(), connect.NewRequest(&greenroomv1.CreateReminderRequest{
				Actor: &greenroomv1.ActorKey{Type: actor.SubscriptionType, Id: "jobs"}, Name: "n", Spec: &greenroomv1.ReminderSpec{},
			})); err != nil {
				t.Error(err)
			}
		})
	}
}
