package abi

import (
	"encoding/binary"
	"strconv"
)

// HTTPRequest is the request frame, guest to host. Strings and bytes of a decoded
// one alias its frame.
type HTTPRequest struct {
	Method  string // empty: GET
	URL     string
	Headers []Header
	Body    []byte
	// TimeoutMillis bounds the request; 0: as long as the turn may take.
	TimeoutMillis uint32
	Flags         uint32
}

// FlagNoRedirects is bit 0 of a request's flags: a redirect is answered as it is.
const FlagNoRedirects uint32 = 1

// HTTPResponse is the response frame, host to guest: an answer, or why there is
// none. Strings and bytes of a decoded one alias its frame.
type HTTPResponse struct {
	Status  uint16 // 0: there is no answer, and Code says why
	Headers []Header
	Body    []byte
	// Code is one of SPEC.md section 6: "denied".
	Code    string
	Message string
}

// Header is one field of a request or a response.
type Header struct{ Name, Value string }

// The codes of a response without an answer, SPEC.md section 6.
const (
	HTTPDenied       = "denied"
	HTTPInvalid      = "invalid_request"
	HTTPReadOnly     = "read_only"
	HTTPTimeout      = "timeout"
	HTTPTooLarge     = "too_large"
	HTTPRedirects    = "too_many_redirects"
	HTTPUnreachable  = "unreachable"
	HTTPBroken       = "broken"
	HTTPBusy         = "busy"
	HTTPNotAvailable = "unavailable"
)

const (
	httpRequestFrame  = "request frame"
	httpResponseFrame = "response frame"
)

// Tags of the request and the response frame.
const (
	tagRequestMethod  = 1
	tagRequestURL     = 2
	tagRequestHeaders = 3
	tagRequestBody    = 4
	tagRequestTimeout = 5
	tagRequestFlags   = 6

	tagResponseStatus  = 1
	tagResponseHeaders = 2
	tagResponseBody    = 3
	tagResponseCode    = 4
	tagResponseMessage = 5
)

// AppendHTTPRequest appends the request frame of r to dst. Texts must be UTF-8.
func AppendHTTPRequest(dst []byte, r *HTTPRequest) []byte {
	dst = appendFieldList(dst, KindHTTPRequest)
	dst = appendText(dst, tagRequestMethod, r.Method)
	dst = appendText(dst, tagRequestURL, r.URL)
	dst = appendHeaders(dst, tagRequestHeaders, r.Headers)
	dst = appendBytes(dst, tagRequestBody, r.Body)
	dst = appendU32(dst, tagRequestTimeout, r.TimeoutMillis)
	return appendU32(dst, tagRequestFlags, r.Flags)
}

// DecodeHTTPRequest decodes a request frame into r, all of which it overwrites. A
// frame that is not well formed is a [*FrameError].
func DecodeHTTPRequest(frame []byte, r *HTTPRequest) error {
	*r = HTTPRequest{}
	return eachField(httpRequestFrame, KindHTTPRequest, frame, func(f *fieldReader, tag uint16, value []byte) error {
		switch tag {
		case tagRequestMethod:
			return f.text(&r.Method, value)
		case tagRequestURL:
			return f.text(&r.URL, value)
		case tagRequestHeaders:
			return f.headers(&r.Headers, value)
		case tagRequestBody:
			r.Body = value
		case tagRequestTimeout:
			return f.u32(&r.TimeoutMillis, value)
		case tagRequestFlags:
			return f.u32(&r.Flags, value)
		}
		return nil
	})
}

// AppendHTTPResponse appends the response frame of r to dst. Texts must be UTF-8.
func AppendHTTPResponse(dst []byte, r *HTTPResponse) []byte {
	dst = appendFieldList(dst, KindHTTPResponse)
	dst = appendU16(dst, tagResponseStatus, r.Status)
	dst = appendHeaders(dst, tagResponseHeaders, r.Headers)
	dst = appendBytes(dst, tagResponseBody, r.Body)
	dst = appendText(dst, tagResponseCode, r.Code)
	return appendText(dst, tagResponseMessage, r.Message)
}

// DecodeHTTPResponse decodes a response frame into r, all of which it overwrites.
// A frame that is not well formed is a [*FrameError].
func DecodeHTTPResponse(frame []byte, r *HTTPResponse) error {
	*r = HTTPResponse{}
	return eachField(httpResponseFrame, KindHTTPResponse, frame, func(f *fieldReader, tag uint16, value []byte) error {
		switch tag {
		case tagResponseStatus:
			return f.u16(&r.Status, value)
		case tagResponseHeaders:
			return f.headers(&r.Headers, value)
		case tagResponseBody:
			r.Body = value
		case tagResponseCode:
			return f.text(&r.Code, value)
		case tagResponseMessage:
			return f.text(&r.Message, value)
		}
		return nil
	})
}

func appendHeaders(dst []byte, tag uint16, headers []Header) []byte {
	if len(headers) == 0 {
		return dst
	}
	dst = appendFieldHeader(dst, tag, headersSize(headers))
	for _, h := range headers {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Name)))
		dst = append(dst, h.Name...)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Value)))
		dst = append(dst, h.Value...)
	}
	return dst
}

func headersSize(headers []Header) int {
	size := 0
	for _, h := range headers {
		size += 8 + len(h.Name) + len(h.Value)
	}
	return size
}

// headers reads a list of headers, at most [MaxHeaders] of them.
func (r *fieldReader) headers(dst *[]Header, value []byte) error {
	var list []Header
	for len(value) > 0 {
		if len(list) == MaxHeaders {
			return r.fail("tag " + strconv.Itoa(r.last) + " has more than " + strconv.Itoa(MaxHeaders) + " headers")
		}
		var h Header
		for _, text := range []*string{&h.Name, &h.Value} {
			if len(value) < 4 {
				return r.fail("tag " + strconv.Itoa(r.last) + " ends inside a header")
			}
			size := binary.LittleEndian.Uint32(value)
			if value = value[4:]; uint64(size) > uint64(len(value)) {
				return r.fail("tag " + strconv.Itoa(r.last) + " ends inside a header")
			}
			if err := r.text(text, value[:size:size]); err != nil {
				return err
			}
			value = value[size:]
		}
		if h.Name == "" {
			return r.fail("tag " + strconv.Itoa(r.last) + " has a header without a name")
		}
		list = append(list, h)
	}
	*dst = list
	return nil
}
