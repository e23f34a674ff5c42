package fair

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

// site is a server with two apps.
type site struct {
	*rig.Server
	tenant, neighbour hostile.App
	operator          hostile.App // an administrator, of no app
	guest             []byte      // the neighbour's
	dir               string
}

// open starts a server with a token for each app, and deploys the neighbour's guest.
func open(b *bar.B, flags ...string) *site {
	s := &site{dir: b.Folder()}
	type token struct {
		Name   string `json:"name"`
		Role   string `json:"role"`
		Secret string `json:"token"`
		App    string `json:"app,omitempty"`
	}
	var tokens []token
	for app, name := range map[*hostile.App]string{&s.tenant: "tenant", &s.neighbour: "neighbour"} {
		app.Name, app.Token = name, "token-of-the-"+name
		tokens = append(tokens, token{name, "deploy", app.Token, name})
	}
	s.operator.Token = "token-of-the-operator"
	tokens = append(tokens, token{"operator", "admin", s.operator.Token, ""})
	file := filepath.Join(s.dir, "tokens.json")
	const private = 0o600
	must.Check(os.WriteFile(file, must.Get(json.Marshal(tokens)), private))
	s.guest = must.Get(os.ReadFile(b.BuildOnce("bench/reminderguest")))
	s.Server = b.Serve("", append([]string{"--data-dir", filepath.Join(s.dir, "data"), "--tokens-file", file}, flags...)...)
	if b.Profile == "" { // a server that is killed writes no profile
		b.Cleanup(s.Kill) // what the flood left has no claim to an orderly end
	}
	s.tenant.URL, s.neighbour.URL = s.URL, s.URL
	must.Check(s.neighbour.Deploy(b.Context(), s.guest))
	return s
}

// eachRun calls f with a fresh server in each run.
func eachRun(b *bar.B, f func(run int, s *site)) {
	b.Each(func(run int) { f(run, open(b)) })
}
