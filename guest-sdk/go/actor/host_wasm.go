package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// The host functions of abi/SPEC.md section 5 that every
// guest may use; those of capabilities are in packages of their own. Call them: TinyGo
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

// wasmHost is the host behind the imports. All its methods stay in a guest that can
// reach methods by name (text/template does), so they are those of section 5 alone.
type wasmHost struct{}

func (wasmHost) StateGet(key string, buf []byte) ([]byte, abi.Format, abi.Code) {
	value, format, code := bridge.Fill(buf, func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostStateGet(bridge.TextAt(key), uint32(len(key)), buf, capacity)
	})
	return value, abi.Format(format), code
}

func (wasmHost) StateSet(key string, value []byte, format abi.Format) abi.Code {
	return abi.Code(hostStateSet(bridge.TextAt(key), uint32(len(key)), bridge.BytesAt(value), uint32(len(value)), uint32(format)))
}

func (wasmHost) StateDelete(key string) (bool, abi.Code) {
	n, code := count(hostStateDelete(bridge.TextAt(key), uint32(len(key))))
	return n > 0, code
}

func (wasmHost) StateDeleteAll() (int, abi.Code) { return count(hostStateDeleteAll()) }

func (wasmHost) StateKeys(prefix string, buf []byte) ([]byte, abi.Code) {
	list, _, code := bridge.Fill(buf, func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostStateKeys(bridge.TextAt(prefix), uint32(len(prefix)), buf, capacity)
	})
	return list, code
}

func (wasmHost) StateJSON(buf []byte) ([]byte, abi.Code) {
	object, _, code := bridge.Fill(buf, func(buf unsafe.Pointer, capacity uint32) int64 { return hostStateJSON(buf, capacity) })
	return object, code
}

func (wasmHost) StatePatch(before, after []byte) (int, abi.Code) {
	return count(hostStatePatch(bridge.BytesAt(before), uint32(len(before)), bridge.BytesAt(after), uint32(len(after))))
}

func (wasmHost) StateVersion() uint64  { return uint64(hostStateVersion()) }
func (wasmHost) StateRevision() uint64 { return uint64(hostStateRevision()) }

func (wasmHost) Reply(contentType string, payload []byte) abi.Code {
	return abi.Code(hostReply(bridge.TextAt(contentType), uint32(len(contentType)), bridge.BytesAt(payload), uint32(len(payload))))
}

func (wasmHost) Fail(frame []byte) abi.Code {
	return abi.Code(hostFail(bridge.BytesAt(frame), uint32(len(frame))))
}

func (wasmHost) Random(p []byte) { hostRandom(bridge.BytesAt(p), uint32(len(p))) }

func (wasmHost) Log(level int32, text string) {
	hostLog(level, bridge.TextAt(text), uint32(len(text)))
}

// count splits what a function returned that counts.
func count(r int32) (int, abi.Code) {
	if r < 0 {
		return 0, abi.Code(r)
	}
	return int(r), 0
}
