package turn

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Publish implements [engine.Calls].
func (t *Turn) Publish(name, contentType string, payload []byte) abi.Code {
	t.reminders.problem = ""
	if t.migrating {
		return abi.CodeReadOnly
	}
	if code := cmp.Or(t.mayWrite(), mayKeep(t)); code != 0 {
		return code
	}
	e := actor.EventWrite{Key: t.spec.Key, Life: t.spec.Life, Name: name, Payload: actor.Payload{ContentType: contentType, Data: payload}, Link: t.spec.Trace.Link()}
	if err := e.Validate(); err != nil {
		return t.refuse(abi.CodeInvalid, err.Error())
	}
	if strings.HasPrefix(name, actor.ReservedEvents) {
		return t.refuse(abi.CodeInvalid, "event name begins with "+actor.ReservedEvents+", as those of hosts do; choose another")
	}
	switch {
	case len(t.done.Events) >= actor.MaxEvents:
		return t.refuse(abi.CodeTooMany, fmt.Sprintf("a turn publishes at most %d events", actor.MaxEvents))
	case e.Size()+actor.SizeOfEvents(t.done.Events) > actor.MaxEventBytes:
		return t.refuse(abi.CodeTooLarge, fmt.Sprintf("the events of this turn have more than %d bytes together", actor.MaxEventBytes))
	}
	t.done.Events = append(t.done.Events, e)
	return 0
}
