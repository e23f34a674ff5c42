package store_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

func TestRecordIDKeepsCallsApart(t *testing.T) {
	seen := make(map[store.RecordID]int)
	for i, c := range []struct {
		k           actor.Key
		method, key string
	}{
		{actor.Key{App: "a", Type: "t", ID: "i"}, "m", "k"},
		{actor.Key{App: "at", Type: "", ID: "i"}, "m", "k"},
		{actor.Key{App: "a", Type: "t", ID: "im"}, "", "k"},
		{actor.Key{App: "a", Type: "t", ID: "i"}, "mk", ""},
		{actor.Key{App: "a", Type: "t", ID: "i"}, "m", "K"},
		{actor.Key{App: "a", Type: "t", ID: "i"}, "M", "k"},
		{actor.Key{App: "a", Type: "t", ID: "i\x01\x00m"}, "", "k"},
	} {
		id := store.RecordIDOf(actor.KeyedCall{Actor: c.k, Method: c.method, Key: c.key})
		if other, ok := seen[id]; ok {
			t.Errorf("calls %d and %d have the same ID", i, other)
		}
		seen[id] = i
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for name, r := range map[string]actor.IdempotencyRecord{
		"nothing": {},
		"all": {Payload: actor.PayloadSum(actor.Payload{Data: []byte("x")}), Version: 1<<63 - 1,
			Reply: actor.Payload{ContentType: "text/plain", Data: []byte("hello")}},
		"no content type": {Reply: actor.Payload{Data: []byte{0}}},
		"mark": {Payload: actor.PayloadSum(actor.Payload{Data: []byte("x")}),
			Mark: &actor.KeyedCall{Actor: actor.Key{App: "app", Type: "Account", ID: "ann"}, Method: "Credit", Key: "chain:1"}},
		"no data": {Reply: actor.Payload{ContentType: strings.Repeat("x", 300)}},
	} {
		t.Run(name, func(t *testing.T) {
			value := store.AppendRecord(nil, &r)
			if len(value) != store.RecordSize(&r) {
				t.Errorf("RecordSize is %d, and %d bytes were written", store.RecordSize(&r), len(value))
			}
			got, err := store.DecodeRecord(value)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, r) {
				t.Errorf("got %+v, want %+v", got, r)
			}
		})
	}
}

func FuzzDecodeRecord(f *testing.F) {
	r := actor.IdempotencyRecord{Version: 7, Reply: actor.Payload{ContentType: "text/plain", Data: []byte("hello")}}
	f.Add(store.AppendRecord(nil, &r))
	f.Add(store.AppendRecord(nil, &actor.IdempotencyRecord{Mark: &actor.KeyedCall{Method: "Credit"}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := store.DecodeRecord(value)
		if err == nil && !bytes.Equal(store.AppendRecord(nil, &r), value) {
			t.Errorf("%x decodes to %+v, which is written differently", value, r)
		}
	})
}

func TestValidateGroupRecords(t *testing.T) {
	k := actor.Key{App: "a", Type: "t", ID: "i"}
	record := func(change func(*actor.IdempotencyRecord)) []actor.IdempotencyRecord {
		r := actor.IdempotencyRecord{Actor: k, Method: "Add", Key: "k", TTL: time.Hour}
		change(&r)
		return []actor.IdempotencyRecord{r}
	}
	for name, c := range map[string]struct {
		records []actor.IdempotencyRecord
		want    string // part of the error; empty: valid
	}{
		"sound":               {record(func(*actor.IdempotencyRecord) {}), ""},
		"no key":              {record(func(r *actor.IdempotencyRecord) { r.Key = "" }), "idempotency key is empty"},
		"a bad method":        {record(func(r *actor.IdempotencyRecord) { r.Method = "a b" }), "method has"},
		"no time to live":     {record(func(r *actor.IdempotencyRecord) { r.TTL = 0 }), "TTL"},
		"a version too high":  {record(func(r *actor.IdempotencyRecord) { r.Version = 1 << 63 }), "version"},
		"a long content type": {record(func(r *actor.IdempotencyRecord) { r.Reply.ContentType = strings.Repeat("x", 1<<16) }), "content type"},
		"too many bytes":      {record(func(r *actor.IdempotencyRecord) { r.Reply.Data = make([]byte, actor.MaxCommitBytes) }), "at most"},
		"a key twice": {[]actor.IdempotencyRecord{
			{Actor: k, Method: "Add", Key: "k", TTL: 1 << 20}, {Actor: k, Method: "Add", Key: "k", TTL: 1 << 20}}, "twice"},
		"of no actor": {record(func(r *actor.IdempotencyRecord) { r.Actor = actor.Key{} }), "app"},
		"a key of two actors": {[]actor.IdempotencyRecord{
			{Actor: k, Method: "Add", Key: "k", TTL: 1 << 20}, {Actor: actor.Key{App: "a", Type: "t", ID: "j"}, Method: "Add", Key: "k", TTL: 1 << 20}}, ""},
		"a key of two methods": {[]actor.IdempotencyRecord{
			{Actor: k, Method: "Add", Key: "k", TTL: 1 << 20}, {Actor: k, Method: "Sub", Key: "k", TTL: 1 << 20}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, fences := range [][]actor.RowFence{nil, {{Key: k, Version: 5}}} {
				err := store.ValidateGroup([]actor.Commit{{ID: actor.NewCommitID(), Fences: fences, Records: c.records}})[0]
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("error is %v, want %q", err, c.want)
				}
			}
		})
	}
}

// TestCallsAreRecordedOnceInAGroup: by commits of which one at most has the row of the
// actor called.
func TestCallsAreRecordedOnceInAGroup(t *testing.T) {
	k := func(id string) actor.Key { return actor.Key{App: "a", Type: "t", ID: id} }
	commit := func(row, called, key string) actor.Commit {
		c := actor.Commit{ID: actor.NewCommitID(), Records: []actor.IdempotencyRecord{{Actor: k(called), Method: "Add", Key: key, TTL: time.Hour}}}
		if row != "" {
			c.Fences = []actor.RowFence{{Key: k(row), Version: 5}}
		}
		return c
	}
	for name, group := range map[string][]actor.Commit{
		"without a row":    {commit("", "x", "1"), commit("", "x", "2"), commit("", "y", "1"), commit("", "x", "1")},
		"of other rows":    {commit("a", "x", "1"), commit("b", "x", "2"), commit("c", "y", "1"), commit("d", "x", "1")},
		"of its own row":   {commit("x", "x", "1"), commit("", "x", "2"), commit("", "y", "1"), commit("", "x", "1")},
		"of the first row": {commit("", "x", "1"), commit("", "x", "2"), commit("", "y", "1"), commit("x", "x", "1")},
	} {
		for i, err := range store.ValidateGroup(group) {
			if twice := i == len(group)-1; (err != nil) != twice {
				t.Errorf("%s: commit %d: %v", name, i, err)
			}
		}
	}
}
