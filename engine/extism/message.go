package extism

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// message is a call of another actor as greenroom_call takes it: docs/extism.md has the
// members.
type message struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Method string `json:"method"`
	input
	Timeout span `json:"timeout"`
	Atomic  bool `json:"atomic"`
}

// result is what greenroom_call gives: a reply or an error.
type result struct {
	ContentType string          `json:"content_type,omitempty"`
	Reply       json.RawMessage `json:"reply,omitempty"`
	Error       *callError      `json:"error,omitempty"`
}

// callError is an error as greenroom_fail takes one.
type callError struct {
	Status           string          `json:"status"`
	Code             string          `json:"code,omitempty"`
	Message          string          `json:"message,omitempty"`
	Retryable        bool            `json:"retryable,omitempty"`
	RetryAfterMillis uint32          `json:"retry_after_ms,omitempty"`
	Detail           json.RawMessage `json:"detail,omitempty"`
}

func decodeMessage(text []byte) (*abi.Message, error) {
	var in message
	err := decodeStrictly(text, &in)
	payload, unread := in.decode()
	m := &abi.Message{Type: in.Type, ID: in.ID, Method: in.Method, ContentType: in.ContentType, Payload: payload}
	if in.Atomic {
		m.Flags = flagAtomic
	}
	if d := time.Duration(in.Timeout); d != 0 { // rounded up; over at once if negative
		m.LimitMillis = uint32(min((max(d, 1)-1)/time.Millisecond+1, math.MaxUint32)) //nolint:gosec // above 0
	}
	return m, errors.Join(err, unread)
}

// flagAtomic is bit 0 of the flags of a message.
const flagAtomic = 1

func encodeResult(r *abi.Result) []byte {
	if r.Status == 0 {
		reply := encodeInput(r.ContentType, r.Payload)
		if reply.ContentType == actor.ContentTypeJSON {
			reply.ContentType = ""
		}
		return mustJSON(result{ContentType: reply.ContentType, Reply: reply.Input})
	}
	status := statusNames[statusUnknown]
	if int(r.Status) < len(statusNames) {
		status = statusNames[r.Status]
	}
	return mustJSON(result{Error: &callError{
		Status: status, Code: r.Code, Message: r.Message, Retryable: r.Retryable, RetryAfterMillis: r.RetryAfterMillis,
		Detail: encodeInput(r.DetailContentType, r.Detail).Input,
	}})
}

// caller is what greenroom_self says of the actor whose turn calls.
type caller struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// calledBy returns the actor whose turn calls, nil for none.
func calledBy(f *abi.Turn) *caller {
	if f.Cause != abi.CauseCall {
		return nil
	}
	return &caller{f.CallerType, f.CallerID}
}
