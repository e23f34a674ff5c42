package messages

import (
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

const (
	manySubscribers = 10_000
	// memoryLimit is what a subscriber may take beyond an idle stream, in bytes.
	memoryLimit = 4 << 10

	// Beside slow ones.
	readers, others = 1000, 100
	eventRate       = 5 // in a second
)

// The names of the checks.
const (
	subscribed = "subscribers, memory of each"
	fannedOut  = "an event until the last reader has it, beside slow ones"
)

// Events returns the bar of subscribers to events.
func Events() []bar.Bar {
	return []bar.Bar{{
		Name: "messages.4", Title: "10,000 subscribers to the events of an actor: memory that the server uses for each beyond that of an idle stream to an empty handler, against 4 KiB; and how long an event takes to 1,000 readers beside 100 subscribers that read nothing, against 100 that read",
		Checks: []bar.Check{
			{Name: subscribed, Unit: "KiB", Want: bar.AtMost, Target: 1},
			{Name: fannedOut, Unit: "ms, p50", Want: bar.AtMost, Target: 1.25},
		},
		Run: bar.Of(subscribers),
	}}
}

// subscribers is messages.4.
func subscribers(b *bar.B) {
	wasm := b.BuildOnce("bench/tellguest")
	b.Each(func(run int) {
		n := b.Count(manySubscribers)
		// each returns the bytes that each subscriber takes of a server.
		each := func(s publisherSpec) (bytes float64) {
			b.Scope(func() {
				var url string
				var all int64
				server := b.Start(publisherRole, s, &url)
				var ready bool
				b.Start(subscriberRole, subscriberSpec{URL: url, Readers: n}, &ready)
				server.End()
				must.Check(server.Answer(&all))
				bytes = float64(all) / float64(n)
			})
			return bytes
		}
		idle := each(publisherSpec{})
		whole := each(publisherSpec{Dir: b.Folder(), Wasm: wasm})
		b.Note("run %d, %d subscribers, for each: %.1f KiB of heap and stacks, an idle stream to an empty handler %.1f", run, n, whole/1024, idle/1024)
		b.Compare(subscribed, (whole-idle)/1024, memoryLimit/1024)

		fan := func(slow bool) (took fanOut) {
			b.Scope(func() {
				s := b.ServeEmbedded(wasm)
				var ready bool
				p := b.Start(subscriberRole, subscriberSpec{URL: s.URL, Readers: b.Count(readers), Others: others, Slow: slow, Events: eventRate, Duration: max(b.Duration, 5*time.Second)}, &ready)
				must.Check(p.Answer(&took))
			})
			return took
		}
		b.Compare(fannedOut, bar.Millis(load.Quantile(fan(true), 0.5)), bar.Millis(load.Quantile(fan(false), 0.5)))
	})
}
