package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/feed"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/server/spans"
	"github.com/greenroom-run/greenroom/store"
)

// newReminders makes the node's part in reminders. Before it starts, to has whom its
// firings go to; c is nil without a cluster.
func (n *Node) newReminders(st store.Store, to *firings, c *cluster) (*reminder.Service, error) {
	// A delivery ends on its own before the scheduler gives it up.
	longest := max(n.cfg.Limits.TurnDeadline, host.DefaultLimits().TurnDeadline)
	for _, l := range n.cfg.Overrides {
		longest = max(longest, l.TurnDeadline)
	}
	cfg := reminder.Config{
		Store: st, Deliverer: to, Logger: n.cfg.Logger, Events: n.metrics.ReminderEvents(),
		Host: actor.HostID(actor.NewCommitID().String()), ExecutionTimeout: max(minExecution, 2*longest),
	}
	if c != nil {
		cfg.Peers = remindersOfPeers{c.router}
		cfg.Host, cfg.Members = "", &clusterMembers{store: st, service: c.service}
	}
	return reminder.New(cfg)
}

// alsoReady returns a check for health that asks a second question if the first is answered.
func alsoReady(check func(context.Context) error, ready func() error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			return err
		}
		if err := ready(); err != nil {
			return rpc.NotReady(err.Error())
		}
		return nil
	}
}

// minExecution is how long a delivery may take at least, waiting for its actor included: for
// so long subscribers of other servers are not given what those of a lost one were executing.
const minExecution = 20 * time.Second

// guestReminders is what the host knows of reminders.
type guestReminders struct {
	*reminder.Service // there before the first call comes
	store             store.Store
	log               *slog.Logger
}

// FindReminders implements [host.Reminders]. One that cannot be read is none: it can be set
// anew, and is not delivered.
func (g *guestReminders) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	found, err := g.store.FindReminders(ctx, names)
	var damaged *store.DamagedReminders
	if errors.As(err, &damaged) {
		for _, d := range damaged.Reminders {
			g.log.Error("a reminder cannot be read", "reminder", d.ID.String(), "reason", d.Reason)
		}
		err = nil
	}
	return found, err
}

func (g *guestReminders) ReminderNames(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	var names []string
	q := store.ReminderNameQuery{Key: key, Prefix: prefix}
	for {
		q.Limit = min(limit-len(names), store.MaxList)
		page, err := g.store.ReminderNames(ctx, q)
		if err != nil {
			return nil, err
		}
		names = append(names, page...)
		if len(page) < q.Limit || len(names) == limit {
			return names, nil
		}
		q.After = names[len(names)-1]
	}
}

func (g *guestReminders) ThinReminders(ctx context.Context, row actor.RowFence, damaged bool) error {
	return store.ThinReminders(ctx, g.store, row, damaged)
}

func (g *guestReminders) EarlierMessage(ctx context.Context, n actor.ReminderName) (bool, error) {
	return store.EarlierMessage(ctx, g.store, n)
}

func (g *guestReminders) NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error) {
	return g.store.NewestEvent(ctx, key)
}

// firings delivers due reminders to the hosts of their actors, each in a trace of its own.
type firings struct {
	host   rpc.Host
	spans  *spans.Recorder
	events *feed.Feed
}

// Deliver implements [reminder.Deliverer].
func (d *firings) Deliver(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func()) {
	if f.Pull == nil {
		return d.begin(ctx, f, ended)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		done := make(chan struct{})
		f, found, err := d.events.Pull(ctx, f)
		if err == nil && !found {
			err = reminder.ErrNoEvent
		}
		if err != nil {
			ended(err)
			return
		}
		giveUp := d.begin(ctx, f, func(err error) {
			ended(err)
			close(done)
		})
		defer context.AfterFunc(ctx, giveUp)()
		<-done
	}()
	return cancel
}

// begin begins the turn of a firing.
func (d *firings) begin(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func()) {
	inv := actor.Invocation{Key: f.Key, Method: f.Method, Payload: f.Payload, Firing: &f, Trace: d.spans.Begin()}
	if inv.Trace.IsSampled() {
		ended = d.recorded(&inv, ended)
	}
	return d.host.Begin(ctx, inv, answered(ended)).GiveUp
}

// recorded returns ended, after the span of the firing was recorded, with a link to the span that has
// caused it.
func (d *firings) recorded(inv *actor.Invocation, ended func(error)) func(error) {
	s := spans.Span{Trace: inv.Trace, Name: "reminder " + inv.Key.Type + "." + inv.Method, Kind: trace.SpanKindConsumer, Began: time.Now(), Link: inv.Firing.Link}
	switch f := inv.Firing; {
	case f.Pull != nil:
		s.Name, s.Link = "event "+inv.Key.Type+"."+inv.Method, f.Pull.Event.Link
	case f.Message != nil:
		s.Name = "message " + inv.Key.Type + "." + inv.Method
	}
	return func(err error) {
		if s.Ended = time.Now(); err != nil {
			s.Failed = err.Error()
		}
		d.spans.Record(s)
		ended(err)
	}
}

// answered tells how a call has ended.
type answered func(error)

// Answer implements [host.Receiver].
func (a answered) Answer(_ actor.Reply, err error) { a(err) }

// remindersOfPeers asks the other hosts of the cluster.
type remindersOfPeers struct{ router *routing.Router }

func (p remindersOfPeers) Release(ctx context.Context, host actor.HostID, r reminder.ReleaseRequest) ([]actor.ReminderID, error) {
	return p.router.ReleaseReminders(ctx, host, r.Subscriptions, r.Limit, r.Wait)
}

func (p remindersOfPeers) Notice(ctx context.Context, host actor.HostID, heads []store.ReminderHead) error {
	return p.router.NoticeReminders(ctx, host, heads)
}

// clusterMembers are the hosts of the cluster: all of them create and deliver reminders,
// and who leads the cluster gives out the buckets.
type clusterMembers struct {
	store   store.Cluster
	service *scheduler.Service
	// connected are those that the leader has sessions with; nil: it does not say.
	connected []actor.HostID
}

func (m *clusterMembers) Self() actor.HostID { return m.service.Self() }

func (m *clusterMembers) Live(ctx context.Context) ([]actor.HostID, bool, error) {
	hosts, now, err := m.store.Hosts(ctx)
	if err != nil {
		return nil, false, err
	}
	var live []actor.HostID
	for _, h := range hosts {
		if h.ExpiresAt.After(now) {
			live = append(live, h.ID)
		}
	}
	slices.Sort(live)
	// A host with another key has a row, and nobody can speak with it.
	if m.connected, err = m.service.Connected(ctx); err != nil && ctx.Err() != nil {
		return nil, false, err
	}
	return live, m.service.Leadership().Here, nil
}

func (m *clusterMembers) Connected(live []actor.HostID) []actor.HostID {
	if m.connected == nil {
		return live
	}
	return slices.DeleteFunc(slices.Clone(live), func(id actor.HostID) bool { return !slices.Contains(m.connected, id) })
}

// Leave implements [reminder.Members]: the cluster has its own way.
func (m *clusterMembers) Leave(context.Context) error { return nil }

func (m *clusterMembers) Current() bool { return m.service.Current(time.Now()) }
