package abi

// Message is the message frame, guest to host: what one actor asks of another, by a call or
// by a message. Times are nanoseconds since 1970 UTC.
type Message struct {
	Type, ID, Method string
	// Service names the receiver instead of Type and ID.
	Service     string
	ContentType string
	Payload     []byte
	// Flags are [MessageAtomic] and [MessageVolatile]; others are kept for what is to come.
	Flags uint32
	// LimitMillis is the longest that a call may take, waiting included; 0: as long as
	// the turn.
	LimitMillis uint32

	// The others are of messages that are sent. DueUnixNano is when it is delivered, or
	// DelayNano how long after it was sent; both 0: at once.
	DueUnixNano int64
	DelayNano   int64
	// Undelivered is the method of the sender that gets the message back if nobody consumes
	// it; empty: none.
	Undelivered string
	// Cookie is the sender's own number: its receiver gets it, and it comes back with an
	// undelivered message.
	Cookie uint64
	// Channel is the number of a volatile message's ordering lane, 0 to [MaxChannel].
	Channel uint32
	// The actor that gets the message if nobody consumes it; an empty type: none.
	ForwardType, ForwardID string
	// The actor on whose behalf it is sent; an empty type: the sender itself.
	OnBehalfType, OnBehalfID string
}

// Result is the result frame, host to guest: the reply to a call, or why there is none.
type Result struct {
	// Error says why there is no reply, with what the callee's error has. Its Status is 0 if
	// there is one, which ContentType and Payload then hold.
	Error
	ContentType string
	Payload     []byte
	// Flags are those of [ResultCommitted].
	Flags uint32
}

// MessageAtomic is the flag of a message whose call is in the caller's transaction, or fails
// before it has run.
const MessageAtomic = 1 << 0

// MessageVolatile is the flag of a message that is not stored.
const MessageVolatile = 1 << 1

// ResultCommitted is the flag of a result whose turn was committed on its own: it stays,
// whether the caller's turn is committed or not.
const ResultCommitted = 1 << 0

// Codes of results that the host makes, SPEC.md section 5.
const (
	CallInvalid      = "invalid_call"
	CallNotReentrant = "not_reentrant"
	CallTooDeep      = "too_deep"
	CallTooMany      = "too_many"
	CallNotAtomic    = "not_atomic"
	CallBusy         = "busy"
	CallDeadline     = "deadline_exceeded"
	CallTrap         = "trap"
	CallFailed       = "failed"

	CallServiceNotFound = "service_not_found"
	CallNotAccepted     = "not_accepted"
	CallPassedAway      = "passed_away"

	// Of calls to other hosts: the call perhaps ran.
	CallTimeout     = "timeout"
	CallUnavailable = "unavailable"
)

const (
	messageFrame = "message frame"
	resultFrame  = "result frame"
)

// Tags of the message frame.
const (
	tagMessageType        = 1
	tagMessageID          = 2
	tagMessageMethod      = 3
	tagMessageService     = 4
	tagMessageContentType = 5
	tagMessagePayload     = 6
	tagMessageFlags       = 7
	tagMessageLimit       = 8
	tagMessageDue         = 9
	tagMessageUndelivered = 10
	tagMessageCookie      = 11
	tagMessageChannel     = 12
	tagMessageDelay       = 13
	tagMessageForwardType = 14
	tagMessageForwardID   = 15
	tagMessageBehalfType  = 16
	tagMessageBehalfID    = 17
)

// tagResultFlags is the tag that a result frame has beside those of an error frame.
const tagResultFlags = 7

// AppendMessage appends the message frame of m to dst. Texts must be UTF-8.
func AppendMessage(dst []byte, m *Message) []byte {
	dst = appendFieldList(dst, KindMessage)
	dst = appendText(dst, tagMessageType, m.Type)
	dst = appendText(dst, tagMessageID, m.ID)
	dst = appendText(dst, tagMessageMethod, m.Method)
	dst = appendText(dst, tagMessageService, m.Service)
	dst = appendText(dst, tagMessageContentType, m.ContentType)
	dst = appendBytes(dst, tagMessagePayload, m.Payload)
	dst = appendU32(dst, tagMessageFlags, m.Flags)
	dst = appendU32(dst, tagMessageLimit, m.LimitMillis)
	dst = appendU64(dst, tagMessageDue, uint64(m.DueUnixNano))
	dst = appendText(dst, tagMessageUndelivered, m.Undelivered)
	dst = appendU64(dst, tagMessageCookie, m.Cookie)
	dst = appendU32(dst, tagMessageChannel, m.Channel)
	dst = appendU64(dst, tagMessageDelay, uint64(m.DelayNano))
	dst = appendText(dst, tagMessageForwardType, m.ForwardType)
	dst = appendText(dst, tagMessageForwardID, m.ForwardID)
	dst = appendText(dst, tagMessageBehalfType, m.OnBehalfType)
	return appendText(dst, tagMessageBehalfID, m.OnBehalfID)
}

// DecodeMessage overwrites m with a message frame. Strings and payload alias the frame. A
// frame that is not well formed is a [*FrameError].
func DecodeMessage(frame []byte, m *Message) error {
	*m = Message{}
	return eachField(messageFrame, KindMessage, frame, func(r *fieldReader, tag uint16, value []byte) (err error) {
		switch tag {
		case tagMessageType:
			err = r.text(&m.Type, value)
		case tagMessageID:
			err = r.text(&m.ID, value)
		case tagMessageMethod:
			err = r.text(&m.Method, value)
		case tagMessageService:
			err = r.text(&m.Service, value)
		case tagMessageContentType:
			err = r.text(&m.ContentType, value)
		case tagMessagePayload:
			m.Payload = value
		case tagMessageFlags:
			err = r.u32(&m.Flags, value)
		case tagMessageLimit:
			err = r.u32(&m.LimitMillis, value)
		case tagMessageDue:
			err = r.i64(&m.DueUnixNano, value)
		case tagMessageUndelivered:
			err = r.text(&m.Undelivered, value)
		case tagMessageCookie:
			err = r.u64(&m.Cookie, value)
		case tagMessageChannel:
			err = r.u32(&m.Channel, value)
		case tagMessageDelay:
			err = r.i64(&m.DelayNano, value)
		case tagMessageForwardType:
			err = r.text(&m.ForwardType, value)
		case tagMessageForwardID:
			err = r.text(&m.ForwardID, value)
		case tagMessageBehalfType:
			err = r.text(&m.OnBehalfType, value)
		case tagMessageBehalfID:
			err = r.text(&m.OnBehalfID, value)
		}
		return err
	})
}

// AppendResult appends the result frame of r to dst. Its tags are those of an error frame;
// those of the detail have the reply.
func AppendResult(dst []byte, r *Result) []byte {
	e := r.Error
	if e.Status == 0 {
		e.DetailContentType, e.Detail = r.ContentType, r.Payload
	}
	return appendOutcome(dst, KindResult, &e, r.Flags)
}

// DecodeResult overwrites r with a result frame. Strings and bytes alias the frame. A frame
// that is not well formed is a [*FrameError].
func DecodeResult(frame []byte, r *Result) error {
	*r = Result{}
	err := eachField(resultFrame, KindResult, frame, func(f *fieldReader, tag uint16, value []byte) error {
		if tag == tagResultFlags {
			return f.u32(&r.Flags, value)
		}
		return r.Error.read(f, tag, value)
	})
	if err != nil {
		return err
	}
	if r.Status == 0 {
		r.ContentType, r.Payload = r.DetailContentType, r.Detail
		r.Error = Error{}
	}
	return nil
}
