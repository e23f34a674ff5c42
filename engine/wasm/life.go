package wasm

import (
	"bytes"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/confine"
)

// spawn refuses a buffer that could be too small: asking twice would spawn twice.
func spawn(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	typ, buf := g.at(s[0], s[1]), g.buffer(s[2], s[3])
	switch {
	case i.calls == nil:
		return 0, abi.CodeNoTurn
	case len(buf) < abi.MaxSpawnedIDLen:
		i.malformed = "the buffer for the ID has fewer than 64 bytes"
		return 0, abi.CodeInvalid
	}
	i.malformed = ""
	id, code := i.calls.Spawn(typ)
	return g.value(buf, []byte(id), code)
}

// spawnChild is spawn of a volatile child.
func spawnChild(i *instance, g guestBytes, s []uint64) (_ uint64, code abi.Code) {
	typ, buf := string(g.at(s[0], s[1])), g.buffer(s[3], s[4])
	switch {
	case i.calls == nil:
		return 0, abi.CodeNoTurn
	case len(buf) < abi.MaxSpawnedIDLen:
		i.malformed = "the buffer for the ID has fewer than 64 bytes"
		return 0, abi.CodeInvalid
	}
	i.malformed = ""
	var id string
	i.wait(func() { id, code = i.calls.SpawnChild(typ, uint32(s[2])) })
	return g.value(buf, []byte(id), code)
}

func become(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	set := g.at(s[0], s[1])
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	return 0, i.calls.Become(set)
}

func passAway(i *instance, _ guestBytes, _ []uint64) (uint64, abi.Code) {
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	return 0, i.calls.PassAway()
}

func serviceClaim(i *instance, g guestBytes, s []uint64) (_ uint64, code abi.Code) {
	name := bytes.Clone(g.at(s[0], s[1])) // nothing reads the guest's memory meanwhile
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	i.wait(func() { code = i.calls.ServiceClaim(name) })
	return 0, code
}

func serviceRelease(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name := bytes.Clone(g.at(s[0], s[1])) // as above
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	var held bool
	var code abi.Code
	i.wait(func() { held, code = i.calls.ServiceRelease(name) })
	return wasThere(held, code)
}

func eventPublish(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name, contentType, payload := g.at(s[0], s[1]), g.at(s[2], s[3]), g.at(s[4], s[5])
	switch {
	case i.calls == nil:
		return 0, abi.CodeNoTurn
	case !validContentType(contentType):
		i.malformed = "the content type is not text of at most 255 bytes"
		return 0, abi.CodeInvalid
	}
	i.malformed = ""
	return 0, i.calls.Publish(string(name), mediaType(contentType), bytes.Clone(payload))
}

func eventSubscribe(i *instance, g guestBytes, s []uint64) (_ uint64, code abi.Code) {
	typ, id, method := string(g.at(s[0], s[1])), string(g.at(s[2], s[3])), string(g.at(s[4], s[5]))
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	var err error
	i.wait(func() { code, err = i.calls.EventSubscribe(typ, id, method) })
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	return 0, code
}

func eventUnsubscribe(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	typ, id := string(g.at(s[0], s[1])), string(g.at(s[2], s[3]))
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	var subscribed bool
	var code abi.Code
	var err error
	i.wait(func() { subscribed, code, err = i.calls.EventUnsubscribe(typ, id) })
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	return wasThere(subscribed, code)
}

func hostWatch(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	typ, id, method := string(g.at(s[0], s[1])), string(g.at(s[2], s[3])), string(g.at(s[4], s[5]))
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	var replaced bool
	var code abi.Code
	i.wait(func() { replaced, code = i.calls.HostWatch(typ, id, method) })
	return wasThere(replaced, code)
}

func serviceWatch(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	name, method := string(g.at(s[0], s[1])), string(g.at(s[2], s[3]))
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	i.malformed = ""
	return wasThere(i.calls.ServiceWatch(name, method))
}
