package sqlstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// benchActors is how many rows there are; turns go round them.
const benchActors = 100_000

// BenchmarkCommit updates rows of 200 bytes on a real PostgreSQL with fsync. What
// counts are the ratios of its lines to the first, a transaction per turn, in one
// run: "turns/s" and the CPU of client and server per turn.
func BenchmarkCommit(b *testing.B) {
	server := pgtest.Start(b)
	url := server.Database(b)
	s, err := sqlstore.Open(b.Context(), sqlstore.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	rows := &benchRows{store: s, commits: make([]actor.Commit, benchActors)}
	rows.fill(b)

	b.Run("transaction/workers=64", func(b *testing.B) { benchTransactions(b, server, url, rows) })
	for _, lane := range []struct{ lanes, group int }{{4, 16}, {4, 256}} {
		for _, keyed := range []bool{false, true} {
			name := fmt.Sprintf("group/lanes=%d/rows=%d/keyed=%t", lane.lanes, lane.group, keyed)
			b.Run(name, func(b *testing.B) { benchGroups(b, server, rows, lane.lanes, lane.group, keyed) })
		}
	}
}

// benchRows are the actors, each with the commit that was applied last.
type benchRows struct {
	store   store.Store
	commits []actor.Commit
	next    atomic.Int64
}

func (r *benchRows) fill(b *testing.B) {
	b.Helper()
	state := &actor.EncodedState{Format: actor.FormatEnvelope, Data: make([]byte, 200)}
	for i := range r.commits {
		r.commits[i] = actor.CommitOf(actor.RowWrite{
			Key: actor.Key{App: "bench", Type: "Cart", ID: fmt.Sprintf("%016x", i*7919)}, NewVersion: actor.FirstVersion(), State: state,
		})
	}
	for _, err := range r.store.Commit(b.Context(), r.commits) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// take returns the commits that come after those applied to the next n actors.
func (r *benchRows) take(dst []actor.Commit, keyed bool) []actor.Commit {
	n := int64(len(dst))
	for {
		start := r.next.Load() % benchActors
		if start+n > benchActors {
			r.next.Add(benchActors - start)
			continue
		}
		if at := r.next.Add(n) - n; at%benchActors+n <= benchActors {
			start = at % benchActors
		} else {
			continue
		}
		source := r.commits[start : start+n]
		for i := range source {
			c := &source[i]
			c.ID = actor.NewCommitID()
			row := &c.Rows[0]
			row.ReadVersion = row.NewVersion
			row.NewVersion++
			c.Records = nil
			if keyed {
				c.Records = []actor.IdempotencyRecord{{
					Actor: row.Key, Method: "Add", Key: c.ID.String(), TTL: 24 * time.Hour, Version: row.NewVersion,
					Reply: actor.Payload{Data: []byte(`{"count":1}`)},
				}}
			}
		}
		copy(dst, source)
		return dst
	}
}

func benchGroups(b *testing.B, server *pgtest.Server, rows *benchRows, lanes, group int, keyed bool) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	measured(b, server, func() {
		var wg sync.WaitGroup
		for range lanes {
			wg.Go(func() {
				commits := make([]actor.Commit, group)
				for left.Add(-int64(group)) > -int64(group) {
					for _, err := range rows.store.Commit(b.Context(), rows.take(commits, keyed)) {
						if err != nil {
							b.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	})
}

func benchTransactions(b *testing.B, server *pgtest.Server, url string, rows *benchRows) {
	b.Helper()
	const workers = 64
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = workers
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	var left atomic.Int64
	left.Store(int64(b.N))
	measured(b, server, func() {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				commit := make([]actor.Commit, 1)
				for left.Add(-1) >= 0 {
					if err := transaction(b.Context(), pool, &rows.take(commit, false)[0]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func transaction(ctx context.Context, pool *pgxpool.Pool, c *actor.Commit) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var version int64
	var state []byte
	if err := tx.QueryRow(ctx, `SELECT version, state FROM greenroom_actor WHERE app = $1 AND type = $2 AND id = $3 FOR UPDATE`,
		c.Anchor().Key.App, c.Anchor().Key.Type, c.Anchor().Key.ID).Scan(&version, &state); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE greenroom_actor SET version = $4, commit_id = $5, state = $6, updated_at = now() WHERE app = $1 AND type = $2 AND id = $3`,
		c.Anchor().Key.App, c.Anchor().Key.Type, c.Anchor().Key.ID, int64(c.Rows[0].NewVersion), [16]byte(c.ID), c.Rows[0].State.Data); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// measured runs do and reports turns per second and CPU per turn.
func measured(b *testing.B, server *pgtest.Server, do func()) {
	b.Helper()
	b.ReportAllocs()
	client, database := clientCPU(b), serverCPU(b, server)
	b.ResetTimer()
	do()
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(float64((clientCPU(b)-client).Nanoseconds())/1e3/n, "client-µs/turn")
	b.ReportMetric(float64((serverCPU(b, server)-database).Nanoseconds())/1e3/n, "server-µs/turn")
}

func clientCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU is what PostgreSQL's processes have used, those that ended included.
// It reads /proc, where the unit is 10 ms; elsewhere it is 0.
func serverCPU(b *testing.B, server *pgtest.Server) time.Duration {
	b.Helper()
	ticks := 0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parent := strconv.Itoa(server.Pid())
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …: the name may hold spaces.
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest)
		pid := filepath.Base(filepath.Dir(path))
		if len(f) < 15 || f[1] != parent && pid != parent {
			continue
		}
		counted := f[11:13] // its own
		if pid == parent {
			counted = f[11:15] // and its children's that ended
		}
		for _, n := range counted {
			t, _ := strconv.Atoi(n)
			ticks += t
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
