package bare

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Database plays [DatabaseRole] on the server at a URL: it says the URL of a
// fresh database, which lives as long as the role.
func Database(ctx context.Context, raw json.RawMessage, say func(any) error) (err error) {
	var server string
	if err := json.Unmarshal(raw, &server); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	u, err := url.Parse(server)
	if err != nil {
		return errors.New("the database's URL is not of the form postgres://USER@HOST:PORT/DATABASE")
	}
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	// What is left to do when ctx has ended has no context.
	after := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, conn.Close(after)) }()
	name := "bench_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return err
	}
	defer func() {
		_, dropErr := conn.Exec(after, "DROP DATABASE "+name)
		err = errors.Join(err, dropErr)
	}()
	u.Path = "/" + name
	if err := say(u.String()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
