package bare

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// Database plays [DatabaseRole] on the server at a URL: it says the URL of a
// fresh database, which lives as long as the role.
func Database(ctx context.Context, raw json.RawMessage, say func(any) error) error {
	var server string
	must.Check(json.Unmarshal(raw, &server))
	u, err := url.Parse(server)
	if err != nil {
		return errors.New("the database's URL is not of the form postgres://USER@HOST:PORT/DATABASE")
	}
	conn := must.Get(pgx.Connect(ctx, server))
	// What is left to do when ctx has ended has no context.
	after := context.WithoutCancel(ctx)
	defer must.Close(func() error { return conn.Close(after) })
	name := "bench_" + strings.ToLower(rand.Text())
	must.Get(conn.Exec(ctx, "CREATE DATABASE "+name))
	defer must.Close(func() error {
		_, err := conn.Exec(after, "DROP DATABASE "+name)
		return err
	})
	u.Path = "/" + name
	must.Check(say(u.String()))
	<-ctx.Done()
	return nil
}

// Settle has a database do at once what it would do for newly written rows of a table while it is
// measured: vacuum and analyze them, and write them to its data files.
func Settle(ctx context.Context, url, table string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE `+pgx.Identifier{table}.Sanitize())
	if err == nil {
		_, err = conn.Exec(ctx, `CHECKPOINT`)
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
