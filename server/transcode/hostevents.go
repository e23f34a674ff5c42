package transcode

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// EventsInJSON sends events of an actor with those of streaming rpcs in the JSON form, as a stream
// sends them; others, and those that are no message of their rpc, are as they were published. list
// stays as it is. Events of a type that has such rpcs are sent one by one: the memory of the request that ctx
// belongs to counts what the translation of one takes, until send gives that back.
func (h *Host) EventsInJSON(ctx context.Context, key actor.Key, list []actor.Event, send func([]actor.Event) error) error {
	d, spec, err := h.Types.Current(key.App, key.Type)
	if err != nil || spec == nil || spec.Protobuf.IsZero() {
		return send(list) // a type that is not served may have events
	}
	service, ok := h.Services.Of(d, spec)
	if !ok {
		return send(list)
	}
	for _, e := range list { // a copy: other subscribers have the same
		if m := service.Method(e.Name); m != nil && m.Streaming {
			text, err := Message(m, &e, true, countOf(ctx))
			switch {
			case err == nil:
				e.Payload = actor.Payload{ContentType: actor.ContentTypeJSON, Data: text}
			case !IsBadEvent(err):
				return err
			}
		}
		if err := send([]actor.Event{e}); err != nil {
			return err
		}
	}
	return nil
}
