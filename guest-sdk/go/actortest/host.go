package actortest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// turnHost is the host of an instance: the fake [bridge.Host] and [bridge.Outside]. Between begin and
// end it belongs to one turn.
type turnHost struct {
	harness *Harness
	callers []actor.Ref // whose turns wait for the fake that now runs; the last one called it

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
	*h = turnHost{harness: h.harness, callers: h.callers, ref: ref, version: version, overlay: o, random: rand.NewChaCha8(seed)}
}

func (h *turnHost) end() (actor.Payload, error) {
	reply, failure := h.reply, h.failure
	*h = turnHost{harness: h.harness, callers: h.callers}
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
	case h.overlay.readOnly:
		return nil, abi.CodeReadOnly
	case abi.DecodeMessage(frame, &m) != nil:
		return nil, abi.CodeInvalid
	}
	refuse := func(status uint16, code, message string) ([]byte, abi.Code) {
		return abi.AppendResult(nil, &abi.Result{Error: abi.Error{Status: status, Code: code, Message: message}}), 0
	}
	to := actor.Ref{Type: m.Type, ID: m.ID}
	fakes := h.harness.fakes
	fake := fakes[method{m.Type, m.Method}]
	switch {
	case m.Type == "" || m.ID == "" || m.Method == "":
		return refuse(abi.StatusInvalidArgument, abi.CallInvalid, "a call needs a type, an ID and a method")
	case to == h.ref || slices.Contains(h.callers, to):
		return refuse(abi.StatusFailedPrecondition, abi.CallNotReentrant, "a turn of "+m.Type+" "+m.ID+" is waiting for this call")
	case fake == nil:
		code := "type_not_found"
		for of := range fakes {
			if of.typ == m.Type {
				code = "method_not_found"
			}
		}
		return refuse(abi.StatusNotFound, code, "nothing stands for "+m.Type+"."+m.Method+"; in this test, call Fake")
	}
	reply, err := fake.answer(h, strings.Clone(m.ID), actor.Payload{ContentType: strings.Clone(m.ContentType), Data: bytes.Clone(m.Payload)})
	var r abi.Result
	if err == nil {
		var p actor.Payload
		if p, err = encodePayload(reply); err == nil {
			r.ContentType, r.Payload = p.ContentType, p.Data
		}
	}
	var e *actor.Error
	switch {
	case errors.As(err, &e):
		r.Error = abi.Error{
			Status: cmp.Or(uint16(e.Status), abi.StatusUnknown), Code: e.Code, Message: e.Message, Retryable: e.Retryable, RetryAfterMillis: uint32(e.RetryAfter / time.Millisecond),
			DetailContentType: e.Detail.ContentType, Detail: e.Detail.Data,
		}
	case err != nil:
		r.Error = abi.Error{Status: abi.StatusUnknown, Message: err.Error()}
	}
	return abi.AppendResult(nil, &r), 0
}

func (h *turnHost) Random(p []byte) { h.random.Read(p) }

func (h *turnHost) Log(level int32, text string) {
	h.harness.logs = append(h.harness.logs, LogLine{Actor: h.ref, Level: int(level), Text: text})
	h.harness.t.Logf("%s: %s", h.ref, text)
}
