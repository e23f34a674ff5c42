package egress

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/greenroom-run/greenroom/actor"
)

// Grants says which hosts an app may send requests to.
type Grants interface {
	HTTP(ctx context.Context, app string) ([]actor.HTTPGrant, error)
}

// Resolver finds the addresses of a name; [*net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config configures a [Client]. Grants is needed.
type Config struct {
	Grants Grants
	// Resolver defaults to [net.DefaultResolver].
	Resolver Resolver
	// RootCAs are whom servers' certificates must come from. Defaults to the
	// system's.
	RootCAs *x509.CertPool
	// MaxRequestBytes and MaxResponseBytes bound the bodies. Each defaults to
	// 4 MiB.
	MaxRequestBytes, MaxResponseBytes int64
	// MaxRedirects is how many redirects are followed. Defaults to 5.
	MaxRedirects int
	// MaxPerApp and MaxInFlight bound the requests under way, of one app and of
	// all. They default to 64 and 256.
	MaxPerApp, MaxInFlight int
}

// WithDefaults returns a copy with defaults filled in.
func (c Config) WithDefaults() Config {
	c.Resolver = cmp.Or[Resolver](c.Resolver, net.DefaultResolver)
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, 4<<20)
	c.MaxResponseBytes = cmp.Or(c.MaxResponseBytes, 4<<20)
	c.MaxRedirects = cmp.Or(c.MaxRedirects, 5)
	c.MaxPerApp = cmp.Or(c.MaxPerApp, 64)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 256)
	return c
}

func (c Config) validate() error {
	if c.Grants == nil {
		return errors.New("egress config: Grants is nil; give what apps were granted")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxRequestBytes", c.MaxRequestBytes}, {"MaxResponseBytes", c.MaxResponseBytes}, {"MaxRedirects", int64(c.MaxRedirects)},
		{"MaxPerApp", int64(c.MaxPerApp)}, {"MaxInFlight", int64(c.MaxInFlight)},
	} {
		if f.value < 0 {
			return fmt.Errorf("egress config: %s is negative; give a positive value, or 0 for the default", f.name)
		}
	}
	return nil
}
