package turn

import (
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// Env is what all turns of a host share.
type Env struct {
	Random    func([]byte) // fills its argument with the seed of a run's random numbers
	Revisions *overlay.Revisions
	Logger    *slog.Logger
	// Settings and Egress may be nil: then no app has settings, and nothing is sent.
	Settings Settings
	Egress   Egress
	// Reminders and Timers may be nil: then there are none.
	Reminders Reminders
	Timers    Timers
	// Outbox may be nil: then no messages are sent.
	Outbox Outbox
	// Types may be nil: then every type has actors that publish.
	Types Types
	// Services may be nil: then there are none.
	Services Services
	// Followers may be nil: then there are no services to watch.
	Followers Followers
	// Hosts may be nil: then all actors are here.
	Hosts Hosts
	// Logged gets the lines that guests log; nil: they go to Logger. Sent gets each
	// request when it is answered.
	Logged func(Log)
	Sent   func(EgressEnd)
}

// Spec is what one turn is to do, and within which bounds.
type Spec struct {
	Key          actor.Key
	Method       string
	InvocationID string
	Trace        *actor.Trace // of the call; nil: none
	// Run counts the runs of the turn, from 1 on. Discarded means that an earlier
	// run logged something, which has not happened: this run logs that first.
	Run       int
	Discarded bool
	Payload   actor.Payload
	Now       time.Time // as the guest sees it
	ReadOnly  bool
	Stateless bool
	// State is what it runs on, Revision names it for the guest's caches (abi/SPEC.md
	// section 5), and Version is the actor's as guests see it.
	State    *overlay.State
	Revision uint64
	Version  uint64
	Life     uint64
	// StateBytes and PayloadBytes bound the state after the turn and the reply.
	StateBytes, PayloadBytes int64
	// StateSetting and PayloadSetting are what sets the two, for people.
	StateSetting, PayloadSetting string
	Fuel                         uint64 // 0: no bound
	Uses                         abi.Capabilities
	// Leaver is asked before anything leaves the host.
	Leaver Leaver
	// Methods says what reminders and timers may run.
	Methods Methods
	// MethodSet is the set of methods that the actor accepts; empty: all.
	MethodSet string
	// Awaited means that another turn of the actor waits for this one.
	Awaited bool
	// Spawner names actors that the turn spawns.
	Spawner Spawner
	// ReminderBytes bounds what the turn's reminders take, together.
	ReminderBytes int64
	// Firing is the delivery of a reminder that asks for the turn, or for the turn of the same actor
	// that waits for this one; nil: none does. Fired is that reminder as it was found; nil: it was not
	// looked up.
	Firing *actor.Firing
	Fired  *actor.Reminder
	// Timer is the firing of a timer that asks for the turn; without a name: none does.
	Timer TimerFiring
	// Message is the volatile message that asks for the turn; nil: none does.
	Message *actor.Message
	// From is the actor whose turn calls this one; zero: the turn is the outermost.
	From actor.Key
	// Caller runs the turns that this one calls.
	Caller Caller
}

// Caller runs turns of other actors for a turn.
type Caller interface {
	// Call runs what a message asks for. An error ends the guest that called. The code is
	// [abi.CodeReadOnly] if the turn is read-only and the method is not; otherwise 0.
	Call(m *abi.Message) (*abi.Result, abi.Code, error)
}

// TimerFiring is a timer that fires, and when it was due.
type TimerFiring struct {
	Name string
	Due  time.Time
}

// Leaver readies a turn for something that leaves the host, or that rests on more than
// its own state. An error ends the guest: then nothing has left.
type Leaver interface {
	Leave() error
	// Await waits until all that the turn could have observed is durable.
	Await() error
	// ChangedService returns the actor, beside the turn's own, that has claimed or released a service in the
	// same chain; nil if none has.
	ChangedService(name string) *actor.Key
}

// Methods are those of an actor type.
type Methods interface {
	// MethodProblem says why a "reminder" or "timer" cannot run a method, for people;
	// empty if it can.
	MethodProblem(of, method string) string
	// SetProblem says why an actor cannot have a method set, for people; empty if it can.
	SetProblem(set string) string
}
