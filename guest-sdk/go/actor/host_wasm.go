package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
)

// The host functions of abi/SPEC.md section 5 that the SDK uses. Call them: TinyGo
// does not compile one that is passed as a value (internal/lint finds it).

//go:wasmimport greenroom state_get
func hostStateGet(key unsafe.Pointer, keyLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom state_set
func hostStateSet(key unsafe.Pointer, keyLen uint32, value unsafe.Pointer, valueLen uint32, format uint32) int32

//go:wasmimport greenroom state_delete
func hostStateDelete(key unsafe.Pointer, keyLen uint32) int32

//go:wasmimport greenroom state_delete_all
func hostStateDeleteAll() int32

//go:wasmimport greenroom state_keys
func hostStateKeys(prefix unsafe.Pointer, prefixLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom state_json
func hostStateJSON(buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom state_patch
func hostStatePatch(before unsafe.Pointer, beforeLen uint32, after unsafe.Pointer, afterLen uint32) int32

//go:wasmimport greenroom state_version
func hostStateVersion() int64

//go:wasmimport greenroom state_revision
func hostStateRevision() int64

//go:wasmimport greenroom reply
func hostReply(contentType unsafe.Pointer, contentTypeLen uint32, payload unsafe.Pointer, payloadLen uint32) int32

//go:wasmimport greenroom fail
func hostFail(frame unsafe.Pointer, frameLen uint32) int32

//go:wasmimport greenroom random
func hostRandom(buf unsafe.Pointer, size uint32) int32

//go:wasmimport greenroom log
func hostLog(level int32, text unsafe.Pointer, textLen uint32) int32

//go:wasmimport greenroom config_get
func hostConfigGet(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom secret_get
func hostSecretGet(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom http_request
func hostHTTPRequest(frame unsafe.Pointer, frameLen uint32) int64

//go:wasmimport greenroom http_response
func hostHTTPResponse(buf unsafe.Pointer, capacity uint32) int64

// wasmHost is the host behind the imports.
type wasmHost struct{}

func bytesAt(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
func textAt(s string) unsafe.Pointer  { return unsafe.Pointer(unsafe.StringData(s)) }

// fill calls a host function that fills a buffer, again with a larger one if
// need be, and returns what was filled with the bits above the length.
func fill(buf []byte, call func(buf unsafe.Pointer, capacity uint32) int64) ([]byte, uint8, abi.Code) {
	buf = buf[:cap(buf)]
	for {
		r := call(bytesAt(buf), uint32(len(buf)))
		if r < 0 {
			return nil, 0, abi.Code(r)
		}
		n := int(uint32(r))
		if n <= len(buf) {
			return buf[:n], uint8(r >> 32), 0
		}
		buf = make([]byte, n+n/4) // states grow by little
	}
}

func (wasmHost) StateGet(key string, buf []byte) ([]byte, abi.Format, abi.Code) {
	value, format, code := fill(buf, func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostStateGet(textAt(key), uint32(len(key)), buf, capacity)
	})
	return value, abi.Format(format), code
}

func (wasmHost) StateSet(key string, value []byte, format abi.Format) abi.Code {
	return abi.Code(hostStateSet(textAt(key), uint32(len(key)), bytesAt(value), uint32(len(value)), uint32(format)))
}

func (wasmHost) StateDelete(key string) (bool, abi.Code) {
	n, code := count(hostStateDelete(textAt(key), uint32(len(key))))
	return n > 0, code
}

func (wasmHost) StateDeleteAll() (int, abi.Code) { return count(hostStateDeleteAll()) }

func (wasmHost) StateKeys(prefix string, buf []byte) ([]byte, abi.Code) {
	list, _, code := fill(buf, func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostStateKeys(textAt(prefix), uint32(len(prefix)), buf, capacity)
	})
	return list, code
}

func (wasmHost) StateJSON(buf []byte) ([]byte, abi.Code) {
	object, _, code := fill(buf, func(buf unsafe.Pointer, capacity uint32) int64 { return hostStateJSON(buf, capacity) })
	return object, code
}

func (wasmHost) StatePatch(before, after []byte) (int, abi.Code) {
	return count(hostStatePatch(bytesAt(before), uint32(len(before)), bytesAt(after), uint32(len(after))))
}

func (wasmHost) StateVersion() uint64  { return uint64(hostStateVersion()) }
func (wasmHost) StateRevision() uint64 { return uint64(hostStateRevision()) }

func (wasmHost) Reply(contentType string, payload []byte) abi.Code {
	return abi.Code(hostReply(textAt(contentType), uint32(len(contentType)), bytesAt(payload), uint32(len(payload))))
}

func (wasmHost) Fail(frame []byte) abi.Code {
	return abi.Code(hostFail(bytesAt(frame), uint32(len(frame))))
}

func (wasmHost) Random(p []byte) { hostRandom(bytesAt(p), uint32(len(p))) }

func (wasmHost) Log(level int32, text string) {
	hostLog(level, textAt(text), uint32(len(text)))
}

// The linker leaves these out of modules that do not use them, and with them the
// imports that would have to be declared.

func (wasmHost) ConfigGet(name string) ([]byte, abi.Code) {
	value, _, code := fill(make([]byte, 0, 256), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostConfigGet(textAt(name), uint32(len(name)), buf, capacity)
	})
	return value, code
}

func (wasmHost) SecretGet(name string) ([]byte, abi.Code) {
	value, _, code := fill(make([]byte, 0, 256), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostSecretGet(textAt(name), uint32(len(name)), buf, capacity)
	})
	return value, code
}

func (wasmHost) HTTPRequest(frame []byte) ([]byte, abi.Code) {
	n := hostHTTPRequest(bytesAt(frame), uint32(len(frame)))
	if n < 0 {
		return nil, abi.Code(n)
	}
	response, _, code := fill(make([]byte, 0, n), func(buf unsafe.Pointer, capacity uint32) int64 { return hostHTTPResponse(buf, capacity) })
	return response, code
}

// count splits what a function returned that counts.
func count(r int32) (int, abi.Code) {
	if r < 0 {
		return 0, abi.Code(r)
	}
	return int(r), 0
}
