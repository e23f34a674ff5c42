package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/greenroom-run/greenroom/internal/crash"
)

// stopTimeout bounds the orderly end of a server that has nothing left to do.
const stopTimeout = 30 * time.Second

// Server is a running greenroom, with the guest deployed.
type Server struct {
	URL string
	PID int

	process *crash.Process
	log     *os.File
}

// Serve starts greenroom serve with args, which name its store, and deploys the
// guest.
func (r *Rig) Serve(ctx context.Context, args ...string) (*Server, error) {
	module, _, err := r.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return r.ServeModule(ctx, module, args...)
}

// ServeModule is [Rig.Serve] with another guest, by the path of its module.
func (r *Rig) ServeModule(ctx context.Context, module string, args ...string) (*Server, error) {
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
	process, err := crash.Start(ctx, crash.Options{Binary: binary, Args: args, Log: log})
	if err != nil {
		_, _ = log.Seek(0, io.SeekStart)
		text, _ := io.ReadAll(log)
		return nil, errors.Join(fmt.Errorf("start greenroom: %w\n%s", err, text), log.Close())
	}
	s := &Server{URL: process.URL, PID: process.PID(), process: process, log: log}
	out, err := exec.CommandContext(ctx, binary, "deploy", module, "--server", s.URL).CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("deploy the guest: %w\n%s", err, bytes.TrimSpace(out)), s.Close())
	}
	return s, nil
}

// Close stops the server.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(s.process.Stop(ctx), s.log.Close())
}
