package node_test

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
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
	_, err = r.settings.SetQuota(ctx, connect.NewRequest(&greenroomv1.SetQuotaRequest{App: "shop", Name: "actors", Rate: &greenroomv1.Rate{PerSecond: 1}}))
	bad(err, "the quotas are [turns fuel]")
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
