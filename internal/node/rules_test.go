package node_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
)

// TestRulesOfAnApp sets limits, quotas and pauses over the API: they hold when the answer is there, for calls of
// every protocol, survive a restart, and end when they are removed.
func TestRulesOfAnApp(t *testing.T) {
	dir := t.TempDir()
	r := start(t, node.Config{DataDir: dir})
	r.deploy(t, "shop", wasmtest.Guest{Turn: wasmtest.Code(wasmtest.I32Const(0))}.Bytes())
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	invoke := func(id string) error {
		_, err := r.actors.Invoke(ctx, connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{App: "shop", Type: "T", Id: id}, Method: "Do"}))
		return err
	}
	refused := func(err error, code connect.Code, kind, text string) {
		t.Helper()
		d := detail(err)
		if connect.CodeOf(err) != code || d.GetKind() != kind || !d.GetRetryable() || d.GetRetryAfterMs() == 0 || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, %v", err, d)
		}
	}
	plain := func(status int, kind string) {
		t.Helper()
		res := put(t, r.URL+"/v2.0/actors/shop/T/a/method/Do", "")
		if res.StatusCode != status || !strings.Contains(res.body, `"kind":"`+kind+`"`) || !strings.Contains(res.body, `"retryAfterMs":`) || res.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v: %s", res.StatusCode, res.Header, res.body)
		}
	}

	// A limit of a method, for each actor.
	_, err := r.settings.SetLimit(ctx, connect.NewRequest(&greenroomv1.SetLimitRequest{App: "shop", Type: "T", Method: "Do", Rate: &greenroomv1.Rate{PerSecond: 0.001, Burst: 1}, Per: "actor"}))
	must(err)
	must(invoke("a"))
	refused(invoke("a"), connect.CodeResourceExhausted, "rate_limited", "the limit of T/Do is 0.001 turns per second for each actor")
	plain(http.StatusTooManyRequests, "rate_limited")
	must(invoke("b"))
	_, err = r.settings.UnsetLimit(ctx, connect.NewRequest(&greenroomv1.UnsetLimitRequest{App: "shop", Type: "T", Method: "Do"}))
	must(err)
	must(invoke("a"))

	// A quota of the app.
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "turns", Rate: &greenroomv1.Rate{PerSecond: 0.001, Burst: 2}}))
	must(err)
	must(invoke("a"))
	must(invoke("b"))
	refused(invoke("c"), connect.CodeResourceExhausted, "quota_exceeded", "the quota turns of the app shop is 0.001 turns per second")
	plain(http.StatusTooManyRequests, "quota_exceeded")
	_, err = r.settings.UnsetQuota(ctx, connect.NewRequest(&greenroomv1.UnsetQuotaRequest{App: "shop", Name: "turns"}))
	must(err)

	// A pause, which is in the store.
	_, err = r.settings.PauseType(ctx, connect.NewRequest(&greenroomv1.PauseTypeRequest{App: "shop", Type: "T", Refuse: true}))
	must(err)
	refused(invoke("a"), connect.CodeUnavailable, "type_paused", "T of the app shop")
	plain(http.StatusServiceUnavailable, "type_paused")
	stop(t, r.Node)
	r = start(t, node.Config{DataDir: dir})
	refused(invoke("a"), connect.CodeUnavailable, "type_paused", "T of the app shop")
	list, err := r.settings.GetSettings(ctx, connect.NewRequest(&greenroomv1.GetSettingsRequest{App: "shop"}))
	must(err)
	if p := list.Msg.GetPauses(); len(p) != 1 || p[0].GetType() != "T" || !p[0].GetRefuse() || len(list.Msg.GetLimits())+len(list.Msg.GetQuotas()) != 0 {
		t.Errorf("listed: %v", list.Msg)
	}
	for range 2 { // the second time there is none
		_, err = r.settings.ResumeType(ctx, connect.NewRequest(&greenroomv1.ResumeTypeRequest{App: "shop", Type: "T"}))
		must(err)
	}
	must(invoke("a"))

	// What cannot be is refused, and named.
	bad := func(err error, text string) {
		t.Helper()
		if detail(err).GetKind() != "invalid_argument" || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "moons", Rate: &greenroomv1.Rate{PerSecond: 1}}))
	bad(err, "the quotas are [turns fuel actors bytes reminders messages]")
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "actors", Rate: &greenroomv1.Rate{PerSecond: 1}}))
	bad(err, "give a number alone")
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "actors", Most: -1}))
	bad(err, "give a number from 0 to 1e15")
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "turns", Most: 5}))
	bad(err, "give it per second")
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "turns", Rate: &greenroomv1.Rate{PerSecond: -1}}))
	bad(err, "give a number from 0")
	_, err = r.settings.SetLimit(ctx, connect.NewRequest(&greenroomv1.SetLimitRequest{App: "shop", Type: "T", Per: "moon", Concurrency: 1}))
	bad(err, "give actor or token")
	_, err = r.settings.SetLimit(ctx, connect.NewRequest(&greenroomv1.SetLimitRequest{App: "shop", Type: "T"}))
	bad(err, "bounds nothing")
	_, err = r.settings.SetLimit(ctx, connect.NewRequest(&greenroomv1.SetLimitRequest{App: "shop", Type: "T", Pool: "moon"}))
	bad(err, "its pools are system, interconnect, user, batch")
	_, err = r.settings.SetLimit(ctx, connect.NewRequest(&greenroomv1.SetLimitRequest{App: "shop", Type: "T", Pool: "batch"}))
	must(err)
	must(invoke("a"))
}

