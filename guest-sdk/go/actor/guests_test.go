package actor_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Account is typed state with all that makes saving it interesting: a field that
// is left out when empty, a nested one, and one that is not state.
type Account struct {
	Balance int               `json:"balance"`
	Owner   string            `json:"owner,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	loads int // counts turns served from one decoded state
}

type Deposit struct {
	Amount int    `json:"amount"`
	Note   string `json:"note"`
}

var errFrozen = actor.NewError(actor.StatusPermissionDenied, "frozen", "the account is frozen")

func (a *Account) Deposit(ctx *actor.Context, in Deposit) (int, error) {
	a.Balance += in.Amount
	switch in.Note {
	case "wrapped":
		return 0, fmt.Errorf("deposit %d: %w", in.Amount, errFrozen.Retry(0).WithDetail(map[string]int{"balance": a.Balance}))
	case "joined":
		return 0, errors.Join(errors.New("first"), fmt.Errorf("second: %w", errFrozen))
	case "plain":
		return 0, errors.New("no such luck")
	case "refuse":
		return 0, actor.Errorf("refused", "not %d", in.Amount)
	case "not UTF-8":
		return 0, errors.New("a\xffb")
	case "huge detail":
		return 0, errFrozen.WithDetail(make([]byte, 65537))
	}
	return a.Balance, nil
}

func (a *Account) Rename(ctx *actor.Context, owner string) (actor.None, error) {
	a.Owner = owner
	return actor.None{}, nil
}

func (a *Account) View(ctx *actor.Context, _ actor.None) (Account, error) { return *a, nil }

// Peek changes the struct although it is read-only.
func (a *Account) Peek(ctx *actor.Context, _ actor.None) (int, error) {
	a.Balance += 1000
	return a.Balance, nil
}

func (a *Account) Loads(ctx *actor.Context, _ actor.None) (int, error) {
	a.loads++
	return a.loads, nil
}

func (a *Account) Close(ctx *actor.Context, _ actor.None) (int, error) {
	n, err := ctx.State().DeleteAll()
	if a.Balance != 0 || a.Owner != "" {
		return n, errors.New("DeleteAll left the struct as it was")
	}
	return n, err
}

// Bypass writes a field of the struct as a key.
func (a *Account) Bypass(ctx *actor.Context, balance int) (actor.None, error) {
	return actor.None{}, ctx.State().Set("balance", balance)
}

// Both changes one field in the struct and another as a key.
func (a *Account) Both(ctx *actor.Context, n int) (actor.None, error) {
	a.Owner = fmt.Sprint(n)
	return actor.None{}, ctx.State().Set("balance", n)
}

// Scribble sets a key that is not a field.
func (a *Account) Scribble(ctx *actor.Context, text string) (actor.None, error) {
	return actor.None{}, ctx.State().Set("scribble", text)
}

// Probe answers what its context says.
type Probe struct{}

type Seen struct {
	Self         actor.Ref
	App          string
	InvocationID string
	Now          time.Time
	Random       []uint64
	Bytes        []byte
	Version      uint64
}

func (*Probe) See(ctx *actor.Context, _ actor.None) (Seen, error) {
	ctx.Log().Debug("seen")
	ctx.Log().Warn("seen", "n", 7, "text", "two words", "empty", "", "odd")
	p := make([]byte, 3)
	if _, err := ctx.Random().Read(p); err != nil {
		return Seen{}, err
	}
	return Seen{ctx.Self(), ctx.App(), ctx.InvocationID(), ctx.Now(), []uint64{ctx.Random().Uint64(), rand.New(ctx.Random()).Uint64()}, p, ctx.Version()}, nil
}

func (*Probe) Echo(ctx *actor.Context, in actor.Payload) (actor.Payload, error) { return in, nil }
func (*Probe) EchoBytes(ctx *actor.Context, in []byte) ([]byte, error)          { return in, nil }
func (*Probe) At(ctx *actor.Context, in time.Time) (int64, error)               { return in.Unix(), nil }
func (*Probe) Keep(ctx *actor.Context, in actor.Payload) (actor.None, error) {
	kept.payload, kept.invocation = in, ctx.InvocationID()
	return actor.None{}, nil
}
func (*Probe) KeepBytes(ctx *actor.Context, in []byte) (actor.None, error) {
	kept.bytes = in
	return actor.None{}, nil
}
func (*Probe) BadReply(ctx *actor.Context, _ actor.None) (func(), error) { return func() {}, nil }
func (*Probe) BigReply(ctx *actor.Context, n int) ([]byte, error)        { return make([]byte, n), nil }

// kept is what a method held on to.
var kept struct {
	payload    actor.Payload
	bytes      []byte
	invocation string
}

// Run lets a test run a body inside a turn.
func (*Probe) Run(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, body(ctx)
}

var body func(ctx *actor.Context) error

// Counters is state in a map.
type Counters map[string]int

func (c *Counters) Add(ctx *actor.Context, name string) (int, error) {
	(*c)[name]++
	return (*c)[name], nil
}

// Stamp promotes time.Time's MarshalJSON: state that is not an object.
type Stamp struct{ time.Time }

func (s *Stamp) Touch(ctx *actor.Context, _ actor.None) (actor.None, error) { return actor.None{}, nil }

// Document has had two schemas: title and body in one text, then apart.
type Document struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

func (d *Document) Read(ctx *actor.Context, _ actor.None) (Document, error) { return *d, nil }
func (d *Document) Edit(ctx *actor.Context, title string) (Document, error) {
	d.Title = title
	return *d, nil
}

func migrateDocument(ctx *actor.Context, from uint32) error {
	var text string
	if _, err := ctx.State().Get("text", &text); err != nil {
		return err
	}
	title, body, ok := strings.Cut(text, "\n")
	if !ok {
		return actor.Errorf("cannot_migrate", "schema %d: no title in %q", from, text)
	}
	if _, err := ctx.State().Delete("text"); err != nil {
		return err
	}
	if err := ctx.State().Set("title", title); err != nil {
		return err
	}
	return ctx.State().Set("body", body)
}

func init() {
	actor.Register("Account",
		actor.Method("Deposit", (*Account).Deposit),
		actor.Method("Rename", (*Account).Rename, actor.Idempotent()),
		actor.ReadOnly("View", (*Account).View),
		actor.ReadOnly("Peek", (*Account).Peek),
		actor.Method("Loads", (*Account).Loads),
		actor.Method("Close", (*Account).Close),
		actor.Method("Bypass", (*Account).Bypass),
		actor.Method("Both", (*Account).Both),
		actor.Method("Scribble", (*Account).Scribble),
	)
	actor.Register("Probe",
		actor.Method("See", (*Probe).See),
		actor.Method("Echo", (*Probe).Echo),
		actor.Method("EchoBytes", (*Probe).EchoBytes),
		actor.Method("At", (*Probe).At),
		actor.Method("Keep", (*Probe).Keep),
		actor.Method("KeepBytes", (*Probe).KeepBytes),
		actor.Method("BadReply", (*Probe).BadReply),
		actor.Method("BigReply", (*Probe).BigReply),
		actor.Method("Run", (*Probe).Run),
		actor.ReadOnly("RunReadOnly", (*Probe).Run),
	)
	actor.Register("Pure", actor.PlacementStateless, actor.Method("Run", (*Probe).Run))
	actor.Register("Counters", actor.Method("Add", (*Counters).Add))
	actor.Register("Stamp", actor.Method("Touch", (*Stamp).Touch))
	actor.Register("Document", actor.StateSchema(2), actor.Migrate(migrateDocument),
		actor.ReadOnly("Read", (*Document).Read),
		actor.Method("Edit", (*Document).Edit),
	)
}
