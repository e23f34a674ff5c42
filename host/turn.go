package host

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// maxLogLines bounds what one turn may log: enough to follow what it does, and
// little enough that a loop cannot fill a disk.
const maxLogLines = 1000

// maxLogText is the longest line kept, in bytes.
const maxLogText = 8 << 10

// maxContentType is the longest content type of a reply, in bytes, as in requests.
const maxContentType = 255

// maxTrapText is how much of a trap's message and of its stack is kept, in bytes.
const maxTrapText = 16 << 10

// turn is the host's side of one run of a guest: it implements [Calls]. It is
// reused; nothing in it survives prepare.
type turn struct {
	host *Host
	key  actor.Key

	method       string
	invocationID string
	now          time.Time
	readOnly     bool
	stateless    bool
	migrating    bool
	version      uint64
	payloadLimit int64

	// ctx is that of the run; activation is nil in lanes that run on committed
	// state alone.
	ctx        context.Context
	call       *call
	activation *activation
	uses       abi.Capabilities
	// began is when the turn did; recorded is the answer of a call with a key that
	// is recorded already, found when something was to leave: then the guest is ended.
	began    time.Time
	recorded *result
	left     bool // something has left, and the call was looked up before

	state    overlay.Overlay
	reply    actor.Payload
	logLines int
	fuel     engine.Fuel
	rng      rand.ChaCha8
	seeded   bool
	buf      []byte // what StateKeys and StateJSON return
	frame    abi.Turn
}

// Run's caller sees a turn as [Calls] alone.
var _ engine.Calls = (*turn)(nil)

// prepare readies t for one attempt of c on l.
func (t *turn) prepare(c *call, s *served, l *loaded, rev uint64, readOnly bool, now time.Time) {
	t.key, t.method, t.invocationID = c.inv.Key, c.inv.Method, c.inv.ID
	t.now, t.readOnly, t.stateless, t.migrating = now, readOnly, s.lane == LaneStateless, false
	t.version, t.payloadLimit = l.visibleVersion(), s.limits.PayloadBytes
	t.reply, t.logLines, t.seeded = actor.Payload{}, 0, false
	t.recorded, t.left = nil, false
	t.fuel, t.call, t.uses = engine.Fuel{Limit: s.limits.Fuel}, c, s.uses
	t.state.Reset(l.state, &t.host.revisions, rev, s.limits.StateBytes)
	t.frame = abi.Turn{
		What:         abi.WhatMethod,
		App:          t.key.App,
		Type:         t.key.Type,
		ID:           t.key.ID,
		Method:       t.method,
		InvocationID: t.invocationID,
		TimeUnixNano: now.UnixNano(),
		ContentType:  c.inv.Payload.ContentType,
		Payload:      c.inv.Payload.Data,
	}
	if readOnly {
		t.frame.Flags = abi.FlagReadOnly
	}
}

// run runs the migration, if the state needs one, and the method.
func (t *turn) run(ctx context.Context, in *instance, migrateFrom *uint32) error {
	t.ctx = ctx
	method := t.frame
	if migrateFrom != nil {
		t.frame = abi.Turn{
			What: abi.WhatMigrate, App: method.App, Type: method.Type, ID: method.ID,
			InvocationID: method.InvocationID, TimeUnixNano: method.TimeUnixNano,
			StoredSchema: *migrateFrom, Revision: t.state.Revision(),
		}
		t.migrating = true
		if err := t.runFrame(ctx, in); err != nil {
			return err
		}
		t.migrating, t.reply = false, actor.Payload{}
	}
	t.frame = method
	t.frame.Revision = t.state.Revision()
	return t.runFrame(ctx, in)
}

// errPanicked is the error of a call whose run has panicked, in the engine or in
// the host. Callers learn no more; the log has the rest.
var errPanicked = errors.New("the host has failed while it ran the turn")

