package activation

import (
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestRecordsOfABatch: a batch has one record of a call: a reply or a mark. Of two marks of a call, the first is the one that
// it has, and only that of the same call counts as there.
func TestRecordsOfABatch(t *testing.T) {
	of := func(id string) actor.KeyedCall {
		return actor.KeyedCall{Actor: actor.Key{App: "app", Type: "T", ID: id}, Method: "Do", Key: "k"}
	}
	record := func(id, makes string) actor.IdempotencyRecord {
		c := of(id)
		r := actor.IdempotencyRecord{Actor: c.Actor, Method: c.Method, Key: c.Key}
		if makes != "" {
			made := of(makes)
			r.Mark = &made
		}
		return r
	}
	b := &Batch{}
	for i, c := range []struct {
		r   actor.IdempotencyRecord
		has bool
		all int
	}{
		{record("a", "x"), true, 1}, {record("a", "x"), true, 1}, {record("a", "y"), false, 1}, {record("b", "x"), true, 2},
		{record("c", ""), true, 3}, {record("c", "x"), false, 3},
	} {
		if has := b.Record(c.r); has != c.has || len(b.Records) != c.all || !b.marks {
			t.Errorf("record %d: %v, and there are %d", i, has, len(b.Records))
		}
	}
}
