package sqlstore

import (
	"errors"
	"net/url"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
)

const urlForm = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// unsetParameters are the parameters that pgx would take from libpq's environment
// variables and from files in the home directory if the URL does not have them.
// Each has the meaning of not being there. service is missing: it has no such
// value.
var unsetParameters = map[string]string{
	"port":                 "5432",
	"password":             "",
	"passfile":             "",
	"connect_timeout":      "10",
	"sslmode":              "prefer",
	"sslkey":               "",
	"sslcert":              "",
	"sslcertmode":          "allow",
	"sslsni":               "1",
	"sslrootcert":          "",
	"sslpassword":          "",
	"sslnegotiation":       "postgres",
	"target_session_attrs": "any",
	"min_protocol_version": "3.0",
	"max_protocol_version": "3.0",
	"channel_binding":      "prefer",
	"require_auth":         "",
}

// parseURL reads the URL, and nothing but the URL: where a server's environment
// sets PGHOST or the like for other programs, this one does not follow. It never
// wraps what the parsers say, since that may quote parts of a password.
func parseURL(raw string) (*pgxpool.Config, error) {
	if raw == "" {
		return nil, errors.New("sqlstore: URL is empty; give " + urlForm)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("sqlstore: URL cannot be read; give " + urlForm +
			", with each of / : @ ? # % in the user or password percent-encoded")
	}
	given := u.Query()
	switch {
	case u.Host == "" && given.Get("host") == "":
		return nil, errors.New("sqlstore: URL names no host; give " + urlForm)
	case u.User.Username() == "" && given.Get("user") == "":
		return nil, errors.New("sqlstore: URL names no user; give " + urlForm)
	case len(u.Path) < 2 && given.Get("database") == "" && given.Get("dbname") == "":
		return nil, errors.New("sqlstore: URL names no database; give " + urlForm)
	}
	full := url.Values{}
	for name, value := range unsetParameters {
		full.Set(name, value)
	}
	// What the URL says outside of its parameters must not be said twice.
	if _, set := u.User.Password(); set {
		full.Del("password")
	}
	if u.Port() != "" {
		full.Del("port")
	}
	for name, values := range given {
		full[name] = slices.Clone(values)
	}
	if given.Has("ssl") {
		full.Del("sslmode")
	}
	u.RawQuery = full.Encode()
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, errors.New("sqlstore: URL has a parameter or certificate that cannot be used; check sslmode, sslrootcert, sslcert, sslkey and the values of the others, and that PGSERVICE is not set")
	}
	for name := range cfg.ConnConfig.RuntimeParams {
		if !given.Has(name) {
			delete(cfg.ConnConfig.RuntimeParams, name) // PGOPTIONS, PGTZ, PGAPPNAME
		}
	}
	return cfg, nil
}
