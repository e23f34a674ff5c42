package routing

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Defaults of [Config].
const (
	DefaultChannels              = 4
	DefaultMaxInFlight           = 4096
	DefaultMaxWaiting            = 16_384
	DefaultMaxWaitingBytes int64 = 64 << 20
	DefaultMaxWait               = 10 * time.Second
	DefaultPeerTimeout           = 3 * time.Second
	DefaultSettleGrace           = 5 * time.Second
)

// Placement reports which host holds what. Its methods are called concurrently and never
// block.
type Placement interface {
	// Self is this incarnation of this process.
	Self() actor.HostID
	// Find returns where a call of an actor goes; policy is that of the actor's type.
	Find(key actor.Key, policy string) placement.Where
	// Learned notes that a host does not hold an actor. owner is the holder that the host
	// named; empty if it named none.
	Learned(key actor.Key, owner actor.HostID)
	// Peer returns the address of a host and the newest protocol that both hosts speak. ok is
	// false if the host is not a member, or if they have no protocol in common.
	Peer(id actor.HostID) (address string, protocol int, ok bool)
}

// Host runs turns; [*host.Host] does.
type Host interface {
	Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun
	Delete(ctx context.Context, key actor.Key) error
	View(ctx context.Context, key actor.Key) (host.View, error)
}

// Timers sets, cancels and reads timers of the actors that a host holds. [host.Host] does.
type Timers interface {
	SetTimer(ctx context.Context, spec actor.TimerSpec) (replaced bool, err error)
	CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error)
	GetTimer(ctx context.Context, key actor.Key, name string) (actor.Timer, error)
}

// Config is what a [Router] is made of. The zero value of an optional field means its
// default.
type Config struct {
	// Local is the host of this process. Required.
	Local Host
	// Timers is the same host, for timers; nil if it has no timers.
	Timers Timers
	// Placement reports which host holds what. Required.
	Placement Placement
	// Policy returns the placement policy of an actor type, from memory; false if the type is
	// unknown. Required.
	Policy func(app, typ string) (policy string, ok bool)

	// Readers returns the hosts that may answer a read-only call beside the actor's host, and
	// whether the local host is one of them. It never blocks. Nil: no type has readers.
	Readers func(inv *actor.Invocation) (hosts []actor.HostID, here bool)

	// Cluster is the cluster's name: hosts of other clusters are refused. Required.
	Cluster string
	// APIAddress is where clients reach this process, host:port. Other hosts name it in the
	// replies of calls that they forwarded here. Empty: they name nothing.
	APIAddress string
	// MinProtocol and MaxProtocol are the protocols that this process speaks. Required.
	MinProtocol, MaxProtocol int
	// TLS is for connections to peers: see [Credentials.Client]. Nil: plain text.
	TLS *tls.Config

	// DialContext opens connections to peers. Defaults to that of a [net.Dialer].
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// HTTPClient makes the requests to peers. Defaults to [NewHTTPClient] with TLS,
	// DialContext and PeerTimeout.
	HTTPClient *http.Client

	// Token is an admin's token for peers that ask for one, sent only in plain text. Empty:
	// none is sent.
	Token string

	// Channels is how many streams a session has. Defaults to [DefaultChannels].
	Channels int
	// MaxInFlight bounds the calls of one channel that are not answered. Apps share the bound:
	// one alone may have seven eighths. Defaults to [DefaultMaxInFlight].
	MaxInFlight int
	// MaxWaiting and MaxWaitingBytes bound the calls that wait for an owner, and their
	// payloads; MaxWaitingBytes also bounds the payloads that one peer has. Apps share them.
	// Default to [DefaultMaxWaiting] and [DefaultMaxWaitingBytes].
	MaxWaiting      int
	MaxWaitingBytes int64
	// MaxWait is how long a call may wait for an owner in all; its deadline may be earlier. Defaults to [DefaultMaxWait].
	MaxWait time.Duration
	// PeerTimeout is how long a peer may be silent, pings included, before the session
	// counts as broken: no less than a host's lease. Defaults to [DefaultPeerTimeout].
	PeerTimeout time.Duration
	// SettleGrace is how long the answer to a cancelled call is waited for. Defaults
	// to [DefaultSettleGrace].
	SettleGrace time.Duration

	// Events are called when something happens. Defaults to no callbacks.
	Events Events
	// Logger defaults to [slog.Default].
	Logger *slog.Logger
}

// Events are callbacks, for metrics and tests. A nil field is not called. They must be
// quick.
type Events struct {
	// Forwarded is called when a peer has answered a call, with how: "reply" (an error
	// of the turn is one), "redirect", "refused" (it has no capacity, or stops) or
	// "lost" (the session broke before the answer).
	Forwarded func(outcome string)
	// SessionOpened and SessionBroken are called for the sessions to peers.
	SessionOpened func(peer actor.HostID)
	SessionBroken func(peer actor.HostID)
}

// WithDefaults returns a copy with every unset optional field at its default.
func (c Config) WithDefaults() Config {
	c.Channels = cmp.Or(c.Channels, DefaultChannels)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, DefaultMaxInFlight)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, DefaultMaxWaiting)
	c.MaxWaitingBytes = cmp.Or(c.MaxWaitingBytes, DefaultMaxWaitingBytes)
	c.MaxWait = cmp.Or(c.MaxWait, DefaultMaxWait)
	c.PeerTimeout = cmp.Or(c.PeerTimeout, DefaultPeerTimeout)
	c.SettleGrace = cmp.Or(c.SettleGrace, DefaultSettleGrace)
	if c.Readers == nil {
		c.Readers = func(*actor.Invocation) ([]actor.HostID, bool) { return nil, false }
	}
	if c.Events.Forwarded == nil {
		c.Events.Forwarded = func(string) {}
	}
	if c.Events.SessionOpened == nil {
		c.Events.SessionOpened = func(actor.HostID) {}
	}
	if c.Events.SessionBroken == nil {
		c.Events.SessionBroken = func(actor.HostID) {}
	}
	if c.HTTPClient == nil {
		c.HTTPClient = NewHTTPClient(c.TLS, c.DialContext, c.PeerTimeout)
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) validate() error {
	switch {
	case c.Local == nil:
		return errors.New("routing config: Local is nil; give the host of this process")
	case c.Placement == nil:
		return errors.New("routing config: Placement is nil; give what knows who holds what")
	case c.Policy == nil:
		return errors.New("routing config: Policy is nil; give what knows the placement of types")
	case c.Cluster == "":
		return errors.New("routing config: Cluster is empty; give the cluster's name")
	case c.MinProtocol < 1 || c.MaxProtocol < c.MinProtocol:
		return fmt.Errorf("routing config: protocols %d to %d; give numbers from 1 on, the lower one first", c.MinProtocol, c.MaxProtocol)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Channels", int64(c.Channels)},
		{"MaxInFlight", int64(c.MaxInFlight)},
		{"MaxWaiting", int64(c.MaxWaiting)},
		{"MaxWaitingBytes", c.MaxWaitingBytes},
		{"MaxWait", int64(c.MaxWait)},
		{"PeerTimeout", int64(c.PeerTimeout)},
		{"SettleGrace", int64(c.SettleGrace)},
	} {
		if f.value < 0 {
			return fmt.Errorf("routing config: %s is negative; give a positive one, or 0 for the default", f.name)
		}
	}
	return nil
}
