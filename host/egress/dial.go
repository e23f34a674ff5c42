package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// deniedError is an address that a request may not go to. It does not say which:
// names of a private network are not for guests to look up.
type deniedError struct{ host string }

func (e *deniedError) Error() string {
	return e.host + " is at an address that is not public"
}

// unreachableError is a host that there is no connection to.
type unreachableError struct{ host, why string }

func (e *unreachableError) Error() string { return "cannot reach " + e.host + ": " + e.why }

// dialTimeout bounds the attempt at one of several addresses.
const dialTimeout = 5 * time.Second

// dialer makes connections to addresses that it has judged.
type dialer struct {
	resolver Resolver
	private  bool // under a private grant
}

// allows reports whether an address may be dialled; named means that a name led
// there.
func (d *dialer) allows(ip netip.Addr, named bool) bool {
	switch kindOf(ip) {
	case public:
		return true
	case private:
		return d.private
	case link:
		return d.private && !named // the rule was checked to name it
	default:
		return false
	}
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	literal, err := netip.ParseAddr(host)
	named := err != nil
	ips := []netip.Addr{literal}
	if named {
		if ips, err = d.resolver.LookupNetIP(ctx, "ip", host); err != nil || len(ips) == 0 {
			return nil, &unreachableError{host, "the name cannot be resolved"}
		}
	}
	// The socket's address is judged again, whatever made it.
	dialer := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !d.allows(at.Addr(), named) {
			return &deniedError{host}
		}
		return nil
	}}
	failure := error(&deniedError{host})
	for _, ip := range ips {
		if !d.allows(ip, named) {
			continue
		}
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failure = &unreachableError{host, dialFailure(err)}
	}
	return nil, failure
}

// dialFailure is what may be said of a connection that was not made: net's own
// errors name addresses.
func dialFailure(err error) string {
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %s", dialTimeout)
	}
	return "no connection"
}
