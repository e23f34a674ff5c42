package transcode

import (
	"context"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

// EventsInJSON returns events of an actor with those of streaming rpcs in the JSON form, as a stream
// sends them; others, and those that are no message of their rpc, are as they were published. list
// stays as it is. The memory of the request that ctx belongs to counts what the translation takes.
func (h *Host) EventsInJSON(ctx context.Context, key actor.Key, list []actor.Event) ([]actor.Event, error) {
	d, spec, err := h.Types.Current(key.App, key.Type)
	if err != nil || spec == nil || spec.Protobuf.IsZero() {
		return list, nil //nolint:nilerr // a type that is not served may have events
	}
	service, ok := h.Services.Of(d, spec)
	if !ok {
		return list, nil
	}
	list = slices.Clone(list) // other subscribers have the same
	for i := range list {
		e := &list[i]
		m := service.Method(e.Name)
		if m == nil || !m.Streaming {
			continue
		}
		text, err := Message(m, e, true, countOf(ctx))
		switch {
		case err == nil:
			e.Payload = actor.Payload{ContentType: actor.ContentTypeJSON, Data: text}
		case !IsBadEvent(err):
			return nil, err
		}
	}
	return list, nil
}
