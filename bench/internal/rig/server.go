package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/internal/crash"
)

// stopTimeout bounds the orderly end of a server that has nothing left to do.
const stopTimeout = 30 * time.Second

// Server is a running greenroom, with the guest deployed.
type Server struct {
	URL string
	PID int

	options crash.Options
	process *crash.Process
	log     *os.File
}

// ServeModule starts greenroom serve with args, which name its store, and deploys a guest, by the
// path of its module.
func (r *Rig) ServeModule(ctx context.Context, module string, args ...string) (*Server, error) {
	s, err := r.Start(ctx, args...)
	if err != nil {
		return nil, err
	}
	if err := r.deploy(ctx, s.URL, module); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start starts greenroom serve with args, which name its store, and deploys nothing.
func (r *Rig) Start(ctx context.Context, args ...string) (*Server, error) {
	binary, err := r.Binary(ctx)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(r.dir, "server-*.log") // there may be several servers
	if err != nil {
		return nil, err
	}
	args = append(args, "--log-level", "warn")
	if r.Profile != "" {
		r.servers++
		args = append(args, "--cpu-profile", filepath.Join(r.Profile, fmt.Sprintf("server-%d.pprof", r.servers)))
	}
	s := &Server{options: crash.Options{Binary: binary, Args: args, Log: log}, log: log}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	s.options.Listen = strings.TrimPrefix(s.URL, "http://")
	return s, nil
}

// deploy deploys a guest, by the path of its module.
func (r *Rig) deploy(ctx context.Context, url, module string) error {
	out, err := exec.CommandContext(ctx, r.binary, "deploy", module, "--server", url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("deploy the guest: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Start starts the server again, where it listened before, after Kill or Stop.
func (s *Server) Start(ctx context.Context) error {
	process, err := crash.Start(ctx, s.options)
	if err != nil {
		text, _ := os.ReadFile(s.log.Name())
		return fmt.Errorf("start greenroom: %w\n%s", err, text)
	}
	s.URL, s.PID, s.process = process.URL, process.PID(), process
	return nil
}

// Kill ends the server as a crash does.
func (s *Server) Kill() error { return s.process.Kill() }

// Stop stops the server gracefully.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return s.process.Stop(ctx)
}

// Close stops the server, unless it has ended.
func (s *Server) Close() error {
	if s.process.State() != nil {
		return s.log.Close()
	}
	return errors.Join(s.Stop(), s.log.Close())
}