// recovered makes a panic of ours the error of the call that met it: what the call
// holds, an instance, its actor's worker, a flight, is given back as after any
// other error.
func (h *Host) recovered(key actor.Key, err *error) {
	v := recover()
	if v == nil {
		return
	}
	h.cfg.Logger.Error("turn panicked", "app", key.App, "actor_type", key.Type, "actor_id", key.ID,
		"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	*err = errPanicked
}

// runGuest runs the frame on an instance. After a panic that is broken.
func (t *turn) runGuest(ctx context.Context, in *instance) (err error) {
	defer t.host.recovered(t.key, &err)
	return in.guest.Run(ctx, &t.frame, t)
}

func (t *turn) runFrame(ctx context.Context, in *instance) error {
	before := t.fuel.Used
	err := t.runGuest(ctx, in)
	t.call.stats.fuel += t.fuel.Used - before
	if err == nil {
		return nil
	}
	var trap *actor.TrapError
	if errors.As(err, &trap) {
		// A panic's text is whatever the guest had in memory.
		trap.Message = cut(trap.Message, maxTrapText)
		trap.Stack = cut(trap.Stack, maxTrapText)
	}
	return err
}

// forget drops everything that must not outlive the turn.
func (t *turn) forget() {
	t.frame, t.reply, t.uses = abi.Turn{}, actor.Payload{}, abi.Capabilities{}
	t.ctx, t.call, t.activation, t.recorded = nil, nil, nil, nil
	t.state.Reset(noState, nil, 0, 0)
	if cap(t.buf) > 64<<10 {
		t.buf = nil
	}
}

// mayWrite says why the turn may not change state, 0 if it may.
func (t *turn) mayWrite() abi.Code {
	switch {
	case t.stateless:
		return abi.CodeNoState
	case t.readOnly && !t.migrating: // a migration for a reader is never kept
		return abi.CodeReadOnly
	default:
		return 0
	}
}

func validKey(key []byte) bool {
	return len(key) > 0 && len(key) <= abi.MaxStateKeyLen && utf8.Valid(key)
}

func (t *turn) StateGet(key []byte) ([]byte, abi.Format, abi.Code) {
	if t.stateless {
		return nil, 0, abi.CodeNoState
	}
	if !validKey(key) {
		return nil, 0, abi.CodeInvalid
	}
	value, format, ok := t.state.Get(key)
	if !ok {
		return nil, 0, abi.CodeNotFound
	}
	return value, format, 0
}

func (t *turn) StateSet(key, value []byte, format abi.Format) abi.Code {
	if code := t.mayWrite(); code != 0 {
		return code
	}
	return t.state.Set(key, value, format)
}

func (t *turn) StateDelete(key []byte) (bool, abi.Code) {
	if code := t.mayWrite(); code != 0 {
		return false, code
	}
	return t.state.Delete(key)
}

func (t *turn) StateDeleteAll() (int, abi.Code) {
	if code := t.mayWrite(); code != 0 {
		return 0, code
	}
	return t.state.DeleteAll(), 0
}

func (t *turn) StateKeys(prefix []byte) ([]byte, abi.Code) {
	if t.stateless {
		return nil, abi.CodeNoState
	}
	t.buf = t.state.AppendKeys(t.buf[:0], prefix)
	return t.buf, 0
}

func (t *turn) StateJSON() ([]byte, abi.Code) {
	if t.stateless {
		return nil, abi.CodeNoState
	}
	t.buf = t.state.AppendJSON(t.buf[:0])
	return t.buf, 0
}

func (t *turn) StatePatch(before, after []byte) (int, abi.Code) {
	if code := t.mayWrite(); code != 0 {
		return 0, code
	}
	return t.state.Patch(before, after)
}

func (t *turn) StateVersion() uint64 { return t.version }

func (t *turn) StateRevision() uint64 { return t.state.Revision() }

func (t *turn) Reply(contentType string, payload []byte) abi.Code {
	if int64(len(payload)) > t.payloadLimit || len(contentType) > maxContentType {
		return abi.CodeTooLarge
	}
	if !utf8.ValidString(contentType) {
		return abi.CodeInvalid
	}
	// The strings of a frame may be the guest's memory, which lives on.
	if contentType == actor.ContentTypeJSON {
		contentType = actor.ContentTypeJSON
	} else {
		contentType = strings.Clone(contentType)
	}
	t.reply = actor.Payload{ContentType: contentType, Data: append([]byte(nil), payload...)}
	return 0
}

func (t *turn) Fail(e *actor.GuestError) abi.Code {
	if e == nil || len(e.Detail.Data) > abi.MaxErrorDetailLen {
		return abi.CodeInvalid
	}
	tidyGuestError(e)
	return 0
}

// statusUnknown is what a status outside 1 to 16 counts as.
const statusUnknown, statusHighest = 2, 16

// tidyGuestError brings an error within abi/SPEC.md section 4.
func tidyGuestError(e *actor.GuestError) {
	if e.Status == 0 || e.Status > statusHighest {
		e.Status = statusUnknown
	}
	e.Code = cut(e.Code, abi.MaxErrorCodeLen)
	e.Message = cut(e.Message, abi.MaxErrorMessageLen)
	e.Detail.ContentType = cut(e.Detail.ContentType, maxContentType)
}

// cut shortens text to at most n bytes, between two characters, and makes it
// UTF-8: it goes into protobuf strings and logs.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func (t *turn) Now() time.Time { return t.now }

func (t *turn) Fuel() *engine.Fuel { return &t.fuel }

func (t *turn) Random(p []byte) {
	if !t.seeded {
		var seed [32]byte
		cryptorand.Read(seed[:]) // never fails: see crypto/rand
		t.rng.Seed(seed)
		t.seeded = true
	}
	t.rng.Read(p) // never fails
}

func (t *turn) Log(level int32, text string) {
	t.logLines++
	if t.logLines > maxLogLines {
		return
	}
	if t.logLines == maxLogLines {
		level, text = int32(slog.LevelWarn), "this turn has logged its last line: more are dropped"
	}
	line := GuestLog{Key: t.key, Method: t.method, InvocationID: t.invocationID, Level: level, Text: strings.Clone(cut(text, maxLogText))}
	if t.host.events.GuestLog != nil {
		t.host.events.GuestLog(line)
		return
	}
	t.host.cfg.Logger.Log(context.Background(), slog.Level(level), "guest log",
		"app", t.key.App, "actor_type", t.key.Type, "actor_id", t.key.ID,
		"method", t.method, "invocation", t.invocationID, "text", line.Text)
}

// broken reports whether an instance whose run ended with err can only be closed.
func broken(err error) bool {
	if err == nil {
		return false
	}
	var guest *actor.GuestError
	return !errors.As(err, &guest)
}