// TestStoredQuotas: on every store, what an app would store above its quotas is refused, by turns and by requests, and what
// was removed makes room.
func TestStoredQuotas(t *testing.T) {
	onStores(t, func(t *testing.T, r *running, _ *turnEnds) {
		r.deploy(t, "", build(t, filepath.Join("testdata", "post"), guestbuild.Go))
		quota := func(name string, most int64) {
			t.Helper()
			if _, err := r.settings.SetQuota(t.Context(), connect.NewRequest(&greenroomv1.SetQuotaRequest{Name: name, Most: most})); err != nil {
				t.Fatal(err)
			}
		}
		ids := 0
		make := func() error {
			ids++
			_, err := r.call(t.Context(), "", "Post", fmt.Sprint("p", ids), "Send", `{"to":[],"each":0,"rounds":1}`)
			return err
		}
		// until repeats something until it is refused by a quota, or no more.
		until := func(do func() error, refused bool, text string) {
			t.Helper()
			for t.Context().Err() == nil {
				err := do()
				if (err != nil) != refused {
					continue
				}
				if d := detail(err); refused && (connect.CodeOf(err) != connect.CodeResourceExhausted || d.GetKind() != "quota_exceeded" || !d.GetRetryable() || !strings.Contains(err.Error(), text)) {
					t.Errorf("%v, want %q", err, text)
				}
				return
			}
			t.Fatal(t.Context().Err())
		}
		quota("actors", 2)
		until(make, true, "the quota actors of the app default is 2")
		if _, err := r.actors.GetActor(t.Context(), connect.NewRequest(&greenroomv1.GetActorRequest{Actor: &greenroomv1.ActorKey{Type: "Post", Id: fmt.Sprint("p", ids)}})); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("the actor that was refused: %v", err)
		}
		r.mustCall(t, "", "Post", "p1", "Send", `{"to":[],"each":0,"rounds":1}`, "2")
		for i := range ids {
			_, err := r.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: &greenroomv1.ActorKey{Type: "Post", Id: fmt.Sprint("p", i+1)}}))
			if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
				t.Fatal(err)
			}
		}
		until(make, false, "")
		quota("actors", 1e9)
		quota("bytes", 1)
		until(make, true, "the quota bytes of the app default is 1,")
		quota("messages", 2)
		send := func() error {
			m := &greenroomv1.OutgoingMessage{Type: "Post", Id: "x", Method: "Take", Payload: []byte("1"), Due: &greenroomv1.OutgoingMessage_After{After: durationpb.New(time.Hour)}}
			_, err := r.actors.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{m}}))
			return err
		}
		until(send, true, "the quota messages of the app default is 2")
		list, err := r.settings.GetSettings(t.Context(), connect.NewRequest(&greenroomv1.GetSettingsRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if q := list.Msg.GetQuotas(); len(q) != 3 || q[2].GetName() != "messages" || q[2].GetMost() != 2 || q[2].GetStored() < 2 {
			t.Errorf("the quotas are %v", q)
		}
		quota("reminders", 0)
		reminders := greenroomv1connect.NewReminderServiceClient(http.DefaultClient, r.URL)
		names := 0
		until(func() error {
			names++
			spec := &greenroomv1.ReminderSpec{Method: "Take", Schedule: &greenroomv1.ReminderSchedule{Every: durationpb.New(time.Hour)}}
			_, err := reminders.CreateReminder(t.Context(), connect.NewRequest(&greenroomv1.CreateReminderRequest{Actor: &greenroomv1.ActorKey{Type: "Post", Id: "x"}, Name: fmt.Sprint("n", names), Spec: spec}))
			return err
		}, true, "the quota reminders of the app default is 0")
	})
}
