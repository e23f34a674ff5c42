package fair

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/internal/hostile"
)

// site is a server with two apps.
type site struct {
	*rig.Server
	tenant, neighbour hostile.App
	dir               string // removed by remove
	remove            func()
}

// open starts a server with a token for each app, and deploys the neighbour's guest.
func open(ctx context.Context, r *rig.Rig) (*site, error) {
	dir, remove, err := r.Folder()
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, remove: remove}
	type token struct {
		Name   string `json:"name"`
		Role   string `json:"role"`
		Secret string `json:"token"`
		App    string `json:"app"`
	}
	var tokens []token
	for app, name := range map[*hostile.App]string{&s.tenant: "tenant", &s.neighbour: "neighbour"} {
		app.Name, app.Token = name, "token-of-the-"+name
		tokens = append(tokens, token{name, "deploy", app.Token, name})
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "tokens.json")
	const private = 0o600
	if err := os.WriteFile(file, text, private); err != nil {
		return nil, err
	}
	guest, err := r.BuildOnce(ctx, "bench/reminderguest")
	if err != nil {
		return nil, err
	}
	wasm, err := os.ReadFile(guest)
	if err != nil {
		return nil, err
	}
	if s.Server, err = r.Start(ctx, "--data-dir", filepath.Join(dir, "data"), "--tokens-file", file); err != nil {
		return nil, err
	}
	s.tenant.URL, s.neighbour.URL = s.URL, s.URL
	if err := s.neighbour.Deploy(ctx, wasm); err != nil {
		return nil, cmp.Or(s.close(), err)
	}
	return s, nil
}

// close kills the server: what the flood left has no claim to an orderly end.
func (s *site) close() error {
	defer s.remove()
	if err := s.Kill(); err != nil {
		return err
	}
	return s.Close()
}

// eachRun calls f with a fresh server in each run.
func eachRun(ctx context.Context, r *rig.Rig, f func(run int, s *site) error) error {
	for run := 1; run <= r.Runs; run++ {
		s, err := open(ctx, r)
		if err != nil {
			return err
		}
		err = f(run, s)
		if r.Profile != "" && err == nil {
			err = s.Stop() // a killed server writes none
		}
		if closeErr := s.close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
