package routing

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
)

// Accepted takes the calls that another host sends here. A call runs if this host holds its
// actor, and waits while the actor's holder is not settled; otherwise it is refused with a
// [*NotOwnerError]. The methods may be called concurrently.
type Accepted struct {
	r *Router
	// Peer is the host that sends.
	Peer actor.HostID
	to   actor.HostID

	channel inboundChannel
	stream  uint64
}

// Accept checks the hello of a host that wants to send calls. It returns an [Accepted] for the
// calls, and the hello to answer with. An error is a [*HelloError].
func (r *Router) Accept(h *greenroomv1.ExchangeHello) (*Accepted, *greenroomv1.ExchangeHello, error) {
	self := r.cfg.Placement.Self()
	lowest, highest := max(int(h.GetMinProtocol()), r.cfg.MinProtocol), min(int(h.GetMaxProtocol()), r.cfg.MaxProtocol)
	switch {
	case h == nil || h.GetFrom() == "":
		return nil, nil, &HelloError{"there is no hello: only hosts of the cluster speak InterconnectService"}
	case h.GetCluster() != r.cfg.Cluster:
		return nil, nil, &HelloError{fmt.Sprintf("the caller is of the cluster %q, this host of %q; give all hosts of one database the same --cluster-name", h.GetCluster(), r.cfg.Cluster)}
	case actor.HostID(h.GetTo()) != self:
		return nil, nil, &HelloError{fmt.Sprintf("this is the host %s, not %s, which may have listened here before", self, h.GetTo())}
	case lowest > highest:
		return nil, nil, &HelloError{fmt.Sprintf("the caller speaks the protocols %d to %d, this host %d to %d; upgrade the older one", h.GetMinProtocol(), h.GetMaxProtocol(), r.cfg.MinProtocol, r.cfg.MaxProtocol)}
	}
	answer := r.peers.hello(actor.HostID(h.GetFrom()))
	answer.MinProtocol, answer.MaxProtocol = uint32(highest), uint32(highest) //nolint:gosec // small numbers
	return &Accepted{r: r, Peer: actor.HostID(h.GetFrom()), to: self, channel: inboundChannel{h.GetProcess(), h.GetChannel()}, stream: h.GetStream()}, answer, nil
}

// Serve returns the context for serving the stream that the hello opened. It is called before
// the hello is answered. It ends the contexts of earlier streams of the same channel, and
// refuses the stream with a [*HelloError] if a later one is being served. The caller calls done
// once the stream is no longer served. If a later stream ends the context, its cause is a
// [*HelloError].
func (a *Accepted) Serve(ctx context.Context) (served context.Context, done func(), err error) {
	return a.r.inbound.begin(ctx, a.channel, a.stream)
}

// refused returns an error if this host has a new ID since the hello: it takes no calls that
// were sent to its earlier incarnation.
func (a *Accepted) refused() error {
	if a.r.cfg.Placement.Self() == a.to {
		return nil
	}
	return &NotOwnerError{}
}

// Begin begins a call: see [host.Host.Begin].
func (a *Accepted) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	if err := a.refused(); err != nil {
		to.Answer(actor.Reply{}, err)
		return over{}
	}
	return a.r.begin(ctx, inv, to, a.Peer, true)
}

// NotHeldBy notes that the host by has told the sender that it does not hold an actor. If this
// host knows by as the holder, it forgets that.
func (a *Accepted) NotHeldBy(key actor.Key, by actor.HostID) {
	if by != "" && a.r.find(key).host == by {
		a.r.cfg.Placement.Learned(key, "")
	}
}

// over is a call that has its answer.
type over struct{}

// GiveUp implements [host.Begun].
func (over) GiveUp() {}

// Delete is [host.Host.Delete].
func (a *Accepted) Delete(ctx context.Context, key actor.Key) error {
	if err := a.refused(); err != nil {
		return err
	}
	return a.r.bring(ctx, key, a.Peer, func(ctx context.Context) error { return a.r.cfg.Local.Delete(ctx, key) }, nil)
}

// View is [host.Host.View], whoever holds the actor.
func (a *Accepted) View(ctx context.Context, key actor.Key) (host.View, error) {
	if err := a.refused(); err != nil {
		return host.View{}, err
	}
	return a.r.cfg.Local.View(ctx, key)
}
