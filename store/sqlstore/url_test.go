package sqlstore

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// libpqEnvironment has every variable that pgx reads but PGSERVICE, each with a
// value that would make a difference.
var libpqEnvironment = map[string]string{
	"PGHOST": "nowhere.invalid", "PGPORT": "1", "PGDATABASE": "other", "PGUSER": "other", "PGPASSWORD": "other",
	"PGPASSFILE": "/nonexistent", "PGAPPNAME": "other", "PGCONNECT_TIMEOUT": "1", "PGSSLMODE": "verify-full",
	"PGSSLKEY": "/nonexistent", "PGSSLCERT": "/nonexistent", "PGSSLCERTMODE": "require", "PGSSLSNI": "0",
	"PGSSLROOTCERT": "/nonexistent", "PGSSLPASSWORD": "other", "PGSSLNEGOTIATION": "direct",
	"PGTARGETSESSIONATTRS": "standby", "PGSERVICEFILE": "/nonexistent", "PGTZ": "Asia/Tokyo", "PGOPTIONS": "-c work_mem=1MB",
	"PGMINPROTOCOLVERSION": "3.2", "PGMAXPROTOCOLVERSION": "3.2", "PGCHANNELBINDING": "require", "PGREQUIREAUTH": "none",
}

func TestOnlyTheURLCounts(t *testing.T) {
	database := strings.TrimSuffix(pgtest.URL(t), "?sslmode=disable")
	before, err := parseURL(database + "?search_path=public")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range libpqEnvironment {
		t.Setenv(name, value)
	}
	t.Setenv("HOME", t.TempDir())
	after, err := parseURL(database + "?search_path=public")
	if err != nil {
		t.Fatal(err)
	}
	a, b := before.ConnConfig, after.ConnConfig
	if a.Host != b.Host || a.Port != b.Port || a.Database != b.Database || a.User != b.User || a.Password != b.Password ||
		a.ConnectTimeout != b.ConnectTimeout || a.SSLNegotiation != b.SSLNegotiation || (a.TLSConfig == nil) != (b.TLSConfig == nil) ||
		len(a.Fallbacks) != len(b.Fallbacks) || !maps.Equal(a.RuntimeParams, b.RuntimeParams) {
		t.Errorf("the environment changed the configuration: %s:%d %v", b.Host, b.Port, slices.Sorted(maps.Keys(b.RuntimeParams)))
	}
	if a.RuntimeParams["search_path"] != "public" {
		t.Error("a parameter of the URL is gone")
	}
	s, err := Open(t.Context(), Config{URL: database})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestIncompleteURLs(t *testing.T) {
	for url, want := range map[string]string{
		"":                              "URL is empty",
		"postgres://u:p@/d":             "no host",
		"postgres://h/d":                "no user",
		"postgres://u@h":                "no database",
		"postgres://u@h/":               "no database",
		"mysql://u@h/d":                 "cannot be read",
		"postgres://u@h/d?sslmode=what": "sslmode",
	} {
		if _, err := parseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q in it", url, err, want)
		}
	}
	for _, url := range []string{
		"postgres:///d?host=/var/run/postgresql&user=u", "postgres://u:p@[::1]:5433/d", "postgres://u@h/?dbname=d",
		"postgresql://u:p%40@h/d?ssl=true", "postgres://u@h/d?port=7",
	} {
		if _, err := parseURL(url); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}
