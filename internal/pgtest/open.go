//go:build unix

package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// Open starts a server for a program that is not a test, such as a benchmark.
// [Server.Close] ends it, and so does the end of the process.
func Open() (*Server, error) { return newServer() }

// Close stops the server and removes its folder.
func (s *Server) Close() { s.remove() }

// CreateDatabase makes a fresh database and returns its URL, as
// [Server.Database] does for tests.
func (s *Server) CreateDatabase(ctx context.Context) (string, error) {
	name := "test_" + strings.ToLower(rand.Text())
	out, err := s.command(ctx, "psql", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-U", superuser, "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-Xqc", "CREATE DATABASE "+name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("create a database: %w\n%s", err, out)
	}
	return s.url(name), nil
}
