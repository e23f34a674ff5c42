package sqlstore

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestSynchronousCommit: what waits for less than a sync is raised to on, what
// waits for more is kept, whoever set it and whenever.
func TestSynchronousCommit(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Database(t)
	for setting, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "remote_write", "on": "on", "remote_apply": "remote_apply",
	} {
		for whose, at := range map[string]string{"server": url, "url": url + "&synchronous_commit=" + setting} {
			t.Run(whose+"/"+setting, func(t *testing.T) {
				if whose == "server" {
					setSync(t, server, url, setting)
				} else {
					setSync(t, server, url, "on")
				}
				s, err := Open(t.Context(), Config{URL: at, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				var sessions []*pgxpool.Conn
				for _, pool := range []*pgxpool.Pool{s.pools.commits, s.turns, s.general.pool} {
					conn, err := pool.Acquire(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Release()
					sessions = append(sessions, conn)
				}
				has := func(when string) {
					t.Helper()
					for _, conn := range sessions {
						var got string
						if err := conn.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got); err != nil || got != want {
							t.Errorf("%s, a session has %s, %v; want %s", when, got, err, want)
						}
					}
				}
				has("from the beginning")
				setSync(t, server, url, "off") // behind the back of the open sessions
				has("after the server was set to off")
			})
		}
	}
}

// setSync sets the server's default, and returns when sessions without one of
// their own have it.
func setSync(t *testing.T, server *pgtest.Server, url, setting string) {
	t.Helper()
	server.Exec(t, url, fmt.Sprintf("ALTER SYSTEM SET synchronous_commit = %s", setting))
	server.Exec(t, url, "SELECT pg_reload_conf()")
	for {
		cfg, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		err = pool.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got)
		pool.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got == setting {
			return
		}
	}
}
