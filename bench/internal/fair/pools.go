package fair

import (
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

// What messages.3 has beside the calls: endless turns of another type of the same app, in the pool batch, and calls of another
// app far above its quota.
const (
	batch = "batch"
	quota = "quota"
)

const (
	// quotaRate is the quota of the other app in turns per second, and overRate what it calls.
	quotaRate = 100
	overRate  = 2000
)

// Pools returns the bar of pools and quotas, which is of the area messages.
func Pools() []bar.Bar {
	return []bar.Bar{{
		Name: "messages.3", Title: "calls, 200 a second, beside 500 endless turns of the same app in the pool batch, and beside an app that calls 20 times its quota, against the same calls alone",
		Checks: besides(batch, quota), Run: bar.Of(pools),
	}}
}

func pools(b *bar.B) {
	b.Each(func(run int) {
		s := open(b, "--limit", "neighbour/Endless:pool=batch")
		calls := func(app hostile.App, rate float64) wire.TraceSpec {
			return wire.TraceSpec{
				Spec:  wire.Spec{URL: s.URL, Protocol: wire.Unary, App: app.Name, Token: app.Token, Attempts: 1, Method: "Add", Payload: "1"},
				Trace: load.TracePlan{Actors: actors, Rate: rate, Timeout: patience},
			}
		}
		call := func() []load.Traced { return traced(b, b.Duration, wire.TraceRole, calls(s.neighbour, rate)) }
		alone := call()

		limit(b, s)
		var beside, over []load.Traced
		b.Scope(func() {
			var began bool
			p := b.Start(wire.TraceRole, calls(s.tenant, overRate), &began)
			beside = call()
			p.End()
			must.Check(p.Answer(&over))
		})
		admitted := 0
		for _, c := range over {
			if c.Error == "" {
				admitted++
			}
		}
		b.Note("%s, run %d: of %d calls of the other app %d were admitted", quota, run, len(over), admitted)
		compare(b, quota, run, alone, beside)

		s.tenant = s.neighbour // whose other type floods
		count := during(b, s, endless, time.Now(), func() { beside = call() })
		b.Note("%s, run %d: %s", batch, run, count)
		compare(b, batch, run, alone, beside)
	})
}

// limit gives the tenant of a site a guest and a quota.
func limit(b *bar.B, s *site) {
	must.Check(s.tenant.Deploy(b.Context(), s.guest))
	client := s.operator.HTTP()
	defer client.CloseIdleConnections()
	_, err := greenroomv1connect.NewSettingsServiceClient(client, s.URL).SetQuota(b.Context(), connect.NewRequest(&greenroomv1.SetQuotaRequest{
		App: s.tenant.Name, Name: "turns", Rate: &greenroomv1.Rate{PerSecond: quotaRate},
	}))
	must.Check(err)
}
