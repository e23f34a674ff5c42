package abi

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const errorFrame = "error frame"

// Tags of the error frame.
const (
	tagErrorStatus            = 1
	tagErrorCode              = 2
	tagErrorMessage           = 3
	tagErrorRetryable         = 4
	tagErrorDetailContentType = 5
	tagErrorDetail            = 6
	// 7 is a vector's unknown tag, and is not given out; a result frame has it.
	tagErrorRetryAfter = 8
)

// The statuses that a guest may choose, SPEC.md section 2.
const (
	StatusCanceled           uint16 = 1
	StatusUnknown            uint16 = 2
	StatusInvalidArgument    uint16 = 3
	StatusDeadlineExceeded   uint16 = 4
	StatusNotFound           uint16 = 5
	StatusAlreadyExists      uint16 = 6
	StatusPermissionDenied   uint16 = 7
	StatusResourceExhausted  uint16 = 8
	StatusFailedPrecondition uint16 = 9
	StatusAborted            uint16 = 10
	StatusOutOfRange         uint16 = 11
	StatusUnimplemented      uint16 = 12
	StatusInternal           uint16 = 13
	StatusUnavailable        uint16 = 14
	StatusDataLoss           uint16 = 15
	StatusUnauthenticated    uint16 = 16
)

// AppendError appends the error frame of e to dst, as e is: texts must be
// UTF-8. It allocates only when dst has not the capacity.
func AppendError(dst []byte, e *Error) []byte { return appendOutcome(dst, KindError, e, 0) }

// appendOutcome appends an error frame, or a result frame with flags.
func appendOutcome(dst []byte, kind uint8, e *Error, flags uint32) []byte {
	var retryable uint8
	if e.Retryable {
		retryable = 1
	}
	dst = appendFieldList(dst, kind)
	dst = appendU16(dst, tagErrorStatus, e.Status)
	dst = appendText(dst, tagErrorCode, e.Code)
	dst = appendText(dst, tagErrorMessage, e.Message)
	dst = appendU8(dst, tagErrorRetryable, retryable)
	dst = appendText(dst, tagErrorDetailContentType, e.DetailContentType)
	dst = appendBytes(dst, tagErrorDetail, e.Detail)
	dst = appendU32(dst, tagResultFlags, flags)
	return appendU32(dst, tagErrorRetryAfter, e.RetryAfterMillis)
}

// DecodeError decodes an error frame as a host must read it: a status that is
// none of the sixteen becomes [StatusUnknown], a text beyond its limit is cut
// before the character that passes it, a detail beyond its limit is refused, and
// a delay of an error that is not retryable counts as none.
// The result is a copy, since the frame is usually a guest's memory. A frame
// that is not well formed is a [*FrameError].
func DecodeError(frame []byte) (Error, error) {
	var e Error
	err := eachField(errorFrame, KindError, frame, func(r *fieldReader, tag uint16, value []byte) error {
		if tag == tagErrorDetail && len(value) > MaxErrorDetailLen {
			return r.fail("the detail has " + strconv.Itoa(len(value)) + " bytes; at most " +
				strconv.Itoa(MaxErrorDetailLen) + " are allowed")
		}
		return e.read(r, tag, value)
	})
	if err != nil {
		return Error{}, err
	}
	if e.Status < StatusCanceled || e.Status > StatusUnauthenticated {
		e.Status = StatusUnknown
	}
	if !e.Retryable {
		e.RetryAfterMillis = 0
	}
	e.Code = strings.Clone(cut(e.Code, MaxErrorCodeLen))
	e.Message = strings.Clone(cut(e.Message, MaxErrorMessageLen))
	e.DetailContentType = strings.Clone(e.DetailContentType)
	e.Detail = append([]byte(nil), e.Detail...)
	return e, nil
}

// read takes a field of an error or a result frame. The error aliases the frame.
func (e *Error) read(r *fieldReader, tag uint16, value []byte) (err error) {
	switch tag {
	case tagErrorStatus:
		err = r.u16(&e.Status, value)
	case tagErrorCode:
		err = r.text(&e.Code, value)
	case tagErrorMessage:
		err = r.text(&e.Message, value)
	case tagErrorRetryable:
		var v uint8
		err = r.u8(&v, value)
		e.Retryable = v == 1
	case tagErrorDetailContentType:
		err = r.text(&e.DetailContentType, value)
	case tagErrorDetail:
		e.Detail = value
	case tagErrorRetryAfter:
		err = r.u32(&e.RetryAfterMillis, value)
	}
	return err
}

// cut returns the longest start of s, which is UTF-8, that has at most limit
// bytes and ends with a whole character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
