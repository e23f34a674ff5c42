package embedded

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// someReminder draws a record, of which each field is set or not.
func someReminder(rng *rand.Rand) *reminderRecord {
	text := func() string { return strings.Repeat("é", rng.IntN(3)) + "x"[:rng.IntN(2)] }
	number := func() int64 { return int64(rng.Uint64()) >> rng.IntN(64) }
	r := &reminderRecord{
		App: text(), Type: text(), ID: text(), Name: text(), Prefix: actor.Prefix(rng.Uint32()), Vector: text(), Token: rng.Uint32(),
		Version: rng.Uint64(), ContentType: text(), Due: number(), FireAt: number(), Left: rng.Uint32(), Failures: rng.Uint32(),
		Paused: rng.IntN(2) > 0, LastError: text(), CreatedAt: number(), UpdatedAt: number(),
		SpecRecord: store.SpecRecord{
			Method: text(), At: number(), Every: number(), Cron: text(), Zone: text(), Times: rng.Uint32(), Jitter: number(),
			Missed: uint8(rng.UintN(256)), Limit: rng.Uint32(), After: number(),
			FailureRecord: store.FailureRecord{Failure: uint8(rng.UintN(256)), Attempts: rng.Uint32(), Interval: number(), Max: number()},
		},
	}
	if n := rng.IntN(3); n > 0 {
		r.Payload = []byte(strings.Repeat("\x00\x01", n))
		until := number()
		r.Until = &until
		r.Metadata = map[string]string{}
		for ; n > 0; n-- {
			r.Metadata[strings.Repeat("k", n)] = text()
		}
	}
	if rng.IntN(2) > 0 {
		r.Link = actor.SpanLink{TraceID: [16]byte{byte(1 + rng.UintN(255))}, SpanID: [8]byte{1}}
	}
	name := func() store.ActorRecord { return store.ActorRecord{Type: text(), ID: text()} }
	if rng.IntN(2) > 0 {
		r.Message = &store.MessageRecord{From: name(), By: name(), Undelivered: text(), Forward: name(), Failed: text(), Cookie: rng.Uint64()}
		for range rng.IntN(3) {
			r.Message.Path = append(r.Message.Path, name())
		}
	} else if rng.IntN(3) == 0 {
		r.Cursor = &store.CursorRecord{Publisher: name(), Version: rng.Uint64(), Index: rng.Uint32()}
	}
	return r
}

// What is written of a reminder is read again, as it was written as JSON, too.
func TestReminderIsReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := someReminder(rng)
		old, err := encodeRecord([]byte("key"), want)
		if err != nil {
			t.Fatal(err)
		}
		for form, value := range map[string][]byte{"compact": encodeReminder([]byte("key"), want), "JSON": old} {
			var got reminderRecord
			if err := decodeReminder([]byte("key"), value, &got); err != nil || !reflect.DeepEqual(&got, want) {
				t.Fatalf("%s: %+v, %v, want %+v", form, got, err, want)
			}
			if err := decodeReminder([]byte("other"), value, &got); err == nil {
				t.Fatalf("%s: read under another key", form)
			}
		}
	}
}

// A reminder that was written before there were messages is read, and is written in the same
// bytes.
func TestReminderOfOlderVersions(t *testing.T) {
	const stored = "27ea8239010473686f70044361727403616e6e037061790308616263646566676809020a0c010201026e6f06080a746578742f706c61696e0178035061790a020163017a04010e040203020106101201016b0176"
	value, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	until := int64(7)
	want := &reminderRecord{
		App: "shop", Type: "Cart", ID: "ann", Name: "pay", Prefix: 3, Vector: "abcdefgh", Token: 9, Version: 2, ContentType: "text/plain",
		Payload: []byte("x"), Due: 5, FireAt: 6, Left: 1, Failures: 2, Paused: true, LastError: "no", CreatedAt: 3, UpdatedAt: 4,
		SpecRecord: store.SpecRecord{Method: "Pay", At: 5, Every: 1, Cron: "c", Zone: "z", Times: 4, Until: &until, Jitter: 2, Missed: 2, Limit: 3, After: 1,
			FailureRecord: store.FailureRecord{Failure: 1, Attempts: 6, Interval: 8, Max: 9}, Metadata: map[string]string{"k": "v"}},
	}
	var got reminderRecord
	if err := decodeReminder([]byte("key"), value, &got); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	if again := hex.EncodeToString(encodeReminder([]byte("key"), want)); again != stored {
		t.Errorf("written as %s", again)
	}
}

// Whatever is behind a checksum that is right, reading it ends with an error or a record.
func TestReminderOfAnyBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		r := someReminder(rng)
		r.Link = actor.SpanLink{} // with one it is JSON
		value := encodeReminder(nil, r)
		kind, data := value[4], value[5:]
		if err := new(reminderRecord).decode(data[:rng.IntN(len(data))], kind); err == nil {
			t.Fatal("read of a part")
		}
		data[rng.IntN(len(data))] = byte(rng.UintN(256))
		_ = new(reminderRecord).decode(data, kind)
	}
	if err := new(reminderRecord).decode(append(encodeReminder(nil, &reminderRecord{})[5:], 0), compactReminder); err == nil {
		t.Error("read with something behind it")
	}
}

// Who keeps a field of a record, as an actor keeps its ID for as long as it is in memory,
// does not keep the record with its payload.
func TestFieldOfReminderKeepsNothingElse(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // of a test
	}
	value := encodeReminder([]byte("key"), &reminderRecord{ID: "an actor's", Payload: make([]byte, 64<<10)})
	ids := make([]string, 1000)
	before := heap()
	for i := range ids {
		var r reminderRecord
		if err := decodeReminder([]byte("key"), value, &r); err != nil {
			t.Fatal(err)
		}
		ids[i] = r.ID
	}
	if grown := heap() - before; grown > 5<<20 {
		t.Errorf("%d IDs keep %d MiB", len(ids), grown>>20)
	}
	runtime.KeepAlive(ids)
	runtime.KeepAlive(value)
}

// A reminder with a link is read by versions that know no links: it is JSON, whose reader passes over
// what it does not know.
func TestLinkedReminderForOlderVersions(t *testing.T) {
	want := someReminder(rand.New(rand.NewPCG(3, 4)))
	want.Link = actor.SpanLink{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
	value := encodeReminder([]byte("key"), want)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value[4:], &fields); err != nil || string(fields["link"]) != `"01000000000000000000000000000000-0200000000000000"` {
		t.Fatalf("the link is %s, %v", fields["link"], err)
	}
	var got reminderRecord
	if err := decodeReminder([]byte("key"), value, &got); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}
