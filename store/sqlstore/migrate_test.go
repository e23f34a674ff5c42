package sqlstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

func TestStoresThatStartTogether(t *testing.T) {
	for range 3 {
		database := pgtest.URL(t)
		var starts sync.WaitGroup
		for range 4 {
			starts.Go(func() {
				s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: database, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if err := s.Commit(t.Context(), []actor.Commit{write(key(actor.NewCommitID().String()), actor.Row{}, `{}`)})[0]; err != nil {
					t.Error(err)
				}
			})
		}
		starts.Wait()
	}
}

// Whatever happens to each kind of statement of a migration, it is brought to
// its end at once, and not after the lease of the connection that was lost.
func TestMigrationFaults(t *testing.T) {
	for _, c := range catalogFaults {
		t.Run(c.name, func(t *testing.T) {
			b := &broken{T: t, database: pgtest.URL(t)}
			proxy, url := pgproxy.Before(t, b.database)
			for _, on := range []string{
				"CREATE TABLE IF NOT EXISTS greenroom_schema", "INSERT INTO greenroom_schema", "SET holder = $2",
				"CREATE TABLE IF NOT EXISTS greenroom_module ", "SET version = version + 1",
			} {
				proxy.Plan(t, pgproxy.Fault{On: on, Do: c.Do, Code: c.Code})
			}
			s := open(t, url)
			b.is("commit", s.Commit(t.Context(), []actor.Commit{write(key("a"), actor.Row{}, `{}`)})[0], nil)
			if n := b.only(`SELECT count(*) FROM greenroom_schema WHERE holder = ''`); n != 1 {
				t.Error("the lease is still held")
			}
		})
	}
}

// CockroachDB makes a new schema in one transaction. Whatever happens to that, and if the
// server does not take it, the schema is there at the end, and nobody holds its lease.
func TestMigrationAtOnceFaults(t *testing.T) {
	if _, ok := pgtest.CockroachURL(t); !ok {
		t.Skip("no CockroachDB: " + pgtest.CockroachVariable + " is not set")
	}
	for on, faults := range map[string][]pgproxy.Fault{
		"SET autocommit_before_ddl":                    {{Do: pgproxy.Deny, Code: "42704"}},
		"CREATE TABLE IF NOT EXISTS greenroom_module ": {{Do: pgproxy.Lose}, {Do: pgproxy.Deny, Code: "0A000"}},
		"SET version = $3":                             {{Do: pgproxy.Deny, Code: "40001"}},
		pgproxy.Commit:                                 {{Do: pgproxy.Lose}, {Do: pgproxy.LoseAnswer}, {Do: pgproxy.Deny, Code: "40003"}},
	} {
		for _, fault := range faults {
			t.Run(fmt.Sprint(on, " ", fault.Do, " ", fault.Code), func(t *testing.T) {
				database, _ := pgtest.CockroachURL(t)
				b := &broken{T: t, database: database}
				proxy, url := pgproxy.Before(t, database)
				fault.On = on
				planned := proxy.Plan(t, fault)
				s := open(t, url)
				select {
				case <-planned.Struck():
				default:
					t.Error("nothing happened")
				}
				b.is("commit", s.Commit(t.Context(), []actor.Commit{write(key("a"), actor.Row{}, `{}`)})[0], nil)
				if n := b.only(`SELECT count(*) FROM greenroom_schema WHERE holder = ''`); n != 1 {
					t.Error("the lease is still held")
				}
			})
		}
	}
}

// TestOpenSaysWhatToChange: a database that is missing, or not the user's, and a user that
// the server does not know, are said with what there is to do.
func TestOpenSaysWhatToChange(t *testing.T) {
	base := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `CREATE ROLE guest LOGIN PASSWORD 'guest'`); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*url.URL)
		want   string
	}{
		"no such database":   {func(u *url.URL) { u.Path = "/missing" }, `CREATE DATABASE "missing"`},
		"no such user":       {func(u *url.URL) { u.User = url.User("stranger") }, `it has "stranger"`},
		"another's database": {func(u *url.URL) { u.User = url.UserPassword("guest", "guest") }, `OWNER TO "guest"`},
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		c.change(u)
		_, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: u.String()})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// A lease that a dead process left is waited for, and taken over.
func TestMigrationTakesOverALease(t *testing.T) {
	b := &broken{T: t, database: pgtest.URL(t)}
	b.exec(`CREATE TABLE greenroom_schema (name text PRIMARY KEY, version int8 NOT NULL, holder text NOT NULL DEFAULT '',
			expires_at timestamptz NOT NULL, checked_at timestamptz);
		INSERT INTO greenroom_schema VALUES ('greenroom', 0, 'dead', clock_timestamp() + interval '500ms')`)
	open(t, b.database)
}

func TestNewerSchemaIsRefused(t *testing.T) {
	b := &broken{T: t, database: pgtest.URL(t)}
	open(t, b.database)
	b.exec(`UPDATE greenroom_schema SET version = 1000`)
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: b.database, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "schema version 1000") || !strings.Contains(err.Error(), "newer greenroom") {
		t.Errorf("error is %v, want one that names the version and the remedy", err)
	}
	if errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("error %v asks to try again", err)
	}
}

// A table of somebody else's must end in an error, not in waiting.
func TestMigrationMeetsAStranger(t *testing.T) {
	t.Parallel()
	b := &broken{T: t, database: pgtest.URL(t)}
	b.exec(`CREATE TYPE greenroom_module AS ENUM ('x')`)
	if _, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: b.database, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("opened")
	}
}

// The buckets of a database from before they had rates are there, and get them.
func TestBucketsOfAnEarlierSchema(t *testing.T) {
	b := &broken{T: t, database: pgtest.URL(t)}
	s := open(t, b.database)
	old, err := s.AllocateBucket(t.Context(), "shop", "h1", actor.Vector([]byte("abcdefgh")))
	if err != nil {
		t.Fatal(err)
	}
	b.exec(`ALTER TABLE greenroom_bucket DROP COLUMN rate`)
	b.exec(fmt.Sprintf(`UPDATE greenroom_schema SET version = %d`, sqlstore.StepsBefore("greenroom_bucket ADD COLUMN IF NOT EXISTS rate")))
	s = open(t, b.database)
	rows, err := s.Buckets(t.Context(), actor.Bucket{}, 10)
	if err != nil || len(rows) != 1 || rows[0] != old {
		t.Fatalf("%+v, %v, want %+v", rows, err, old)
	}
	if err := s.SaveBuckets(t.Context(), []store.BucketProgress{{Bucket: old.Bucket, Epoch: old.Epoch, Rate: 7}}); err != nil {
		t.Fatal(err)
	}
	if rows, err = s.Buckets(t.Context(), actor.Bucket{}, 10); err != nil || rows[0].Rate != 7 {
		t.Errorf("%+v, %v", rows, err)
	}
}
