package extism

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// receiver is whom a call or a message is for: docs/extism.md has the members.
type receiver struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Service string `json:"service"` // instead of type and ID
	Method  string `json:"method"`
	input
}

func (r *receiver) message() (*abi.Message, error) {
	payload, err := r.decode()
	return &abi.Message{Type: r.Type, ID: r.ID, Service: r.Service, Method: r.Method, ContentType: r.ContentType, Payload: payload}, err
}

// outgoingCall is a call of another actor as greenroom_call takes it.
type outgoingCall struct {
	receiver
	Timeout span `json:"timeout"`
	Atomic  bool `json:"atomic"`
}

// outgoingMessage is a message as greenroom_send takes it.
type outgoingMessage struct {
	receiver
	Due         *time.Time `json:"due"`
	Delay       span       `json:"delay"`
	Undelivered string     `json:"undelivered"`
	Cookie      uint64     `json:"cookie"`
	Forward     party      `json:"forward"`
	OnBehalf    party      `json:"on_behalf"`
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
	var in outgoingMessage
	err := decodeStrictly(text, &in)
	m, unread := in.message()
	m.DueUnixNano, m.DelayNano, m.Undelivered, m.Cookie = nanoOf(in.Due), int64(in.Delay), in.Undelivered, in.Cookie
	m.ForwardType, m.ForwardID = in.Forward.Type, in.Forward.ID
	m.OnBehalfType, m.OnBehalfID = in.OnBehalf.Type, in.OnBehalf.ID
	return m, errors.Join(err, unread)
}

func decodeCall(text []byte) (*abi.Message, error) {
	var in outgoingCall
	err := decodeStrictly(text, &in)
	m, unread := in.message()
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

// party is another actor.
type party struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// partyOf returns nil for no type.
func partyOf(typ, id string) *party {
	if typ == "" {
		return nil
	}
	return &party{typ, id}
}

// calledBy returns the actor whose turn calls, nil for none.
func calledBy(f *abi.Turn) *party {
	if f.Cause != abi.CauseCall {
		return nil
	}
	return &party{f.CallerType, f.CallerID}
}

// received is what greenroom_self says of the message that the turn is for. With failed it
// is one that comes back: from is the actor that did not consume it.
type received struct {
	From    *party    `json:"from,omitempty"`
	By      *party    `json:"by,omitempty"`
	Sent    time.Time `json:"sent"`
	Attempt uint32    `json:"attempt"`
	Cookie  uint64    `json:"cookie,omitempty"`
	Failed  string    `json:"failed,omitempty"`
}

// receivedBy returns the message of a turn with that cause, nil for none.
func receivedBy(f *abi.Turn, cause uint8) *received {
	if f.Cause != cause {
		return nil
	}
	return &received{
		From: partyOf(f.CallerType, f.CallerID), By: partyOf(f.ByType, f.ByID), Sent: time.Unix(0, f.DueUnixNano).UTC(),
		Attempt: f.Attempt, Cookie: f.Cookie, Failed: f.Failed,
	}
}

// pulled is what greenroom_self says of the event that the turn is for.
type pulled struct {
	Of        *party     `json:"of"`
	Name      string     `json:"name,omitempty"`
	Published *time.Time `json:"published,omitempty"`
	Attempt   uint32     `json:"attempt"`
	Failed    string     `json:"failed,omitempty"` // position_gone
}

// pulledBy returns it; nil for none.
func pulledBy(f *abi.Turn) *pulled {
	if f.Cause != abi.CauseEvent {
		return nil
	}
	p := &pulled{Of: partyOf(f.CallerType, f.CallerID), Name: f.CauseName, Attempt: f.Attempt, Failed: f.Failed}
	if p.Failed == "" {
		at := time.Unix(0, f.DueUnixNano).UTC()
		p.Published = &at
	}
	return p
}

// watched is what greenroom_self says of the watch of a host or of services that the turn is for.
type watched struct {
	Of      *party `json:"of,omitempty"`
	Service string `json:"service,omitempty"`
	Ended   string `json:"ended,omitempty"` // disconnected or moved
}

// watchedBy returns it; nil for none.
func watchedBy(f *abi.Turn) *watched {
	switch f.Cause {
	case abi.CauseDisconnected:
		return &watched{Of: partyOf(f.CallerType, f.CallerID), Ended: f.Failed}
	case abi.CauseServices:
		return &watched{Service: f.CauseName, Ended: f.Failed}
	}
	return nil
}
