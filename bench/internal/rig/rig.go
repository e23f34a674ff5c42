// Package rig sets up what bars measure: the greenroom binary, a guest, servers
// and databases, each made when it is first asked for and gone at the end.
package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// Config says how much to measure.
type Config struct {
	// Root is the root of the repository.
	Root string
	// Runs is how often each baseline and each subject runs.
	Runs int
	// Warmup and Duration are those of each run.
	Warmup, Duration time.Duration
	// Actors replaces the number of actors that bars ask for, if it is less:
	// for a quick look. 0: as they ask.
	Actors int
	// Reminders is how many reminders are stored where a bar wants very many.
	Reminders int
	// Profile is the folder for the servers' processor profiles; empty: none.
	Profile string
	// Log gets what is being done.
	Log io.Writer
}

// Rig is for one goroutine at a time.
type Rig struct {
	Config
	dir      string
	binary   string
	built    map[string]string // modules by their folders
	postgres *pgtest.Server
	folders  int
	servers  int // profiled ones
}

// New makes a rig with a scratch folder on the disk of the system's temporary
// files. Closing it is the caller's duty.
func New(cfg Config) (*Rig, error) {
	dir, err := os.MkdirTemp("", "greenroom-bench-")
	if err != nil {
		return nil, err
	}
	return &Rig{Config: cfg, dir: dir, built: map[string]string{}}, nil
}

// Close stops the database and removes the scratch folder.
func (r *Rig) Close() error {
	if r.postgres != nil {
		r.postgres.Close()
	}
	return os.RemoveAll(r.dir)
}

// Count returns how many actors to use where a bar asks for n.
func (r *Rig) Count(n int) int {
	if r.Actors > 0 {
		return min(n, r.Actors)
	}
	return n
}

// Folder returns a new empty folder and a function that removes it.
func (r *Rig) Folder() (string, func(), error) {
	r.folders++
	dir := filepath.Join(r.dir, fmt.Sprint("data-", r.folders))
	return dir, func() { _ = os.RemoveAll(dir) }, os.Mkdir(dir, 0o750)
}

// Binary builds greenroom and returns its path.
func (r *Rig) Binary(ctx context.Context) (string, error) {
	if r.binary != "" {
		return r.binary, nil
	}
	fmt.Fprintln(r.Log, "building greenroom …")
	path := filepath.Join(r.dir, "greenroom")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./cmd/greenroom")
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Root, r.Log, r.Log
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build greenroom: %w", err)
	}
	r.binary = path
	return path, nil
}

// Guest returns the path of the counter in bench/guest.
func (r *Rig) Guest(ctx context.Context) (path string, err error) {
	return r.BuildOnce(ctx, "bench/guest")
}

// Build builds the guest in a folder below the repository's root with a toolchain,
// and returns the path of the module.
func (r *Rig) Build(ctx context.Context, folder, toolchain string) (path string, err error) {
	fmt.Fprintf(r.Log, "building %s …\n", folder)
	dir, _, err := r.Folder() // goes with the rig
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "guest.wasm")
	_, err = guestbuild.Build(ctx, guestbuild.Request{Dir: filepath.Join(r.Root, folder), Out: path, Toolchain: toolchain})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", folder, err)
	}
	return path, nil
}

// BuildOnce is [Rig.Build] in Rust; asked again, it has the module.
func (r *Rig) BuildOnce(ctx context.Context, folder string) (path string, err error) {
	if path = r.built[folder]; path != "" {
		return path, nil
	}
	if path, err = r.Build(ctx, folder, guestbuild.Cargo); err == nil {
		r.built[folder] = path
	}
	return path, err
}

// Postgres returns a fresh database on a PostgreSQL with fsync on, and the
// process ID of its server.
func (r *Rig) Postgres(ctx context.Context) (url string, pid int, err error) {
	if r.postgres == nil {
		fmt.Fprintln(r.Log, "starting PostgreSQL …")
		if r.postgres, err = pgtest.Open(); err != nil {
			return "", 0, err
		}
	}
	url, err = r.postgres.CreateDatabase(ctx)
	return url, r.postgres.Pid(), err
}

// Cockroach returns the URL of the CockroachDB that the environment names, empty
// if it names none.
func (r *Rig) Cockroach() string { return os.Getenv(pgtest.CockroachVariable) }
