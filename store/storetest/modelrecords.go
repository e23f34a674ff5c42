package storetest

import (
	"bytes"
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/actor"
)

// Few methods and keys, so that calls meet.
var (
	modelMethods = []string{"Add", "Set"}
	modelKeys    = []string{"k", "k ", "~"}
)

// drawRecords draws what a commit records of an actor: nothing most of the time, each
// call once.
func drawRecords(r *rapid.T, k actor.Key, least int) []actor.IdempotencyRecord {
	n := max(least, rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3}).Draw(r, "records"))
	var records []actor.IdempotencyRecord
	seen := make(map[modelCall]bool)
	for range n {
		call := modelCall{"", rapid.SampledFrom(modelMethods).Draw(r, "method"), rapid.SampledFrom(modelKeys).Draw(r, "key")}
		if seen[call] {
			continue
		}
		seen[call] = true
		record := actor.IdempotencyRecord{Actor: k, Method: call.method, Key: call.key, TTL: time.Hour, Version: rapid.Uint64Range(0, 9).Draw(r, "version")}
		record.Payload[0] = rapid.Byte().Draw(r, "payload")
		if reply := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "reply"); len(reply) > 0 {
			record.Reply = actor.Payload{ContentType: "text/plain", Data: reply}
		} else if rapid.Bool().Draw(r, "mark") {
			record.Mark = &actor.KeyedCall{Actor: actor.Key{App: k.App, Type: "T", ID: "called"}, Method: "Add", Key: call.key}
		}
		records = append(records, record)
	}
	return records
}

func (m *model) call(c *actor.Commit, i int) modelCall {
	r := &c.Records[i]
	return modelCall{r.Actor.ID, r.Method, r.Key}
}

// taken reports whether a key of c is recorded already.
func (m *model) taken(c *actor.Commit) bool {
	for i := range c.Records {
		if _, ok := m.calls[m.call(c, i)]; ok {
			return true
		}
	}
	return false
}

func (m *model) record(c *actor.Commit) {
	for i, record := range c.Records {
		m.calls[m.call(c, i)] = modelRecord{record, c.ID}
	}
}

// recordedBy reports whether a record of c is its own.
func (m *model) recordedBy(c *actor.Commit) bool {
	for i := range c.Records {
		if r, ok := m.calls[m.call(c, i)]; ok && r.commit == c.ID {
			return true
		}
	}
	return false
}

// recorded looks any call up.
func (m *model) recorded(r *rapid.T) {
	m.checkRecord(r, modelCall{
		rapid.SampledFrom(modelIDs).Draw(r, "id"), rapid.SampledFrom(modelMethods).Draw(r, "method"), rapid.SampledFrom(modelKeys).Draw(r, "key"),
	})
}

func (m *model) checkRecord(r *rapid.T, call modelCall) {
	found, err := m.s.LoadIdempotency(m.ctx, []actor.KeyedCall{{Actor: m.key(call.id), Method: call.method, Key: call.key}})
	if err := errors.Join(err, found[0].Err); err != nil {
		r.Fatal(err)
	}
	got, ok := found[0].Record, found[0].Found
	want, recorded := m.calls[call]
	w := want.record
	if ok != recorded || ok && (got.Method != w.Method || got.Key != w.Key || got.Payload != w.Payload || got.Version != w.Version ||
		got.Reply.ContentType != w.Reply.ContentType || !bytes.Equal(got.Reply.Data, w.Reply.Data) || got.TTL <= 0 || got.TTL > w.TTL) {
		r.Fatalf("the record of %+v is %t, %+v, want %t, %+v", call, ok, got, recorded, w)
	}
}
