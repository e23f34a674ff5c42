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
		id := store.RecordIDOf(c.k, c.method, c.key)
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
		"no data":         {Reply: actor.Payload{ContentType: strings.Repeat("x", 300)}},
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
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := store.DecodeRecord(value)
		if err == nil && !bytes.Equal(store.AppendRecord(nil, &r), value) {
			t.Errorf("%x decodes to %+v, which is written differently", value, r)
		}
	})
}

func TestValidateGroupRecords(t *testing.T) {
	record := func(change func(*actor.IdempotencyRecord)) []actor.IdempotencyRecord {
		r := actor.IdempotencyRecord{Method: "Add", Key: "k", TTL: time.Hour}
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
			{Method: "Add", Key: "k", TTL: 1 << 20}, {Method: "Add", Key: "k", TTL: 1 << 20}}, "twice"},
		"a key of two methods": {[]actor.IdempotencyRecord{
			{Method: "Add", Key: "k", TTL: 1 << 20}, {Method: "Sub", Key: "k", TTL: 1 << 20}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// Records alone need no new version.
			err := store.ValidateGroup([]actor.Commit{{
				ID: actor.NewCommitID(), Key: actor.Key{App: "a", Type: "t", ID: "i"}, ReadVersion: 5,
				Effects: actor.Effects{Idempotency: c.records},
			}})[0]
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}
