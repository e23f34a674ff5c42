package store

import "github.com/greenroom-run/greenroom/actor"

// MessageRecord is how a [actor.Message] is stored, in a [SpecRecord]. All actors are of the
// receiver's app.
type MessageRecord struct {
	From        ActorRecord   `json:"from,omitzero"`
	By          ActorRecord   `json:"by,omitzero"`
	Undelivered string        `json:"undelivered,omitempty"`
	Forward     ActorRecord   `json:"forward,omitzero"`
	Path        []ActorRecord `json:"path,omitempty"`
	Failed      string        `json:"failed,omitempty"`
	Cookie      uint64        `json:"cookie,omitempty"`
}

// ActorRecord names an actor of an app that is known; zero: none.
type ActorRecord struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (r ActorRecord) key(app string) actor.Key {
	if r == (ActorRecord{}) {
		return actor.Key{}
	}
	return actor.Key{App: app, Type: r.Type, ID: r.ID}
}

func actorRecordOf(k actor.Key) ActorRecord { return ActorRecord{k.Type, k.ID} }

// messageRecordOf returns how m is stored; nil for none.
func messageRecordOf(m *actor.Message) *MessageRecord {
	if m == nil {
		return nil
	}
	r := &MessageRecord{
		From: actorRecordOf(m.From), By: actorRecordOf(m.By), Undelivered: m.Undelivered, Forward: actorRecordOf(m.Forward), Failed: m.Failed, Cookie: m.Cookie,
	}
	for _, k := range m.Path {
		r.Path = append(r.Path, actorRecordOf(k))
	}
	return r
}

// message returns what was stored of a message to an actor of an app.
func (r *MessageRecord) message(app string) *actor.Message {
	if r == nil {
		return nil
	}
	m := &actor.Message{
		From: r.From.key(app), By: r.By.key(app), Undelivered: r.Undelivered, Forward: r.Forward.key(app), Failed: r.Failed, Cookie: r.Cookie,
	}
	for _, k := range r.Path {
		m.Path = append(m.Path, k.key(app))
	}
	return m
}

// CursorRecord is how an [actor.Cursor] is stored, in a [SpecRecord]. The publisher is of the
// subscriber's app.
type CursorRecord struct {
	Publisher ActorRecord `json:"publisher"`
	Version   uint64      `json:"version,string"` // of the position, which some readers of JSON would round
	Index     uint32      `json:"index"`
}

// cursorRecordOf returns how c is stored; nil for none.
func cursorRecordOf(c *actor.Cursor) *CursorRecord {
	if c == nil {
		return nil
	}
	return &CursorRecord{actorRecordOf(c.Publisher), c.After.Version, c.After.Index}
}

// cursor returns what was stored of a cursor of an actor of an app.
func (r *CursorRecord) cursor(app string) *actor.Cursor {
	if r == nil {
		return nil
	}
	return &actor.Cursor{Publisher: r.Publisher.key(app), After: actor.EventPosition{Version: r.Version, Index: r.Index}}
}
