package call

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Callback is a call that has taken effect in a chain which waits for the chain that made it.
type Callback struct {
	Type        string            `json:"type"`
	ID          string            `json:"id"`
	Method      string            `json:"method"`
	ContentType string            `json:"content_type,omitempty"`
	Data        []byte            `json:"data,omitempty"`
	Key         string            `json:"key"`   // its idempotency key
	Reply       [sha256.Size]byte `json:"reply"` // the sum of its reply
}

// NewCallback returns what c was, which got a reply.
func NewCallback(c *Call, reply actor.Payload) Callback {
	return Callback{
		Type: c.Inv.Key.Type, ID: c.Inv.Key.ID, Method: c.Inv.Method, ContentType: c.Inv.Payload.ContentType, Data: c.Inv.Payload.Data,
		Key: c.Inv.IdempotencyKey, Reply: actor.PayloadSum(reply),
	}
}

// Of names the callback, which is of an app.
func (cb *Callback) Of(app string) actor.KeyedCall {
	return actor.KeyedCall{Actor: actor.Key{App: app, Type: cb.Type, ID: cb.ID}, Method: cb.Method, Key: cb.Key}
}

// Size is what the callback adds to a commit, in bytes, roughly.
func (cb *Callback) Size() int {
	return len(cb.Type) + len(cb.ID) + len(cb.Method) + len(cb.ContentType) + 4*len(cb.Data)/3 + RecordCost
}

// Callbacks names the record of the callbacks of c for the store.
func (c *Call) Callbacks() actor.KeyedCall {
	k := c.KeyedCall()
	k.Key = actor.CallbacksKey(k.Key)
	return k
}

// RecordCallbacks returns the record of the callbacks of c, which is committed with that of its reply.
func (c *Call) RecordCallbacks(list []Callback, version uint64, ttl time.Duration) actor.IdempotencyRecord {
	data, err := json.Marshal(list)
	if err != nil {
		panic(err) // texts, bytes and numbers
	}
	r := c.Record(actor.Reply{Payload: actor.Payload{Data: data}, Version: version}, ttl)
	of := c.Callbacks()
	r.Method, r.Key = of.Method, of.Key
	return r
}

// DecodeCallbacks returns the callbacks of a record.
func DecodeCallbacks(r *actor.IdempotencyRecord) (list []Callback, err error) {
	if err := json.Unmarshal(r.Reply.Data, &list); err != nil {
		return nil, fmt.Errorf("decode the callbacks of %s: %w", r.Call(), err)
	}
	return list, nil
}
