package turn

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// maxContentType is the longest content type of a reply, in bytes, as in requests.
const maxContentType = 255

func validKey(key []byte) bool {
	return len(key) > 0 && len(key) <= abi.MaxStateKeyLen && utf8.Valid(key)
}

// StateGet implements [engine.Calls].
func (t *Turn) StateGet(key []byte) ([]byte, abi.Format, abi.Code) {
	if t.spec.Stateless {
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

// StateSet implements [engine.Calls].
func (t *Turn) StateSet(key, value []byte, format abi.Format) abi.Code {
	if code := t.mayWrite(); code != 0 {
		return code
	}
	return t.written(t.state.Set(key, value, format))
}

// written notes whether the state could not be written because it would be too large.
func (t *Turn) written(code abi.Code) abi.Code {
	t.excess = ""
	if code == abi.CodeTooLarge {
		t.excess = fmt.Sprintf("within a turn a state may have %d times its limit of %d bytes, which is set by %s", overlay.TransientFactor, t.spec.StateBytes, t.spec.StateSetting)
	}
	return code
}

// StateDelete implements [engine.Calls].
func (t *Turn) StateDelete(key []byte) (bool, abi.Code) {
	if code := t.mayWrite(); code != 0 {
		return false, code
	}
	return t.state.Delete(key)
}

// StateDeleteAll implements [engine.Calls].
func (t *Turn) StateDeleteAll() (int, abi.Code) {
	if code := t.mayWrite(); code != 0 {
		return 0, code
	}
	return t.state.DeleteAll(), 0
}

// StateKeys implements [engine.Calls].
func (t *Turn) StateKeys(prefix []byte) ([]byte, abi.Code) {
	if t.spec.Stateless {
		return nil, abi.CodeNoState
	}
	t.buf = t.state.AppendKeys(t.buf[:0], prefix)
	return t.buf, 0
}

// StateJSON implements [engine.Calls].
func (t *Turn) StateJSON() ([]byte, abi.Code) {
	if t.spec.Stateless {
		return nil, abi.CodeNoState
	}
	t.buf = t.state.AppendJSON(t.buf[:0])
	return t.buf, 0
}

// StatePatch implements [engine.Calls].
func (t *Turn) StatePatch(before, after []byte) (int, abi.Code) {
	if code := t.mayWrite(); code != 0 {
		return 0, code
	}
	changed, code := t.state.Patch(before, after)
	return changed, t.written(code)
}

// StateVersion implements [engine.Calls].
func (t *Turn) StateVersion() uint64 { return t.spec.Version }

// StateRevision implements [engine.Calls].
func (t *Turn) StateRevision() uint64 { return t.state.Revision() }

// Reply implements [engine.Calls].
func (t *Turn) Reply(contentType string, payload []byte) abi.Code {
	t.excess = ""
	switch {
	case int64(len(payload)) > t.spec.PayloadBytes:
		t.excess = fmt.Sprintf("a reply has at most %d bytes, by %s", t.spec.PayloadBytes, t.spec.PayloadSetting)
		return abi.CodeTooLarge
	case len(contentType) > maxContentType:
		t.excess = fmt.Sprintf("a reply's content type has at most %d bytes", maxContentType)
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

// Fail implements [engine.Calls].
func (t *Turn) Fail(e *actor.GuestError) abi.Code {
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
