package actortest

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// turnHost is the host of an instance: the fake [bridge.Host] and [bridge.Outside]. Between begin and
// end it belongs to one turn.
type turnHost struct {
	harness *Harness

	ref     actor.Ref
	version uint64
	overlay *overlay
	random  *rand.ChaCha8
	outcome
}

// outcome is what a turn ends with.
type outcome struct {
	reply   actor.Payload
	failure *actor.Error
}

func (h *turnHost) begin(ref actor.Ref, version uint64, o *overlay) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], h.harness.seed)
	binary.LittleEndian.PutUint64(seed[8:], h.harness.turns)
	*h = turnHost{harness: h.harness, ref: ref, version: version, overlay: o, random: rand.NewChaCha8(seed)}
}

func (h *turnHost) end() (actor.Payload, error) {
	reply, failure := h.reply, h.failure
	*h = turnHost{harness: h.harness}
	if failure != nil {
		return reply, failure
	}
	return reply, nil
}

func (h *turnHost) StateGet(key string, buf []byte) ([]byte, abi.Format, abi.Code) {
	v, code := h.overlay.get(key)
	return append(buf[:0], v.data...), v.format, code
}

func (h *turnHost) StateSet(key string, data []byte, format abi.Format) abi.Code {
	return h.overlay.set(key, data, format)
}

func (h *turnHost) StateDelete(key string) (bool, abi.Code) { return h.overlay.delete(key) }

func (h *turnHost) StateDeleteAll() (int, abi.Code) { return h.overlay.deleteAll() }

func (h *turnHost) StateKeys(prefix string, buf []byte) ([]byte, abi.Code) {
	if h.overlay.none {
		return nil, abi.CodeNoState
	}
	return abi.AppendKeyList(buf[:0], h.overlay.keys(prefix)), 0
}

func (h *turnHost) StateJSON(buf []byte) ([]byte, abi.Code) {
	if h.overlay.none {
		return nil, abi.CodeNoState
	}
	return h.overlay.object(buf[:0]), 0
}

func (h *turnHost) StatePatch(before, after []byte) (int, abi.Code) {
	return h.overlay.patch(before, after)
}

func (h *turnHost) StateVersion() uint64  { return h.version }
func (h *turnHost) StateRevision() uint64 { return h.overlay.revision }

func (h *turnHost) Reply(contentType string, payload []byte) abi.Code {
	if len(payload) > limitOr(h.harness.types[h.ref.Type].Limits.PayloadBytes, defaultPayloadBytes) {
		return abi.CodeTooLarge
	}
	h.reply = actor.Payload{ContentType: contentType, Data: append([]byte(nil), payload...)}
	return 0
}

func (h *turnHost) Fail(frame []byte) abi.Code {
	e, err := abi.DecodeError(frame)
	if err != nil {
		return abi.CodeInvalid
	}
	h.failure = &actor.Error{
		Status: actor.Status(e.Status), Code: e.Code, Message: e.Message, Retryable: e.Retryable,
		RetryAfter: time.Duration(e.RetryAfterMillis) * time.Millisecond,
		Detail:     actor.Payload{ContentType: e.DetailContentType, Data: e.Detail},
	}
	return 0
}

func (h *turnHost) Call(frame []byte) ([]byte, abi.Code) {
	var m abi.Message
	switch {
	case h.overlay.migrates:
		return nil, abi.CodeReadOnly
	case abi.DecodeMessage(frame, &m) != nil:
		return nil, abi.CodeInvalid
	}
	return resultOf(h.harness.chain.call(&m, h.overlay.readOnly)), 0
}

// mayAct says why the turn may have no effects beside its actor's state, 0 if it may.
func (h *turnHost) mayAct() abi.Code {
	h.overlay.problem = ""
	switch {
	case h.overlay.readOnly || h.overlay.migrates:
		return abi.CodeReadOnly
	case h.overlay.passed:
		return abi.CodeOver
	}
	return 0
}

// refusedFor keeps why a function was refused.
func (h *turnHost) refusedFor(code abi.Code, problem string) abi.Code {
	h.overlay.problem = problem
	return code
}

func (h *turnHost) Send(frame []byte) abi.Code {
	if code := h.mayAct(); code != 0 && code != abi.CodeOver { // who has passed away may still say so
		return code
	}
	return h.refusedFor(h.harness.chain.send(h.ref, h.overlay, frame))
}

func (h *turnHost) Publish(name, contentType string, data []byte) abi.Code {
	if code := cmp.Or(h.mayAct(), mayKeep(h)); code != 0 {
		return code
	}
	return h.refusedFor(h.harness.chain.publish(h.ref, h.overlay, name, contentType, data))
}

func (h *turnHost) Spawn(typ string) (string, abi.Code) {
	if code := cmp.Or(h.mayLive(), mayKeep(h)); code != 0 {
		return "", code
	}
	id, code, problem := h.harness.chain.spawn(typ)
	return id, h.refusedFor(code, problem)
}

// SpawnChild makes a volatile child.
func (h *turnHost) SpawnChild(typ string, flags uint32) (string, abi.Code) {
	if code := cmp.Or(h.mayLive(), mayKeep(h)); code != 0 {
		return "", code
	}
	id, code, problem := spawnChild(h.harness.chain, h.ref, typ, flags)
	return id, h.refusedFor(code, problem)
}

func (h *turnHost) Become(set string) abi.Code {
	if code := h.mayLive(); code != 0 {
		return code
	}
	if problem := h.harness.chain.become(h.ref, h.overlay, set); problem != "" {
		return h.refuse(problem)
	}
	return 0
}

// mayLive is mayAct for what only an actor with a row can do.
func (h *turnHost) mayLive() abi.Code {
	if h.overlay.none {
		return abi.CodeNoState
	}
	return h.mayAct()
}

func (h *turnHost) PassAway() abi.Code {
	code := h.mayLive()
	h.overlay.passed = h.overlay.passed || code == 0
	return code
}

func (h *turnHost) ServiceClaim(name string) abi.Code {
	if code := cmp.Or(h.mayLive(), mayKeep(h)); code != 0 {
		return code
	}
	return h.refusedFor(h.harness.chain.claim(h.ref, name))
}

func (h *turnHost) ServiceRelease(name string) int32 {
	if code := cmp.Or(h.mayLive(), mayKeep(h)); code != 0 {
		return int32(code)
	}
	if problem := serviceProblem(name); problem != "" {
		return int32(h.refuse(problem))
	}
	if h.harness.chain.release(h.ref, name) {
		return 1
	}
	return 0
}

func (h *turnHost) Random(p []byte) { h.random.Read(p) }

func (h *turnHost) Log(level int32, text string) {
	h.harness.logs = append(h.harness.logs, LogLine{Actor: h.ref, Level: int(level), Text: text})
	h.harness.t.Logf("%s: %s", h.ref, text)
}
