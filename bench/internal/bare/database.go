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
