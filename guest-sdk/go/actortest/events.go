package actortest

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Event is one that an actor has published.
type Event struct {
	From actor.Ref
	Name string
	Data actor.Payload
	At   time.Time
}

// Decode decodes the event into out, as [Harness.Call] does a reply.
func (e Event) Decode(out any) error { return decodePayload(e.Data, out) }

// Events returns the events that the turns of an actor have published, in their order.
func (h *Harness) Events(typ, id string) []Event {
	var list []Event
	for _, e := range h.events {
		if e.From == (actor.Ref{Type: typ, ID: id}) && e.Name != passedAwayEvent {
			list = append(list, e)
		}
	}
	return list
}

// Bounds of abi/SPEC.md section 5, Events.
const (
	maxEvents     = 256
	maxEventBytes = 1 << 20
	maxEvent      = 64 << 10
	maxEventName  = 128
)

// reservedEvents begins the names of the events that hosts publish and guests cannot. passedAwayEvent is
// the name of the last event of a life.
const (
	reservedEvents  = "greenroom."
	passedAwayEvent = reservedEvents + "passed_away"
)

// publish adds an event of an actor whose turn runs, or returns why it cannot be.
func (c *chain) publish(from actor.Ref, o *overlay, name, contentType string, data []byte) (abi.Code, string) {
	switch {
	case o.none:
		return abi.CodeNoState, "a stateless actor publishes no events"
	case name == "" || len(name) > maxEventName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return abi.CodeInvalid, "the event name has " + strconv.Itoa(len(name)) + " bytes; give 1 to " + strconv.Itoa(maxEventName) + " of UTF-8 without control characters"
	case strings.HasPrefix(name, reservedEvents):
		return abi.CodeInvalid, "the event name begins with " + reservedEvents + ", as those of hosts do; choose another"
	case len(data) > maxEvent:
		return abi.CodeInvalid, "the event has " + strconv.Itoa(len(data)) + " bytes; at most " + strconv.Itoa(maxEvent) + " are allowed"
	case o.published == maxEvents:
		return abi.CodeTooMany, "a turn publishes at most " + strconv.Itoa(maxEvents) + " events"
	case o.publishedBytes+len(name)+len(data) > maxEventBytes:
		return abi.CodeTooLarge, "the events of this turn have more than " + strconv.Itoa(maxEventBytes) + " bytes together"
	}
	o.published++
	o.publishedBytes += len(name) + len(data)
	c.events = append(c.events, Event{from, strings.Clone(name), actor.Payload{ContentType: strings.Clone(contentType), Data: bytes.Clone(data)}, c.harness.now})
	return 0, ""
}
