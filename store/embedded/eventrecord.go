package embedded

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// eventRecord is an event as it is stored. One without a name is what is left of the newest event
// that was trimmed.
type eventRecord struct {
	Name        string         `json:"name,omitempty"`
	Life        uint64         `json:"life,omitempty"`
	ContentType string         `json:"type,omitempty"`
	Payload     []byte         `json:"payload,omitempty"`
	At          int64          `json:"at"` // microseconds since 1970
	Link        actor.SpanLink `json:"link,omitzero"`
}

func (r *eventRecord) event(at actor.EventPosition) actor.Event {
	return actor.Event{
		Position: at, Life: r.Life, Name: r.Name, Payload: actor.Payload{ContentType: r.ContentType, Data: r.Payload}, At: time.UnixMicro(r.At).UTC(), Link: r.Link,
	}
}

func (r *eventRecord) size() int { return len(r.Name) + len(r.Payload) }

func decodeEvent(prefix, key, value []byte) (at actor.EventPosition, r eventRecord, err error) {
	if len(key) != len(prefix)+12 {
		return at, r, fmt.Errorf("event %q: %w", key, errShortKey)
	}
	at = actor.EventPosition{Version: binary.BigEndian.Uint64(key[len(prefix):]), Index: binary.BigEndian.Uint32(key[len(prefix)+8:])}
	if err := decodeRecord(key, value, &r); err != nil {
		return at, r, fmt.Errorf("%w: %v", actor.ErrStateDamaged, err)
	}
	return at, r, nil
}
