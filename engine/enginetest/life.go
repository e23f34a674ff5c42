package enginetest

import (
	"fmt"
	"strconv"

	"github.com/greenroom-run/greenroom/abi"
)

// Life is the part of a turn that sends messages and decides on its actor's life, for a fake
// [engine.Calls]. The zero value is ready.
type Life struct {
	// Sent are the messages, Spawned the types of the actors.
	Sent    []abi.Message
	Spawned []string
	// MethodSet is the last one, Passed whether the actor has passed away.
	MethodSet string
	Passed    bool
	// Services are the names that it claimed.
	Services map[string]bool
	// Published are the events, as "name content type payload".
	Published []string
	// Subscribed has the methods of subscriptions, by "type/ID" of the publisher.
	Subscribed map[string]string
	// Watched has the methods of watches of hosts, by "type/ID" of the actor that it holds, and of
	// services, by their names.
	Watched map[string]string
	// Watches is what was asked of watches, as "type/ID method" and "name method".
	Watches []string
	// RefuseLife is answered by all, if it is not 0; SendErr ends the guest.
	RefuseLife abi.Code
	SendErr    error
}

// Send implements [engine.Calls].
func (f *Life) Send(m *abi.Message) (abi.Code, error) {
	if f.RefuseLife == 0 && f.SendErr == nil {
		f.Sent = append(f.Sent, *m)
	}
	return f.RefuseLife, f.SendErr
}

// Spawn implements [engine.Calls].
func (f *Life) Spawn(typ []byte) (string, abi.Code) {
	if f.RefuseLife != 0 {
		return "", f.RefuseLife
	}
	f.Spawned = append(f.Spawned, string(typ))
	return "spawned-" + strconv.Itoa(len(f.Spawned)), 0
}

// SpawnChild implements [engine.Calls].
func (f *Life) SpawnChild(typ string, flags uint32) (string, abi.Code) {
	if f.RefuseLife != 0 {
		return "", f.RefuseLife
	}
	f.Spawned = append(f.Spawned, fmt.Sprintf("%s with flags %d", typ, flags))
	return "\x01child-" + strconv.Itoa(len(f.Spawned)), 0
}

// Become implements [engine.Calls].
func (f *Life) Become(set []byte) abi.Code {
	if f.RefuseLife == 0 {
		f.MethodSet = string(set)
	}
	return f.RefuseLife
}

// PassAway implements [engine.Calls].
func (f *Life) PassAway() abi.Code {
	f.Passed = f.RefuseLife == 0
	return f.RefuseLife
}

// ServiceClaim implements [engine.Calls].
func (f *Life) ServiceClaim(name []byte) abi.Code {
	if f.RefuseLife != 0 {
		return f.RefuseLife
	}
	if f.Services == nil {
		f.Services = map[string]bool{}
	}
	f.Services[string(name)] = true
	return 0
}

// ServiceRelease implements [engine.Calls].
func (f *Life) ServiceRelease(name []byte) (bool, abi.Code) {
	held := f.Services[string(name)]
	delete(f.Services, string(name))
	return held, f.RefuseLife
}

// Publish implements [engine.Calls].
func (f *Life) Publish(name, contentType string, payload []byte) abi.Code {
	if f.RefuseLife == 0 {
		f.Published = append(f.Published, name+" "+contentType+" "+string(payload))
	}
	return f.RefuseLife
}

// HostWatch implements [engine.Calls].
func (f *Life) HostWatch(typ, id, method string) (bool, abi.Code) {
	return f.ServiceWatch(typ+"/"+id, method)
}

// ServiceWatch implements [engine.Calls].
func (f *Life) ServiceWatch(of, method string) (bool, abi.Code) {
	f.Watches = append(f.Watches, of+" "+method)
	_, replaced := f.Watched[of]
	switch {
	case f.RefuseLife != 0:
		return false, f.RefuseLife
	case method == "":
		delete(f.Watched, of)
		return replaced, 0
	case f.Watched == nil:
		f.Watched = map[string]string{}
	}
	f.Watched[of] = method
	return replaced, 0
}

// EventSubscribe implements [engine.Calls].
func (f *Life) EventSubscribe(typ, id, method string) (abi.Code, error) {
	if f.RefuseLife == 0 && f.SendErr == nil {
		if f.Subscribed == nil {
			f.Subscribed = map[string]string{}
		}
		f.Subscribed[typ+"/"+id] = method
	}
	return f.RefuseLife, f.SendErr
}

// EventUnsubscribe implements [engine.Calls].
func (f *Life) EventUnsubscribe(typ, id string) (bool, abi.Code, error) {
	_, subscribed := f.Subscribed[typ+"/"+id]
	delete(f.Subscribed, typ+"/"+id)
	return subscribed, f.RefuseLife, f.SendErr
}
