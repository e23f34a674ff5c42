package metering

import (
	"os/exec"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const (
	languageConnections = 64
	languageActors      = 10_000
)

// languageChecks has a check for each language but Rust, whose guest is the
// baseline; TinyGo's only where it is installed.
func languageChecks() []bar.Check {
	checks := []bar.Check{{Name: "standard Go", Unit: "µs/call", Want: bar.AtMost, Target: 1.8}}
	if tinyGo() {
		checks = append(checks, bar.Check{Name: "TinyGo", Unit: "µs/call", Want: bar.AtMost, Target: 1.4})
	}
	return checks
}

func tinyGo() bool {
	_, err := exec.LookPath(guestbuild.TinyGo)
	return err == nil
}

// languages is metering.7: what the server takes for a call of the same counter,
// over HTTP and over many actors, so that nearly each turn comes to another actor
// than the one before in its instance.
func languages(b *bar.B) {
	type guest struct {
		name   string
		server *rig.Server
	}
	guests := []guest{{"Rust", b.ServeEmbedded(b.Guest())}, {"standard Go", b.ServeEmbedded(b.Build("bench/goguest", guestbuild.Go))}}
	if tinyGo() {
		guests = append(guests, guest{"TinyGo", b.ServeEmbedded(b.Build("bench/goguest", guestbuild.TinyGo))})
	} else {
		b.Note("TinyGo is not on PATH, and not measured")
	}
	b.Each(func(run int) {
		var baseline float64
		for n, g := range guests {
			res := b.Measure(g.name, run, wire.Role, wire.Spec{
				URL: g.server.URL, Protocol: wire.HTTP, Method: "Add", Payload: "1",
				Plan: b.Plan(languageConnections, languageActors, map[string]int{"server": g.server.PID}),
			})
			perCall := float64(res.CPU["server"].Microseconds()) / float64(res.Calls)
			if n == 0 {
				baseline = perCall
				continue
			}
			b.Compare(g.name, perCall, baseline)
		}
	})
}
